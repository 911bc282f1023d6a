"""How long a snapshot holds up the event loop: a status table of many open transactions, on one replica's real driver.

Commits go on one after the other while the snapshot is written. A pause is how much later than asked for a sleeping
task wakes; the longest one bounds what heartbeats and votes wait for. Then the same while another replica gets the
snapshot: it loads it in the same slices as one that lags.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from rich.table import Table

from benchmarks.suite.ballast import batches
from benchmarks.suite.options import at_least
from benchmarks.suite.report import table_of
from txndeploy.node import garbage
from txnstatus import features
from txnstatus.process.disk import OsDisk
from txnstatus.process.environment import Environment
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.proposer import Proposer
from txnstatus.raft.settings import SLICE_SECONDS, RaftSettings
from txnstatus.raft.snapshot import finish
from txnstatus.raft.snapshot import load as restore
from txnstatus.status import commands
from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import HybridClock, ParticipantId, TxnId

WATCH_SECONDS = 0.002
Row = tuple[str, str, str]


class Nobody:
    """The way to the other replicas of a group of one."""

    def send(self, messages: Sequence[tuple[str, pb.RaftMessage]]) -> None:
        raise AssertionError(messages)


class Watch:
    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(WATCH_SECONDS)
            self.longest = max(self.longest, time.monotonic() - before - WATCH_SECONDS)


def _nobody(_txn_id: TxnId, _participant_id: ParticipantId) -> None:
    """Keeps a participant in the log of the table."""


def begin(request_id: str, count: int) -> commands.BeginTxns:
    return commands.BeginTxns(request_id, count, "owner", "nightly", 3_600_000, 1)


async def take(directory: Path, transactions: int) -> list[Row]:
    clock = HybridClock(lambda: time.time_ns() // 1000)
    machine = StatusMachine(TxnStatusTable(0, 10 * transactions), clock, _nobody)
    entries = len(batches(transactions)) + 20
    settings = RaftSettings(snapshot_entries=entries)
    path = directory / "group"
    group = RaftGroup("status-0", "n1", ["n1"], machine, path, settings, time.monotonic, OsDisk())
    leads = asyncio.Event()
    driver = RaftDriver(group, Nobody(), Environment())
    driver.subscribe(lambda _leading: leads.set())
    proposer: Proposer[commands.Command, StatusApplied] = Proposer(
        "status", driver, commands.encode, lambda: features.OWN.newest
    )
    driver.start()
    await leads.wait()
    for number, count in enumerate(batches(transactions)):
        await proposer.propose(begin(f"fill-{number}", count))
    watch = Watch()
    watching = asyncio.create_task(watch.run())
    snapshot, number, slowest, began = path / "snapshot", 0, 0.0, 0.0
    before = time.monotonic()
    while not snapshot.exists():
        if not began and (path / "snapshot.new").exists():
            began = time.monotonic()
        before = time.monotonic()
        await proposer.propose(begin(f"more-{number}", 1))
        slowest = max(slowest, time.monotonic() - before)
        number += 1
    took = time.monotonic() - (began or before)  # a small one is there before it was seen to be made
    watching.cancel()
    await driver.stop()
    rows = [
        _row(f"writing {snapshot.stat().st_size / 1e6:.1f} MB", took, watch.longest),
        _row(f"the slowest of {number:,} commits meanwhile", slowest),
    ]
    return rows + await load(snapshot, transactions)


async def load(path: Path, transactions: int) -> list[Row]:
    """A slice in each turn of the loop, as `CatchUp` does it, and then what is restored replaces what was there."""
    disk = OsDisk()
    clock = HybridClock(lambda: time.time_ns() // 1000)
    machine = StatusMachine(TxnStatusTable(0, 10 * transactions), clock, _nobody)
    watch = Watch()
    watching = asyncio.create_task(watch.run())
    rows = []
    for what in ("nothing before it", "as much before it"):
        watch.longest = 0.0
        before, state = time.monotonic(), machine.restoring()
        slice_ends = before + SLICE_SECONDS
        for _ in restore(disk, path, state):
            if time.monotonic() >= slice_ends:
                await asyncio.sleep(0)
                slice_ends = time.monotonic() + SLICE_SECONDS
        finish(path, state)
        await asyncio.sleep(WATCH_SECONDS)
        took = time.monotonic() - before
        rows.append(_row(f"loading it on a replica with {what}", took, watch.longest))
    watching.cancel()
    return rows


def _row(what: str, seconds: float, longest: float | None = None) -> Row:
    return what, f"{seconds:.2f}", "" if longest is None else f"{longest * 1e3:.1f}"


def measure(transactions: Annotated[int, at_least(1_000, "Open ones.")] = 100_000) -> Iterator[Table]:
    garbage.tune()
    with tempfile.TemporaryDirectory() as directory:
        rows = asyncio.run(take(Path(directory), transactions))
    yield table_of(f"a snapshot of {transactions:,} open transactions", ("what", "s", "longest pause, ms"), rows)
