"""Structured Streaming whose batches are transactions: each batch once, over restarts, copies and lost checkpoints."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from tests import blocks
from txnclient import Client, InvalidArgument, Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Write = Callable[[Transaction, "DataFrame", int], object]
FILE_ROWS = 10
_numbers = itertools.count(1)


class Stream:
    """A directory of files, each of which is a batch of a query into two tables."""

    def __init__(self, spark: SparkSession, client: Client, directory: Path, new_table: NewTable) -> None:
        self.spark, self.client, self.directory = spark, client, directory
        self.source = f"files {next(_numbers)}"
        self.tables = [new_table("id bigint"), new_table("batch bigint, rows bigint")]
        self.files = 0
        (directory / "in").mkdir()

    def more(self, files: int) -> None:
        for number in range(self.files, self.files + files):
            ids = range(number * FILE_ROWS, (number + 1) * FILE_ROWS)
            file = self.directory / f"{number}.parquet"
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), file)
            file.rename(self.directory / "in" / file.name)
        self.files += files

    def write(self, txn: Transaction, batch: DataFrame, number: int) -> None:
        ids, counts = self.tables
        txn.write(batch, ids)
        txn.write(pa.table({"batch": [number], "rows": [batch.count()]}), counts)

    def run(self, checkpoint: str = "checkpoint", write: Write | None = None, **options: Any) -> None:
        """Takes what there is, as a new start of the query does, and raises what ends it."""
        self.start(checkpoint, write, **options).awaitTermination(120)

    def start(self, checkpoint: str = "checkpoint", write: Write | None = None, **options: Any) -> Any:
        files = self.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
        rows = files.parquet(str(self.directory / "in"))
        writer = self.client.stream(rows, write or self.write, source=self.source, **options)
        path = str(self.directory / checkpoint)
        return writer.option("checkpointLocation", path).trigger(availableNow=True).start()

    def refused(self, why: str, *args: Any, **options: Any) -> str:
        """Runs it, and returns what it is told to do."""
        before = self.written()
        with pytest.raises(StreamingQueryException, match=why) as caught:
            self.run(*args, **options)
        assert self.written() == before
        return str(caught.value)

    def written(self) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids, and the number of each batch with how many rows it had."""
        with self.client.snapshot() as snapshot:
            ids, counts = map(snapshot.to_arrow, self.tables)
        batches = zip(counts["batch"].to_pylist(), counts["rows"].to_pylist(), strict=True)
        return sorted(ids["id"].to_pylist()), sorted(batches)

    def expect(self, files: int) -> None:
        assert self.written() == (list(range(files * FILE_ROWS)), [(batch, FILE_ROWS) for batch in range(files)])


@pytest.fixture
def stream(spark: SparkSession, client: Client, tmp_path: Path, new_table: NewTable) -> Iterator[Stream]:
    yield Stream(spark, client, tmp_path, new_table)
    for query in spark.streams.active:
        query.stop()


def test_each_batch_is_a_transaction_over_its_tables_and_restarts_go_on(stream: Stream) -> None:
    stream.more(2)
    stream.run()
    stream.expect(2)
    stream.more(1)
    stream.run(tables=stream.tables)
    stream.expect(3)
    mark = stream.client.mark(stream.source)
    assert mark is not None
    assert mark.position["batch"] == 2
    committed = stream.client.get(mark.txn_id)
    assert set(stream.tables) < set(committed.participants)
    assert committed.label == f"stream {stream.source}"


def test_a_batch_that_spark_runs_again_is_written_once(stream: Stream) -> None:
    """Spark is left before it notes that the batch was run: its checkpoint says so by a file."""
    stream.more(2)
    stream.run()
    (stream.directory / "checkpoint" / "commits" / "1").unlink()
    (stream.directory / "checkpoint" / "commits" / ".1.crc").unlink()
    stream.more(1)
    stream.run()
    stream.expect(3)


def test_what_fails_in_the_function_leaves_nothing_and_comes_again(stream: Stream) -> None:
    def fails(txn: Transaction, batch: DataFrame, number: int) -> None:
        stream.write(txn, batch, number)
        raise ValueError("this batch fails")

    stream.more(1)
    stream.refused("this batch fails", write=fails)
    stream.run()
    stream.expect(1)


def test_a_function_that_commits_has_the_mark_in_its_commit(stream: Stream) -> None:
    def commits(txn: Transaction, batch: DataFrame, number: int) -> None:
        stream.write(txn, batch, number)
        txn.commit()

    stream.more(2)
    stream.run(write=commits)
    stream.run()
    stream.expect(2)


def test_a_conflict_runs_the_batch_again(stream: Stream, client: Client) -> None:
    ran = []

    def overwrites(txn: Transaction, batch: DataFrame, number: int) -> None:
        ran.append(txn.id)
        ids, counts = stream.tables
        txn.write(batch, ids, "overwrite")
        txn.write(pa.table({"batch": [number], "rows": [batch.count()]}), counts)
        if len(ran) == 1:
            client.write(pa.table({"id": [-1]}), ids, mode="overwrite")

    stream.more(1)
    stream.run(write=overwrites)
    stream.expect(1)
    assert len(set(ran)) == 2


def test_a_lost_checkpoint_is_told_and_taken_over_on_request(stream: Stream) -> None:
    stream.more(2)
    stream.run()
    shutil.rmtree(stream.directory / "checkpoint")
    told = stream.refused("checkpoint was lost, or it is a second query")
    old = stream.client.mark(stream.source)
    assert old is not None
    name = f"{old.position['query']}@1"
    assert f"take_over='{name}'" in told
    shutil.rmtree(stream.directory / "in")
    (stream.directory / "in").mkdir()
    stream.more(1)
    stream.run("another", take_over=name)
    assert stream.written()[0] == list(range(3 * FILE_ROWS))
    stream.more(1)
    stream.run("another", take_over=name)
    ids, _ = stream.written()
    assert ids == list(range(4 * FILE_ROWS))
    stream.refused("checkpoint was lost, or it is a second query", "checkpoint", take_over=name)


def test_a_checkpoint_from_before_or_of_another_source_is_told(stream: Stream) -> None:
    stream.more(1)
    stream.run()
    shutil.copytree(stream.directory / "checkpoint", stream.directory / "backup")
    stream.more(2)
    stream.run()
    stream.refused("its checkpoint is an old one", "backup")
    stream.source = f"{stream.source} by another name"
    stream.more(1)
    assert "take_over='nothing'" in stream.refused("its source has no mark")
    stream.run(take_over="nothing")
    stream.expect(4)


def test_a_second_query_ends_and_the_first_goes_on(spark: SparkSession, stream: Stream) -> None:
    """It has a checkpoint of its own, and starts while the first one is in a batch."""
    stream.more(3)
    told = []

    def slow(txn: Transaction, batch: DataFrame, number: int) -> None:
        stream.write(txn, batch, number)
        if number == 1:
            told.append(stream.refused("or it is a second query", "of its own"))

    stream.run(write=slow)
    stream.expect(3)
    assert len(told) == 1


def test_of_two_copies_in_one_batch_the_first_to_commit_goes_on(stream: Stream, client: Client) -> None:
    """The copy is of the checkpoint, too, and Spark lets no second one run in this process: its transaction does."""
    stream.more(1)
    stream.run()
    stream.more(2)

    def slow(txn: Transaction, batch: DataFrame, number: int) -> None:
        stream.write(txn, batch, number)
        mark = client.mark(stream.source)
        assert mark is not None
        with client.transaction() as other:
            stream.write(other, batch, number)
            other.mark(stream.source, {**mark.position, "batch": number, "run": "b"}, expected=mark.position)

    with pytest.raises(StreamingQueryException, match="another copy of query"):
        stream.run(write=slow)
    stream.expect(2)
    stream.run()
    stream.expect(3)


def test_the_page_runs_as_pasted(spark: SparkSession, client: Client, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    names = {"spark": spark, "client": client, "incoming": str(incoming), "checkpoint": str(tmp_path / "checkpoint")}
    for number in range(2):
        pq.write_table(pa.table({"id": [number], "item": ["pen"]}), incoming / f"{number}.parquet")
        exec(blocks.block("docs/streaming.md", "client.stream("), names)
    with client.snapshot() as snapshot:
        assert sorted(snapshot.to_arrow("kiosk.orders")["id"].to_pylist()) == [0, 1]
        assert snapshot.to_arrow("kiosk.items")["orders"].to_pylist() == [1, 1]


def test_what_is_no_stream_is_refused(spark: SparkSession, client: Client, stream: Stream) -> None:
    with pytest.raises(InvalidArgument, match=r"df is no stream: spark\.readStream makes one, not DataFrame"):
        client.stream(spark.range(3), stream.write, source="x")
    with pytest.raises(InvalidArgument, match="source ''"):
        client.stream(spark.range(3), stream.write, source="")
    remote = pytest.importorskip("pyspark.sql.connect.dataframe", reason="pyspark[connect]").DataFrame
    with pytest.raises(InvalidArgument, match=r"a client of Spark Connect has the server call `fn`"):
        client.stream(remote.__new__(remote), stream.write, source="x")
    with client.transaction() as txn:
        txn.mark(stream.source, 17, expected=None)
    stream.more(1)
    stream.refused("is at 17, which no stream has written")
