"""Questions to the leaders of all shards.

While they are asked one may be split. It says to which shards it has given tables, and those are asked, too: so nothing
is left out that was there all the while. What goes meanwhile both may tell of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from txnmanager.keepers import CALL_SECONDS
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.proto import compaction_pb2, table_pb2

RequestT = table_pb2.ListTablesRequest | table_pb2.ShowLocksRequest | compaction_pb2.ListCompactionsRequest
ResponseT = TypeVar(
    "ResponseT",
    table_pb2.ListTablesResponse,
    table_pb2.ShowLocksResponse,
    compaction_pb2.ListCompactionsResponse,
)
ToldT = TypeVar("ToldT")


class AllShards:
    def __init__(self, client: TxnSystemClient) -> None:
        self._client = client
        self._catalog = CatalogClient(client)

    async def ask(self, method: str, request: RequestT, response: type[ResponseT]) -> Sequence[ResponseT]:
        """Their answers, that of a shard before those of what was split off it."""
        answers, asked, left = list[ResponseT](), set[int](), set(self._client.cluster.state.shards)
        while left:
            if not left <= set(self._client.cluster.state.shards):
                await self._catalog.refresh()
            told = await asyncio.gather(
                *(
                    self._client.call_leader(shard_group(shard), method, request, response, CALL_SECONDS)
                    for shard in sorted(left)
                )
            )
            answers += told
            asked |= left
            left = {shard for answer in told for shard in answer.given_to} - asked
        return answers


def each_once(told: Iterable[ToldT], key: Callable[[ToldT], Hashable]) -> list[ToldT]:
    """What the shards have told of, as the last one has it."""
    return list({key(each): each for each in told}.values())
