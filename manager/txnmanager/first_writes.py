"""First writes that a begin carries: its entry makes their tables participants, and claims their directories.

The tables are asked who they are, from memory; they hear of the transaction when it comes to write there, or ends. What
a transaction has claimed and made nothing of, its end tells them: it is cleaned as what it has opened is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from txnmanager.router import CALL_SECONDS
from txnstatus import write_directory
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument
from txnstatus.limits import MAX_FIRST_WRITES, check_count
from txnstatus.names import check_table_name
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.schema import check_write_id
from txnstatus.types import TxnId


def checked(request: pb.BeginTransactionRequest) -> tuple[str, ...]:
    """The names of the tables, in the order of the writes. Raises InvalidArgument."""
    writes = request.first_writes
    check_count(len(writes), "first writes", MAX_FIRST_WRITES)
    if writes and request.count > 1:
        raise InvalidArgument(f"first writes are of one transaction; {request.count} are to begin")
    for write in writes:
        check_table_name(write.table)
        check_write_id(write.write_id)
    names = tuple(write.table for write in writes)
    if len(set(names)) < len(names):
        raise InvalidArgument("a transaction has one first write on a table")
    return names


async def tables(client: TxnSystemClient, names: Sequence[str]) -> Sequence[common.TableInfo]:
    """The tables of these names, in their order. Raises NotFound."""

    async def ask(name: str) -> common.TableInfo:
        group, asked = shard_group(client.cluster.shard_of_table(name)), table_pb.GetTableRequest(name=name)
        method = "txnstatus.Table/GetTable"
        return (await client.call_leader(group, method, asked, table_pb.GetTableResponse, CALL_SECONDS)).table

    return await asyncio.gather(*map(ask, names))


def participants(
    request: pb.BeginTransactionRequest, found: Sequence[common.TableInfo]
) -> list[common.ParticipantInfo]:
    """A table with a primary key has no directory claimed: from a write's opening on it keeps the keys that change."""
    return [
        common.ParticipantInfo(
            participant_id=table.table_id,
            name=table.name,
            first_write="" if table.schema.primary_key else write.write_id,
        )
        for table, write in zip(found, request.first_writes, strict=True)
    ]


def opened(
    wanted: Sequence[common.ParticipantInfo], found: Sequence[common.TableInfo], begun: pb.BeginTransactionResponse
) -> list[table_pb.OpenWriteResponse]:
    """The first writes with which the transaction began: an earlier call may have begun it, which wanted others."""
    recorded = {(each.participant_id, each.first_write) for each in begun.participants if each.first_write}
    return [
        table_pb.OpenWriteResponse(
            table=table,
            directory=write_directory.uri_of(table.location, TxnId(begun.txn_ids[0]), participant.first_write),
        )
        for participant, table in zip(wanted, found, strict=True)
        if (participant.participant_id, participant.first_write) in recorded
    ]
