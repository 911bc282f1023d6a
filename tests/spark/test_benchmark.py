"""The benchmark suite's Spark workloads, on few rows; no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


def measured(tmp_path: Path, workload: str, *options: str) -> dict[str, Any]:
    """What the suite tells of the one sample that it takes of a workload."""
    command = [sys.executable, "-m", "benchmarks.suite", "--quick", "--only", workload, *options]
    command += ["--out", str(tmp_path / "report"), "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (part,) = json.loads((tmp_path / "report" / "results.json").read_text())["parts"]
    assert part["problems"] == {}, done.stderr
    (sample,) = part["samples"]
    return dict(sample)


@pytest.mark.campaign
def test_plain_and_ours_are_measured_side_by_side(tmp_path: Path) -> None:
    sample = measured(tmp_path, "spark", "--points", "1000")
    assert (sample["count"], sample["failures"]) == (1, 0)
    assert {"write, s", "plain write, s", "sync, s", "read, s", "plain read, s"} <= set(sample["extra"])
    assert sample["cpu_us"]["spark"] > 0, "Spark would be taken for a stranger who uses the machine"


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("workload", "looks"), [("aged", {"plan", "count", "SQL count", "SQL sum"}), ("aged-keyed", {"Q1", "Q3", "Q6"})]
)
def test_old_tables_are_measured_beside_plain_ones(tmp_path: Path, workload: str, looks: set[str]) -> None:
    sample = measured(tmp_path, workload)
    assert sample["failures"] == 0
    assert {f"{look} / plain, before" for look in looks} <= set(sample["extra"])


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("workload", "point", "told"),
    [
        (
            "sql",
            "1000",
            {"scan / plain", "scan, 0.1 % dead / plain", "scan, 10 % dead / plain", "insert / plain"}
            | {"delete 1 % / plain", "update 0.1 % / plain", "merge 30 k / plain"},
        ),
        ("tpch", "10", {"Q1 / plain", "Q22 / plain", "sum / plain", "plain sum, s"}),
        ("sql-point", "60", {"plan, s", "query, s"}),
        ("spark-changes", "1000", {"merge / plain", "delete / plain"}),
    ],
)
def test_sparks_own_sql_is_measured(tmp_path: Path, workload: str, point: str, told: set[str]) -> None:
    sample = measured(tmp_path, workload, "--points", point)
    assert sample["failures"] == 0
    assert told <= set(sample["extra"])
