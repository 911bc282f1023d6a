"""The format `txn` of Spark's Python data sources: tables read, written, and followed commit by commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StructType

from tests import blocks
from tests.support import FAST_TXN, connect, fast_cluster, is_retired, rows, wait_until
from txnclient import Client, IllegalState, InvalidArgument, NotFound, SnapshotTooOld
from txnclient.datasource import register
from txnclient.datasource.following import StreamReader
from txnclient.datasource.options import LATEST, parse
from txnclient.datasource.parts import Part
from txndeploy.local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
SCHEMA = "id bigint, note string"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """One that nobody has told of the format."""
    yield spark
    for query in spark.streams.active:
        query.stop()


class Followed:
    """A query that follows tables, and what each of its batches has shown."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, directory: Path, *tables: str) -> None:
        self.spark, self.cluster, self.tables = spark, cluster, ",".join(tables)
        self.checkpoint = str(directory / "checkpoint")
        self.batches: list[list[Any]] = []

    def run(self, **options: str) -> list[list[Any]]:
        """Takes what there is, and returns what each batch has shown, sorted."""
        source = self.spark.readStream.format("txn").option("cluster", self.cluster.addresses)
        frame = source.options(table=self.tables, **options).load()
        before = len(self.batches)

        def each(batch: DataFrame, _: int) -> None:
            shown = [tuple(row) for row in batch.drop("_commit_timestamp", "note").collect()]
            self.batches.append(sorted(shown))

        writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", self.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination(120)
        return self.batches[before:]


def test_a_table_is_read_now_and_then_and_what_has_changed(
    session: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    table = new_table(SCHEMA)
    first = client.write(rows(1, 2), table).commit_timestamp
    then = client.snapshot().time
    client.write(rows(3), table)
    client.delete_where(table, "id = 1")

    def read(**options: object) -> list[Any]:
        reader = session.read.format("txn").option("cluster", cluster.addresses)
        return sorted(tuple(row) for row in reader.options(table=table, **options).load().drop("note").collect())

    assert read() == [(2,), (3,)]
    assert read(asOf=first) == read(asOf=then.isoformat()) == [(1,), (2,)]
    assert read(since=first) == [(1, "delete"), (3, "insert")]
    client.savepoint(f"of {table}", [table], at=first, keep=60)
    assert read(asOf=f"of {table}") == [(1,), (2,)]
    for options, why in (
        ({"asOf": "never made"}, "no savepoint 'never made'"),
        ({"asOf": "2026-01-01T00:00:00"}, "has no time zone"),
        ({"table": "t.nowhere"}, r"t\.nowhere"),
        ({"tabel": table}, "option 'tabel' is unknown"),
        ({"until": first}, "until says no since"),
    ):
        with pytest.raises(Exception, match=why):
            session.read.format("txn").option("cluster", cluster.addresses).options(
                **{"table": table, **options}
            ).load().collect()


def test_a_table_is_written_as_one_transaction(
    session: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable, failing: Callable[..., DataFrame]
) -> None:
    table = new_table("id bigint")

    def write(frame: DataFrame, mode: str = "append") -> None:
        writer = frame.write.format("txn").option("cluster", cluster.addresses)
        writer.option("table", table).option("label", f"load of {table}").mode(mode).save()

    def ids() -> list[int]:
        return sorted(client.snapshot().to_arrow(table)["id"].to_pylist())

    write(session.range(0, 10, 1, 4))
    write(failing(1))
    assert ids() == sorted([*range(10), *range(10)])
    write(session.range(3), "overwrite")
    assert ids() == [0, 1, 2]
    with pytest.raises(Exception, match="this attempt fails"):
        write(failing(1_000))
    assert ids() == [0, 1, 2]
    states = [each.state.name for each in client.transactions(label=f"load of {table}")]
    assert states == ["ABORTED", *["COMMITTED"] * 3]


def test_a_write_brings_columns_where_it_says_so(
    session: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    writer = session.sql("SELECT 1L AS id, 'x' AS more").write.format("txn").mode("append")
    writer = writer.options(cluster=cluster.addresses, table=table)
    with pytest.raises(Exception, match="column 'more' of the data is not a column of table"):
        writer.save()
    writer.option("mergeSchema", "true").save()
    assert client.snapshot().to_arrow(table).to_pylist() == [{"id": 1, "more": "x"}]


def test_a_table_is_followed_commit_by_commit_over_restarts(
    session: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    table = new_table(SCHEMA)
    client.write(rows(1), table)
    client.write(rows(2), table)
    query = Followed(session, cluster, tmp_path, table)
    assert query.run(maxCommitsPerTrigger="1") == [[(1,), (2,)]]
    assert query.run() == []
    for number in (3, 4, 5):
        client.write(rows(number), table)
    assert query.run(maxCommitsPerTrigger="2") == [[(3,), (4,)], [(5,)]]
    client.delete_where(table, "id = 1")
    with pytest.raises(StreamingQueryException, match=f"rows of table {table} were deleted or changed"):
        query.run()


def test_changes_of_several_tables_come_in_the_order_of_their_commits(
    session: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    keyed, plain = new_table(SCHEMA, primary_key=["id"]), new_table(SCHEMA)
    client.write(rows(1), plain)
    query = Followed(session, cluster, tmp_path, keyed, plain)
    options = {"changes": "true", "maxCommitsPerTrigger": "1"}
    assert query.run(**options, startingTimestamp="latest") == [[]]
    client.insert(keyed, rows(1, 2))
    client.write_all({keyed: rows(3), plain: rows(3)})
    client.upsert(keyed, rows(2))
    client.write(rows(4), plain)
    client.delete(keyed, pa.table({"id": [1]}))
    client.insert(new_table(SCHEMA, primary_key=["id"]), rows(9))
    assert query.run(**options) == [
        [(1, "insert", keyed), (2, "insert", keyed)],
        sorted([(3, "insert", keyed), (3, "insert", plain)]),  # s.table_10 comes before s.table_9
        [(2, "update_after", keyed), (2, "update_before", keyed)],
        [(4, "insert", plain)],
        [(1, "delete", keyed)],
    ]
    assert query.run(**options) == []


def test_a_start_before_a_table_was_made_begins_with_its_first_commit(
    session: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    older = new_table(SCHEMA)
    client.write(rows(1), older)
    start = str(client.write(rows(2), older).commit_timestamp)
    client.write(rows(3), older)
    younger = new_table(SCHEMA)
    client.write(rows(4), younger)
    client.write_all({older: rows(5), younger: rows(5)})
    options = {"startingTimestamp": start, "maxCommitsPerTrigger": "1"}
    alone = Followed(session, cluster, tmp_path / "alone", younger)
    assert alone.run(**options) == [[(4,)], [(5,)]]
    both = Followed(session, cluster, tmp_path / "both", older, younger)
    assert both.run(**options) == [[(3, older)], [(4, younger)], sorted([(5, older), (5, younger)])]
    client.write(rows(6), younger)
    assert (alone.run(**options), both.run(**options)) == ([[(6,)]], [[(6, younger)]])


@pytest.mark.parametrize("taken", [False, True], ids=["the old name is free", "the old name is another table's"])
def test_a_table_that_is_renamed_is_followed_on_by_its_new_name(
    cluster: LocalCluster, client: Client, new_table: NewTable, taken: bool
) -> None:
    table = new_table(SCHEMA)
    client.write(rows(1), table)

    def reader(name: str) -> StreamReader:
        asked = parse({"cluster": cluster.addresses, "table": name, "startingTimestamp": LATEST, "changes": "true"})
        return StreamReader(asked, StructType(), lambda: client)

    def shown(following: StreamReader, start: dict[str, Any]) -> list[tuple[int, str]]:
        end = following.latestOffset(start, ReadAllAvailable())
        parts = [part for part in following.partitions(start, end) if isinstance(part, Part)]
        return [(row["id"], row["_change_kind"]) for part in parts for row in part.what.to_arrow().to_pylist()]

    follows = reader(table)
    start = follows.initialOffset()
    client.write(rows(2), table)
    client.rename_table(table, f"{table}_b")
    client.write(rows(3), f"{table}_b")
    if taken:
        client.create_table(table, SCHEMA)
        client.write(rows(100), table)
    by_old_name = [follows, *([reader(table)] if taken else [])]
    for each in by_old_name:
        with pytest.raises(NotFound if not taken else IllegalState, match=table):
            shown(each, start)
    assert shown(reader(f"{table}_b"), start) == [(2, "insert"), (3, "insert")]


def test_one_that_lives_keeps_what_it_has_not_read_and_one_that_has_fallen_behind_is_told(tmp_path: Path) -> None:
    short = FAST_TXN.model_copy(update={"snapshot_retention_seconds": 1, "snapshot_lease_seconds": 1.0})
    with fast_cluster(tmp_path, txn=short) as cluster, connect(cluster) as client:
        table = "t.followed"
        client.create_table(table, SCHEMA)
        client.write(rows(1), table)
        asked = parse({"cluster": cluster.addresses, "table": table, "startingTimestamp": LATEST, "changes": "true"})
        lives, late = (StreamReader(asked, StructType(), lambda: client) for _ in range(2))
        start = lives.initialOffset()
        for number in (2, 3):
            client.write(rows(number), table, mode="overwrite")
        end = lives.latestOffset(start, lives.getDefaultReadLimit())
        wait_until(lambda: is_retired(client, table, start["timestamp"]), "nobody else may read what was then")

        def shown() -> list[tuple[int, str]]:
            parts = [part for part in lives.partitions(start, end) if isinstance(part, Part)]
            changed = [row for part in parts for row in part.what.to_arrow().to_pylist()]
            return [(row["id"], row["_change_kind"]) for row in changed]

        assert shown() == [(1, "delete"), (2, "insert"), (2, "delete"), (3, "insert")]
        for ask in (late.partitions, lambda start, end: late.latestOffset(start, ReadAllAvailable())):
            with pytest.raises(SnapshotTooOld, match=table):
                ask(start, end)
        lives.commit(end)
        with pytest.raises(SnapshotTooOld, match=table):
            shown()
        lives.stop()


def test_each_commit_is_shown_once_whatever_dies(tmp_path: Path) -> None:
    """Nodes are killed, and queries end without a word, each followed by one that knows the last offset alone."""
    with fast_cluster(tmp_path) as cluster, connect(cluster) as client:
        tables, stop = ("t.one", "t.two"), Event()
        for table in tables:
            client.create_table(table, SCHEMA)
        asked = parse({"cluster": cluster.addresses, "table": ",".join(tables), "maxCommitsPerTrigger": "3"})
        written = list[int]()

        def write() -> None:
            while not stop.is_set():
                number = len(written)
                client.write_all(dict.fromkeys(tables[: 1 + number % 2], rows(number)), request_id=f"write {number}")
                written.append(number)

        def reader() -> StreamReader:
            return StreamReader(asked, StructType(), lambda: client)

        shown = list[tuple[str, int]]()
        follows, offset, limit = reader(), reader().initialOffset(), ReadMaxFiles(3)

        def take() -> None:
            """Runs a batch as Spark does: what is shown counts with the offset, or is shown again."""
            nonlocal follows, offset
            end = follows.latestOffset(offset, limit)
            parts = [part for part in follows.partitions(offset, end) if isinstance(part, Part)]
            tables = [(part.constants["_table"], part.what.to_arrow().to_pylist()) for part in parts]
            shown.extend((table, row["id"]) for table, found in tables for row in found)
            offset = end
            follows.commit(offset)

        worker = Thread(target=write)
        worker.start()
        try:
            for node in cluster.configs:
                for act in (cluster.kill, cluster.start_node):
                    enough = len(written) + 6
                    act(node)
                    while len(written) < enough and worker.is_alive():
                        take()
                    follows = reader()
        finally:
            stop.set()
            worker.join(60)
        wait_until(lambda: take() or len(shown) >= len(written) + len(written) // 2, "all is shown")
        take()
        expected = [(table, number) for number in written for table in tables[: 1 + number % 2]]
        assert sorted(shown) == sorted(expected)
        for table in tables:
            assert [number for of, number in shown if of == table] == [n for of, n in expected if of == table]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"cluster": "a:1"}, "no table is named"),
        ({"cluster": "a:1", "table": " , "}, "no table is named"),
        ({"cluster": "a:1", "table": "a.b", "changes": "yes"}, "true and false are possible"),
        ({"cluster": "a:1", "table": "a.b", "maxCommitsPerTrigger": "0"}, "a whole number above 0"),
        ({"cluster": "a:1", "table": "a.b", "startingTimestamp": "2026-01-01"}, "has no time zone"),
    ],
)
def test_options_that_are_wrong_are_named(given: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        parse(given)


def test_the_page_runs_as_pasted(
    session: SparkSession,
    cluster: LocalCluster,
    client: Client,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client.create_table("kiosk.followed", "id bigint, item string")
    client.write(pa.table({"id": [1], "item": ["pen"]}), "kiosk.followed")
    page = blocks.block("docs/streaming.md", 'spark.read.format("txn")').replace("127.0.0.1:7051", cluster.addresses)
    names = {"spark": session, "client": client, "checkpoint": str(tmp_path / "followed")}
    exec(page, names)
    assert capsys.readouterr().out.split() == ["2", "insert", "1", "insert", "2"]


def test_a_session_can_be_told_of_the_format(
    spark: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    """One whose driver has looked for formats before this package was there."""
    table, session = new_table("id bigint"), spark.newSession()
    client.write(pa.table({"id": [1]}), table)
    register(session)
    assert session.read.format("txn").options(cluster=cluster.addresses, table=table).load().first() == (1,)


def test_tables_of_different_columns_are_streams_of_their_own(
    session: SparkSession, cluster: LocalCluster, new_table: NewTable
) -> None:
    tables = new_table(SCHEMA), new_table("id bigint")
    with pytest.raises(Exception, match="have different columns"):
        session.readStream.format("txn").options(cluster=cluster.addresses, table=",".join(tables)).load()
