"""How long a snapshot holds up the event loop: a status table of many open transactions, on one replica's real driver.

    python benchmarks/snapshot_pause.py [--transactions 100000]

Commits go on one after the other while the snapshot is written. A pause is how much later than asked for a sleeping
task wakes; the longest one bounds what heartbeats and votes wait for. Then the same while another replica gets the
snapshot: it loads it in the same slices as one that lags.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from txndeploy.node import garbage
from txnstatus.process.disk import OsDisk
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.proposer import Proposer
from txnstatus.raft.settings import SLICE_SECONDS, RaftSettings
from txnstatus.raft.snapshot import finish
from txnstatus.raft.snapshot import load as restore
from txnstatus.status import commands
from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import Applied, Rejected, TxnStatusTable
from txnstatus.types import HybridClock

BATCH = 1_000
WATCH_SECONDS = 0.002


class Nobody:
    """The way to the other replicas of a group of one."""

    def send(self, receiver: str, message: pb.RaftMessage) -> None:
        raise AssertionError((receiver, message))


class Watch:
    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(WATCH_SECONDS)
            self.longest = max(self.longest, time.monotonic() - before - WATCH_SECONDS)


def begin(request_id: str, count: int) -> commands.BeginTxns:
    return commands.BeginTxns(request_id, count, "owner", "nightly", 3_600_000, 1)


async def measure(directory: Path, transactions: int) -> None:
    clock = HybridClock(lambda: time.time_ns() // 1000)
    machine = StatusMachine(TxnStatusTable(0, 10 * transactions), clock)
    entries = transactions // BATCH + 20
    settings = RaftSettings(snapshot_entries=entries)
    path = directory / "group"
    group = RaftGroup("status-0", "n1", ["n1"], machine, path, settings, time.monotonic, OsDisk())
    leads = asyncio.Event()
    driver = RaftDriver(group, Nobody(), ThreadPoolExecutor(4))
    driver.subscribe(lambda _leading: leads.set())
    proposer: Proposer[commands.Command, Applied, Rejected] = Proposer("status", driver, commands.encode, Rejected)
    driver.start()
    await leads.wait()
    for number in range(transactions // BATCH):
        await proposer.propose(begin(f"fill-{number}", BATCH))
    watch = Watch()
    watching = asyncio.create_task(watch.run())
    snapshot, number, slowest, began = path / "snapshot", 0, 0.0, 0.0
    while not snapshot.exists():
        if not began and (path / "snapshot.new").exists():
            began = time.monotonic()
        before = time.monotonic()
        await proposer.propose(begin(f"more-{number}", 1))
        slowest = max(slowest, time.monotonic() - before)
        number += 1
    took = time.monotonic() - began
    watching.cancel()
    print(
        f"{transactions} open transactions, a snapshot of {snapshot.stat().st_size / 1e6:.1f} MB in {took:.2f} s: "
        f"longest pause {watch.longest * 1e3:.1f} ms, slowest of {number} commits {slowest * 1e3:.1f} ms"
    )
    await driver.stop()
    await load(snapshot, transactions)


async def load(path: Path, transactions: int) -> None:
    """A slice in each turn of the loop, as `CatchUp` does it, and then what is restored replaces what was there."""
    disk = OsDisk()
    machine = StatusMachine(TxnStatusTable(0, 10 * transactions), HybridClock(lambda: time.time_ns() // 1000))
    watch = Watch()
    watching = asyncio.create_task(watch.run())
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
        print(f"loading it on a replica with {what}, in {took:.2f} s: longest pause {watch.longest * 1e3:.1f} ms")
    watching.cancel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transactions", type=int, default=100_000)
    garbage.tune()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure(Path(directory), parser.parse_args().transactions))


if __name__ == "__main__":
    main()
