"""What takes a span of a table's history back, in a transaction: copies of files and positions, or rows by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from txnclient.handle import Handle
from txnclient.history.effects import Copy, Inverse, inverse
from txnclient.read import diff
from txnclient.read.table_files import TableFiles
from txnclient.snapshot import Snapshot
from txnclient.write.deletes import described, parts_of
from txnclient.write.files import FileWrites, Opened
from txnclient.write.locks import Locks
from txnstatus.lake import absent, dead_rows, parallel
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import encode_keys
from txnstatus.lake.storage import duplicate, partition_directory
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap

# ---- tables without a primary key


def by_position(handle: Handle, table: str, old: Snapshot, new: Snapshot) -> bool:
    """Takes back what became of a table without a primary key after the first and up to the second snapshot.

    The transaction reads at the second one: whoever has changed since then what is to change now is in the way of its
    commit. Returns whether there was anything to do.
    """
    before, after = old.table_files(table), new.table_files(table)
    found = inverse(before, after)
    if found:
        with old.explained(table):
            _Reverting(handle, table, after).run(found)
    return bool(found)


class _Reverting:
    """The writes to one table."""

    def __init__(self, handle: Handle, table: str, after: TableFiles) -> None:
        self._handle, self._table, self._after = handle, table, after
        self._files = FileWrites(handle, Locks(handle))

    def run(self, wanted: Inverse) -> None:
        """What is replaced comes first: it would take the transaction's other files in those partitions, too."""
        if copies := wanted.copies_in(replaced=True):
            opened = self._files.open(self._table)
            made = _copied(copies, opened)
            mode = "overwrite" if wanted.replaced == {WHOLE_TABLE} else "overwrite_partitions"
            self._files.add_written(opened, made, mode, None, None)  # type: ignore[arg-type]
            self._add((), _dead(copies, made), self._shown(opened, made))
        copies = wanted.copies_in(replaced=False)
        if copies or wanted.dead:
            opened = self._files.open(self._table)
            made = _copied(copies, opened)
            self._add(made, dead_rows.union([wanted.dead, _dead(copies, made)]), self._shown(opened, made), opened)

    def _shown(self, opened: Opened, made: Sequence[DataFile]) -> TableFiles:
        """The table with the files of the write."""
        own = f"{self._handle.id}_{opened.write_id}", made
        return replace(self._after, files=(*self._after.files, *made), writes=(*self._after.writes, own))

    def _add(
        self,
        files: Sequence[DataFile],
        dead: Mapping[str, BitMap],
        shown: TableFiles,
        opened: Opened | None = None,
    ) -> None:
        """`opened`: the write of the files; further ones have what one may not say alone."""
        at = self._handle.snapshot.timestamp
        for number, part in enumerate(parts_of(dead) if dead or files else ()):
            into = opened if opened is not None and not number else self._files.open(self._table)
            self._files.add_changed(into, () if number else files, described(into.directory, shown, part, at))


def _copied(copies: Sequence[Copy], opened: Opened) -> list[DataFile]:
    """The files in the write's directory; not durable yet."""

    def copied(numbered: tuple[int, Copy]) -> DataFile:
        number, file = numbered[0], numbered[1].file
        name = f"{partition_directory(file.partition)}/part-{number:05}.parquet"
        path = f"{opened.directory}{quote(name, safe='/=')}"
        duplicate(file.path, path)
        return replace(file, path=path)

    return parallel.each(copied, list(enumerate(copies)))


def _dead(copies: Sequence[Copy], made: Sequence[DataFile]) -> dict[str, BitMap]:
    return {file.path: copy.dead for copy, file in zip(copies, made, strict=True) if copy.dead}


# ---- tables with one


@dataclass(frozen=True, slots=True)
class RowsBack:
    """What makes of a table with a primary key what it was."""

    rows: pa.Table
    """Rows that are to be there as they were, in the columns of then that there are still."""
    gone: pa.Table
    """Keys of rows that were not there."""
    keys: pa.Table
    """All keys of both."""


def by_key(table: str, old: Snapshot, new: Snapshot, schema: Schema) -> RowsBack | None:
    """What takes back what became of the rows after the first and up to the second snapshot; None: nothing has.

    `schema`: the table's of now, by whose names the rows are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with old.explained(table), new.explained(table):
        changes = new.changes_since(old, table)
        changed = changes.to_arrow()
    names, kinds = list(schema.primary_key), changed[diff.CHANGE_KIND]
    back = changed.filter(pc.is_in(kinds, value_set=pa.array([diff.DELETE, diff.UPDATE_BEFORE])))
    back = back.drop_columns([diff.CHANGE_KIND])
    came = changed.filter(pc.equal(kinds, diff.INSERT)).select(names)
    gone = came.filter(pc.invert(pc.is_in(encode_keys(came, schema), value_set=encode_keys(back, schema))))
    keys = pa.concat_tables([back.select(names), gone])
    return RowsBack(_called_now(back, changes.schema, schema), gone, keys) if keys.num_rows else None


def _called_now(rows: pa.Table, then: Schema, now: Schema) -> pa.Table:
    """The rows in the columns of now: what was dropped is gone, and what came since is as in all rows of before."""
    import pyarrow as pa

    called = {column.in_files: column.name for column in then.columns}
    columns = [
        rows[called[column.in_files]] if column.in_files in called else absent.column(field, rows.num_rows)
        for column, field in zip(now.columns, to_arrow(now), strict=True)
    ]
    return pa.Table.from_arrays(columns, names=[column.name for column in now.columns])


def changed_since(table: str, found: RowsBack, old: Snapshot, new: Snapshot, schema: Schema) -> pa.Table:
    """The keys among these of whose rows anything became between the two, be they now as they were."""
    import pyarrow as pa
    import pyarrow.compute as pc

    with old.explained(table), new.explained(table):
        changes = new.changes_since(old, table)
        if isinstance(changes, diff.KeyedChanges):
            touched = changes.touched()
        else:
            names = list(schema.primary_key)
            touched = pa.concat_tables([part.to_arrow(names) for part in changes.parts.values()])
    return found.keys.filter(pc.is_in(encode_keys(found.keys, schema), value_set=encode_keys(touched, schema)))
