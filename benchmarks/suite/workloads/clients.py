"""Transactions of independent clients: a process each, with one transaction at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.suite import clients
from benchmarks.suite.drive import Operation
from benchmarks.suite.model import Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, connected, transact
from benchmarks.suite.peers import etcd, postgres

STEPS = 4
"""The durable rounds of the peers' transactions."""


@dataclass(frozen=True)
class OurClient:
    address: str

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Operation]:
        async with connected(self.address) as channel:
            yield lambda number: transact(channel)


class Ours(OurCluster):
    about = "the whole product; a stream for each client"

    async def run(self, point: int, seconds: float) -> Tally:
        return await clients.run(OurClient(self.leader_address()), point, seconds)


class EtcdClients(etcd.Etcd):
    about = f"steps: {STEPS}, each a compare-and-set Txn; a connection for each client"

    async def run(self, point: int, seconds: float) -> Tally:
        return await clients.run(etcd.Client(self.address, STEPS), point, seconds)


class PostgresClients(postgres.Postgres):
    about = f"steps: {STEPS}; compare-and-set UPDATEs; a connection for each client"

    async def warm_up(self, point: int, seconds: float) -> None:
        await self.run(point, seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        return await clients.run(postgres.Client(self.url, STEPS), point, seconds)


def contenders(settings: Settings) -> Sequence[Contender]:
    return [
        Ours(settings),
        EtcdClients(settings, STEPS),
        PostgresClients(settings, STEPS, name="pg"),
        PostgresClients(settings, STEPS, name="pg-sync", replicated=True),
    ]


WORKLOAD = Workload(
    name="clients",
    title="Transactions of independent clients",
    contenders=contenders,
    points=(16, 64),
    axis="clients",
    about="The same transactions; each client is a process with a connection of its own, and does one after the other. "
    "Nothing can be batched on their side.",
    goals=(Goal("ours", "rate", 64, 2.5, "etcd"),),
)
