"""TxnSystemClient: finds a group's leader, wherever it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from txnstatus.catalog import NodeInfo, Replacement, initial, status_group
from txnstatus.cluster_map import ClusterMap
from txnstatus.environment import Environment
from txnstatus.errors import NotTheLeader
from txnstatus.options import Options
from txnstatus.proto import admin_pb2 as pb
from txnstatus.system_client import TxnSystemClient


class Channel:
    """To a node that leads or does not."""

    def __init__(self, address: str, leader: str) -> None:
        self._node, self._leader = address.partition(":")[0], leader

    async def call(self, _method: str, _request: object, _response: object, _timeout: float) -> Any:
        if self._node != self._leader:
            raise NotTheLeader(f"{self._node} does not lead", hint=self._leader)
        return pb.MoveReplicaResponse(members=[self._node])

    async def close(self) -> None: ...


def test_a_new_member_that_leads_before_the_catalog_knows_that_it_is_one_is_found() -> None:
    async def main() -> list[str]:
        nodes = {name: NodeInfo(f"{name}:1", ("status", "participant")) for name in ("n1", "n2", "n3")}
        state = initial(nodes, participant_shards=1, replication=3, range_span=100, options=Options())
        nodes = {**nodes, "n4": NodeInfo("n4:1", ("status", "participant"))}
        state = replace(state, nodes=nodes, replacement=Replacement("n2", "n4"))
        client = TxnSystemClient(ClusterMap(state), Environment(), lambda address: Channel(address, "n4"))
        answer = await client.call_leader(
            status_group(0), "txnstatus.Admin/MoveReplica", pb.MoveReplicaRequest(), pb.MoveReplicaResponse, 1.0
        )
        return list(answer.members)

    assert asyncio.run(main()) == ["n4"]
