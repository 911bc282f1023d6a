"""Every workload of the benchmark suite does what it says on a cluster of ours: for a second, and no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
POINTS = {1, 3}
NAMES = ["table-pairs", "tables", "appenders", "failover", "heartbeats", "open", "growth"]
QUICK = [sys.executable, "-m", "benchmarks.suite", "--quick", "--peers", "none", "--points", "1,3"]


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
