"""The benchmark suite against a cluster of ours: for a second, and no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.campaign
ROOT = Path(__file__).parent.parent.parent
QUICK = [sys.executable, "-m", "benchmarks.suite", "--quick", "--peers", "none"]
TITLES = {"transactions": "Transactions with two participants", "begins": "Begin only", "reads": "States read"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run of ours alone."""
    report = tmp_path_factory.mktemp("report")
    command = [*QUICK, "--only", ",".join(TITLES), "--out", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return report


@pytest.mark.parametrize("workload", TITLES)
def test_our_operations_are_counted(workload: str, out: Path) -> None:
    parts: list[dict[str, Any]] = json.loads((out / "results.json").read_text())["parts"]
    (part,) = [part for part in parts if part["workload"] == workload]
    assert part["problems"] == {}
    samples = part["samples"]
    assert {sample["point"] for sample in samples} == {1, 16}
    for sample in samples:
        assert sample["failures"] == 0, sample["errors"]
        assert sample["count"] > 0
        assert sample["count"] / sample["seconds"] == sample["rate"]
        assert 0 < sample["p50_ms"] <= sample["p99_ms"] <= sample["max_ms"]
        assert {"leader", "followers", "client"} <= set(sample["cpu_us"])
    assert f"## {TITLES[workload]}" in (out / "report.md").read_text()


def test_nothing_went_wrong_on_the_way(out: Path) -> None:
    assert (out / "suite.log").read_text() == ""
