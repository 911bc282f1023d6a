"""Every workload of the benchmark suite does what it says on a cluster of ours: for a second, and no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.suite.model import Settings
from benchmarks.suite.ours import STATUS
from benchmarks.suite.runner import event_loop
from benchmarks.suite.workloads.beside import OursAfterFinished
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.node.config import TxnSection

ROOT = Path(__file__).parent.parent.parent
POINTS = {1, 3}
NAMES = ["table-pairs", "tables", "tenants", "appenders", "failover", "heartbeats", "open", "growth"]
QUICK = [sys.executable, "-m", "benchmarks.suite", "--quick", "--peers", "none", "--points", "1,3"]


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_a_workload_counts_and_loses_nothing(name: str, tmp_path: Path) -> None:
    out = tmp_path / "report"
    command = [*QUICK, "--only", name, "--out", str(out), "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (part,) = json.loads((out / "results.json").read_text())["parts"]
    assert part["problems"] == {}, done.stderr
    for contender in {sample["contender"] for sample in part["samples"]}:
        samples = [sample for sample in part["samples"] if sample["contender"] == contender]
        assert {sample["point"] for sample in samples} == POINTS, contender
        assert all(sample["count"] > 0 for sample in samples), contender
        assert all(sample["failures"] == 0 for sample in samples), [sample["errors"] for sample in samples]
    if name == "heartbeats":
        assert all(sample["count"] >= 2 * sample["point"] for sample in part["samples"]), "each beats twice at least"
    if name == "failover":
        assert all(sample["extra"]["acknowledged"] > 0 for sample in part["samples"])


@pytest.mark.campaign
def test_the_load_follows_the_ranges(tmp_path: Path) -> None:
    """The first one fills up, and goes with the last transaction in it: its leader was waited for in vain."""
    ours = OursAfterFinished(Settings(quick=True))
    ours._txn = TxnSection(**{**ours._txn.model_dump(), "range_span": 1_000}) if ours._txn else None
    try:
        ours.start(tmp_path)
        with event_loop() as loop:
            loop.run(ours.prepare(2_500))
            wait_until(lambda: STATUS not in _parts(ours.cluster), "the first range goes")
            tally = loop.run(ours.run(2_500, 0.2))
        assert tally.count, tally.errors
        assert tally.failures == 0, tally.errors
        assert set(ours.pids()) == {"leader", "followers"}
    finally:
        ours.stop()


def _parts(cluster: LocalCluster) -> set[str]:
    statuses = [cluster.status(node) for node in cluster.configs]
    return {part for status in statuses if status for group in status.groups for part in group.parts}
