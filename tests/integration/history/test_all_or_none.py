"""Five tables are restored and undone under load, while programs and nodes are killed in the middle: all or none.

Programs that write, take back and read are processes of their own (program.py). What readers saw, and what is there at
each commit, is what a naive model says (five.py).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.integration.history import five
from tests.integration.history.five import Notes
from tests.support import FAST_TXN, connect, fast_cluster, settled, wait_until
from txnclient import Past, TableChange
from txndeploy.doctor.examination import Examination, Wishes
from txndeploy.local.cluster import LocalCluster

ROOT = Path(__file__).parents[3]
SEED = int(os.environ.get("TXN_SEED", "1"))
SECONDS = float(os.environ.get("TXN_RESTORE_SECONDS", "60"))
ROLES = ("write", "write", "take", "take", "read")
CALLS = {"write": (100, 400), "take": (20, 150), "read": (0, 0)}
"""Calls after which a program kills itself, at least and at most; what it takes back takes some forty."""
FLOORS = Counter({"restored": 1, "undone": 1, "killed in the middle": 2, "nodes killed": 2, "read": 3})
"""What there must have been: with less a run says nothing."""
PATIENCE = 200.0


class Crew:
    """The programs: whoever has died is followed by another one."""

    def __init__(self, cluster: LocalCluster, notes: Path, dice: random.Random) -> None:
        self._cluster, self._notes, self._dice = cluster, notes, dice
        self._running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        self._started = 0

    def tend(self, *, deadly: bool = True) -> None:
        """Starts those who are missing. Raises AssertionError where one ended by itself.

        `deadly`: whether the new ones kill themselves in the end.
        """
        for number, (role, process) in list(self._running.items()):
            if process.poll() is not None:
                assert process.returncode == -signal.SIGKILL, f"{role} {number} ended with {process.returncode}"
                del self._running[number]
        there = Counter(role for role, _ in self._running.values())
        for role in (Counter(ROLES) - there).elements():
            self._start(role, deadly=deadly)

    def end(self) -> None:
        for _, process in self._running.values():
            assert process.stdin is not None
            process.stdin.close()
        for role, process in self._running.values():
            try:
                assert process.wait(PATIENCE) in (0, -signal.SIGKILL), f"{role} ended with {process.returncode}"
            finally:
                process.kill()
                process.wait()

    def _start(self, role: str, *, deadly: bool) -> None:
        self._started += 1
        number, calls = self._started, self._dice.randint(*CALLS[role]) if deadly else 0
        notes = self._notes / f"{number:04}-{role}.jsonl"
        self._running[number] = (
            role,
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.integration.history.program", self._cluster.addresses),
                    *(role, str(number), str(notes), str(calls)),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.PIPE,
            ),
        )


@contextmanager
def at_work(cluster: LocalCluster, notes: Path, dice: random.Random) -> Iterator[Crew]:
    crew = Crew(cluster, notes, dice)
    try:
        crew.tend()
        yield crew
    finally:
        crew.end()


def counts(notes: Notes) -> Counter[str]:
    """What was done, as far as programs were told; what has changed nothing is left out."""
    does = Counter(notes.begun[label]["does"] for label, at in notes.told.items() if at)
    done = Counter(restored=does.pop("restore", 0), undone=does.pop("undo", 0), written=does.total())
    return done + Counter({"killed in the middle": notes.killed, "read": len(notes.read)})


def taken_back(notes: Notes) -> int:
    """How often somebody has begun to take something back."""
    return sum(noted["does"] in ("restore", "undo") for noted in notes.begun.values())


def play(cluster: LocalCluster, directory: Path, seconds: float) -> Counter[str]:
    """Until so many seconds are over, and there was enough of everything: then nobody is killed any more."""
    dice, until, killed = random.Random(SEED), time.monotonic() + seconds, 0

    def lacking() -> Counter[str]:
        goes_on = Counter({"seconds": int(time.monotonic() < until)})
        return goes_on + (FLOORS - counts(five.notes_of(directory)) - Counter({"nodes killed": killed}))

    def is_ready_for_more(begun: int) -> bool:
        crew.tend(deadly=lacking()["killed in the middle"] > 0 or time.monotonic() < until)
        return taken_back(five.notes_of(directory)) > begun or not lacking()

    with at_work(cluster, directory, dice) as crew:
        deadline = until + PATIENCE
        while missing := lacking():
            assert time.monotonic() < deadline, f"too little: {missing}"
            begun = taken_back(five.notes_of(directory))
            wait_until(lambda begun=begun: is_ready_for_more(begun), "somebody takes something back", PATIENCE)  # type: ignore[misc]
            if missing["nodes killed"] or missing["seconds"]:
                node = cluster.leader(dice.choice(["status-0", "shard-0", "shard-1", "shard-2"]))
                cluster.kill(node)
                killed += 1
                cluster.start_node(node)
                cluster.wait_ready()
    return counts(five.notes_of(directory)) + Counter({"nodes killed": killed})


@pytest.mark.timeout(500 + 4 * SECONDS)
@pytest.mark.parametrize("seconds", [0.0, pytest.param(SECONDS, marks=pytest.mark.campaign)])
def test_five_tables_are_taken_back_together_whoever_is_killed(tmp_path: Path, seconds: float) -> None:
    """In a campaign files are compacted meanwhile."""
    options = {"keepalive_default_ms": 15_000, "compact_delta_num": 6, "compact_delta_pct": 5, "row_flush_bytes": 2_000}
    txn = FAST_TXN.model_copy(update=options)
    notes = tmp_path / "notes"
    notes.mkdir()
    with fast_cluster(tmp_path / "cluster", txn=txn, compactor=bool(seconds)) as cluster, connect(cluster) as client:
        five.create(client)
        done = play(cluster, notes, seconds)
        wait_until(lambda: five.is_at_rest(client), "all that was begun is over", PATIENCE)
        problems = five.judge(client, five.notes_of(notes), client.timeline())
        print(f"\nseed {SEED}: " + ", ".join(f"{count} {what}" for what, count in sorted(done.items())))
        assert not problems, "\n".join(problems[:20])
        cluster.compactor.stop()
        wait_until(lambda: settled(cluster), "all replicas hold the same state", PATIENCE)
        with suppress(TimeoutError):
            wait_until(lambda: not _left_over(client), "what was left behind is removed", PATIENCE)
        assert not (left := _left_over(client)), "\n".join(left)


def _left_over(client: object) -> list[str]:
    examined = Examination(client, Wishes()).run()  # type: ignore[arg-type]
    return [str(each) for each in examined.findings]


@pytest.mark.parametrize(
    ("after", "read", "problems"),
    [("empty", "empty", 0), ("torn", "empty", 2), ("empty", "torn", 1), ("full", "empty", 2)],
    ids=["as it should be", "a table left out", "a reader of half", "nothing restored"],
)
def test_the_judge_sees_what_is_torn(monkeypatch: pytest.MonkeyPatch, after: str, read: str, problems: int) -> None:
    """A load at 10, and a restore at 20 to before it; what is there after that, and what a reader saw then."""
    row = 1, 0, "new"
    full = {table: Counter([row]) for table in five.TABLES}
    states = {"full": full, "empty": five.EMPTY, "torn": {**five.EMPTY, "five.keyed": Counter([row])}}
    there = {10: full, 20: states[after]}
    monkeypatch.setattr(five, "seen", there.__getitem__)
    client = SimpleNamespace(snapshot=lambda at: at)
    begun = {
        "load": {"does": "load", "at": 0, "rows": [row]},
        "restore": {"does": "restore", "to": 0, "since": 10},
    }
    now, tables = datetime.now(UTC), (TableChange("five.plain"),)
    timeline = [
        Past(number, "COMMITTED", "ada", label, now, now, at, tables, "", "", "", None, ())
        for number, (label, at) in enumerate([("load", 10), ("restore", 20)])
    ]
    notes = Notes(begun, {"load": 10, "restore": 20}, read=[(15, full), (20, states[read])])
    assert len(five.judge(client, notes, timeline)) == problems  # type: ignore[arg-type]
