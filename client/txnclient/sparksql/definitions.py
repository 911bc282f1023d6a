"""What Spark asks of tables as a whole: made, made anew, altered and dropped, outside of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from txnclient.client.client import Client
from txnclient.client.defaults import with_defaults
from txnclient.client.making import unmake
from txnclient.formats import schemas
from txnclient.formats.fields import Fields
from txnclient.info import TableInfo
from txnclient.sparksql.bridge import Request
from txnstatus.ddl import parse_names
from txnstatus.errors import AlreadyExists, InvalidArgument, NotFound
from txnstatus.schema import Column, Schema
from txnstatus.schema_changes import ColumnChange

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PROVIDERS = ("parquet", "txnstatus")
"""What a table may be said to be USING: it is files of Parquet in any case."""
_OWN = ("owner", "is_managed_location", "provider")
"""Properties that Spark adds by itself."""
_NOT_THERE = {"comment": "COMMENT of a table", "collation": "DEFAULT COLLATION", "external": "EXTERNAL"}
_NO_KINDS = {"option.": "OPTIONS", "hive.": "STORED AS and ROW FORMAT, for which there is USING parquet"}
"""What the names of such properties begin with."""
_CHANGES = ("comment", "after", "takes_nulls", "rename", "drop", "default", "drop_default")
"""What is told of a column that is changed, by the names that the service has for it."""
_FIXED = ("primary_key", "conflicts", "location")
"""Properties that a table has from the beginning to the end."""


def columns_told(columns: Iterable[Column]) -> list[Request]:
    """Columns as Spark is told of them."""
    return [
        {
            "name": each.name,
            "stored": each.stored,
            "type": each.type,
            "nullable": each.nullable,
            "comment": each.comment,
            "default": each.default,
            "initial": each.initial,
            "widened": each.widened,
        }
        for each in columns
    ]


class _Asked(NamedTuple):
    """The table that a statement describes."""

    schema: StructType
    partition_by: Sequence[str]
    primary_key: Sequence[str]
    location: str | None
    conflicts: str
    properties: Mapping[str, str]


class Definitions:
    """The answers to the calls of one catalog that concern tables as a whole."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, request: Request) -> None:
        """Raises AlreadyExists; InvalidArgument, naming what a table cannot have."""
        asked = _asked(request)
        options: dict[str, Any] = {"conflicts": asked.conflicts} if asked.conflicts else {}
        self._client.create_table(
            request["table"],
            asked.schema,
            partition_by=asked.partition_by,
            primary_key=asked.primary_key,
            location=asked.location,
            properties=asked.properties,
            defaults=request.get("defaults"),
            **options,
        )

    def replace(self, request: Request) -> None:
        """Looks whether a table can become what the statement describes by other rows alone.

        Raises NotFound; InvalidArgument, naming what differs. Columns that may not be null stay so, and defaults and
        properties that the statement does not name stay as they are, the primary key among them.
        """
        there, asked = self._client.table(request["table"]), _asked(request)
        columns = schemas.to_columns(asked.schema)
        strict = {column.name for column in there.schema.columns if not column.nullable}
        known = {column.name: column.default for column in there.schema.columns}
        columns = tuple(
            replace(each, nullable=each.nullable and each.name not in strict, default=known.get(each.name))
            for each in columns
        )
        columns = with_defaults(columns, request.get("defaults", {}))
        primary_key = schemas.named(asked.primary_key, columns) or there.schema.primary_key
        wanted = Schema(columns, schemas.named(asked.partition_by, columns), primary_key)
        try:
            there.require_same(wanted, asked.conflicts or there.conflicts, asked.location)
            for name, value in asked.properties.items():
                if there.properties.get(name) != value:
                    said = f"property {name} is {there.properties.get(name)!r}, not {value!r}"
                    raise AlreadyExists(f"table {there.name} is there already, and its {said}")
        except AlreadyExists as error:
            raise InvalidArgument(
                f"REPLACE TABLE: {error.message}",
                hint="a table's rows are replaced at once, not what it is: DROP TABLE and CREATE TABLE are two steps",
            ) from None

    def alter(self, request: Request) -> TableInfo:
        """Sets properties, unsets those whose value is null, and changes columns. Raises NotFound, InvalidArgument."""
        properties: dict[str, str | None] = request["properties"]
        if fixed := [name for name in properties if name in (*_FIXED, *_OWN, *_NOT_THERE)]:
            raise InvalidArgument(f"ALTER TABLE {request['table']}: {fixed[0]} cannot be changed")
        changes, fields = [], None
        for told in request["columns"]:
            if not told.get("nullable", True):
                raise InvalidArgument(
                    f"ALTER TABLE {request['table']} ADD COLUMN {told['name']} NOT NULL: the rows that there are have "
                    "nulls in it"
                )
            kind, change = told.pop("type", ""), {name: told[name] for name in _CHANGES if name in told}
            if "field" in told:
                fields = fields or Fields(self._client.table(request["table"]).schema, request["table"])
                changes.append(fields.added([told["name"], *told["field"]], _kind(told["name"], kind)))
                continue
            if "widen" in told:
                change["widen"] = _kind(told["name"], told["widen"])
            changes.append(ColumnChange(told["name"], _kind(told["name"], kind), **change))
        return self._client.change_columns(request["table"], changes, properties)

    def drop(self, request: Request) -> bool:
        """Whether there was such a table."""
        try:
            self._client.drop_table(request["table"])
        except NotFound:
            return False
        return True

    def rename(self, request: Request) -> None:
        self._client.rename_table(request["table"], request["to"])

    def unmake(self, request: Request) -> None:
        unmake(self._client, request["table"], request["id"])

    def answers(self) -> Mapping[str, Callable[[Request], Any]]:
        """Method → what answers it."""
        return {
            "create": self.create,
            "replace": self.replace,
            "drop": self.drop,
            "rename": self.rename,
            "unmake": self.unmake,
        }


def _kind(column: str, kind: Any) -> str:
    """The type of a column, as Spark writes it in JSON; nothing for none. Raises InvalidArgument."""
    from pyspark.sql.types import StructType

    if not kind:
        return ""
    field = {"name": column, "type": kind, "nullable": True, "metadata": {}}
    (found,) = schemas.to_columns(StructType.fromJson({"type": "struct", "fields": [field]}))
    return found.type


def _asked(request: Request) -> _Asked:
    """Raises InvalidArgument, naming what a table cannot have."""
    from pyspark.sql.types import StructType

    properties = {name: value for name, value in request["properties"].items() if name not in _OWN}
    provider = request["properties"].get("provider", PROVIDERS[0])
    if provider.lower() not in PROVIDERS:
        raise InvalidArgument(f"USING {provider}: {' and '.join(PROVIDERS)} are possible, and mean the same")
    for name in properties:
        if name in _NOT_THERE or name.startswith(tuple(_NO_KINDS)):
            what = _NOT_THERE.get(name) or _NO_KINDS[f"{name.partition('.')[0]}."]
            raise InvalidArgument(f"{what}: a table cannot have that")
    schema = StructType.fromJson(request["schema"])
    key = _key(properties.pop("primary_key", ""), schemas.to_columns(schema))
    location, conflicts = properties.pop("location", None), properties.pop("conflicts", "")
    if location and location.startswith("file:/") and not location.startswith("file://"):
        location = location.replace("file:", "file://", 1)  # Spark writes it as Hadoop does
    return _Asked(schema, request["partition_by"], key, location, conflicts, properties)


def _key(text: str, columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns of a list such as "id, `a, b`". Raises InvalidArgument for what is none."""
    found = schemas.named(parse_names(text), columns)
    if unknown := [name for name in found if name not in {column.name for column in columns}]:
        raise InvalidArgument(f"primary_key {text!r}: {unknown[0]!r} is no column of the table")
    return found
