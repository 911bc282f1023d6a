"""All nodes lose power at once: only what was synced is there afterwards. Nothing acknowledged may be missing.

`make powercut CUTS=50` cuts more often than the tests do.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.disks import Disk, mounted
from tests.faults.nemesis import torment
from tests.faults.rig import running
from tests.support import SCHEMA, commit_until_known, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import TxnState
from txndeploy.local.cluster import LocalCluster

SEED = int(os.environ.get("TXN_SEED", "1"))
CUTS = int(os.environ.get("TXN_POWER_CUTS", "10"))
TABLES = ("t.one", "t.two")


@pytest.mark.campaign
@pytest.mark.timeout(300 + 30 * CUTS)
def test_nothing_acknowledged_is_lost_under_load(tmp_path: Path) -> None:
    """The clients and the tables live on; every node's own data loses what was not synced."""
    with running(tmp_path / "cluster", SEED, min_faults=CUTS, disks=True) as rig:
        torment(rig, [("power cut",)] * CUTS, shortest=0.0, longest=0.5)


@pytest.mark.timeout(300 + 30 * CUTS)
@pytest.mark.parametrize("cuts", [1, pytest.param(CUTS, marks=pytest.mark.campaign)])
def test_nor_is_any_data_file(cuts: int, tmp_path: Path) -> None:
    """The tables lie on the disk that loses power, too."""
    expected: list[int] = []
    with mounted(Disk, [tmp_path / "disk"]) as (disk,):
        cluster = fast_cluster(disk.path / "cluster")
        try:
            cluster.start()
            with connect(cluster) as client:
                for table in TABLES:
                    client.create_table(table, SCHEMA)
            for cut in range(cuts):
                with connect(cluster) as client:
                    for number in range(5):
                        row = 10 * cut + number
                        txn = client.begin(label="acknowledged")
                        for table in TABLES:
                            txn.write(rows(row), table)
                        commit_until_known(txn)
                        expected.append(row)
                    open_one = client.begin(label="open at the cut")
                    open_one.write(rows(-1), TABLES[0])
                disk.cut()
                _kill(cluster)
                cluster.stop()  # gives up the lock on its directory, which is on the disk
                disk.back()
                cluster.start()
                with connect(cluster) as client:
                    assert visible(client, *TABLES) == [expected, expected]
                    assert client.get(open_one.id).state in (TxnState.OPEN, TxnState.ABORTED)
            wait_until(lambda: settled(cluster), "all replicas hold the same state")
        finally:
            cluster.stop()


def _kill(cluster: LocalCluster) -> None:
    for node in cluster.configs:
        if cluster.running(node):
            cluster.kill(node)
