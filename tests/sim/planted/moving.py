"""Slips in how nodes learn, are drained, come and leave, put in on purpose, as in faults.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.sim.planted.faults import Seams
from txndeploy.node.replicas import ReplicaAdmin
from txnstatus.catalog import commands as cmd
from txnstatus.catalog import membership
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.placement import Move
from txnstatus.catalog.service import ReplicaMover

ADMIN = "txndeploy.node.replicas:ReplicaAdmin"
LEARNERS = "txnstatus.raft.learners:Learners"
MEMBERSHIP = "txnstatus.catalog.membership"
MOVER = "txnstatus.catalog.service:ReplicaMover"


def the_vote_of_a_learner_counts() -> Seams:
    return [(f"{LEARNERS}.may_answer", lambda *_: True)]


def an_empty_one_is_let_in() -> Seams:
    return [(f"{LEARNERS}.check_caught_up", lambda *_: None)]


def a_drained_node_leads_on() -> Seams:
    return [("txnstatus.raft.elections:Elections.gives_way", property(lambda _self: False))]


def one_goes_before_another_has_come() -> Seams:
    let_in = ReplicaAdmin._let_in

    async def gone_first(self: ReplicaAdmin, new: str, old: str) -> None:
        if old in self._driver.group.members:
            await self._driver.change_members(remove=old)
        await let_in(self, new, old)

    return [(f"{ADMIN}._let_in", gone_first)]


def a_node_is_removed_that_holds_replicas() -> Seams:
    def removed(state: CatalogState, node: str) -> CatalogState:
        return replace(state, nodes={name: info for name, info in state.nodes.items() if name != node})

    return [(f"{MEMBERSHIP}:_remove_node", removed)]


def who_leaves_keeps_a_replica() -> Seams:
    """Moves are made for all of its groups but one, and nobody looks whether all of them are left."""
    drain_node = membership._drain_node

    def drained(state: CatalogState, node: str, drain: Any) -> CatalogState:
        changed = drain_node(state, node, drain)
        return replace(changed, moves=changed.moves[:-1])

    return [(f"{MEMBERSHIP}:_drain_node", drained)]


def the_mover_forgets_a_group() -> Seams:
    async def run_once(self: ReplicaMover) -> None:
        for group in sorted(self._state().groups)[:-1]:
            if (move := self._state().move_of(group)) is not None:
                await self._move_one(move)

    return [(f"{MOVER}.run_once", run_once)]


def the_catalog_is_told_first() -> Seams:
    """A move counts as done before its group has heard of it."""
    move = ReplicaMover._move

    async def told(self: ReplicaMover, wanted: Move) -> None:
        await self._catalog.change(cmd.MoveReplica(wanted.group, wanted.old_node, wanted.new_node))
        await move(self, wanted)

    return [(f"{MOVER}._move", told)]


def a_move_that_is_done_ends_all() -> Seams:
    move_replica = membership._move_replica

    def ended(state: CatalogState, move: Move) -> CatalogState:
        return replace(move_replica(state, move), moves=())

    return [(f"{MEMBERSHIP}:_move_replica", ended)]


MOVING: Mapping[str, Callable[[], Seams]] = {
    "the vote of a learner counts": the_vote_of_a_learner_counts,
    "an empty one is let in": an_empty_one_is_let_in,
    "a drained node leads on": a_drained_node_leads_on,
    "one goes before another has come": one_goes_before_another_has_come,
    "a node is removed that holds replicas": a_node_is_removed_that_holds_replicas,
    "who leaves keeps a replica": who_leaves_keeps_a_replica,
    "the mover forgets a group": the_mover_forgets_a_group,
    "the catalog is told first": the_catalog_is_told_first,
    "a move that is done ends all": a_move_that_is_done_ends_all,
}
