"""The states of transactions, read."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, begin, state
from benchmarks.suite.peers.etcd import RECORD, Etcd, EtcdCalls
from benchmarks.suite.peers.postgres import BEGIN, OWNER, Postgres, Statements
from txnstatus.types import TxnState

COUNT = 1_000
"""Open transactions. Each is asked for in turn."""
AT_ONCE = 100
STEPS = 1
SELECT = "SELECT id FROM txns WHERE id = $1 AND state = 'open'"
KeyT = TypeVar("KeyT")


async def read_in_turn(
    make: Callable[[], Awaitable[KeyT]], is_open: Callable[[KeyT], Awaitable[bool]], point: int, seconds: float
) -> Tally:
    """Makes the transactions, which is not measured, and reads them."""
    keys: list[KeyT] = []
    while len(keys) < COUNT:
        keys += await asyncio.gather(*(make() for _ in range(AT_ONCE)))
    turn = itertools.cycle(keys)

    async def read(_: int) -> None:
        key = next(turn)
        if not await is_open(key):
            raise RuntimeError(f"{key} is not open")

    return await drive(read, point, seconds)


class Ours(OurCluster):
    about = "from the leader, as of now; one stream"

    async def run(self, point: int, seconds: float) -> Tally:
        async with self.connected() as channel:

            async def is_open(txn: int) -> bool:
                return await state(channel, txn) is TxnState.OPEN

            return await read_in_turn(lambda: begin(channel), is_open, point, seconds)


class EtcdReads(Etcd):
    about = "Range of one key, from the leader, linearizable; one connection"

    async def run(self, point: int, seconds: float) -> Tally:
        calls = EtcdCalls(self.address)
        numbers = itertools.count()

        async def make() -> bytes:
            key = f"txn/{next(numbers):012}".encode()
            await calls.put_all([(key, b"open" + RECORD)])
            return key

        async def is_open(key: bytes) -> bool:
            return (await calls.get(key)).startswith(b"open")

        try:
            return await read_in_turn(make, is_open, point, seconds)
        finally:
            await calls.close()


class PostgresReads(Postgres):
    about = "SELECT by key from the only server; a pool of 16 or 64 connections, whichever is faster"

    async def measure(self, statements: Statements, point: int, seconds: float) -> Tally:
        async def make() -> int:
            (txn,) = await statements.ids(BEGIN, OWNER, 0)
            return txn

        async def is_open(txn: int) -> bool:
            return await statements.ids(SELECT, txn) == [txn]

        return await read_in_turn(make, is_open, point, seconds)


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings), EtcdReads(settings, STEPS), PostgresReads(settings, STEPS, name="pg")]


WORKLOAD = Workload(
    name="reads",
    title="States read",
    contenders=contenders,
    operation="read",
    about=f"The state of one of {COUNT:,} open transactions, as of now.",
)
