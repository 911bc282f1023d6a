"""Row changes as Arrow tables: their keys, their form on the wire and in files. For clients and shards alike.

A key is bytes: the values of the primary key's columns as text, joined by commas. So who reads a conflict sees which
row it was about, keys of one and of many columns are compared in one way, and no version of pyarrow hashes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from txnstatus.errors import InvalidArgument
from txnstatus.lake import absent
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.names import CHANGE_PREFIX
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

COMMIT_TS = f"{CHANGE_PREFIX}commit_ts"
DELETED = f"{CHANGE_PREFIX}deleted"
MAX_ROWS = 10_000
"""Rows that one request may carry."""
MAX_REQUEST_BYTES = 400_000
"""Bytes of rows and their keys in one request, so that what is replicated fits into one entry of a log."""


class Change(NamedTuple):
    """What one write of a committed transaction changed."""

    commit_ts: Timestamp
    deletes: bool
    rows: bytes
    """An Arrow IPC stream."""


def require_key(schema: Schema, table: str) -> None:
    """Raises InvalidArgument for a table without a primary key."""
    if not schema.primary_key:
        raise InvalidArgument(
            f"table {table} has no primary key: rows are inserted, updated and deleted by it",
            hint="create the table with primary_key=[...], or write whole files",
        )


def rows_schema(schema: Schema, *, deletes: bool) -> pa.Schema:
    """The schema of the rows in a request: the table's columns; for a delete, those of the primary key."""
    import pyarrow as pa

    whole = to_arrow(schema)
    return pa.schema([whole.field(name) for name in schema.primary_key]) if deletes else whole


def changes_schema(schema: Schema) -> pa.Schema:
    """The schema of row changes: of a deleted row only the key is there."""
    import pyarrow as pa

    fields = [field.with_nullable(True) for field in to_arrow(schema)]
    return pa.schema([*fields, pa.field(COMMIT_TS, pa.uint64()), pa.field(DELETED, pa.bool_())])


def encode_keys(rows: pa.Table, schema: Schema) -> pa.Array:
    """The key of every row, as binary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [as_bytes(rows[name].combine_chunks()) for name in schema.primary_key]
    if len(parts) == 1:
        return parts[0]
    for index, name in enumerate(schema.primary_key):
        if _is_text(rows.schema.field(name).type):
            escaped = pc.replace_substring(parts[index], b"\\", b"\\\\")
            parts[index] = pc.replace_substring(escaped, b",", b"\\,")
    return pc.binary_join_element_wise(*parts, pa.scalar(b","))


def key_column(rows: pa.Table, schema: Schema) -> pa.Array:
    """The keys as one column, to be compared with each other: the key's own, where it is one; a text takes longer."""
    if len(schema.primary_key) == 1:
        return rows[schema.primary_key[0]].combine_chunks()
    return encode_keys(rows, schema)


def between(keys: pa.Table, schema: Schema) -> ds.Expression:
    """Holds for what is between the lowest and the highest value in each column of the key."""
    import pyarrow.compute as pc

    found = pc.scalar(True)
    for name in schema.primary_key:
        ends = pc.min_max(keys[name])
        found &= (pc.field(name) >= ends["min"]) & (pc.field(name) <= ends["max"])
    return found


def near(keys: pa.Table, schema: Schema) -> ds.Expression:
    """Holds where a key can be: the bounds leave out row groups by their statistics, the values most other rows."""
    import pyarrow.compute as pc

    near = between(keys, schema)
    for name in schema.primary_key:
        near &= pc.field(name).isin(keys[name].combine_chunks().unique())
    return near


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def as_bytes(column: pa.Array) -> pa.Array:
    """The values of a key's column as text, as binary."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())  # how a time is spelt is not ours to rely on
    if not _is_text(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def check_keys(rows: pa.Table, keys: pa.Array, schema: Schema, table: str) -> None:
    """Raises InvalidArgument for a null in a key, and for a key that comes twice."""
    import pyarrow.compute as pc

    for name in schema.primary_key:
        if rows[name].null_count:
            row = pc.index(pc.is_null(rows[name]), True).as_py()
            raise InvalidArgument(f"row {row}: the key column {name!r} of table {table} is null")
    if pc.count_distinct(keys).as_py() < len(keys):
        counts = pc.value_counts(keys)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"].as_py()
        raise InvalidArgument(
            f"the key {twice.decode(errors='backslashreplace')} comes more than once in the rows for table {table}"
        )


def to_ipc(rows: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def from_ipc(data: bytes) -> pa.Table:
    """Raises InvalidArgument for what is no Arrow IPC stream."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(data) as reader:
            rows = reader.read_all()
        rows.validate(full=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidArgument(f"rows that are no Arrow IPC stream: {error}") from error
    return rows


def changes_table(changes: Iterable[Change], schema: Schema) -> pa.Table:
    """All of them, in their order."""
    import numpy as np
    import pyarrow as pa

    # There may be many, of few rows each. What all of one kind have in common is done once.
    alike: defaultdict[tuple[bool, pa.Schema], list[tuple[int, Timestamp, pa.Table]]] = defaultdict(list)
    for number, change in enumerate(changes):
        if change.rows:
            rows = from_ipc(change.rows)
            alike[change.deletes, rows.schema].append((number, change.commit_ts, rows))
    target = changes_schema(schema)
    tables, places = [target.empty_table()], [np.empty(0, np.int64)]
    for (deletes, _), members in alike.items():
        numbers, times, parts = zip(*members, strict=True)
        counts = [rows.num_rows for rows in parts]
        commits = pa.array(np.repeat(np.array(times, np.uint64), counts))
        tables.append(_filled(pa.concat_tables(parts), {COMMIT_TS: commits}, target, deletes=deletes))
        places.append(np.repeat(np.array(numbers), counts))
    found = pa.concat_tables(tables)
    if len(alike) < 2:
        return found
    return found.combine_chunks().take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


def _filled(rows: pa.Table, known: dict[str, pa.Array], target: pa.Schema, *, deletes: bool) -> pa.Table:
    import pyarrow as pa

    there = {**dict(zip(rows.column_names, rows.columns, strict=True)), **known}
    there[DELETED] = pa.repeat(deletes, rows.num_rows)
    # Of a column that was widened since, or is seen as of before that, the rows have another type.
    columns = [
        there[field.name].cast(field.type) if field.name in there else absent.column(field, rows.num_rows)
        for field in target
    ]
    return pa.Table.from_arrays(columns, schema=target)


def last_of_each(changes: pa.Table, groups: Iterable[pa.Array]) -> pa.Table:
    """The last of the rows that agree in all of `groups`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {f"group{number}": group for number, group in enumerate(groups)}
    numbered = pa.table({**columns, "row": pa.array(range(changes.num_rows), pa.int64())})
    last = numbered.group_by(list(columns), use_threads=False).aggregate([("row", "max")])["row_max"]
    return changes.take(last.take(pc.sort_indices(last)))
