"""INSERT, DELETE, UPDATE, MERGE and TRUNCATE as the calls of a transaction that do the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from txnclient.change.casts import NULL, STRING, Term, cast, stored
from txnclient.change.merge import Merge
from txnclient.change.sql import of_default, own_type, parsed
from txnclient.ducksql.arguments import literal
from txnclient.ducksql.queries import Query, answered, understood
from txnclient.ducksql.reading import Reading
from txnclient.ducksql.trees import EVOLVES, only_nulls, require_only, shown, table_name, text_of
from txnclient.formats import fitting
from txnclient.formats.schemas import named
from txnclient.outcome import RowsAffected
from txnclient.transaction.transaction import Transaction
from txnclient.write.growing import columns_of, grow
from txnstatus.ddl import VOID, Type, parse
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.names import fold
from txnstatus.schema import Column, Schema


def delete(txn: Transaction, tree: exp.Expression, reading: Reading) -> RowsAffected:
    require_only(tree, "DELETE", "this", "where")
    name, aliases = _target(tree.this, reading)
    where = tree.args.get("where")
    return txn.delete_where(name, text_of(where.this, aliases) if where else "true")


def update(txn: Transaction, tree: exp.Expression, reading: Reading) -> RowsAffected:
    require_only(tree, "UPDATE", "this", "expressions", "where")
    name, aliases = _target(tree.this, reading)
    where = tree.args.get("where")
    values = _assigned(tree.expressions, aliases, txn.handle.session.table(name).schema)
    return txn.update_where(name, values, text_of(where.this, aliases) if where else "true")


def truncate(txn: Transaction, tree: exp.Expression, reading: Reading) -> RowsAffected | None:
    require_only(tree, "TRUNCATE", "expressions")
    (table,) = tree.expressions
    txn.truncate(table_name(table, reading.resolve))
    return None


def _target(table: exp.Expression, reading: Reading) -> tuple[str, dict[str, str]]:
    """The table that is changed, and what stands for it before columns: its alias is nobody else's word."""
    require_only(table, "a table that is changed", "this", "db", "catalog", "alias")
    name = table_name(table, reading.resolve)
    return name, {fold(table.alias): name.partition(".")[2]} if table.alias else {}


def _assigned(assignments: list[Any], qualifiers: dict[str, str], schema: Schema) -> dict[str, str]:
    """Column → its new value. Raises InvalidArgument."""
    values, by_name = dict[str, str](), {fold(each.name): each for each in schema.columns}
    for each in assignments:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise InvalidArgument(f"SET {shown(each)}: expected column = value")
        if each.this.name in values:
            raise InvalidArgument(f"column {each.this.name!r} is set twice")
        column = by_name.get(fold(each.this.name))
        if column is not None and _is_default(each.expression):
            values[each.this.name] = of_default(column)
        else:
            values[each.this.name] = text_of(each.expression, qualifiers)
    return values


def _is_default(value: Any) -> bool:
    """Whether it is the word DEFAULT."""
    match value:
        case exp.Var(this=str(word)) | exp.Column(this=exp.Identifier(this=str(word), args={"quoted": False})):
            return word.upper() == "DEFAULT"
    return False


# ---- MERGE


def merge(txn: Transaction, tree: exp.Expression, reading: Reading) -> RowsAffected:
    require_only(tree, "MERGE", "this", "using", "on", "whens", EVOLVES)
    name, _ = _target(tree.this, reading)
    using = tree.args["using"]
    target, source = (fold(each.alias or each.name) for each in (tree.this, using))
    if not source or source == target:
        raise InvalidArgument(f"the source of {shown(tree)} has no name of its own: USING ... AS s")
    qualifiers = {target: "target", source: "source"}
    rows = answered(exp.select("*").from_(using.copy()), reading)
    if tree.args.get(EVOLVES):
        grow(txn.handle.session, name, _typed(columns_of(rows), using))
    builder, schema = txn.merge(name, rows, text_of(tree.args["on"], qualifiers)), txn.handle.session.table(name).schema
    for when in tree.args["whens"].expressions:
        said = _written_out(when, rows.column_names, using) if tree.args.get(EVOLVES) else when
        builder = _clause(builder, said, qualifiers, schema)
    return builder.execute()


def _written_out(when: Any, names: Sequence[str], using: exp.Expression) -> Any:
    """A clause of a MERGE WITH SCHEMA EVOLUTION: `*` is the columns of the source, and no others."""
    source = using.alias or using.name
    then, values = when.args["then"], [exp.column(name, source, quoted=True) for name in names]
    columns = [exp.column(name, quoted=True) for name in names]
    match then:
        case exp.Update(args={"expressions": [exp.Star()]}):
            said = [exp.EQ(this=column, expression=value) for column, value in zip(columns, values, strict=True)]
            then = exp.Update(expressions=said)
        case exp.Insert(this=exp.Star()):
            then = exp.Insert(this=exp.Tuple(expressions=columns), expression=exp.Tuple(expressions=values))
    found = when.copy()
    found.set("then", then)
    return found


def _clause(builder: Merge[RowsAffected], when: Any, qualifiers: dict[str, str], schema: Schema) -> Merge[RowsAffected]:
    condition = when.args.get("condition")
    said = None if condition is None else text_of(condition, qualifiers)
    then, matched, by_source = when.args["then"], when.args.get("matched"), when.args.get("source")
    match then:
        case exp.Var(this="DELETE") if by_source:
            return builder.when_not_matched_by_source_delete(condition=said)
        case exp.Var(this="DELETE") if matched:
            return builder.when_matched_delete(condition=said)
        case exp.Update(args={"expressions": [exp.Star()]}) if matched:
            return builder.when_matched_update_all(condition=said)
        case exp.Update() if by_source:
            values = _assigned(then.expressions, qualifiers, schema)
            return builder.when_not_matched_by_source_update(values, condition=said)
        case exp.Update() if matched:
            return builder.when_matched_update(_assigned(then.expressions, qualifiers, schema), condition=said)
        case exp.Insert(this=exp.Star()) if not matched and not by_source:
            return builder.when_not_matched_insert_all(condition=said)
        case exp.Insert(this=exp.Tuple() as columns, args={"expression": exp.Tuple() as row}) if not by_source:
            names, texts = [each.name for each in columns.expressions], row.expressions
            if len(names) != len(texts) or len(set(map(fold, names))) != len(names):
                raise InvalidArgument(f"{len(names)} columns and {len(texts)} values: {shown(when)}")
            said_of = {name: each for name, each in zip(names, texts, strict=True) if not _is_default(each)}
            given = {column: text_of(each, qualifiers) for column, each in said_of.items()}
            return builder.when_not_matched_insert(given, condition=said)
    raise InvalidArgument(f"{shown(when)}: no such clause of a MERGE is known")


# ---- INSERT


def insert(txn: Transaction, tree: exp.Expression, reading: Reading) -> RowsAffected:
    """Values are cast to the columns' types as Spark stores them, and refused where they do not fit."""
    require_only(tree, "INSERT", "this", "expression", "overwrite", "by_name", EVOLVES)
    into, given = tree.this, None
    if isinstance(into, exp.Schema):
        into, given = into.this, [each.name for each in into.expressions]
    require_only(into, "INSERT INTO a table", "this", "db", "catalog", "partition")
    name = table_name(into, reading.resolve)
    schema = txn.handle.session.table(name).schema
    partition = _partition(into, schema, reading)
    with understood(_with_defaults(tree.expression, given, schema, partition), reading) as query:
        names = list(query.names) if tree.args.get("by_name") else given
        if tree.args.get(EVOLVES):
            names = names or _in_order(query, schema, partition)
            kinds = query.schema.values()
            brought = [Column(*each) for each in zip(names, kinds, strict=False)]
            grow(txn.handle.session, name, _typed(brought, tree.expression))
            schema = txn.handle.session.table(name).schema
        rows = fitted(query, schema, name, names, partition)
    text = {column: str(value) for column, value in partition.items()}
    txn.write(rows, name, "overwrite" if tree.args.get("overwrite") else "append", partition=text or None)
    return RowsAffected(inserted=rows.num_rows)


def _typed(columns: Sequence[Column], query: exp.Expression) -> list[Column]:
    """The columns that a query brings; of those that are nothing but NULL there is no type."""
    untyped = only_nulls(query)
    return [replace(each, type=VOID) if place in untyped else each for place, each in enumerate(columns)]


def _with_defaults(
    query: exp.Expression, given: Sequence[str] | None, schema: Schema, partition: Mapping[str, Any]
) -> exp.Expression:
    """VALUES with the columns' defaults where they say DEFAULT."""
    if not isinstance(query, exp.Values) or not any(map(_is_default, query.find_all(exp.Var, exp.Column))):
        return query
    by_name = {fold(each.name): each for each in schema.columns}
    names = given or [each.name for each in schema.columns if each.name not in partition]
    columns = [by_name.get(fold(name)) for name in names]
    found = query.copy()
    for row in found.expressions:
        for value, column in zip(list(row.expressions), columns, strict=False):
            if column is not None and _is_default(value):
                value.replace(parsed(of_default(column), column.name))
    return found


def _in_order(query: Query, schema: Schema, partition: Mapping[str, Any]) -> list[str]:
    """The columns that the query has values for: those of the table, and then what it calls the others."""
    own = [each.name for each in schema.columns if each.name not in partition]
    return [*own, *query.names[len(own) :]]


def _partition(into: exp.Expression, schema: Schema, reading: Reading) -> dict[str, Any]:
    """Values of PARTITION (month = 1), by columns of the table. Raises InvalidArgument."""
    said = into.args.get("partition")
    found = dict[str, Any]()
    for each in said.expressions if said is not None else ():
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise InvalidArgument(f"PARTITION ({shown(each)}): expected column = value")
        (column,) = named([each.this.name], schema.columns)
        found[column] = literal(each.expression, reading.args)
    return found


def fitted(
    query: Query, schema: Schema, table: str, names: Sequence[str] | None = None, given: Mapping[str, Any] | None = None
) -> pa.Table:
    """The query's rows in the columns of the table. Raises InvalidArgument, and what running the query raises.

    `names`: the columns that it has values for, in their order; by default all without those that are `given` a value.
    """
    given = given or {}
    meant = named(names or [each.name for each in schema.columns if each.name not in given], schema.columns)
    unknown = set(meant) - {each.name for each in schema.columns}
    if unknown or len(set(meant)) < len(meant) or len(meant) != len(query.names):
        raise InvalidArgument(
            f"{len(query.names)} values for the columns {', '.join(meant)} of table {table}, which has "
            f"{', '.join(each.name for each in schema.columns)}",
            hint="a value for each column, in their order; or name them: INSERT INTO t (a, b)",
        )
    own = [f"q{number}" for number in range(len(meant))]
    values = {name: Term(column, own_type(kind)) for name, column, kind in zip(meant, own, query.types, strict=True)}
    casts = [
        _constant(given[column.name], column)
        if column.name in given
        else _constant(column.default, column)
        if column.name not in values
        else stored(values[column.name], parse(column.type), column.name, column.name).sql
        for column in schema.columns
    ]
    rows = query.run(f"SELECT {', '.join(casts)} FROM ({query.sql}) AS q({', '.join(own)})")
    target = to_arrow(schema)
    return pa.Table.from_arrays(
        [fitting.cast(found, field, table) for found, field in zip(rows.columns, target, strict=True)], schema=target
    )


def _constant(value: Any, column: Column) -> str:
    kind = NULL if value is None else Type("bigint") if isinstance(value, int) else STRING
    return cast(Term(exp.convert(value).sql("duckdb"), kind), parse(column.type), column.name).sql
