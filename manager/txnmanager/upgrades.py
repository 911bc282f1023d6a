"""The feature level: which version each node is of, and that the level is raised once all of them do it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from txnstatus import features
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import IllegalState, InvalidArgument, TxnError
from txnstatus.features import Levels
from txnstatus.proto import admin_pb2 as pb

ASK_SECONDS = 3.0


class Upgrades:
    """Implements what the Admin service has for upgrades; every node answers it."""

    def __init__(self, client: TxnSystemClient, levels: Levels) -> None:
        """`levels`: those that this node's program does."""
        self._client, self._levels = client, levels
        self._catalog = CatalogClient(client)

    async def raise_level(self, request: pb.RaiseLevelRequest) -> pb.RaiseLevelResponse:
        """Raises IllegalState where a node does not do the level, or where nobody knows."""
        level = request.level or self._levels.newest
        if not self._levels.can(level):
            raise InvalidArgument(
                f"feature level {level} is none that this node does: it does {self._levels}",
                hint="ask a node that does it",
            )
        state = await self._catalog.refresh()
        nodes = dict(
            zip(state.nodes, await asyncio.gather(*(self._ask(state, node) for node in state.nodes)), strict=True)
        )
        if not request.only_ask and level != state.level:
            self._check(state, nodes, level)
            state = await self._catalog.change(cmd.RaiseLevel(level))
        return pb.RaiseLevelResponse(level=state.level, nodes=nodes.values())

    def _check(self, state: CatalogState, nodes: Mapping[str, pb.NodeVersion], level: int) -> None:
        if level < state.level:
            raise IllegalState(f"the cluster is at feature level {state.level}, which only goes up: not to {level}")
        said = {node: Levels(each.oldest_level, each.newest_level) for node, each in nodes.items() if each.newest_level}
        if found := features.hindrances({node: said.get(node) for node in nodes}, level):
            raise IllegalState(
                f"feature level {level} is not for all nodes: {'; '.join(found)}",
                hint="txnctl upgrade show: start each node with a version that does it",
            )

    async def _ask(self, state: CatalogState, node: str) -> pb.NodeVersion:
        """As it says now; of one that does not answer, as it has said in the catalog."""
        try:
            answer = await self._client.call_node(
                node, "txnstatus.Admin/GetNode", pb.GetNodeRequest(), pb.GetNodeResponse, ASK_SECONDS
            )
        except TxnError:
            known = state.nodes[node]
            levels = known.levels or Levels(0, 0)
            return pb.NodeVersion(
                node_id=node, version=known.version, oldest_level=levels.oldest, newest_level=levels.newest
            )
        return pb.NodeVersion(
            node_id=node,
            version=answer.version,
            oldest_level=answer.oldest_level or features.FIRST,
            newest_level=answer.newest_level or features.FIRST,
            answers=True,
        )
