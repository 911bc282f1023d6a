"""Changing: DELETE, UPDATE and MERGE, by the positions of rows in files or by their keys. An engine says which rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from txnclient.change.plan import RowsChanged
from txnclient.handle import Handle
from txnclient.outcome import RowsAffected
from txnclient.read.table_files import TableFiles
from txnclient.write.deletes import described, parts_of
from txnclient.write.files import FileWrites, Opened, write_files
from txnclient.write.keyed import KeyedWrites
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Statement, Timestamp

Engine = Callable[[TableFiles], RowsChanged]
"""Finds what a statement does to a table as the transaction sees it."""


class Changes:
    """The statements of one transaction. What they promise, `Transaction` says."""

    def __init__(self, handle: Handle, files: FileWrites, keyed: KeyedWrites) -> None:
        self._handle, self.files, self._keyed = handle, files, keyed

    def run(self, statement: Statement, table: str, engine: Engine, columns: Collection[str] = ()) -> RowsAffected:
        """`columns`: those that it sets, which may have come after the transaction has read."""
        opened = self.open(statement, table)
        seen = _with_columns(self._handle.snapshot.table_files(table), columns, opened.schema)
        # What was not seen of a row cannot be written with it.
        return self._apply(replace(opened, schema=seen.schema), seen, engine)

    def open(self, statement: Statement, table: str) -> Opened:
        opened = self.files.open(table)
        # Which partitions it will touch, nobody knows yet.
        self.files.locks_of(opened, statement).take([WHOLE_TABLE])
        return opened

    def apply(self, opened: Opened, engine: Engine) -> RowsAffected:
        """Does what the engine says in a write that is open, in the columns of which the engine knows."""
        return self._apply(opened, self._handle.snapshot.table_files(opened.table), engine)

    def _apply(self, opened: Opened, seen: TableFiles, engine: Engine) -> RowsAffected:
        with self._handle.snapshot.explained(opened.table):
            changed = engine(seen)
        if opened.schema.primary_key:
            self._keyed.change(opened, seen, changed)
        else:
            self._write(opened, seen, changed)
        return RowsAffected(changed.inserted, changed.updated, changed.deleted)

    def _write(self, opened: Opened, seen: TableFiles, changed: RowsChanged) -> None:
        """Several writes where it is more than one may say; they commit together."""
        at = self._handle.snapshot.timestamp
        looked = looked_for(changed, at, opened.schema) if changed.inserted else None
        first, *more = parts_of(changed.dead)
        if first or changed.rows is not None:
            files = [] if changed.rows is None else write_files(changed.rows, opened)
            deletes = described(opened.directory, seen, first, at)  # after the files: Spark wants an empty directory
            self.files.add_changed(opened, files, deletes, looked)
        for part in more:
            another = self.files.open(opened.table)
            self.files.add_changed(another, [], described(another.directory, seen, part, at), None)


def _with_columns(seen: TableFiles, columns: Collection[str], now: Schema) -> TableFiles:
    """The table in the columns of now, where it has not got these ones yet, and has all others as they are now.

    The rows that are seen are from before the new columns. Whoever has set these in one of them since is in the way.
    """
    there, later = (
        {(column.name, column.in_files, column.type) for column in schema.columns} for schema in (seen.schema, now)
    )
    has_all = set(columns) <= {column.name for column in seen.schema.columns}
    return seen if has_all or not there <= later else replace(seen, schema=now)


def looked_for(changed: RowsChanged, snapshot: Timestamp, schema: Schema) -> pb.Looked:
    in_files = schema.names_in_files
    return pb.Looked(
        snapshot=snapshot,
        ranges=[
            pb.ColumnRange(column=in_files[each.column], lowest=each.lowest.encode(), highest=each.highest.encode())
            for each in changed.looked
        ],
    )
