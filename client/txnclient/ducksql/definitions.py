"""What tables there are: CREATE, DROP and ALTER TABLE, DESCRIBE and SHOW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
from sqlglot import exp

from txnclient.client.client import Client
from txnclient.client.making import unmake
from txnclient.control import system_tables
from txnclient.ducksql import columns
from txnclient.ducksql.changes import fitted
from txnclient.ducksql.queries import understood
from txnclient.ducksql.reading import Reading
from txnclient.ducksql.trees import require_only, shown, table_name
from txnclient.formats.fields import Fields
from txnclient.outcome import RowsAffected
from txnstatus.errors import InvalidArgument, NotFound
from txnstatus.names import SYSTEM, fold
from txnstatus.schema import Column
from txnstatus.schema_changes import ColumnChange

Resolve = Callable[[list[str]], str]


def create(client: Client, tree: exp.Expression, reading: Reading) -> RowsAffected | None:
    """CREATE TABLE, also AS SELECT: then the table is there, empty, before its rows are."""
    require_only(tree, "CREATE", "this", "kind", "exists", "expression", "properties")
    if tree.args["kind"] != "TABLE":
        raise InvalidArgument(f"{shown(tree)}: only tables can be created without Spark")
    schema, query = tree.this, tree.args.get("expression")
    name = table_name(schema.this if isinstance(schema, exp.Schema) else schema, reading.resolve)
    asked = _asked(tree.args.get("properties"))
    if query is None:
        if not isinstance(schema, exp.Schema):
            raise InvalidArgument(f"{shown(tree)}: a table has columns, CREATE TABLE t (a bigint), or AS SELECT")
        declared = ", ".join(map(columns.declared, schema.expressions))
        client.create_table(name, declared, if_not_exists=bool(tree.args.get("exists")), **asked)
        return None
    if isinstance(schema, exp.Schema):
        raise InvalidArgument(f"{shown(tree)}: columns are those of the SELECT, where there is one")
    if tree.args.get("exists") and _is_there(client, name):
        return RowsAffected()
    with understood(query, reading) as found:
        made = client.create_table(name, found.schema, **asked)
        try:
            with client.transaction() as txn:
                rows = fitted(found, client.table(name).schema, name)
                txn.write(rows, name)
        except BaseException:
            unmake(client, name, made.table_id)
            raise
    return RowsAffected(inserted=rows.num_rows)


def _is_there(client: Client, name: str) -> bool:
    try:
        client.table(name)
    except NotFound:
        return False
    return True


def _asked(properties: exp.Expression | None) -> dict[str, Any]:
    """What `Client.create_table` takes. Raises InvalidArgument."""
    found: dict[str, Any] = {"properties": {}}
    for each in properties.expressions if properties is not None else ():
        match each:
            case exp.PartitionedByProperty(this=exp.Schema() as columns):
                found["partition_by"] = [one.name for one in columns.expressions]
            case exp.LocationProperty():
                found["location"] = each.this.name
            case exp.FileFormatProperty() if fold(each.this.name) == "parquet":
                pass
            case exp.Property() if type(each) is exp.Property:
                _property(found, each.this.name, each.args["value"].name)
            case _:
                raise InvalidArgument(f"{shown(each)}: no table has that without Spark")
    return found


def _property(found: dict[str, Any], name: str, value: str) -> None:
    if name == "primary_key":
        found["primary_key"] = [each.strip() for each in value.split(",")]
    elif name == "conflicts":
        found["conflicts"] = value
    else:
        found["properties"][name] = value


def drop(client: Client, tree: exp.Expression, resolve: Resolve) -> None:
    require_only(tree, "DROP", "tables", "kind", "exists")
    if tree.args["kind"] != "TABLE" or len(tree.args["tables"]) != 1:
        raise InvalidArgument(f"{shown(tree)}: one table can be dropped")
    client.drop_table(table_name(tree.args["tables"][0], resolve), ignore_missing=bool(tree.args.get("exists")))


def alter(client: Client, tree: exp.Expression, resolve: Resolve) -> None:
    """ALTER TABLE t SET TBLPROPERTIES, and what becomes of columns."""
    require_only(tree, "ALTER", "this", "kind", "actions")
    name, properties, found = table_name(tree.this, resolve), dict[str, str](), list[ColumnChange]()
    if len(tree.args["actions"]) == 1 and isinstance(to := tree.args["actions"][0], exp.AlterRename):
        client.rename_table(name, table_name(to.this, _in_database_of(name, resolve)))
        return
    fields = Fields(client.table(name).schema, name)
    for action in tree.args["actions"]:
        if isinstance(action, exp.AlterSet) and isinstance(given := action.expressions[0], exp.Properties):
            properties |= {each.this.name: each.args["value"].name for each in given.expressions}
        else:
            found += columns.changes(action, tree, fields)
    client.change_columns(name, found, properties)


def _in_database_of(table: str, resolve: Resolve) -> Resolve:
    """What a name means after RENAME TO: alone it is of the table's database."""
    return lambda parts: resolve(parts if len(parts) > 1 else [table.partition(".")[0], *parts])


# ---- what there is


def describe(client: Client, tree: exp.Expression, resolve: Resolve) -> pa.Table:
    """As Spark's: a row for each column, and then for those of partitions and of the key."""
    require_only(tree, "DESCRIBE", "this", "kind")
    name = table_name(tree.this, resolve)
    if system_tables.is_one(name):
        columns = system_tables.columns(system_tables.named(fold(name.partition(".")[2])))
        return texts(("col_name", "data_type", "comment"), list(map(_described, columns)))
    schema = client.table(name).schema
    rows = list(map(_described, schema.columns))
    by_name = {column.name: column for column in schema.columns}
    for title, names in (("# Partition Information", schema.partition_by), ("# Primary Key", schema.primary_key)):
        if names:
            rows += [(title, "", ""), *(_described(by_name[name]) for name in names)]
    return texts(("col_name", "data_type", "comment"), rows)


def _described(column: Column) -> tuple[str, str, str]:
    return column.name, column.type, column.comment


def tables(client: Client, database: str, pattern: str | None) -> pa.Table:
    """The tables of a database, or of all where it is empty."""
    names = [each.name.split(".", 1) for each in client.tables()]
    if fold(database) == SYSTEM:
        names = [[SYSTEM, name] for name in system_tables.names()]
        database = SYSTEM
    there = [(part, name) for part, name in names if database in ("", part) and _is_like(name, pattern)]
    return texts(("namespace", "tableName"), sorted(there))


def databases(client: Client, pattern: str | None) -> pa.Table:
    """The databases in which there are tables."""
    names = sorted({each.name.partition(".")[0] for each in client.tables()})
    return texts(("namespace",), [(name,) for name in names if _is_like(name, pattern)])


def _is_like(name: str, pattern: str | None) -> bool:
    """Whether a name is meant by a pattern of SHOW: `*` is any letters, and `|` stands between several."""
    return pattern is None or any(fnmatchcase(fold(name), each.strip()) for each in fold(pattern).split("|"))


def texts(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> pa.Table:
    columns = [pa.array([row[number] for row in rows], pa.string()) for number in range(len(names))]
    return pa.Table.from_arrays(columns, names=list(names))
