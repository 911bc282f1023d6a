"""Moves of replicas as the catalog's leader carries them through: only those that are wanted by then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.harness.answering import SECONDS
from txnstatus.catalog.catalog import CATALOG, CatalogState
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.commands import MoveReplica
from txnstatus.catalog.placement import Move
from txnstatus.catalog.service import ReplicaMover
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import Unavailable
from txnstatus.proto import admin_pb2


class Refusing:
    """In place of the groups' leaders: as the first move is asked for, all are called off; nobody carries one out."""

    def __init__(self, state: CatalogState) -> None:
        self.state = state
        self.asked: list[str] = []
        self.timeouts: list[float] = []

    async def call_leader(self, group: str, method: str, request: Any, response: Any, timeout: float) -> Any:
        assert (method, response) == ("txnstatus.Admin/MoveReplica", admin_pb2.MoveReplicaResponse)
        self.asked.append(group)
        self.timeouts.append(timeout)
        self.state = replace(self.state, moves=())
        raise Unavailable("the catalog of n1 does not say that n4 takes the place of n1")


def _state() -> CatalogState:
    groups = {CATALOG: ("n1", "n2", "n3"), "group-0": ("n1", "n2", "n3"), "group-1": ("n1", "n2", "n3")}
    moves = tuple(Move(group, "n1", "n4") for group in ("group-0", "group-1"))
    return CatalogState(
        range_span=10, nodes={}, groups=groups, parts={}, replication=3, participant_shards=1, moves=moves
    )


async def test_a_move_that_was_called_off_is_not_asked_for(monkeypatch: Any) -> None:
    leaders = Refusing(_state())
    monkeypatch.setattr(TxnSystemClient, "call_leader", lambda _, *arguments: leaders.call_leader(*arguments))
    mover = ReplicaMover(TxnSystemClient.__new__(TxnSystemClient), lambda: leaders.state)
    await mover.run_once()
    await mover.run_once()
    assert leaders.asked == ["group-0"]
    assert max(leaders.timeouts) <= SECONDS, "one that is called off while it is asked for is given up soon"


async def test_each_group_is_asked_and_then_the_catalog_is_told(monkeypatch: Any) -> None:
    """A move that was told before could be over for the catalog, and never be done."""
    groups = dict.fromkeys(("group-0", "group-1", CATALOG), ("n1", "n2", "n3"))
    state = replace(_state(), groups=groups, moves=tuple(Move(group, "n1", "n4") for group in groups))
    story: list[str] = []

    async def call_leader(_client: object, group: str, method: str, request: Any, *_more: object) -> object:
        assert (method, request.old_node, request.new_node) == ("txnstatus.Admin/MoveReplica", "n1", "n4")
        story.append(f"{group} moves")
        return admin_pb2.MoveReplicaResponse()

    async def change(_catalog: object, command: MoveReplica) -> None:
        story.append(f"{command.group} has moved")

    monkeypatch.setattr(TxnSystemClient, "call_leader", call_leader)
    monkeypatch.setattr(CatalogClient, "change", change)
    await ReplicaMover(TxnSystemClient.__new__(TxnSystemClient), lambda: state).run_once()
    assert story == [f"{group} {what}" for group in ("group-0", "group-1", CATALOG) for what in ("moves", "has moved")]
