"""Transactions that are begun, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, begin
from benchmarks.suite.peers.etcd import Etcd
from benchmarks.suite.peers.postgres import Postgres
from benchmarks.suite.peers.zookeeper import ZooKeeper
from txndeploy.node.config import TxnSection
from txnstatus.rpc.channel import PeerChannel

LONG_MS = 3_600_000
"""None expires while the others are begun."""
STEPS = 1


class Ours(OurCluster):
    about = "one stream; they stay open"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, TxnSection(keepalive_max_ms=LONG_MS, max_open_transactions=0))

    async def run(self, point: int, seconds: float) -> Tally:
        channel = PeerChannel(self.leader_address())

        async def one(_: int) -> None:
            await begin(channel, LONG_MS)

        try:
            return await drive(one, point, seconds)
        finally:
            await channel.close()


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
