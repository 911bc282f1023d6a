"""Importing: tables of other formats come in, with their files where they are, or copied; and others read ours.

What reads and writes these formats is imported where it is called: most programs never do.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from txnclient.calls.requests import checked_place
from txnclient.client import publication
from txnclient.client.making import unmake
from txnclient.client.publication import Publication
from txnclient.client.tables import Tables
from txnclient.history.timeline import Timeline, is_undone
from txnclient.info import TableInfo
from txnclient.outcome import CommitReceipt
from txnclient.outgoing.iceberg_versions import IcebergVersion
from txnclient.snapshot import Snapshot
from txnclient.transaction.beginning import begin
from txnclient.write.files import Written
from txnstatus.errors import InvalidArgument
from txnstatus.lake.storage import file_system

if TYPE_CHECKING:
    from txnclient.incoming.source import Source

LABEL = "import"


class Importing(Tables, Timeline):
    """What a `Client` does with tables that others have made, and for others who read its tables."""

    def import_files(
        self,
        table: str,
        path: str,
        *,
        copy: bool = False,
        create: bool = False,
        primary_key: Sequence[str] = (),
        location: str | None = None,
    ) -> CommitReceipt:
        """Adds all rows of a directory of Parquet files, a Delta table or an Iceberg table, in one transaction.

        `path`: its directory, a URI or a path on this machine. What it is shows by what lies in it: `_delta_log` is a
        Delta table, at its current version (needs `deltalake`), `metadata/*.metadata.json` an Iceberg table, at its
        current snapshot (needs `pyiceberg`; `txnstatus[import]` has both). All else is a directory of Parquet files, at
        whatever depth, without those that Spark takes for hidden; names as `month=1` tell values of columns.

        Without `copy` the files become the table's as they lie there; columns that directories tell must be those that
        the table is partitioned by. They are never changed or removed: not when the table is compacted, overwritten,
        cleaned or dropped. Whoever reads them by their old path goes on to do so. From
        then on nobody may change or remove them, and what is added to the directory is not the table's. Each footer is
        looked at; nothing is read beyond that, unless the table has a primary key. With `copy` the rows are read and
        written into files of the table.

        A file comes in once: those that came in are passed over, be their rows written anew by compactions since, or
        changed, or deleted, and the receipt says which (`passed_over`). One whose import was undone comes in again.
        What was copied is not known by its files.

        `create`: makes the table, of the source's columns, with this primary key and location, partitioned by what
        directories tell; it must not be there. Where the import fails it is dropped, unless there are rows in it.

        Raises InvalidArgument, naming the file: for one of another schema, and for what cannot be read in place, which
        says so; AlreadyExists for a file that came in and was written anew since, or was taken back by an undo and no
        compaction has come since, for a key that the table has, and with `create` for a table that is there; NotFound.
        """
        from txnclient.incoming import adopting

        root, places = root_of(path), [each.location for each in self.tables()]
        adopting.require_apart([root], places)
        source = look(root)
        adopting.require_apart(source.directories, places)
        if create:
            split_by = list(source.files[0].values) if source.files else []
            info = self.create_table(
                table, source.schema, partition_by=split_by, primary_key=primary_key, location=location
            )
            try:
                adopting.require_apart(source.directories, [info.location])
                return self._imported(info, source, copy)
            except BaseException:
                unmake(self, table, info.table_id)
                raise
        if primary_key or location:
            raise InvalidArgument("a primary_key and a location are of a new table", hint="say create=True")
        return self._imported(self.table(table), source, copy)

    def publication(self, table: str) -> Publication:
        """How far the log of a published table has come: read from where it lies, so that must be within reach.

        Raises NotFound, InvalidArgument for a table that is not published, InternalError for a log that does not read.
        """
        return publication.look(self.session, table)

    def publish_iceberg(self, table: str, to: str) -> IcebergVersion:
        """Writes Iceberg metadata of the table as it is now into a directory, for whoever reads Iceberg.

        It names the table's files where they lie: no data is written but, where rows are deleted, one file of their
        positions. `to`: a directory of this machine's file systems, a path or a URI, beyond the locations of tables and
        of this table's metadata alone; what is written there is `metadata/vN.metadata.json` and what that names, N one
        more than before, and `version-hint.text`. Where the newest version is of this very state, none is written.
        Nothing there is ever removed. It may be read as long as its files are there: what is overwritten goes after
        `snapshot_retention_seconds`. Needs `txnstatus[import]`.

        Raises InvalidArgument for a directory that cannot be; IllegalState: for a table with changes by key since its
        last major compaction, or with files without the columns that it is partitioned by; where the directory
        has metadata of something else, or somebody else has written there, or writes just now; NotFound.
        """
        from txnclient.outgoing import iceberg_versions

        return iceberg_versions.publish(self.session, table, to, [each.location for each in self.tables()])

    def _imported(self, info: TableInfo, source: Source, copy: bool) -> CommitReceipt:
        return self._copied(info, source) if copy else self._adopted(info, source)

    def _copied(self, info: TableInfo, source: Source) -> CommitReceipt:
        (txn,), _ = begin(self.session, 1, LABEL, 0, uuid.uuid4().hex, tables=[info.name])
        with txn:
            txn.write(source.rows(), info.name)
            return txn.commit()

    def _adopted(self, info: TableInfo, source: Source) -> CommitReceipt:
        """Import in place: of two into one table one waits for the other, so that no file comes in twice."""
        from txnclient.incoming import adopting

        adopting.require_reachable(source, info.location)
        files = adopting.described(source, info.schema, info.name)
        (txn,), _ = begin(self.session, 1, LABEL, 0, uuid.uuid4().hex, near=info.name)
        with txn:
            txn.lock(info.name, "X")
            with Snapshot(self.session, self.session.last_commit()) as now:
                there = now.table_files(info.name)
            new = adopting.new_among(files, there.files, there.dead, info.name, cache(partial(is_undone, self)))
            if new:
                txn.write(Written([adopting.came_by(each, txn.id) for each in new], None), info.name)
            added = {file.path for file in new}
            return replace(txn.commit(), passed_over=tuple(file.path for file in files if file.path not in added))


def root_of(path: str) -> str:
    """The URI of a directory, given as one or as a path on this machine. Raises InvalidArgument."""
    checked_place(path, "path")
    return path.rstrip("/") if "://" in path else f"file://{quote(str(Path(path).resolve()), safe='/=')}"


def look(root: str) -> Source:
    """The table in a directory. Raises InvalidArgument."""
    from txnclient.incoming import delta, iceberg, parquet

    system, directory = file_system(root)
    if system.get_file_info(f"{directory}/{delta.LOG}").type.name == "Directory":
        return delta.look(root)
    return iceberg.look(root) if iceberg.newest(root) else parquet.look(root)
