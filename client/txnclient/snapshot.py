"""Snapshot: every table as it was at one timestamp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txnclient import manifest, row_reads
from txnclient.manifest import DataFile
from txnclient.row_reads import RowChanges
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

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

    @property
    def rows(self) -> int:
        """In the files: row changes add to them, and take from them."""
        return sum(file.rows for file in self.files)


class Snapshot:
    """All tables at one timestamp: all of every transaction committed at or below it, nothing of any other.

    Reading never waits for a writer, and reading again returns the same rows.
    """

    def __init__(self, client: Client, timestamp: Timestamp) -> None:
        self.timestamp = timestamp
        self._client = client
        self._tables: dict[str, TableFiles] = {}

    def __repr__(self) -> str:
        return f"<Snapshot {self.timestamp}>"

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """The table as a Spark DataFrame: a native Parquet scan of exactly the snapshot's files."""
        from txnclient.spark import reader

        found = self.files(table)
        if found.changes is not None:
            from txnclient.spark import row_reader

            return row_reader.read_merged(spark, found.files, found.changes, found.schema)
        return reader.read_files(spark, found.files, found.schema)

    def to_arrow(
        self, table: str, columns: Sequence[str] | None = None, *, where: pc.Expression | None = None
    ) -> pa.Table:
        """The table as a pyarrow Table: some of its columns, and the rows for which `where` holds.

        By partition values and column statistics in the manifests, files without such rows are not even opened.
        """
        from txnclient import arrow

        found = self.files(table)
        if found.changes is not None:
            return row_reads.read(found.files, found.changes, found.schema, columns, where)
        return arrow.read_files(found.files, found.schema, columns, where)

    def files(self, table: str) -> TableFiles:
        """The table's files at the timestamp. Raises NotFound."""
        if table not in self._tables:
            response = self._client.call(
                "txnstatus.Table/Scan", pb.ScanRequest(table=table, timestamp=self.timestamp), pb.ScanResponse
            )
            listed = [manifest.read(ref) for ref in response.manifests]
            files = tuple(file for each in listed for file in each)
            schema = Schema.from_wire(response.table.schema)
            changes = RowChanges.of(response, self.timestamp, [len(each) for each in listed])
            self._tables[table] = TableFiles(response.table.name, schema, files, changes)
        return self._tables[table]
