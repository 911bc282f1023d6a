"""Snapshot: every table as it was at one timestamp."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from txnclient.alive.leases import Lease
from txnclient.calls.requests import build
from txnclient.formats import manifest
from txnclient.formats.manifest import DataFile
from txnclient.read import instants, row_reads
from txnclient.read.row_reads import RowChanges
from txnclient.write.overwriting import name_of
from txnstatus.errors import IllegalState, InternalError
from txnstatus.partitions import WHOLE_TABLE, covers
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp, TxnId

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

    from txnclient.client import Client


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What a reader sees of one table: a list of files, and the schema they are read with."""

    name: str
    schema: Schema
    files: tuple[DataFile, ...]
    changes: RowChanges | None = None
    """What was changed row by row, where anything was."""

    @classmethod
    def of(cls, response: pb.ScanResponse, at: Timestamp) -> TableFiles:
        """Reads the manifests, and raises what that raises. `at`: the timestamp of the scan."""
        listed = [manifest.read(ref) for ref in response.manifests]
        changes = RowChanges.of(response, at, [len(each) for each in listed])
        files = tuple(file for each in listed for file in each)
        return cls(response.table.name, Schema.from_wire(response.table.schema), files, changes)

    @property
    def rows(self) -> int:
        """In the files: row changes add to them, and take from them."""
        return sum(file.rows for file in self.files)

    def within(self, partition: str) -> TableFiles:
        """Those that are in the partition, which have no other rows. Row changes stay: they may be of any."""
        kept = [covers([partition], file.partition) for file in self.files]
        changes = self.changes and replace(self.changes, file_times=tuple(compress(self.changes.file_times, kept)))
        return replace(self, files=tuple(compress(self.files, kept)), changes=changes)

    def to_arrow(self, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """As `Snapshot.to_arrow`."""
        from txnclient.formats import arrow

        if self.changes is not None:
            return row_reads.read(self.files, self.changes, self.schema, columns, where)
        return arrow.read_files(self.files, self.schema, columns, where)

    def to_spark(self, spark: SparkSession, partition: str = WHOLE_TABLE) -> DataFrame:
        """`partition`: the part of the table that the files are in."""
        from txnclient.spark import reader, row_reader

        if self.changes is not None:
            return row_reader.read_merged(spark, self.files, self.changes, self.schema, partition)
        return reader.read_files(spark, self.files, self.schema)


class Snapshot:
    """All tables at one timestamp: all of every transaction committed at or below it, nothing of any other.

    Reading never waits for a writer, and reading again returns the same rows. What was read of a table is kept from
    then on, by a lease that a background thread renews, until the snapshot is closed or garbage. What Spark reads it
    reads late: close the snapshot after the last action on its DataFrames, or let `with` do it.
    """

    def __init__(self, client: Client, timestamp: Timestamp, txn_id: TxnId | None = None) -> None:
        """`txn_id`: the transaction whose own writes are seen, too."""
        self.timestamp = timestamp
        self._client = client
        self._txn_id = txn_id
        self._id = uuid.uuid4().hex
        self._tables: dict[str, TableFiles] = {}
        self._leases: dict[str, tuple[int, Lease]] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<Snapshot {self.timestamp}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends its leases: what was overwritten since may be removed. Idempotent."""
        self._closed = True
        for key, _ in self._leases.values():
            self._client.leases.remove(key)
        self._leases.clear()

    @property
    def time(self) -> datetime:
        """The timestamp as a time of the day, in UTC."""
        return instants.to_datetime(self.timestamp)

    def read(self, spark: SparkSession, table: str, *, partition: str | Mapping[str, Any] | None = None) -> DataFrame:
        """The table as a Spark DataFrame: a native Parquet scan of exactly the snapshot's files.

        `partition`: of the table only that part, by the files that are in it; the others are not even looked at. It is
        named as for `Transaction.write`.

        The frame keeps the snapshot from becoming garbage; frames that are made of it do not.

        Raises InvalidArgument: no such partition.
        """
        from txnclient.spark import reader

        found, name = self.files(table), WHOLE_TABLE
        if partition is not None:
            name = name_of(partition, found.schema, table)
            found = found.within(name)
        return reader.keeping(self, found.to_spark(spark, name))

    def to_arrow(
        self, table: str, columns: Sequence[str] | None = None, *, where: pc.Expression | None = None
    ) -> pa.Table:
        """The table as a pyarrow Table: some of its columns, and the rows for which `where` holds.

        By partition values and column statistics in the manifests, files without such rows are not even opened.
        """
        found = self.files(table)
        with self.explained(table):
            return found.to_arrow(columns, where)

    def files(self, table: str) -> TableFiles:
        """The table's files at the timestamp.

        Raises NotFound for a table that there is not, or was not then; SnapshotTooOld when what was visible then is
        removed; IllegalState once the snapshot is closed.
        """
        if table in self._leases:
            self._leases[table][1].require()
        found = self._tables.get(table)
        if found is None or self._closed:
            response = self.scan(table)
            with self.explained(table):
                found = TableFiles.of(response, self.timestamp)
            if self._txn_id is None:  # what a transaction sees changes with its own writes
                self._tables[table] = found
        return found

    # ---- for the parts of this package

    def scan(self, table: str) -> pb.ScanResponse:
        """The manifests of what is seen, leased. Raises as `files` does."""
        if self._closed:
            raise IllegalState(f"the snapshot at {self.timestamp} is closed", hint="read before it is closed")
        request = build(
            pb.ScanRequest,
            table=table,
            timestamp=self.timestamp,
            lease_id=self._id,
            leased=table in self._leases,
            txn_id=self._txn_id,
            owner="" if self._txn_id is None else self._client.owner,
        )
        sent_at = time.monotonic()
        response = self._client.call("txnstatus.Table/Scan", request, pb.ScanResponse)
        if table not in self._leases:
            lease = Lease(self._id, table, self.timestamp, response.lease_millis)
            self._leases[table] = self._client.leases.add(lease, sent_at), lease
        return response

    @contextlib.contextmanager
    def explained(self, table: str) -> Iterator[None]:
        """A file that is not there may have been removed, if leases were not renewed in time: asks, and says so."""
        try:
            yield
        except (OSError, InternalError):
            self.scan(table)
            raise
