"""Backups: all groups are held at one moment, by whoever is asked, and their states are read from their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from txnmanager.keepers import CALL_SECONDS
from txnstatus.catalog.catalog import CATALOG, CatalogState, shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotFound, NotTheLeader, TxnError, Unavailable
from txnstatus.proto import backup_pb2 as pb

CUTS = 5
"""How often it is tried: a leader may change, or be too slow for the others to wait for it."""
HOLD_SECONDS = 2.0
T = TypeVar("T")


class Backups:
    """Implements the Backups service."""

    def __init__(self, client: TxnSystemClient) -> None:
        self._client = client
        self._catalog = CatalogClient(client)

    async def keep_overwritten(self, request: pb.KeepOverwrittenRequest) -> pb.KeepOverwrittenResponse:
        """Answers the shortest time for which a shard does. Raises Unavailable."""
        state = await self._catalog.refresh()
        _require_at_rest(state)
        method, response = "txnstatus.Keeper/KeepOverwritten", pb.KeepOverwrittenResponse
        answers = await asyncio.gather(
            *(
                self._client.call_leader(shard_group(shard), method, request, response, CALL_SECONDS)
                for shard in state.shards
            )
        )
        return pb.KeepOverwrittenResponse(millis=min(answer.millis for answer in answers))

    async def cut_cluster(self, _request: pb.CutClusterRequest) -> pb.CutClusterResponse:
        """Raises Unavailable, saying why the last try came to nothing; LimitReached."""
        why = "no leader of a group was found in time"
        for _ in range(CUTS):
            try:
                return await self._cut(f"{self._client.random.getrandbits(64):016x}")
            except (NotTheLeader, Unavailable) as error:
                why = error.message
        raise Unavailable(f"the groups could not be held at one moment, {CUTS} times in a row; at last: {why}")

    async def _cut(self, cut_id: str) -> pb.CutClusterResponse:
        """All groups are held before the first one is let go. So there is a moment at which all were, each in the state
        that its cut has: as if all nodes had lost power then, which the protocol of commits is made for.
        """
        state = await self._catalog.refresh()
        _require_at_rest(state)
        held = await _told(self._hold(group, cut_id) for group in state.groups)
        cuts = {
            group: answer
            for group, answer in zip(state.groups, held, strict=True)
            if isinstance(answer, pb.HoldGroupResponse)
        }
        taken = await _told(self._take(group, cuts[group].node_id, cut_id) for group in cuts)
        for answer in (*held, *taken):
            if isinstance(answer, TxnError):
                raise answer
            if isinstance(answer, pb.TakeCutResponse) and not answer.held:
                raise Unavailable("a group was not held for as long as all of them had to be")
        if cuts[CATALOG].catalog_version != state.version:
            raise Unavailable("the catalog changed meanwhile: there may be more groups")
        return pb.CutClusterResponse(
            cut_id=cut_id,
            cluster_id=state.cluster_id,
            groups=[pb.GroupCut(group=group, node_id=cuts[group].node_id) for group in sorted(cuts)],
        )

    async def read_cut(self, request: pb.ReadCutRequest) -> pb.ReadCutResponse:
        """Raises NotFound where the cut is not there, or not any more, and Unavailable."""
        if request.node_id not in self._client.cluster.replicas(request.group):
            raise NotFound(f"{request.node_id!r:.100} has no part in {request.group!r:.100}")
        method, response = "txnstatus.CutHolder/ReadCut", pb.ReadCutResponse
        return await self._client.call_node(request.node_id, method, request, response, CALL_SECONDS, request.group)

    def _hold(self, group: str, cut_id: str) -> Awaitable[pb.HoldGroupResponse]:
        method, request = "txnstatus.CutHolder/HoldGroup", pb.HoldGroupRequest(cut_id=cut_id)
        return self._client.call_leader(group, method, request, pb.HoldGroupResponse, HOLD_SECONDS)

    def _take(self, group: str, node: str, cut_id: str) -> Awaitable[pb.TakeCutResponse]:
        method, request = "txnstatus.CutHolder/TakeCut", pb.TakeCutRequest(cut_id=cut_id)
        return self._client.call_node(node, method, request, pb.TakeCutResponse, HOLD_SECONDS, group)


def _require_at_rest(state: CatalogState) -> None:
    """Raises Unavailable while a shard is in no group's log: nobody could answer for it."""
    if state.migrations:
        raise Unavailable(", ".join(f"{part} is {under_way}" for part, under_way in sorted(state.migrations.items())))


async def _told(calls: Iterable[Awaitable[T]]) -> Sequence[T | TxnError]:
    """What each came to, once all have been answered: whom one has held is let go."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, TxnError):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException) or isinstance(answer, TxnError)]
