"""One replica taking the place of another, as its group's leader carries it through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.harness.cluster import CONFIG
from txndeploy.node.replicas import ReplicaAdmin
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.placement import Move
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import Unavailable
from txnstatus.proto import admin_pb2
from txnstatus.raft.driver import RaftDriver

MOVE = Move("group-0", "n1", "n4")
MEMBERS = ("n2", "n3", "n4")


class Client:
    """The cluster's other nodes: all live, and know the members."""

    def __init__(self, state: CatalogState) -> None:
        self.cluster = SimpleNamespace(state=state)

    async def call_node(self, *_arguments: object) -> admin_pb2.GetNodeResponse:
        return admin_pb2.GetNodeResponse(groups=[admin_pb2.GroupStatus(group=MOVE.group, members=MEMBERS)])


async def test_who_was_to_go_has_gone_once_that_is_committed() -> None:
    """The log says that n1 is no member any more, by an earlier call that nobody waits for: a next leader may not."""
    removed = 9
    group = SimpleNamespace(
        group=MOVE.group,
        members=MEMBERS,
        commit_index=removed - 1,
        journal=SimpleNamespace(members=SimpleNamespace(index=removed)),
    )
    driver = cast(RaftDriver, SimpleNamespace(group=group, check_lease=lambda: None))
    state = CONFIG.initial_catalog()
    moving = SimpleNamespace(replacement=None, move_of={MOVE.group: MOVE}.get, nodes=state.nodes)
    client = cast(TxnSystemClient, Client(cast(CatalogState, moving)))
    admin = ReplicaAdmin(driver, "n2", client)
    request = admin_pb2.MoveReplicaRequest(old_node=MOVE.old_node, new_node=MOVE.new_node)
    with pytest.raises(Unavailable, match="a change of the members of group-0 is not committed yet"):
        await admin.move_replica(request)
    group.commit_index = removed
    assert tuple((await admin.move_replica(request)).members) == MEMBERS


async def test_one_comes_once_it_has_caught_up_and_then_another_goes() -> None:
    story: list[str] = []
    group = SimpleNamespace(
        group=MOVE.group,
        members=("n1", "n2", "n3"),
        commit_index=1,
        journal=SimpleNamespace(members=SimpleNamespace(index=1)),
    )

    def check_caught_up(node: str) -> None:
        story.append(f"{node} has {'some' if len(story) == 0 else 'all'}")
        if len(story) == 1:
            raise Unavailable(f"{node} has not caught up")

    async def change_members(add: str = "", remove: str = "") -> None:
        story.append(f"{add} comes" if add else f"{remove} goes")
        group.members = tuple(each for each in (*group.members, add) if each and each != remove)

    group.learners = SimpleNamespace(check_caught_up=check_caught_up)
    driver = cast(RaftDriver, SimpleNamespace(group=group, check_lease=lambda: None, change_members=change_members))
    moving = SimpleNamespace(replacement=None, move_of={MOVE.group: MOVE}.get)
    admin = ReplicaAdmin(driver, "n2", cast(TxnSystemClient, Client(cast(CatalogState, moving))))
    request = admin_pb2.MoveReplicaRequest(old_node=MOVE.old_node, new_node=MOVE.new_node)
    with pytest.raises(Unavailable, match="n4 has not caught up"):
        await admin.move_replica(request)
    assert group.members == ("n1", "n2", "n3"), "nobody has gone before"
    assert tuple((await admin.move_replica(request)).members) == MEMBERS
    assert story == ["n4 has some", "n4 has all", "n4 comes", "n1 goes"]
