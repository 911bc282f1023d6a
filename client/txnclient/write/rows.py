"""Row writes: small changes by primary key, through the table's participant instead of through files."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txnclient.calls.requests import build
from txnclient.handle import Handle
from txnclient.outcome import RowsWritten
from txnclient.write.locks import Locks, WriteLocks
from txnstatus.errors import InvalidArgument, RowsRefused
from txnstatus.lake import absent
from txnstatus.lake import rows as row_format
from txnstatus.names import fold
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Statement

if TYPE_CHECKING:
    import pyarrow as pa

MAX_NAMED = 10
MAX_BYTES = 4 << 20
"""Bytes of a transaction's rows of a table up to which statements go by key. Half of what is possible is left for rows
that can go in no other way."""
KEY_COST_BYTES = 100
"""What the service takes a key for, besides its bytes."""
STATEMENTS: Mapping[pb.RowChange, Statement] = {
    pb.ROW_INSERT: Statement.INSERT,
    pb.ROW_INSERT_IGNORE: Statement.INSERT,
    pb.ROW_UPSERT: Statement.MERGE,
    pb.ROW_UPDATE: Statement.UPDATE,
    pb.ROW_DELETE: Statement.DELETE,
}
"""Statements by which changes lock, where the table settles conflicts by locks."""


class RowWrites:
    """The row writes of one transaction. What they promise, `Transaction` says."""

    def __init__(self, handle: Handle, locks: Locks) -> None:
        self._handle, self._locks = handle, locks
        self._sent: Counter[str] = Counter()
        """Bytes of rows by table, more or less: the service holds them in memory until the end."""

    def has_room(self, table: str, size: int) -> bool:
        """Whether so many bytes more go by key, as far as this handle knows."""
        return self._sent[table] + size <= MAX_BYTES

    def write(self, change: pb.RowChange, table: str, data: Any, seen_as: Schema | None = None) -> RowsWritten:
        """`seen_as`: the columns by whose names the data, a pyarrow Table, calls them; None: those of now."""
        handle = self._handle
        handle.require_writable()
        if change == pb.ROW_UPDATE:
            _ = handle.snapshot  # before the table is asked for: so the columns that it shows are among those there
        found = handle.session.table(table)
        schema = found.schema
        row_format.require_key(schema, table)
        if seen_as is not None:
            data = _called(data, seen_as, schema, table)
        rows = _fitted(data, schema, table, change)
        all_keys = keys = row_format.encode_keys(rows, schema)
        row_format.check_keys(rows, keys, schema, table)
        WriteLocks(self._locks, STATEMENTS[change], table, found.conflicts).take(_touched(rows, schema, change))
        numbers: Sequence[int] = range(len(keys))
        refused: list[int] = []
        if change == pb.ROW_UPDATE and len(rows.column_names) < len(schema.columns):
            rows, numbers, refused = self._completed(rows, keys, schema, table)
            keys = row_format.encode_keys(rows, schema)
        written = ignored = 0
        in_files = schema.names_in_files
        for start, part in _parts(rows, keys, 0):
            request = build(
                pb.WriteRowsRequest,
                txn_id=handle.id,
                owner=handle.owner,
                table=table,
                write_id=uuid.uuid4().hex,
                change=change,
                snapshot=handle.snapshot.timestamp,
                rows=row_format.to_ipc(part.rename_columns([in_files[name] for name in part.column_names])),
            )
            self._sent[table] += part.nbytes + KEY_COST_BYTES * part.num_rows
            answer = handle.ask_to_write("txnstatus.Table/WriteRows", request, pb.WriteRowsResponse)
            written += answer.written
            ignored += answer.ignored
            refused += [numbers[start + row] for row in answer.refused]
        if refused:
            raise self._refusal(change, table, written, [(row, all_keys[row].as_py()) for row in sorted(refused)])
        return RowsWritten(written, ignored)

    def _completed(
        self, rows: pa.Table, keys: pa.Array, schema: Schema, table: str
    ) -> tuple[pa.Table, list[int], list[int]]:
        """Whole rows, for those that are there, and their numbers; and the numbers of the others."""
        import pyarrow as pa
        import pyarrow.compute as pc

        snapshot = self._handle.snapshot
        seen = snapshot.table_files(table)
        # Columns may be called otherwise now than where the rows are read.
        of_now = schema.names_of_now
        missing = {
            column.name: of_now[column.in_files]
            for column in seen.schema.columns
            if column.in_files in of_now and of_now[column.in_files] not in rows.column_names
        }
        with snapshot.explained(table):
            there = seen.to_arrow([*schema.primary_key, *missing], row_format.near(rows, schema))
        at = pc.index_in(keys, value_set=row_format.encode_keys(there, schema))
        numbers = pc.indices_nonzero(at.is_valid())
        rows, there = rows.take(numbers), there.take(at.drop_null())
        whole = row_format.rows_schema(schema, deletes=False)
        known = {now: there[name] for name, now in missing.items()}
        known |= {name: rows[name] for name in rows.column_names}
        # A column that was added since is in neither.
        columns = [
            known[name] if name in known else absent.column(whole.field(name), rows.num_rows) for name in whole.names
        ]
        others = pc.indices_nonzero(at.is_null()).to_pylist()
        return pa.Table.from_arrays(columns, schema=whole).combine_chunks(), numbers.to_pylist(), others

    def _refusal(self, change: pb.RowChange, table: str, written: int, rows: list[tuple[int, bytes]]) -> RowsRefused:
        texts = [key.decode(errors="backslashreplace") for _, key in rows]
        named = ", ".join(texts[:MAX_NAMED]) + (", ..." if len(texts) > MAX_NAMED else "")
        why = "are there already" if change == pb.ROW_INSERT else "are not there"
        hints = {
            pb.ROW_INSERT: "insert_ignore leaves such rows out, upsert replaces them",
            pb.ROW_UPDATE: "upsert inserts such rows",
        }
        error = RowsRefused(
            f"{len(rows)} of {len(rows) + written} rows: their keys {why} in {table}: {named}",
            txn_id=self._handle.id,
            hint=hints.get(change, "the other rows are written, and the transaction is open"),
        )
        error.rows, error.keys, error.written = tuple(row for row, _ in rows), tuple(texts), written
        return error


def _called(rows: pa.Table, seen_as: Schema, schema: Schema, table: str) -> pa.Table:
    """The rows by the names that columns have now. Raises InvalidArgument for a column that was dropped since."""
    if seen_as == schema:
        return rows
    seen = seen_as.names_in_files
    of_now = schema.names_of_now
    for name in rows.column_names:
        if seen[name] not in of_now:
            raise InvalidArgument(
                f"the rows for {table} have a column that was dropped since the transaction has read: {name!r}",
                hint="run the transaction again, and it finds the columns that there are now",
            )
    return rows.rename_columns([of_now[seen[name]] for name in rows.column_names])


def _fitted(data: Any, schema: Schema, table: str, change: pb.RowChange) -> pa.Table:
    """The rows in the table's own types, with the columns that count. Raises InvalidArgument, naming the column."""
    import pyarrow as pa

    from txnclient.formats import arrow, fitting

    rows = arrow.as_table(data)
    whole = row_format.rows_schema(schema, deletes=False)
    given = {column.name for column in fitting.part_of(schema, rows.column_names, table).columns}
    counting = {pb.ROW_DELETE: set(schema.primary_key), pb.ROW_UPDATE: {*schema.primary_key, *given}}
    names = [name for name in whole.names if name in counting.get(change, whole.names)]
    if change == pb.ROW_UPDATE and len(whole) > len(names) == len(schema.primary_key):
        raise InvalidArgument(f"the data for table {table} has the primary key alone: that leaves nothing to update")
    part = Schema(
        tuple(column for column in schema.columns if column.name in names),
        tuple(name for name in schema.partition_by if name in names),
    )
    counts = {fold(name) for name in names}
    taken = rows.select([name for name in rows.column_names if fold(name) in counts])
    return fitting.fitted(taken, part, pa.schema([whole.field(name) for name in names]), table).combine_chunks()


def _touched(rows: pa.Table, schema: Schema, change: pb.RowChange) -> list[str]:
    """The partitions that the rows are in and may have been in; where the rows do not tell, the table is all there is.

    A row that is replaced or deleted may be in another partition, unless its key says in which one it is.
    """
    from txnclient.formats import arrow

    inserts = change in (pb.ROW_INSERT, pb.ROW_INSERT_IGNORE)
    if not schema.partition_by or not (inserts or set(schema.partition_by) <= set(schema.primary_key)):
        return [WHOLE_TABLE]
    return arrow.partitions_of(rows, schema.partition_by)


def _parts(rows: pa.Table, keys: pa.Array, start: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows in as few requests as they fit into, each with the number of its first row."""
    size = rows.nbytes + keys.nbytes
    if rows.num_rows <= row_format.MAX_ROWS and size <= row_format.MAX_REQUEST_BYTES:
        if rows.num_rows:
            yield start, rows
    elif rows.num_rows == 1:
        raise InvalidArgument(
            f"row {start} has {size} bytes: {row_format.MAX_REQUEST_BYTES} are possible",
            hint="write such rows as files, with txn.write",
        )
    else:
        half = rows.num_rows // 2
        yield from _parts(rows.slice(0, half), keys.slice(0, half), start)
        yield from _parts(rows.slice(half), keys.slice(half), start + half)
