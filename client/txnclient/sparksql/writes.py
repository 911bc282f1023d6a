"""What Spark asks as it writes: a transaction for each statement, the directory for its files, and the end of both."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from txnclient.blocks import Block
from txnclient.client import Client
from txnclient.formats import arrow, schemas
from txnclient.sparksql.scopes import Scope
from txnclient.sparksql.seen import Seen
from txnclient.statements import Statements
from txnclient.write.files import Opened
from txnclient.write.overwriting import Mode
from txnstatus.ddl import parse_names
from txnstatus.errors import IllegalState, InvalidArgument, NotFound
from txnstatus.lake.storage import parquet_files
from txnstatus.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Request = dict[str, Any]

LABEL = "Spark SQL"
PROVIDERS = ("parquet", "txnstatus")
"""What a table may be said to be USING: it is files of Parquet in any case."""
_OWN = ("owner", "is_managed_location", "provider")
"""Properties that Spark adds by itself."""
_NOT_THERE = {"comment": "COMMENT of a table", "collation": "DEFAULT COLLATION", "external": "EXTERNAL"}


@dataclass(frozen=True, slots=True)
class _Write:
    """A statement that is writing."""

    scope: Scope
    txn: Statements
    opened: Opened
    mode: Mode
    partition: str | None


class Writes:
    """The answers to the calls of one catalog that change something."""

    def __init__(self, client: Client, spark: SparkSession | None) -> None:
        """`spark`: what finds keys that come twice where there are many."""
        self._client, self._spark = client, spark
        self._lock = threading.Lock()
        self._running: dict[str, _Write] = {}

    # ---- rows

    def open(self, request: Request, seen: Seen) -> Request:
        """Begins the statement, which sees what it has read. Raises as `Transaction.write`."""
        table: str = request["table"]
        with seen.scope.opening(f"{LABEL}: {request['mode']} {table}") as txn, txn.writing_to(table):
            opened = txn.open_write(table)
            partition = _partition(request.get("partition"), opened)
        statement = uuid.uuid4().hex
        with self._lock:
            self._running[statement] = _Write(seen.scope, txn, opened, request["mode"], partition)
        return {"statement": statement, "directory": opened.directory}

    def commit(self, request: Request) -> None:
        """Adds what Spark's job has left in the directory, and commits what is a transaction of its own.

        Raises as `Transaction.commit`.
        """
        found = self._ended(request)
        if found is None:
            raise IllegalState("the statement's transaction is over", hint="run the statement again")
        opened = found.opened
        with found.scope.ending(found.txn, opened):
            files = arrow.described(parquet_files(opened.directory), opened.directory, opened.schema)
            found.txn.add_written(opened, files, found.mode, found.partition, self._spark)

    def abort(self, request: Request) -> None:
        """Harmless after `commit`, which Spark's abort follows where it failed."""
        if (found := self._ended(request)) is not None:
            found.scope.give_up(found.txn, found.opened)

    def _ended(self, request: Request) -> _Write | None:
        with self._lock:
            return self._running.pop(request["statement"], None)

    def truncate(self, request: Request, seen: Seen) -> None:
        table: str = request["table"]
        if isinstance(seen.scope, Block):
            with seen.scope.using() as txn:
                txn.truncate(table)
        else:
            self._client.truncate(table, label=f"{LABEL}: truncate {table}"[:100])

    # ---- tables

    def create(self, request: Request) -> None:
        """Raises AlreadyExists; InvalidArgument, naming what a table cannot have."""
        from pyspark.sql.types import StructType

        properties = {name: value for name, value in request["properties"].items() if name not in _OWN}
        provider = request["properties"].get("provider", PROVIDERS[0])
        if provider.lower() not in PROVIDERS:
            raise InvalidArgument(f"USING {provider}: {' and '.join(PROVIDERS)} are possible, and mean the same")
        for name in properties:
            if name in _NOT_THERE or name.startswith("option."):
                raise InvalidArgument(f"{_NOT_THERE.get(name, 'OPTIONS')}: a table cannot have that")
        schema = StructType.fromJson(request["schema"])
        key = properties.pop("primary_key", "")
        options: dict[str, Any] = {"location": properties.pop("location", None)}
        if conflicts := properties.pop("conflicts", ""):
            options["conflicts"] = conflicts
        self._client.create_table(
            request["table"],
            schema,
            partition_by=request["partition_by"],
            primary_key=_key(key, schemas.to_columns(schema)),
            properties=properties,
            **options,
        )

    def drop(self, request: Request) -> bool:
        """Whether there was such a table."""
        try:
            self._client.drop_table(request["table"])
        except NotFound:
            return False
        return True

    # ---- method → what answers it

    def answers(self) -> Mapping[str, Callable[[Request], Any]]:
        return {"commit": self.commit, "abort": self.abort}

    def statements(self) -> Mapping[str, Callable[[Request, Seen], Any]]:
        """Answers to calls that begin to write to a table that was seen."""
        return {"open": self.open, "truncate": self.truncate}

    def of_tables(self) -> Mapping[str, Callable[[Request], Any]]:
        """Answers to calls that are no part of any transaction."""
        return {"create": self.create, "drop": self.drop}


def _partition(named: Mapping[str, str] | None, opened: Opened) -> str | None:
    """The partition of values by their names. Raises InvalidArgument where the first columns are not among them."""
    if not named:
        return None
    columns = opened.schema.partition_by
    if missing := [column for column in columns[: len(named)] if column not in named]:
        raise InvalidArgument(
            f"PARTITION ({', '.join(named)}) of {opened.table}: {missing[0]!r} comes before, and has to be named",
            hint="partitions are replaced by their first columns, or all that have rows in the data: "
            "spark.sql.sources.partitionOverwriteMode=dynamic",
        )
    return "/".join(f"{column}={named[column]}" for column in columns if column in named)


def _key(text: str, columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns of a list such as "id, `a, b`". Raises InvalidArgument for what is none."""
    found = schemas.named(parse_names(text), columns)
    if unknown := [name for name in found if name not in {column.name for column in columns}]:
        raise InvalidArgument(f"primary_key {text!r}: {unknown[0]!r} is no column of the table")
    return found
