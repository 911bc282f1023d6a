"""What the leader of a group answers that is asked for a shard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.harness.notes import Notes
from txndeploy.node.migrating import Releasing
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.placement import Migration
from txnstatus.errors import NotTheLeader, Unavailable
from txnstatus.proto import admin_pb2
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.parts import Parts, address, opening
from txnstatus.raft.proposals import Proposal


class Driver:
    """Commits at once what it gets."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.leads = parts, True
        self.group = SimpleNamespace(group="group-0")

    def check_lease(self) -> None:
        if not self.leads:
            raise NotTheLeader("another node leads group-0")

    def submit(self, commands: list[bytes], ended: object) -> None:
        proposal = Proposal(tuple(commands))
        proposal.outcomes = self.parts.apply(commands)
        ended(proposal)  # type: ignore[operator]


class World:
    def __init__(self) -> None:
        self.parts = Parts(lambda _part: Notes())
        self.parts.apply([opening("shard-0"), opening("shard-1"), address("shard-1") + b"one"])
        self.driver = Driver(self.parts)
        self.migrations = {"shard-1": Migration("group-1", 7)}
        cluster = SimpleNamespace(state=SimpleNamespace(migrations=self.migrations))
        self._releasing = Releasing(self.parts, cast(RaftDriver, self.driver), cast(ClusterMap, cluster))

    async def read(self, part: str = "shard-1", number: int = 7, chunk: int = 0) -> admin_pb2.ReadPartResponse:
        return await self._releasing.read_part(admin_pb2.ReadPartRequest(part=part, number=number, chunk=chunk))


async def test_a_shard_leaves_once_and_is_read_as_often_as_one_likes() -> None:
    world = World()
    first = await world.read()
    assert first.is_last
    assert first.data.endswith(b"one")
    assert await world.read() == first
    assert "shard-1" not in world.parts.machines


@pytest.mark.parametrize(
    ("part", "number"), [("shard-0", 7), ("shard-1", 6), ("shard-1", 8), ("", 7), ("x" * 1_000, 7)]
)
async def test_no_shard_leaves_that_the_catalog_does_not_send(part: str, number: int) -> None:
    world = World()
    with pytest.raises(Unavailable, match="does not leave group-0"):
        await world.read(part, number)
    assert [*world.parts.machines] == ["shard-0", "shard-1"]


async def test_who_does_not_lead_lets_nothing_go() -> None:
    world = World()
    world.driver.leads = False
    with pytest.raises(NotTheLeader):
        await world.read()
    assert "shard-1" in world.parts.machines
