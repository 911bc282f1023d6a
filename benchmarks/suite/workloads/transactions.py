"""Whole transactions: begin, two participants register, commit, acknowledged and visible."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, transact
from benchmarks.suite.peers.etcd import Etcd
from benchmarks.suite.peers.postgres import Postgres
from benchmarks.suite.peers.postgres_prepared import PreparedTransactions
from benchmarks.suite.peers.zookeeper import ZooKeeper

STEPS = 4
"""The durable rounds of a peer whose name does not say them."""


class Ours(OurCluster):
    """All transactions of one client, over its one stream."""

    about = "the whole product: managers, registration, two tables as participants, two-phase commit; one stream"

    async def run(self, point: int, seconds: float) -> Tally:
        async with self.connected() as channel:
            return await drive(lambda number: transact(channel), point, seconds)


def contenders(settings: Settings) -> Sequence[Contender]:
    found: list[Contender] = [Ours(settings)]
    for rounds in settings.rounds_of:
        end = "" if rounds == STEPS else f"-{rounds}r"
        found += [
            Etcd(settings, rounds, name=f"etcd{end}"),
            Etcd(settings, rounds, name=f"etcd-batch{end}", batch=True),
            Postgres(settings, rounds, name=f"pg{end}"),
            Postgres(settings, rounds, name=f"pg-batch{end}", batch=True),
            Postgres(settings, rounds, name=f"pg-sync{end}", replicated=True),
            Postgres(settings, rounds, name=f"pg-sync-batch{end}", replicated=True, batch=True),
            ZooKeeper(settings, rounds, name=f"zookeeper{end}"),
        ]
    return [*found, PreparedTransactions(settings)]


WORKLOAD = Workload(
    name="transactions",
    title="Transactions with two participants",
    contenders=contenders,
    slow_disk=True,
    about=(
        "Begin, two participants register, commit, acknowledged and visible; three replicas where there are any, and "
        "what is acknowledged is synced to disk. Ours does all of it: two tables vote and apply. The peers hold the "
        "transaction's states alone: the participants would be their user's to write. They do so in four durable "
        "steps, or in two where the name ends in -2r: begun and registered, then decided."
    ),
    goals=(
        Goal("ours", "rate", 64, 5, "etcd"),
        Goal("ours", "rate", 64, 2, "etcd-2r"),
        Goal("ours", "rate", 64, 1.5, "pg"),
        Goal("ours", "rate", 64, 4, "pg-sync"),
        Goal("ours", "rate", 64, 0.4, "pg-sync-batch"),
        Goal("ours", "rate", 256, 5.5, "etcd"),
        Goal("ours", "rate", 256, 2, "pg"),
        Goal("ours", "p50", 1, 0.45, "etcd", at_most=True),
        Goal("ours", "p50", 1, 1.2, "pg-sync", at_most=True),
        Goal("ours", "cpu", 64, 220, at_most=True),
        Goal("ours", "rate", 64, 4, "etcd", fsync_ms=1),
    ),
)
