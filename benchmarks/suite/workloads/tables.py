"""How a commit grows with the tables in it, each of them a participant."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, begin, commit, create_table, open_write
from txnstatus.rpc.channel import PeerChannel

AT_ONCE = 50
"""Tables."""


class Ours(OurCluster):
    about = "begin, a write in each table, all at once, and then the commit, which is what is timed"

    def start(self, directory: Path) -> None:
        self._made = 0
        super().start(directory)

    async def prepare(self, point: int) -> None:
        """Tables of earlier points are used again."""
        channel = PeerChannel(self.leader_address())
        try:
            for first in range(self._made, point, AT_ONCE):
                names = _names(point)[first : first + AT_ONCE]
                await asyncio.gather(*(create_table(channel, name) for name in names))
        finally:
            await channel.close()
        self._made = max(self._made, point)

    async def warm_up(self, point: int, seconds: float) -> None:
        await self.prepare(1)
        await self.run(1, seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        channel, tables, commits = PeerChannel(self.leader_address()), _names(point), list[float]()

        async def transact(_: int) -> None:
            txn = await begin(channel)
            await asyncio.gather(*(open_write(channel, txn, table) for table in tables))
            began = time.perf_counter()
            await commit(channel, txn)
            commits.append(time.perf_counter() - began)

        try:
            tally = await drive(transact, 1, seconds)
        finally:
            await channel.close()
        tally.latencies = commits
        return tally


def _names(count: int) -> list[str]:
    return [f"tables.number_{number}" for number in range(count)]


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings)]


WORKLOAD = Workload(
    name="tables",
    title="Tables in a transaction",
    about="One transaction at a time. The rate is that of whole transactions, the latency that of their commits.",
    contenders=contenders,
    points=(1, 2, 5, 10, 20, 50, 100, 1_000),
    axis="tables",
    goals=(Goal("ours", "p50", 10, 1.3, "ours", peer_point=1, at_most=True),),
)
