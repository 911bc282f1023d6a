"""What the README shows works as pasted: its Python is one session, from top to bottom, and its commands follow.

The same session goes on with what docs/sql.md shows, from top to bottom.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import blocks
from tests.support import fast_cluster
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

SESSION = (
    "SparkSession",
    "import attach",
    "token = txn.token()",
    "txn.upsert(",
    "txn.merge(",
    "snapshot(at=",
    "to_pandas(",
)
SQL = ("SparkSession", "txn.spark(spark)", "BEGIN TRANSACTION", "txn.system.timeline")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One of its own: the doctor finds nothing that others have left."""
    with fast_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def session(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the session printed."""
    script = tmp_path_factory.mktemp("session") / "session.py"
    pasted = [blocks.block("README.md", having) for having in SESSION]
    pasted += ["from txnclient.sparksql import detach", 'detach(spark, name="txn")']
    pasted += [blocks.block("docs/sql.md", having) for having in SQL]
    script.write_text("\n".join(pasted))
    return run([sys.executable, str(script)], cluster)


def run(command: list[str], cluster: LocalCluster) -> str:
    environment = {**os.environ, "TXN_CLUSTER": cluster.addresses, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_runs_as_pasted(session: str, client: Client) -> None:
    first, in_sql, merged, last, *shown = session.splitlines()
    assert in_sql == "523"
    assert merged == "RowsAffected(inserted=1, updated=1, deleted=0)"
    assert first == "1000 [{'day': '2026-01-31', 'orders': 1000}]"
    assert last == "10"
    assert {"|   JFK|       4|", "|   LGA|       1|"} <= set(shown)
    snapshot = client.snapshot()
    assert snapshot.to_arrow("shop.orders").num_rows == 10
    assert snapshot.to_arrow("shop.stock").to_pylist() == [{"item": "pen", "pieces": 9}]
    events = snapshot.to_arrow("shop.events").sort_by("id").to_pylist()
    assert [tuple(each.values()) for each in events] == [(1, "old"), (3, "late"), (4, "late")]
    assert snapshot.to_arrow("air.flights").num_rows == 6
    totals = snapshot.to_arrow("air.totals").to_pylist()
    assert {each["origin"]: each["flights"] for each in totals} == {"JFK": 1}


@pytest.mark.usefixtures("session")
def test_the_commands_run_as_pasted(cluster: LocalCluster) -> None:
    txnctl = f"{sys.executable} -m txndeploy.ctl.cli"
    for line in blocks.block("README.md", "txnctl status").splitlines():
        assert line.startswith("txnctl ")
        assert run(["sh", "-c", line.replace("txnctl", txnctl, 1)], cluster)


def test_the_fixture_gives_a_cluster(tmp_path: Path, cluster: LocalCluster) -> None:
    test = tmp_path / "test_mine.py"
    test.write_text(blocks.block("README.md", "(txn_cluster)"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert "1 passed" in run([*command, "--rootdir", str(tmp_path), str(test)], cluster)
