"""The format `txn` reads and follows tables whose columns are renamed, dropped and widened meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from txnclient import Client, IllegalState
from txnclient.datasource.following import StreamReader
from txnclient.datasource.options import LATEST, parse
from txndeploy.local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    for query in spark.streams.active:
        query.stop()


class Follower:
    """A query that follows a table, one commit a batch."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, table: str, directory: Path) -> None:
        self.spark, self.cluster, self.table = spark, cluster, table
        self.checkpoint = str(directory / "checkpoint")

    def load(self) -> DataFrame:
        source = self.spark.readStream.format("txn").option("cluster", self.cluster.addresses)
        return source.options(table=self.table, changes="true", maxCommitsPerTrigger="1").load()

    def run(self, frame: DataFrame | None = None) -> list[Row]:
        """All rows that a start of the query shows, in the order of their commits."""
        shown: list[Row] = []

        def each(batch: DataFrame, _: int) -> None:
            batch = batch.drop("_commit_timestamp", "_change_kind").orderBy("id")
            shown.extend(row.asDict() for row in batch.collect())

        wanted = self.load() if frame is None else frame
        writer = wanted.writeStream.foreachBatch(each).option("checkpointLocation", self.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination(120)
        return shown


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.campaign)], ids=["without a key", "with a key"])
def table(request: pytest.FixtureRequest, new_table: NewTable) -> str:
    return new_table("id bigint, v int, w string", primary_key=["id"] if request.param else ())


def write(client: Client, table: str, number: int, **values: object) -> int:
    """A commit of one row."""
    schema = client.table(table).schema
    kinds = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
    columns = {each.name: pa.array([{"id": number, **values}[each.name]], kinds[each.type]) for each in schema.columns}
    return client.write(pa.table(columns), table, mode="append").commit_timestamp


def test_a_read_of_then_has_the_columns_of_then(
    session: SparkSession, cluster: LocalCluster, client: Client, table: str
) -> None:
    first = write(client, table, 1, v=1, w="a")
    client.alter_table(table, rename={"v": "u"}, drop=["w"], add="v bigint")
    second = write(client, table, 2, u=2, v=20)
    client.alter_table(table, widen={"u": "bigint"}, drop=["v"])
    write(client, table, 3, u=1 << 40)

    def read(**options: object) -> list[Row]:
        reader = session.read.format("txn").options(cluster=cluster.addresses, table=table, **options)
        return sorted((row.asDict() for row in reader.load().collect()), key=lambda row: row["id"])

    assert read() == [{"id": 1, "u": 1}, {"id": 2, "u": 2}, {"id": 3, "u": 1 << 40}]
    assert read(asOf=first) == [{"id": 1, "v": 1, "w": "a"}]
    assert read(asOf=second) == [{"id": 1, "u": 1, "v": None}, {"id": 2, "u": 2, "v": 20}]
    assert read(since=first, until=second) == [{"id": 2, "u": 2, "v": 20, "_change_kind": "insert"}]
    assert read(since=second) == [{"id": 3, "u": 1 << 40, "_change_kind": "insert"}]
    frame = session.read.format("txn").options(cluster=cluster.addresses, table=table).load()
    client.alter_table(table, rename={"u": "x"})
    with pytest.raises(Exception, match=r"column 'u' is not a column of table .*: it has id, x"):
        frame.collect()


def test_a_query_that_runs_goes_on_by_the_names_of_its_beginning(
    cluster: LocalCluster, client: Client, table: str
) -> None:
    """Be such a name another column's by now."""
    asked = parse({"cluster": cluster.addresses, "table": table, "startingTimestamp": LATEST, "changes": "true"})
    schema = StructType().add("id", "long").add("v", "integer").add("w", "string")
    reader = StreamReader(asked, schema, lambda: client)
    offsets = [reader.initialOffset()]

    def shown() -> list[Row]:
        start = offsets[-1]
        offsets.append(reader.latestOffset(start, ReadAllAvailable()))
        batches = [batch for part in reader.partitions(start, offsets[-1]) for batch in reader.read(part)]
        reader.commit(start)
        return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])

    write(client, table, 1, v=1, w="a")
    client.alter_table(table, rename={"v": "u"}, add="v int")
    write(client, table, 2, u=2, w="b", v=-2)
    assert shown() == [{"id": 1, "v": 1, "w": "a"}, {"id": 2, "v": 2, "w": "b"}]
    client.alter_table(table, widen={"v": "bigint"})
    client.alter_table(table, drop=["v"])
    write(client, table, 3, u=3, w="c")
    assert shown() == [{"id": 3, "v": 3, "w": "c"}], "it has never shown what was widened and dropped"
    client.alter_table(table, widen={"u": "bigint"})
    write(client, table, 4, u=4, w="d")
    with pytest.raises(IllegalState, match=f"column 'v' of table {table} became bigint since it is followed as int"):
        shown()
    client.alter_table(table, drop=["u"])
    write(client, table, 5, w="e")
    with pytest.raises(IllegalState, match=f"column 'v' of table {table} "):
        shown()
    reader.stop()


def test_commits_of_before_a_column_have_what_it_came_with(cluster: LocalCluster, client: Client, table: str) -> None:
    begun = client.snapshot().timestamp
    write(client, table, 1, v=1, w="a")
    client.alter_table(table, add="n int DEFAULT 5, t timestamp DEFAULT '2024-01-01 10:00:00Z', e string")
    client.alter_table(table, defaults={"n": 6, "t": None})
    client.write(pa.table({"id": [2], "v": pa.array([2], pa.int32()), "w": ["b"]}), table)
    asked = parse({"cluster": cluster.addresses, "table": table, "startingTimestamp": str(begun)})
    reader = StreamReader(
        asked, StructType().add("id", "long").add("n", "integer").add("t", "timestamp"), lambda: client
    )
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    at = datetime(2024, 1, 1, 10, tzinfo=UTC)
    assert rows == [{"id": 1, "n": 5, "t": at}, {"id": 2, "n": 6, "t": None}]
    reader.stop()


def test_a_query_that_starts_again_has_the_new_names_also_of_commits_of_before(
    session: SparkSession, cluster: LocalCluster, client: Client, table: str, tmp_path: Path
) -> None:
    query = Follower(session, cluster, table, tmp_path)
    write(client, table, 1, v=1, w="a")
    assert query.run() == [{"id": 1, "v": 1, "w": "a"}]
    write(client, table, 2, v=2, w="b")
    client.alter_table(table, rename={"v": "u", "w": "note"}, add="v int")
    write(client, table, 3, u=3, note="c", v=-3)
    assert query.run() == [{"id": 2, "u": 2, "note": "b", "v": None}, {"id": 3, "u": 3, "note": "c", "v": -3}]


def test_a_query_is_told_of_what_it_cannot_show_any_more(
    session: SparkSession, cluster: LocalCluster, client: Client, table: str, tmp_path: Path
) -> None:
    query = Follower(session, cluster, table, tmp_path)
    write(client, table, 1, v=1, w="a")
    frame = query.load()
    assert query.run(frame) == [{"id": 1, "v": 1, "w": "a"}]
    client.alter_table(table, widen={"v": "bigint"})
    write(client, table, 2, v=1 << 40, w="b")
    with pytest.raises(StreamingQueryException, match=r"column 'v' of table .* is bigint, and is read as int"):
        query.run(frame)
    assert query.run() == [{"id": 2, "v": 1 << 40, "w": "b"}]
    frame = query.load()
    client.alter_table(table, drop=["w"], add="w string")
    write(client, table, 3, v=3, w="new")
    client.alter_table(table, rename={"w": "x"})
    with pytest.raises(StreamingQueryException, match=r"column 'w' is not a column of table .*: it has id, v, x"):
        query.run(frame)
    assert query.run() == [{"id": 3, "v": 3, "x": "new"}]
