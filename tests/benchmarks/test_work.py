"""What a transaction is to each node, in each measure, on a real cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SECONDS = 60


@pytest.mark.parametrize(
    ("measure", "seen"),
    [
        ("calls", "calls a transaction"),
        pytest.param("cpu", "samples", marks=pytest.mark.campaign),
        pytest.param("turns", "by its own work", marks=pytest.mark.campaign),
    ],
)
def test_a_measure_tells_of_every_node(measure: str, seen: str) -> None:
    command = [sys.executable, "-m", "benchmarks.suite", "work", measure, "--in-flight", "8", "--seconds", "1"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count(seen) >= 3
    assert all(f"{node}, " in told.stdout for node in ("n1", "n2", "n3"))
    assert "shard.py" in told.stdout or measure != "calls"
    assert not told.stdout.rstrip().splitlines()[-1].startswith("0 transactions")


@pytest.mark.campaign
def test_what_tls_costs_is_told_to_the_end() -> None:
    command = [sys.executable, "-m", "benchmarks.suite", "tls", "--in-flight", "8", "--transactions", "50", "--rounds"]
    told = subprocess.run([*command, "1"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0, told.stderr
    for seen in ("CPU without TLS / with", "a second with TLS / without", "a handshake:", "sealed and taken:"):
        assert seen in told.stdout
