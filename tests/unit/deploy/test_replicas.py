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
