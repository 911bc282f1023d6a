"""Whole transactions: begin, two participants register, commit, acknowledged and visible."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, transact

from txnstatus.rpc.channel import PeerChannel


class Ours(OurCluster):
    """All transactions of one client, over its one stream."""

    name = "ours"
    about = "the whole product: managers, registration, two tables as participants, two-phase commit; one stream"

    async def run(self, point: int, seconds: float) -> Tally:
        channel = PeerChannel(self.leader_address())
        try:
            return await drive(lambda number: transact(channel), point, seconds)
        finally:
            await channel.close()


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings)]


WORKLOAD = Workload(
    name="transactions",
    title="Transactions with two participants",
    contenders=contenders,
    slow_disk=True,
    goals=(Goal("ours", "cpu leader", 64, 80, at_most=True),),
)
