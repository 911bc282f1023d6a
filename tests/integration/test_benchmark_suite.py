"""The benchmark suite against a cluster of ours: for a second, and no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
QUICK = [sys.executable, "-m", "benchmarks.suite", "--quick", "--peers", "none", "--only", "transactions"]


def test_our_transactions_are_counted(tmp_path: Path) -> None:
    out = tmp_path / "report"
    done = subprocess.run(
        [*QUICK, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (part,) = json.loads((out / "results.json").read_text())["parts"]
    assert part["problems"] == {}
    samples = part["samples"]
    assert {sample["point"] for sample in samples} == {1, 16}
    for sample in samples:
        assert sample["failures"] == 0, sample["errors"]
        assert sample["count"] > 0
        assert sample["count"] / sample["seconds"] == sample["rate"]
        assert 0 < sample["p50_ms"] <= sample["p99_ms"] <= sample["max_ms"]
        assert {"leader", "followers", "client"} <= set(sample["cpu_us"])
    assert "## Transactions" in (out / "report.md").read_text()
