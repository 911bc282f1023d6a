"""Last writes that a commit carries: files that are added before it begins.

Where a table's shard is in the log of the transaction's record, the write is part of the entry with which the commit
begins. Elsewhere it is added first, by a message as any other. Either way a refusal leaves the transaction OPEN.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, PlacedElsewhere
from txnstatus.limits import MAX_LAST_WRITE_BYTES, MAX_LAST_WRITES, check_count
from txnstatus.names import check_table_name
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.status import commands as cmd
from txnstatus.status.commit.beginning import ServicesHere

CALL_SECONDS = 15.0


@dataclass(slots=True)
class LastWrites:
    client: TxnSystemClient
    here: ServicesHere

    async def take(self, request: pb.CommitTransactionRequest) -> tuple[cmd.LastWrite, ...]:
        """Writes for the entry that begins the commit. All others are added when this returns.

        Raises what refuses one of them, and what is retriable.
        """
        _check(request)
        taken = await asyncio.gather(*map(self._take, request.last_writes))
        return tuple(filter(None, taken))

    async def _take(self, request: table_pb.AddFilesRequest) -> cmd.LastWrite | None:
        while True:
            try:
                return await self._ask(request)
            except PlacedElsewhere as placed:
                cluster = self.client.cluster
                if placed.shard not in cluster.state.shards:
                    await CatalogClient(self.client).refresh()  # its group was added a moment ago
                cluster.keeps(request.table, placed.shard)

    async def _ask(self, request: table_pb.AddFilesRequest) -> cmd.LastWrite | None:
        if write := await self.here.last_write(request):
            return write
        group = shard_group(self.client.cluster.shard_of_table(check_table_name(request.table)))
        method, response = "txnstatus.Table/AddFiles", table_pb.AddFilesResponse
        await self.client.call_leader(group, method, request, response, CALL_SECONDS)
        return None


def _check(request: pb.CommitTransactionRequest) -> None:
    """Raises InvalidArgument."""
    writes = request.last_writes
    check_count(len(writes), "last writes", MAX_LAST_WRITES)
    if (size := sum(write.ByteSize() for write in writes)) > MAX_LAST_WRITE_BYTES:
        raise InvalidArgument(f"last writes of {size} bytes: {MAX_LAST_WRITE_BYTES} are possible")
    if any((write.txn_id, write.owner) != (request.txn_id, request.owner) for write in writes):
        raise InvalidArgument("a commit carries writes of its own transaction and owner")
