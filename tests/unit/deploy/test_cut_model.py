"""Cuts through three groups under load are of one moment, and what makes one that is not is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.unit.harness.cutting import RestlessDriver, World
from txndeploy.backup.cut import contradictions
from txndeploy.node.cuts import GroupCuts
from txnmanager.backups import Backups
from txnstatus.errors import TxnError, Unavailable
from txnstatus.proto import backup_pb2 as pb
from txnstatus.types import TxnId

SEEDS, MOST_SEEDS = range(25), 300


async def found(seed: int) -> list[str]:
    """What contradicts itself in a cut, after some load; nothing where none could be made."""
    world = World(seed)
    for _ in range(world.chance.randint(20, 150)):
        await world.turn()
    try:
        return list(contradictions(await world.cut()))
    except TxnError:
        return []


def test_a_cut_is_of_one_moment() -> None:
    for seed in SEEDS:
        assert asyncio.run(found(seed)) == [], f"seed {seed}"


def test_ranges_of_a_cut_have_given_out_all_ids_that_shards_know() -> None:
    async def unknown(seed: int) -> dict[str, TxnId]:
        world = World(seed)
        for _ in range(60):
            await world.turn()
        try:
            cut = await world.cut()
        except TxnError:
            return {}
        assert any(table.txns for shard in cut.shards() for table in shard.tables())
        return cut.unknown_ids()

    assert [asyncio.run(unknown(seed)) for seed in range(8)] == [{}] * 8


def test_nearly_all_cuts_come_about() -> None:
    async def come(seed: int) -> bool:
        world = World(seed)
        try:
            await world.cut()
        except TxnError:
            return False
        return True

    assert sum(asyncio.run(come(seed)) for seed in SEEDS) > len(SEEDS) * 0.6


# ---- planted faults


def _each_by_itself(patch: pytest.MonkeyPatch) -> None:
    """Each group is let go as soon as it was held: there is no moment at which all were."""

    async def cut(self: Backups, cut_id: str) -> pb.CutClusterResponse:
        state = await self._catalog.refresh()
        response = pb.CutClusterResponse(cut_id=cut_id, cluster_id=state.cluster_id)
        for group in sorted(state.groups):
            held = await self._hold(group, cut_id)
            await self._take(group, held.node_id, cut_id)
            response.groups.add(group=group, node_id=held.node_id)
        return response

    patch.setattr(Backups, "_cut", cut)


def _without_a_hold(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether a group was held all the time: one that was deposed, or too slow, passes for it."""
    patch.setattr(RestlessDriver, "is_held", lambda *_: True)


def _taken_before_it_rests(patch: pytest.MonkeyPatch) -> None:
    """What is in the log, and has not applied, is not waited for."""

    async def hold(self: RestlessDriver, _seconds: float) -> object:
        if self.group.held is not None:
            raise Unavailable("it is held already")
        self.group.held = object()
        return self.group.held

    patch.setattr(RestlessDriver, "hold", hold)


def _read_late(patch: pytest.MonkeyPatch) -> None:
    """The state is looked at when it is read, and not when it is held."""
    init = GroupCuts.__init__

    class Late:
        def __init__(self, machine: Any) -> None:
            self._machine = machine

        def __getattr__(self, name: str) -> Any:
            return getattr(self._machine, name)

        def snapshot(self) -> Iterable[bytes]:
            yield from self._machine.snapshot()

    def with_late(self: GroupCuts, driver: Any, machine: Any, node_id: str) -> None:
        init(self, driver, machine if hasattr(machine, "catalog") else Late(machine), node_id)

    patch.setattr(GroupCuts, "__init__", with_late)


def _a_group_is_left_out(patch: pytest.MonkeyPatch) -> None:
    """A cut without one of the groups."""
    cut = Backups._cut

    async def without(self: Backups, cut_id: str) -> pb.CutClusterResponse:
        answer = await cut(self, cut_id)
        del answer.groups[-1]
        return answer

    patch.setattr(Backups, "_cut", without)


PLANTED = (
    _each_by_itself,
    _without_a_hold,
    _taken_before_it_rests,
    _read_late,
    _a_group_is_left_out,
)


@pytest.mark.parametrize("plant", PLANTED, ids=[plant.__name__.strip("_") for plant in PLANTED])
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(asyncio.run(found(seed)) for seed in range(MOST_SEEDS))
