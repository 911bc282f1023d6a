"""Savepoints of transactions over all shards that have tables of theirs."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from txnmanager.keepers import CALL_SECONDS
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.cluster_map import asked_by_id
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument
from txnstatus.limits import MAX_OPS_PER_CALL, check_count
from txnstatus.proto import txn_savepoint_pb2 as pb

RequestT = TypeVar("RequestT", pb.SetSavepointRequest, pb.RollbackToRequest)


class TxnSavepoints:
    """Implements the TxnSavepoints service.

    The caller says which participants there are: of one that it finds later, a request that comes late knows nothing.
    """

    def __init__(self, client: TxnSystemClient) -> None:
        self._client = client
        self._catalog = CatalogClient(client)

    async def set_savepoint(self, request: pb.SetSavepointRequest) -> pb.SetSavepointResponse:
        await self._ask_all("SetSavepoint", request, pb.SetSavepointResponse)
        return pb.SetSavepointResponse()

    async def rollback_to(self, request: pb.RollbackToRequest) -> pb.RollbackToResponse:
        await self._ask_all("RollbackTo", request, pb.RollbackToResponse)
        return pb.RollbackToResponse()

    async def _ask_all(self, method: str, request: RequestT, response: type[Message]) -> None:
        """Each shard about its own tables. Raises InvalidArgument for an id that no table can have."""
        check_count(len(request.table_ids), "participants", MAX_OPS_PER_CALL)
        by_shard = self._by_shard(request.table_ids)
        if not by_shard.keys() <= set(self._client.cluster.state.shards):
            await self._catalog.refresh()  # the group of one was added a moment ago
        if unknown := by_shard.keys() - set(self._client.cluster.state.shards):
            raise InvalidArgument(f"{by_shard[min(unknown)][0][:100]!r} is in no shard that there is")

        async def ask(shard: int, table_ids: Sequence[str]) -> None:
            part = type(request)()
            part.CopyFrom(request)
            del part.table_ids[:]
            part.table_ids.extend(table_ids)
            full = f"txnstatus.TxnSavepoints/{method}"
            await self._client.call_leader(shard_group(shard), full, part, response, CALL_SECONDS)

        await asyncio.gather(*(asked_by_id(self._client.cluster, *each, ask) for each in by_shard.items()))

    def _by_shard(self, table_ids: Iterable[str]) -> dict[int, list[str]]:
        """Raises InvalidArgument."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        for table_id in dict.fromkeys(table_ids):
            try:
                shard = self._client.cluster.shard_of(table_id)
            except ValueError:
                raise InvalidArgument(f"{table_id[:100]!r} is no table's id: savepoints are of tables") from None
            found[shard].append(table_id)
        return found
