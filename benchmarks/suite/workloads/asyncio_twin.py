"""Transactions of one program: by threads with the client, and by one loop with its twin for asyncio."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import txnclient
from benchmarks.suite.drive import drive
from benchmarks.suite.model import Goal, Tally, Workload
from benchmarks.suite.ours import OurCluster
from txnclient import aio

TABLE = "bench.keyed"


class _Keyed(OurCluster):
    def start(self, directory: Path) -> None:
        super().start(directory)
        self._numbers = itertools.count()
        with txnclient.connect(self.cluster.addresses) as client:
            client.create_table(TABLE, "id bigint, note string", primary_key=["id"])

    def rows(self) -> pa.Table:
        """One, whose key nobody else has."""
        return pa.table({"id": [next(self._numbers)], "note": ["x"]})


class ByThreads(_Keyed):
    name = "ours-threads"
    about = "the client, a thread for each transaction in flight"

    async def run(self, point: int, seconds: float) -> Tally:
        with txnclient.connect(self.cluster.addresses) as client, ThreadPoolExecutor(point) as pool:

            def transact() -> None:
                with client.transaction(tables=[TABLE]) as txn:
                    txn.upsert(TABLE, self.rows())

            loop = asyncio.get_running_loop()
            return await drive(lambda _: loop.run_in_executor(pool, transact), point, seconds)


class ByLoop(_Keyed):
    about = "its twin for asyncio, in one loop"

    async def run(self, point: int, seconds: float) -> Tally:
        async with aio.connect(self.cluster.addresses) as client:

            async def transact(_: int) -> None:
                async with client.transaction(tables=[TABLE]) as txn:
                    await txn.upsert(TABLE, self.rows())

            return await drive(transact, point, seconds)


WORKLOAD = Workload(
    name="asyncio",
    title="One program's transactions, by threads and by asyncio",
    contenders=lambda settings: [ByLoop(settings), ByThreads(settings)],
    points=(16, 64, 256, 1_000),
    about="Begin, one row into a table with a key, commit; all by the client library, in one process.",
    goals=(Goal("ours", "rate", 256, 1.2, "ours-threads"),),
)
