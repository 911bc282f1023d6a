"""How a commit grows with the tables in it, each of them a participant."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Goal, Tally, Workload
from benchmarks.suite.ours import OurCluster, begin_writing, commit, create_table, open_write
from txnstatus.limits import MAX_FIRST_WRITES

AT_ONCE = 50
"""Tables that are made at a time."""


class Ours(OurCluster):
    about = "begin with a write in each table, or in the first 100, and then the commit, which is what is timed"

    def start(self, directory: Path) -> None:
        self._made = 0
        super().start(directory)

    async def prepare(self, point: int) -> None:
        """Tables of earlier points are used again."""
        async with self.connected() as channel:
            for first in range(self._made, point, AT_ONCE):
                names = _names(point)[first : first + AT_ONCE]
                await asyncio.gather(*(create_table(channel, name) for name in names))
        self._made = max(self._made, point)

    async def warm_up(self, point: int, seconds: float) -> None:
        await self.prepare(1)
        await self.run(1, seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        tables, commits = _names(point), list[float]()
        async with self.connected() as channel:

            async def transact(_: int) -> None:
                txn, _opened = await begin_writing(channel, tables[:MAX_FIRST_WRITES])
                await asyncio.gather(*(open_write(channel, txn, table) for table in tables[MAX_FIRST_WRITES:]))
                began = time.perf_counter()
                await commit(channel, txn)
                commits.append(time.perf_counter() - began)

            tally = await drive(transact, 1, seconds)
        tally.latencies = commits
        return tally


def _names(count: int) -> list[str]:
    return [f"tables.number_{number}" for number in range(count)]


WORKLOAD = Workload(
    name="tables",
    title="Tables in a transaction",
    about="One transaction at a time. The rate is that of whole transactions, the latency that of their commits.",
    contenders=lambda settings: [Ours(settings)],
    points=(1, 2, 5, 10, 20, 50, 100, 1_000),
    axis="tables",
    goals=(Goal("ours", "p50", 10, 1.3, "ours", peer_point=1, at_most=True),),
)
