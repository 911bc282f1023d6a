"""Snapshot: every table as it was at one timestamp."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Self, overload
from urllib.parse import unquote

from txnclient.alive.leases import Lease
from txnclient.calls.requests import build
from txnclient.formats.partitions import Partition, name_of
from txnclient.read import diff, instants
from txnclient.read.table_files import TableFiles
from txnclient.session import Session
from txnclient.showing import facts
from txnclient.staying import Staying
from txnstatus.errors import DataDamaged, IllegalState, InternalError, InvalidArgument, NotFound
from txnstatus.lake import data_files
from txnstatus.lake.file_lists import has_bare
from txnstatus.lake.manifest import DataFile
from txnstatus.names import quoted
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import Timestamp, TxnId

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession


_READ_IT = "read it with to_arrow, to_batches, to_polars, to_pandas, to_duckdb, or read for Spark"


class Snapshot(Staying):
    """All tables at one timestamp: all of every transaction committed at or below it, nothing of any other.

    Reading never waits for a writer, and reading again returns the same rows. What was read of a table is kept from
    then on, by a lease that a background thread renews, until the snapshot is closed or garbage. What Spark reads it
    reads late: close the snapshot after the last action on its DataFrames, or let `with` do it.
    """

    instead = "send snapshot.timestamp, and there open client.snapshot(at=timestamp)"

    def __init__(self, session: Session, timestamp: Timestamp, txn_id: TxnId | None = None) -> None:
        """`txn_id`: the transaction whose own writes are seen, too."""
        self.timestamp = timestamp
        self._session = session
        self._txn_id = txn_id
        self._id = uuid.uuid4().hex
        self._tables: dict[str, TableFiles] = {}
        self._leases: dict[str, tuple[int, Lease]] = {}
        self._closed = False
        self._is_kept = False
        """Whether an older snapshot, which its owner keeps, holds what this one shows."""

    def __repr__(self) -> str:
        return f"<Snapshot {self.timestamp}>"

    def _repr_html_(self) -> str:
        """The snapshot as a notebook shows it."""
        state = "closed" if self._closed else "open"
        return facts(
            "Snapshot", {"timestamp": self.timestamp, "time": self.time, "state": state, "transaction": self._txn_id}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends its leases: what was overwritten since may be removed. Idempotent."""
        self._closed = True
        for key, _ in self._leases.values():
            self._session.leases.remove(key)
        self._leases.clear()

    @property
    def time(self) -> datetime:
        """The timestamp as a time of the day, in UTC."""
        return instants.to_datetime(self.timestamp)

    def read(
        self,
        spark: SparkSession,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        partition: Partition | None = None,
    ) -> DataFrame:
        """The table as a Spark DataFrame: a native Parquet scan of exactly the snapshot's files.

        `columns`: these alone, as `select` does; where Spark has no file system for the table its tasks read no others.
        `partition`: only that part of the table, by the files that are in it; the others are not even looked at. It is
        named as for `Transaction.write`.

        The frame keeps the snapshot from becoming garbage; frames that are made of it do not.

        Raises InvalidArgument: no such column, or partition.
        """
        from txnclient.spark import reader, row_reader

        found, name = self.table_files(table), WHOLE_TABLE
        if partition is not None:
            name = name_of(partition, found.schema, table)
            found = found.within(name)
        with self.explained(table):
            frame = row_reader.read_table(spark, found.with_columns(columns), name)
            return reader.keeping(self, frame if columns is None else frame.select(*map(quoted, columns)))

    def to_arrow(
        self, table: str, columns: Sequence[str] | None = None, *, where: pc.Expression | None = None
    ) -> pa.Table:
        """The table as a pyarrow Table: some of its columns, and the rows for which `where` holds.

        By partition values and column statistics in the manifests, files without such rows are not even opened.
        """
        found = self.table_files(table)
        with self.explained(table):
            return found.to_arrow(columns, where)

    def to_pandas(
        self, table: str, columns: Sequence[str] | None = None, *, where: pc.Expression | None = None
    ) -> pd.DataFrame:
        """As `to_arrow`, as a pandas DataFrame. Needs `txnstatus[pandas]`."""
        return self.to_arrow(table, columns, where=where).to_pandas()

    @overload
    def to_polars(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: pc.Expression | None = None,
        lazy: Literal[False] = False,
    ) -> pl.DataFrame: ...
    @overload
    def to_polars(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: pc.Expression | None = None,
        lazy: Literal[True],
    ) -> pl.LazyFrame: ...
    def to_polars(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        where: pc.Expression | None = None,
        lazy: bool = False,
    ) -> pl.DataFrame | pl.LazyFrame:
        """As `to_arrow`, as a polars DataFrame. Needs `txnstatus[polars]`.

        `lazy`: a LazyFrame over `to_dataset`, which reads what a query needs when it is collected.
        """
        import polars as pl

        if lazy:
            dataset = self.to_dataset(table)
            names = dataset.schema.names if columns is None else self.table_files(table).target(columns).names
            return pl.scan_pyarrow_dataset(dataset if where is None else dataset.filter(where)).select(names)
        frame = pl.from_arrow(self.to_arrow(table, columns, where=where))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_dataset(self, table: str) -> ds.Dataset:
        """The table as a pyarrow Dataset, for whatever scans such: polars, Dask, Ray, DataFusion.

        Files are read when it is scanned, and pages are verified: keep the snapshot, and do not close it, until then.
        A table with row changes, deleted rows or renamed columns is read now, all of it. Filters are pyarrow's, whoever
        says them: no comparison but `!=` holds for a NaN.
        """
        import pyarrow.dataset as ds

        found = self.table_files(table)
        with self.explained(table):
            as_they_are = found.files and found.are_the_table and not found.schema.is_renamed
            return found.dataset() if as_they_are else ds.dataset(found.to_arrow())

    def to_duckdb(self, table: str, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The table as a relation of the DuckDB connection, by default the usual one. Needs `txnstatus[duckdb]`.

        DuckDB scans what a query needs of the files, when it needs it: the relation, and those made of it, keep the
        snapshot from becoming garbage; close the snapshot after the last query. A table with row changes or deleted
        rows is read now, all of it. DuckDB's error of a damaged file has the text of DataDamaged in it.
        """
        import duckdb

        from txnclient.read.scanned_later import ScannedLater, called

        if not isinstance(connection, duckdb.DuckDBPyConnection | None):
            raise InvalidArgument(
                f"the connection of DuckDB is a {type(connection).__name__}",
                hint="choose columns and rows of the relation: .project('id'), .filter('id > 1')",
            )
        found, wanted = self.table_files(table), connection or duckdb.default_connection()
        with self.explained(table):
            if not (found.files and found.are_the_table):
                return wanted.from_arrow(found.to_arrow())
            rows = ScannedLater(found.dataset(), found.files, lambda: self.explained(table))
            relation = wanted.from_arrow(rows)
            return relation.project(called(found.schema)) if found.schema.is_renamed else relation

    def to_batches(
        self, table: str, columns: Sequence[str] | None = None, *, where: pc.Expression | None = None
    ) -> pa.RecordBatchReader:
        """As `to_arrow`, a batch at a time, for what does not fit into memory. Row changes alone are held in it.

        Close the snapshot after the last batch. An error of reading comes with the batch that it concerns.
        """
        import pyarrow as pa

        found = self.table_files(table)

        def batches() -> Iterator[pa.RecordBatch]:
            with self.explained(table):
                yield from found.batches(columns, where)

        return pa.RecordBatchReader.from_batches(found.target(columns), batches())

    def files(self, table: str) -> TableFiles:
        """The table's files at the timestamp, for whatever reads Parquet: they are the table, no row more and no less.

        They stay while this snapshot or what is returned here is not garbage, unless the snapshot is closed: keep one
        of them until the last file is read.

        Raises IllegalState for a table with row changes or deleted rows, which its files alone do not show, or with
        files that lack columns which are no nulls there, and which the names of their directories tell, or the table;
        NotFound for a table that there is not, or
        was not then; SnapshotTooOld when what was visible then is removed; IllegalState once the snapshot is closed.
        """
        found = self.table_files(table)
        if not found.are_the_table:
            raise IllegalState(
                f"table {table} has {'deleted rows' if found.changes is None else 'row changes'} at {self.timestamp}: "
                "its files alone are not the table",
                hint=_READ_IT,
            )
        if has_bare(found.files):
            raise IllegalState(
                f"files of table {table} do not have the columns {', '.join(found.schema.partition_by)}, which their "
                "places tell",
                hint=_READ_IT,
            )
        if filled := found.schema.fills:
            raise IllegalState(
                f"files of table {table} do not have its column {filled[0].name!r}, which is no null there",
                hint=_READ_IT,
            )
        return replace(found, lease=self._leases[table][1])

    @contextlib.contextmanager
    def explained(self, table: str) -> Iterator[None]:
        """Makes plain what goes wrong within the block as files of the table are read, by whatever engine.

        Raises SnapshotTooOld for a file that is gone since leases were not renewed in time. Raises DataDamaged, naming
        table and file, for one that is not what was written, or is gone otherwise: in place of Spark's error, too,
        which a job raises that read a frame of this snapshot, `with snapshot.explained(table): frame.collect()`.
        """
        try:
            yield
        except (OSError, InternalError) as error:
            self.scan(table)
            if isinstance(error, DataDamaged):
                raise error.of_table(table) from error
            if isinstance(error, FileNotFoundError) or isinstance(error.__cause__, FileNotFoundError):
                said = error.message if isinstance(error, InternalError) else str(error)
                raise data_files.missing(said).of_table(table) from error
            raise
        except _engine_errors() as error:
            files = TableFiles.of(self.scan(table), self.timestamp).files
            for file in (file for file in files if _name(file) in str(error)):
                try:
                    fault = data_files.examine(file)
                except FileNotFoundError as missing:
                    raise data_files.missing(str(missing)).of_table(table) from error
                if fault:
                    raise data_files.damaged(file, fault).of_table(table) from error
            raise

    # ---- for the parts of this package

    def table_files(self, table: str) -> TableFiles:
        """Files and row changes of the table, from what is seen. Raises as `files` does, but for row changes."""
        self._require_leased(table)
        found = self._tables.get(table)
        if found is None or self._closed:
            response = self.scan(table)
            with self.explained(table):
                found = TableFiles.of(response, self.timestamp)
            if self._txn_id is None:  # what a transaction sees changes with its own writes
                self._tables[table] = found
        return found

    def require(self, table: str) -> None:
        """Raises IllegalState once the client is closed, and why the table is not kept any more."""
        self._session.require_open()
        self._require_leased(table)

    def _require_leased(self, table: str) -> None:
        if table in self._leases:
            self._leases[table][1].require()

    def scan(self, table: str, since: Timestamp | None = None) -> pb.ScanResponse:
        """The manifests of what is seen, leased; with what was compacted since a timestamp. Raises as `files` does."""
        if self._closed:
            raise IllegalState(f"the snapshot at {self.timestamp} is closed", hint="read before it is closed")
        request = build(
            pb.ScanRequest,
            table=table,
            timestamp=self.timestamp,
            lease_id=self._id,
            leased=table in self._leases or self._is_kept,
            txn_id=self._txn_id,
            owner="" if self._txn_id is None else self._session.owner,
            lineages_above=since,
        )
        sent_at = time.monotonic()
        response = self._session.call("txnstatus.Table/Scan", request, pb.ScanResponse)
        if table not in self._leases:
            lease = Lease(self._id, table, self.timestamp, response.lease_millis)
            self._leases[table] = self._session.leases.add(lease, sent_at), lease
        return response

    def later(self, at: Timestamp) -> Snapshot:
        """A snapshot at a later timestamp, of tables that this one has read and keeps, however old they are.

        Raises InvalidArgument for one that is before it.
        """
        if at < self.timestamp:
            raise InvalidArgument(f"timestamp {at} is before the snapshot's, {self.timestamp}")
        found = Snapshot(self._session, at)
        found._is_kept = True
        return found

    def changes_since(self, old: Snapshot, table: str) -> diff.Changes | diff.KeyedChanges:
        """Raises as `files` does; InvalidArgument for an `old` that is newer; IllegalState where the two see different
        tables by this name.
        """
        if old.timestamp > self.timestamp:
            raise InvalidArgument(f"since {old.timestamp} is after until {self.timestamp}: nothing lies between")
        after = self.scan(table, old.timestamp)
        try:
            before = old.scan(table)
        except NotFound:
            before = pb.ScanResponse(table=after.table)  # it was created since: all that it holds has come
        if before.table.table_id != after.table.table_id:
            raise IllegalState(
                f"table {table} at {old.timestamp} is not the one at {self.timestamp}: that was dropped or renamed "
                "since, and another one has its name",
                hint="a table that was renamed goes on by its new name; for another one, ask since it was created",
            )
        with old.explained(table):
            return diff.between(before, after, old.timestamp, self.timestamp, lambda at: old._later(table, at))

    def _later(self, table: str, at: Timestamp) -> pb.ScanResponse:
        """What is seen at a later timestamp, leased with this one."""
        lease_id = f"{self._id}_{at}"
        request = build(pb.ScanRequest, table=table, timestamp=at, lease_id=lease_id, leased=True)
        sent_at = time.monotonic()
        response = self._session.call("txnstatus.Table/Scan", request, pb.ScanResponse)
        lease = Lease(lease_id, table, at, response.lease_millis)
        self._leases[lease_id] = self._session.leases.add(lease, sent_at), lease
        return response


def _name(file: DataFile) -> str:
    """The end of its path, which is in whatever error names it."""
    return "/".join(unquote(file.path).rsplit("/", 2)[1:])


def _engine_errors() -> tuple[type[Exception], ...]:
    """Errors of Spark's jobs, where it is loaded."""
    py4j = sys.modules.get("py4j.protocol")
    spark = sys.modules.get("pyspark.errors")
    return tuple(each for each in (py4j and py4j.Py4JError, spark and spark.PySparkException) if each)
