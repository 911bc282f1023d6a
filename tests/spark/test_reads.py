"""Spark reads the past, inside a transaction, and what changed, while others overwrite and leaders die."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import FAST_TXN, connect, fast_cluster, wait_until
from txnclient import Client, TxnError
from txnstatus.catalog.catalog import shard_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
ROWS = 500
TABLES = ("k.kept", "k.other")


def test_a_transaction_and_the_changes_between_two_timestamps(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    with client.transaction() as txn:
        txn.write(spark.range(10), table)
    assert txn.receipt is not None
    start = txn.receipt.commit_timestamp
    with client.transaction() as txn:
        txn.write(txn.read(spark, table).where("id % 2 = 0"), table, mode="overwrite")
        txn.write(spark.range(100, 101), table)
        assert sorted(row.id for row in txn.read(spark, table).collect()) == [0, 2, 4, 6, 8, 100]
    changes = client.diff(table, start, spark=spark)
    assert changes.columns == ["id", "_change_kind"]
    counted = {row["_change_kind"]: row["count"] for row in changes.groupBy("_change_kind").count().collect()}
    assert counted == {"delete": 10, "insert": 6}
    assert client.snapshot(at=start).read(spark, table).count() == 10


def test_spark_reads_a_snapshot_while_it_is_overwritten_and_the_leader_of_its_shard_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each overwrite replaces all rows. Those of the table that is not read are removed meanwhile."""
    short = {"snapshot_retention_seconds": 1, "snapshot_lease_seconds": 2.0}
    txn = FAST_TXN.model_copy(update=short)
    with fast_cluster(tmp_path, txn=txn, participant_shards=1) as cluster, connect(cluster) as client:
        for table in TABLES:
            client.create_table(table, "id bigint, generation bigint")
        _overwrite(client, spark.range(ROWS).selectExpr("id", "0L AS generation"))
        stop = threading.Event()
        written: list[int] = []

        def overwrite_all_the_time() -> None:
            generation = 0
            while not stop.is_set():
                generation += 1
                try:
                    _overwrite(client, _generation(generation))
                except TxnError:
                    continue  # of a transaction that a failover cost
                written.append(generation)

        writer = threading.Thread(target=overwrite_all_the_time)
        with client.snapshot() as held:
            frame = held.read(spark, "k.kept")
            writer.start()
            try:
                for _ in range(2):
                    cluster.kill(cluster.leader(shard_group(0)))
                    done = len(written) + 8
                    wait_until(lambda done=done: len(written) >= done, "overwrites after a failover", 60)  # type: ignore[misc]
                    wait_until(lambda: _directories(client, "k.other") < len(written), "old files are removed", 60)
                    assert frame.groupBy("generation").count().collect() == [(0, ROWS)]
                    cluster.start()
            finally:
                stop.set()
                writer.join()
        wait_until(
            lambda: [_directories(client, table) for table in TABLES] == [1, 1], "all but the last is removed", 60
        )
        assert client.snapshot().read(spark, "k.kept").count() == ROWS


def _generation(number: int) -> object:
    import pyarrow as pa

    return pa.table({"id": pa.array(range(ROWS), pa.int64()), "generation": pa.array([number] * ROWS, pa.int64())})


def _overwrite(client: Client, data: DataFrame | object) -> None:
    with client.transaction() as txn:
        for table in TABLES:
            txn.write(data, table, mode="overwrite")


def _directories(client: Client, table: str) -> int:
    return len(list(Path(client.table(table).location.removeprefix("file://")).glob("delta_*")))
