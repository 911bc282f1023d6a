"""Bulk changes of tables with a primary key: files of new versions, and the positions of old ones, as one write.

It claims the keys that it changes, which are compared as those of row writes are. What is written by key is later than
the files of the same transaction: so what is in no file, or was changed by key in this transaction, goes on by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from txnclient.change.laid_out import LaidOut, laid_out, with_keys
from txnclient.change.plan import RowsChanged
from txnclient.formats import arrow
from txnclient.formats.partitions import Partition
from txnclient.handle import Handle
from txnclient.read.table_files import TableFiles
from txnclient.write.deletes import described, parts_of
from txnclient.write.files import FileWrites, Opened, Written, is_spark, session_of, write_files
from txnclient.write.keys import MAX_ROWS_HERE, KeyedFiles, changed_by_itself, claim_of
from txnclient.write.overwriting import require_bare
from txnclient.write.rows import RowWrites
from txnclient.write.staged_files import StagedFiles
from txnstatus.errors import AlreadyExists, RowsRefused
from txnstatus.lake import dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import check_keys, encode_keys, key_column, require_key, rows_schema
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Statement, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap
    from pyspark.sql import SparkSession

MAX_ROWS_BY_KEY = 10_000
"""Rows up to which a change goes by key."""
MAX_BYTES_BY_KEY = 400_000
"""Bytes of such rows."""


@dataclass(frozen=True, slots=True)
class _Bulk:
    """What a bulk change does to the rows that a transaction sees."""

    opened: Opened
    files: Sequence[DataFile]
    """Files of the new versions."""
    at: Timestamp
    """The timestamp of the transaction's snapshot."""
    seen: TableFiles
    there: LaidOut
    dead: Mapping[str, BitMap]
    """Rows of files of the table that it deletes or replaces."""
    gone: Any
    """Keys of loose rows that it does: a pyarrow Table."""
    from_writes: Sequence[str] = ()
    spark: SparkSession | None = field(default=None, compare=False)

    @property
    def added(self) -> TableFiles:
        """The new versions."""
        return TableFiles(self.opened.table, self.opened.schema, tuple(self.files))

    @property
    def keyed(self) -> KeyedFiles:
        opened = self.opened
        return KeyedFiles(opened.table, opened.schema, self.files, frozenset(), self.spark)


class KeyedWrites:
    """The bulk changes of one transaction. What they promise, `Transaction` says."""

    def __init__(self, handle: Handle, files: FileWrites, rows: RowWrites) -> None:
        self._handle, self._files, self._rows = handle, files, rows

    # ---- upserts

    def upsert(self, data: Any, table: str, partition: Partition | None, *, keys_are_new: bool) -> None:
        require_bare(partition, keys_are_new=keys_are_new)
        if not is_spark(data):
            data = arrow.as_table(data)
            if self._is_small(table, data.num_rows, data.nbytes):
                self._rows.write(pb.ROW_UPSERT, table, data)
                return
        opened = self._files.open(table)
        self._lock(opened)
        files = write_files(data, opened)
        self._upsert(opened, files, spark=session_of(data))

    def add(
        self, staged: Iterable[StagedFiles], table: str, partition: Partition | None, *, keys_are_new: bool
    ) -> None:
        """Upserts rows of staged files."""
        require_bare(partition, keys_are_new=keys_are_new)
        opened, files, from_writes = self._files.open_staged(staged, table)
        self._lock(opened)
        self._upsert(opened, files, from_writes)

    def _lock(self, opened: Opened) -> None:
        require_key(opened.schema, opened.table)
        self._files.locks_of(opened, Statement.MERGE).take([WHOLE_TABLE])

    def _upsert(
        self,
        opened: Opened,
        files: Sequence[DataFile],
        from_writes: Sequence[str] = (),
        spark: SparkSession | None = None,
    ) -> None:
        if not files:
            return
        seen = self._handle.snapshot.table_files(opened.table)
        with self._handle.snapshot.explained(opened.table):
            there, at = laid_out(seen), self._handle.snapshot.timestamp
            bulk = _Bulk(opened, files, at, seen, there, {}, _keys_of(there.loose, opened), from_writes, spark)
            claim = bulk.keyed.alone(at)
            dead, gone = _same_keys(bulk)
            self._finish(replace(bulk, dead=dead, gone=gone), claim)

    # ---- statements

    def change(self, opened: Opened, seen: TableFiles, changed: RowsChanged) -> None:
        """Raises InvalidArgument for a key that would come twice, AlreadyExists for one that is there."""
        count = changed.inserted + 2 * changed.updated + changed.deleted
        if not count:
            return
        with self._handle.snapshot.explained(opened.table):
            if count <= MAX_ROWS_BY_KEY:
                rows = _here(changed.rows, opened.schema)
                if self._is_small(opened.table, count, 0 if rows is None else rows.nbytes):
                    self._change_by_key(opened, seen, replace(changed, rows=rows))
                    return
            files = [] if changed.rows is None else write_files(changed.rows, opened)
            at = self._handle.snapshot.timestamp
            gone = _together(opened.schema, changed.gone)
            bulk = _Bulk(opened, files, at, seen, laid_out(seen), changed.dead, gone, spark=session_of(changed.rows))
            self._finish(bulk, _claim(bulk))

    def _change_by_key(self, opened: Opened, seen: TableFiles, changed: RowsChanged) -> None:
        """Row by row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        schema, table = opened.schema, opened.table
        rows = to_arrow(schema).empty_table() if changed.rows is None else changed.rows
        gone = _together(schema, _keys_at(seen, changed.dead), changed.gone)
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
                self._rows.write(change, table, part, schema)
            except RowsRefused as error:
                # A statement does all that it says, or nothing.
                raise AlreadyExists(error.message, hint="its rows are given keys that others have") from error

    def _is_small(self, table: str, rows: int, size: int) -> bool:
        return rows <= MAX_ROWS_BY_KEY and size <= MAX_BYTES_BY_KEY and self._rows.has_room(table, size)

    # ---- as files

    def _finish(self, bulk: _Bulk, claim: pb.KeyClaim) -> None:
        """New versions of what is by key are taken out of the files again, as rows of them that are dead at once."""
        import pyarrow.compute as pc

        opened, seen, schema = bulk.opened, bulk.seen, bulk.opened.schema
        by_key = _together(schema, bulk.gone, changed_by_itself(seen, bulk.at))
        taken_out = with_keys(bulk.added, by_key) if bulk.files else {}
        rows = bulk.added.at(taken_out).to_arrow()
        own = (f"{self._handle.id}_{opened.write_id}", bulk.files)
        both = replace(seen, files=(*seen.files, *bulk.files), writes=(*seen.writes, own))
        dead = dead_rows.union([bulk.dead, taken_out])
        for number, part in enumerate(parts_of(dead) if dead or bulk.files else ()):
            claim.own_writes = seen.own_writes + number
            into = opened if not number else self._files.open(opened.table)
            files, from_writes = ((), ()) if number else (bulk.files, bulk.from_writes)
            deletes = described(into.directory, both, part, bulk.at)
            self._files.add_changed(into, files, deletes, claim=claim, from_writes=from_writes)
        if rows.num_rows:
            self._rows.write(pb.ROW_UPSERT, opened.table, rows, schema)
        gone = bulk.gone.filter(pc.invert(pc.is_in(key_column(bulk.gone, schema), value_set=key_column(rows, schema))))
        if gone.num_rows:
            self._rows.write(pb.ROW_DELETE, opened.table, gone, schema)


def _here(rows: Any, schema: Schema) -> pa.Table | None:
    """The rows of a change, which are few."""
    if isinstance(rows, Written):
        return TableFiles("", schema, rows.files).to_arrow()
    found: pa.Table | None = rows.toArrow() if is_spark(rows) else rows
    return found


def _same_keys(bulk: _Bulk) -> tuple[Mapping[str, BitMap], pa.Table]:
    """What an upsert replaces: rows of files, and keys of loose rows."""
    import pyarrow.compute as pc

    schema, there = bulk.opened.schema, bulk.there
    near = bulk.keyed.near(there.files)
    loose = bulk.gone
    if not bulk.keyed.is_small:
        from txnclient.spark import key_search

        assert bulk.spark is not None
        dead = key_search.places(bulk.spark, bulk.files, near)
        return dead, _keys_at(bulk.added, with_keys(bulk.added, loose))
    keys = arrow.read_files(bulk.files, schema, list(schema.primary_key))
    gone = loose.filter(pc.is_in(key_column(loose, schema), value_set=key_column(keys, schema)))
    return with_keys(near, keys), gone


def _claim(bulk: _Bulk) -> pb.KeyClaim:
    """Raises InvalidArgument for a key that comes twice, AlreadyExists for one that a row has which stays."""
    import pyarrow.compute as pc

    schema, at = bulk.opened.schema, bulk.at
    if bulk.files:
        left = replace(bulk.there.files, dead=dead_rows.union([bulk.there.files.dead, bulk.dead]))
        loose = _keys_of(bulk.there.loose, bulk.opened)
        stay = loose.filter(pc.invert(pc.is_in(key_column(loose, schema), value_set=key_column(bulk.gone, schema))))
        bulk.keyed.beside(left, stay, at)
    count = sum(map(len, bulk.dead.values()))
    if bulk.keyed.rows + count <= MAX_ROWS_HERE:
        files = arrow.read_files(bulk.files, schema, list(schema.primary_key))
        keys = _together(schema, files, _keys_at(bulk.seen, bulk.dead))
        names = keys.column_names
        return claim_of(keys.group_by(names).aggregate([]).select(names), schema, at)
    touched = [file for file in bulk.seen.files if file.path in bulk.dead]
    return replace(bulk.keyed, files=[*bulk.files, *touched]).vouched(at)


def _keys_of(rows: pa.Table, opened: Opened) -> pa.Table:
    return rows.select(list(opened.schema.primary_key))


def _keys_at(there: TableFiles, positions: Mapping[str, BitMap]) -> pa.Table:
    return there.at(positions).to_arrow(list(there.schema.primary_key))


def _together(schema: Schema, *parts: pa.Table | None) -> pa.Table:
    """All keys."""
    import pyarrow as pa

    target = rows_schema(schema, deletes=True)
    return pa.concat_tables([target.empty_table(), *(part.cast(target) for part in parts if part is not None)])
