"""The suite's command line: what it refuses, and the measures that need no cluster, of a small size."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from benchmarks.suite.__main__ import app


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERM": "dumb"})
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--rounds 0", "--rounds"),
        ("--seconds 0", "--seconds"),
        ("--seconds inf", "inf is not a number to work with"),
        ("--seconds nan", "--seconds"),
        ("--warm-up -1", "--warm-up"),
        ("--in-flight 1,0", "'1,0': expected numbers from 1 on, comma-separated"),
        ("--in-flight many", "'many': expected numbers from 1 on"),
        ("--only transactions --points 0", "'0': expected numbers from 1 on"),
        ("--only failover --points -1", "'-1': expected numbers from 0 on"),
        ("--fsync-ms 1,nan", "'1,nan': expected numbers from 0 on"),
        ("--rounds-of 3", "3: expected 4, 2 or both"),
        ("--peers nobody", "no such peer: nobody"),
        ("--only nothing", "no such workload: nothing"),
        ("--quick floor", "floor takes its options after its name"),
        ("floor --seconds 0", "--seconds"),
        ("lock-queue --waiting 0", "--waiting"),
        ("doctor --directories 0", "--directories"),
        ("row-writes --rows 5 --batch 10", "10: there are 5 rows"),
        ("row-writes --batch 10001", "--batch"),
        ("status-store --open 0", "--open"),
        ("snapshot-pause --transactions 999", "--transactions"),
        ("postgres --rounds 5", "--dsn"),
        ("work time", "time"),
        ("work calls --in-flight 0", "--in-flight"),
        ("work cpu --seconds 0", "--seconds"),
        ("work turns --open -1", "--open"),
        ("tls --rounds 0", "--rounds"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: str, says: str) -> None:
    code, told = run(*arguments.split())
    assert code == 2, told
    assert says in told


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        ("floor --seconds 0.01", "a synced append in a worker thread"),
        ("lock-queue --waiting 3", "3 transactions wait for X"),
        ("doctor --directories 3 --written 2", "2 directories and 4 files on a local disk"),
        ("snapshot-pause --transactions 1000", "a snapshot of 1,000 open transactions"),
    ],
)
def test_a_measure_shows_what_it_took(arguments: str, shows: str) -> None:
    code, told = run(*arguments.split())
    assert code == 0, told
    assert shows in told


def test_all_that_there_is_is_listed() -> None:
    code, told = run("--list")
    assert code == 0
    for name in ("transactions", "etcd-batch", "floor", "status-store", "postgres"):
        assert name in told
