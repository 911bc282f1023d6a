"""What the README shows works as pasted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from tests.support import connect, visible
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

README = Path(__file__).parents[2] / "README.md"


def test_the_pyspark_example_runs_as_pasted(cluster: LocalCluster, client: Client, tmp_path: Path) -> None:
    example = next(
        block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "SparkSession" in block
    )
    script = tmp_path / "example.py"
    script.write_text(example)
    result = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TXN_CLUSTER": cluster.addresses, "PYSPARK_PYTHON": sys.executable},
    )
    assert result.returncode == 0, result.stderr
    assert "1000 [{'day': '2026-01-31', 'orders': 1000}]" in result.stdout
    assert client.snapshot().to_arrow("shop.orders").num_rows == 1000


def test_the_example_of_the_past_runs(client: Client) -> None:
    client.create_table("shop.past", "id bigint, total double")
    with client.transaction() as txn:
        txn.write(pa.table({"id": range(100), "total": [1.5] * 100}), "shop.past")
    example = next(block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "at=" in block)
    exec(example.replace("shop.orders", "shop.past"), {"client": client, "txn": txn})
    assert client.snapshot().to_arrow("shop.past").num_rows == 10


def test_the_fixture_gives_a_cluster(txn_cluster: LocalCluster) -> None:
    with connect(txn_cluster) as client:
        client.create_table("own.jobs", "id bigint, note string")
        txn_cluster.kill(txn_cluster.leader())
        assert visible(client, "own.jobs") == [[]]
        txn_cluster.start()
