"""Changing: DELETE, UPDATE and MERGE, by the positions of rows in files or by their keys. An engine says which rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from txnclient.change.plan import RowsChanged
from txnclient.handle import Handle
from txnclient.outcome import RowsAffected
from txnclient.read.table_files import TableFiles
from txnclient.write.files import FileWrites, Opened, write_files
from txnclient.write.rows import RowWrites
from txnstatus.errors import AlreadyExists, InvalidArgument, RowsRefused
from txnstatus.lake import dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.rows import check_keys, encode_keys
from txnstatus.limits import MAX_DELETED_BYTES, MAX_DELETED_FILES
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Statement, Timestamp

if TYPE_CHECKING:
    from pyroaring import BitMap

Engine = Callable[[TableFiles], RowsChanged]
"""Finds what a statement does to a table as the transaction sees it."""


class Changes:
    """The statements of one transaction. What they promise, `Transaction` says."""

    def __init__(self, handle: Handle, files: FileWrites, rows: RowWrites) -> None:
        self._handle, self._files, self._rows = handle, files, rows

    def run(self, statement: Statement, table: str, engine: Engine) -> RowsAffected:
        opened = self._files.open(table)
        # Which partitions it will touch, nobody knows yet.
        self._files.locks_of(opened, statement).take([WHOLE_TABLE])
        seen = self._handle.snapshot.table_files(table)
        with self._handle.snapshot.explained(table):
            changed = engine(seen)
        if opened.schema.primary_key:
            self._change_by_key(table, opened.schema, changed)
        else:
            self._write(opened, seen, changed)
        return RowsAffected(changed.inserted, changed.updated, changed.deleted)

    def _change_by_key(self, table: str, schema: Schema, changed: RowsChanged) -> None:
        """Row by row. Raises InvalidArgument for a key that would come twice, AlreadyExists for one that is there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        none = to_arrow(schema).empty_table()
        gone, rows = (none if each is None else each for each in (changed.gone, changed.rows))
        before, after = (encode_keys(each, schema) for each in (gone, rows))
        check_keys(rows, after, schema, table)
        stays = pc.is_in(after, value_set=before) if len(after) else pa.array([], pa.bool_())
        for change, part in (
            (pb.ROW_DELETE, gone.filter(pc.invert(pc.is_in(before, value_set=after)))),
            (pb.ROW_UPSERT, rows.filter(stays)),
            (pb.ROW_INSERT, rows.filter(pc.invert(stays))),
        ):
            if not part.num_rows:
                continue
            try:
                self._rows.write(change, table, part)
            except RowsRefused as error:
                # A statement does all that it says, or nothing.
                raise AlreadyExists(error.message, hint="its rows are given keys that others have") from error

    def _write(self, opened: Opened, seen: TableFiles, changed: RowsChanged) -> None:
        """Several writes where it is more than one may say; they commit together."""
        at = self._handle.snapshot.timestamp
        looked = _looked(changed, at) if changed.inserted else None
        first, *more = [*_parts(changed.dead)] or [{}]
        if first or changed.rows is not None:
            files = [] if changed.rows is None else write_files(changed.rows, opened)
            deletes = described(opened.directory, seen, first, at)  # after the files: Spark wants an empty directory
            self._files.add_changed(opened, files, deletes, looked)
        for part in more:
            another = self._files.open(opened.table)
            self._files.add_changed(another, [], described(another.directory, seen, part, at), None)


def described(directory: str, seen: TableFiles, dead: Mapping[str, BitMap], snapshot: Timestamp) -> pb.Deletes | None:
    """Writes the positions, if there are any, into a write's directory, and says which they are.

    `seen`: the table at the snapshot. Raises InvalidArgument for rows that there are not.
    """
    if not dead:
        return None
    _check(dead, seen)
    location = directory.rpartition("/")[0]
    files = [
        pb.FileDeletes(
            file=file.removeprefix(f"{location}/"),
            file_set=seen.file_sets[file],
            row_count=len(positions),
            positions=packed if len(packed := positions.serialize()) <= MAX_DELETED_BYTES else b"",
        )
        for file, positions in dead.items()
    ]
    return pb.Deletes(ref=dead_rows.write(directory, dead), files=files, snapshot=snapshot)


def _check(dead: Mapping[str, BitMap], seen: TableFiles) -> None:
    """Raises InvalidArgument for what an engine must not answer: it would be in the way of every reader."""
    rows = {file.path: file.rows for file in seen.files}
    for file, positions in dead.items():
        if file not in rows:
            raise InvalidArgument(f"{file} is no file of {seen.name} that the transaction sees")
        if not positions or positions.max() >= rows[file]:
            raise InvalidArgument(
                f"{file} has {rows[file]} rows, and no row at {positions.max() if positions else None}"
            )


def _parts(dead: Mapping[str, BitMap]) -> Iterator[dict[str, BitMap]]:
    """What one write may say each."""
    part: dict[str, BitMap] = {}
    size = 0
    for file, positions in dead.items():
        positions.run_optimize()
        bytes_ = len(positions.serialize())
        more = bytes_ if bytes_ <= MAX_DELETED_BYTES else 0
        if part and (len(part) >= MAX_DELETED_FILES or size + more > MAX_DELETED_BYTES):
            yield part
            part, size = {}, 0
        part[file] = positions
        size += more
    if part:
        yield part


def _looked(changed: RowsChanged, snapshot: Timestamp) -> pb.Looked:
    return pb.Looked(
        snapshot=snapshot,
        ranges=[
            pb.ColumnRange(column=each.column, lowest=each.lowest.encode(), highest=each.highest.encode())
            for each in changed.looked
        ],
    )
