"""Transactions that are begun, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suite.ballast import SILENT_MS
from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, begin
from benchmarks.suite.peers.etcd import Etcd
from benchmarks.suite.peers.postgres import Postgres
from benchmarks.suite.peers.zookeeper import ZooKeeper
from txndeploy.node.config import TxnSection

STEPS = 1


class Ours(OurCluster):
    about = "one stream; they stay open"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, TxnSection(keepalive_max_ms=SILENT_MS, max_open_transactions=0))

    async def run(self, point: int, seconds: float) -> Tally:
        async with self.connected() as channel:

            async def one(_: int) -> None:
                await begin(channel, SILENT_MS)

            return await drive(one, point, seconds)


def contenders(settings: Settings) -> Sequence[Contender]:
    return [
        Ours(settings),
        Etcd(settings, STEPS),
        Etcd(settings, STEPS, name="etcd-batch", batch=True),
        Postgres(settings, STEPS, name="pg-sync", replicated=True),
        Postgres(settings, STEPS, name="pg-sync-batch", replicated=True, batch=True),
        ZooKeeper(settings, STEPS),
    ]


WORKLOAD = Workload(
    name="begins",
    title="Begin only",
    contenders=contenders,
    about="A durable record each, on three replicas.",
)
