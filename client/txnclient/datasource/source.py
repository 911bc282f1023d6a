"""The data source: which reader or writer does what a program asks for by options."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from txnclient.client.client import Client
from txnclient.datasource import options, parts
from txnclient.datasource.clients import connected
from txnclient.datasource.parts import COMMIT_TIMESTAMP, OTHERS, TABLE, Part
from txnclient.datasource.shown import Shown
from txnclient.datasource.writing import Writer
from txnclient.read.diff import CHANGE_KIND
from txnclient.snapshot import Snapshot
from txnstatus.errors import InvalidArgument
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_kept: list[Snapshot] = []
"""Snapshots of what this process has planned last: their leases last as long as it does, a minute when it is idle."""
KEPT = 20


def register(spark: SparkSession) -> None:
    """Has the session know the format `txn`, where its driver had looked for formats before this package was there."""
    spark.dataSource.register(TxnSource)


class TxnSource(DataSource):
    """The format `txn`. Options are in docs/streaming.md."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return "txn"

    def schema(self) -> str:
        asked = options.parse(self.options)
        client = self._client(asked)
        point = asked.until if asked.shows_changes and not asked.changes else asked.as_of
        if point is None:
            schemas = {table: client.table(table).schema for table in asked.tables}
        else:  # what is read is called as it was then
            with client.snapshot(point) as then:
                schemas = {table: Schema.from_wire(then.scan(table).table.schema) for table in asked.tables}
        first = schemas[asked.tables[0]]
        for table, schema in schemas.items():
            if _shape(schema) != _shape(first):
                raise InvalidArgument(
                    f"tables {asked.tables[0]} and {table} have different columns: one stream reads tables of the same",
                    hint="read each as a stream of its own",
                )
        more = [f"{CHANGE_KIND} string"] if asked.shows_changes else []
        if asked.changes:
            more.append(f"{COMMIT_TIMESTAMP} bigint")
        if len(asked.tables) > 1:
            more.append(f"{TABLE} string")
        return parts.ddl(first, more)

    def reader(self, schema: StructType) -> DataSourceReader:
        asked = options.parse(self.options)
        if asked.changes:
            raise InvalidArgument("changes is for readStream; since and until read what has changed between them")
        return _Reader(asked, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from txnclient.datasource.following import StreamReader

        asked = options.parse(self.options)
        return StreamReader(asked, schema, lambda: self._client(asked))

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        asked = options.parse(self.options)
        return Writer.begun(self._client(asked), asked, schema, overwrites=overwrite)

    @staticmethod
    def _client(asked: options.Options) -> Client:
        return connected(asked.cluster, asked.owner)


class _Reader(DataSourceReader):
    """One read of a table at a timestamp, or of what has changed between two."""

    def __init__(self, asked: options.Options, schema: StructType) -> None:
        self._asked, self._schema = asked, schema

    def partitions(self) -> Sequence[InputPartition]:
        asked = self._asked
        client = connected(asked.cluster, asked.owner)
        if not asked.shows_changes:
            snapshot = _keep(client.snapshot(asked.as_of))
            found = snapshot.table_files(asked.table)
            names = self._called(found.schema)
            return [Part(each, names) for each in parts.split(found)]
        if asked.since is None:
            raise InvalidArgument("until says no since: changes are those between two points")
        old, new = _keep(client.snapshot(asked.since)), _keep(client.snapshot(asked.until))
        changes = new.changes_since(old, asked.table)
        return [Part(changes, self._called(changes.schema))]

    def _called(self, schema: Schema) -> dict[str, str]:
        return Shown.of(self._schema, schema, self._asked.table, OTHERS).called_in(schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return parts.read(partition, self._schema)


def _keep(snapshot: Snapshot) -> Snapshot:
    _kept.append(snapshot)
    del _kept[:-KEPT]
    return snapshot


def _shape(schema: Schema) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in schema.columns]
