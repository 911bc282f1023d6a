"""What a manager does for compactions of several tables, and for workers, who do not know where there is something to
do; `router` has all other calls."""

from __future__ import annotations

import zlib
from typing import TypeVar

from google.protobuf.message import Message

from txnmanager.all_shards import AllShards, each_once
from txnmanager.keepers import CALL_SECONDS, Keepers
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError
from txnstatus.names import check_table_name
from txnstatus.pages import first_page
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.security.access import sees

ResponseT = TypeVar("ResponseT", bound=Message)


class Compactions:
    """Implements the Compactions service, with `router`."""

    def __init__(self, client: TxnSystemClient, keepers: Keepers) -> None:
        self._client = client
        self._keepers = keepers
        self._all = AllShards(client)

    async def list_compactions(self, request: pb.ListCompactionsRequest) -> pb.ListCompactionsResponse:
        """As far as every shard has answered: what comes after that is on a later page."""
        if request.table:
            method = "txnstatus.Compactions/ListCompactions"
            name = check_table_name(request.table)
            return await self._keepers.call(name, method, request, pb.ListCompactionsResponse)
        while True:
            method, response = "txnstatus.Compactions/ListCompactions", pb.ListCompactionsResponse
            answers = await self._all.ask(method, request, response)
            ends = [_place(answer.compactions[-1]) for answer in answers if answer.more]
            told = each_once((each for answer in answers for each in answer.compactions), _place)
            seen = [each for each in told if sees(each.table) and (not ends or _place(each) <= min(ends))]
            if seen or not ends:
                page, more = first_page(sorted(seen, key=_place))
                return pb.ListCompactionsResponse(compactions=page, more=more or bool(ends))
            table_id, compaction_id = min(ends)
            after = pb.CompactionPlace(table_id=table_id, compaction_id=compaction_id)
            request = pb.ListCompactionsRequest(after=after)

    async def lease_compaction(self, request: pb.LeaseCompactionRequest) -> pb.LeaseCompactionResponse:
        """Asks one shard after the other, from another one for each lease: a busy one keeps no other waiting.

        A shard that cannot answer has nothing to do, as long as another one answers.
        """
        if request.table:
            method = "txnstatus.Compactions/LeaseCompaction"
            name = check_table_name(request.table)
            return await self._keepers.call(name, method, request, pb.LeaseCompactionResponse)
        shards = self._client.cluster.state.shards
        first = zlib.crc32(request.lease_id.encode()) % len(shards)
        failed: TxnError | None = None
        for shard in (*shards[first:], *shards[:first]):
            try:
                answer = await self._ask(shard, "LeaseCompaction", request, pb.LeaseCompactionResponse)
            except TxnError as error:
                if not error.retriable:
                    raise
                failed = error
                continue
            if answer.HasField("task"):
                return answer
        if failed is not None:
            raise failed  # it may have given the task
        return pb.LeaseCompactionResponse()

    async def _ask(self, shard: int, method: str, request: Message, response: type[ResponseT]) -> ResponseT:
        name = f"txnstatus.Compactions/{method}"
        return await self._client.call_leader(shard_group(shard), name, request, response, CALL_SECONDS)


def _place(info: pb.CompactionInfo) -> tuple[str, str]:
    return info.table_id, info.compaction_id
