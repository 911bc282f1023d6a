"""Renaming a table, on the leaders of two shards: the one that keeps it, and the one that knows who keeps the new name.

The second one comes first: it places the name where the table is, for good. A rename that goes no further has changed
nothing that anybody could see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from txnparticipant.leader.reads import Reads
from txnparticipant.leader.tables import TableService
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import dropping
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound, OutcomeUnknown, PlacedElsewhere
from txnstatus.limits import MAX_WAIT_SECONDS
from txnstatus.names import check_renamed
from txnstatus.proto import table_pb2 as pb
from txnstatus.rpc.deadlines import time_left
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import HybridClock, TxnId


class Renaming:
    """One for a shard's replica."""

    def __init__(
        self,
        shard: ParticipantShard,
        tables: TableService,
        reads: Reads,
        ranges: StatusRanges,
        propose: Callable[[cmd.Command], Awaitable[ShardApplied]],
        clock: HybridClock,
        check_lease: Callable[[], None],
    ) -> None:
        self._shard = shard
        self._tables = tables
        self._reads = reads
        self._ranges = ranges
        self._propose = propose
        self._clock = clock
        self._check_lease = check_lease

    async def rename(self, request: pb.RenameTableRequest) -> pb.RenameTableResponse:
        """Asked of a shard that does not keep the table, it places the new name there.

        Where transactions are named in the answer, they are at work on the table, and nothing has changed.

        Raises InvalidArgument, NotFound, AlreadyExists; IllegalState for a name that is another shard's;
        PlacedElsewhere where the table has gone.
        """
        self._check_lease()
        check_renamed(request.table, request.new_name)
        if not request.request_id:
            raise InvalidArgument("a rename needs a request id")
        try:
            keeper = request.shard if request.HasField("shard") else shard_of_table_id(request.table_id)
        except ValueError:
            raise NotFound(f"no table with id {request.table_id!r:.100}") from None
        if keeper != self._shard.shard:
            await self._place(request, keeper)
            return pb.RenameTableResponse()
        table = self._shard.table_by_id(request.table_id)
        if not table.former.has_made(request.request_id):
            await self._check(table, request)
            if waits_for := await self._left(table, request.wait_millis):
                return pb.RenameTableResponse(waits_for=waits_for)
            await self._rename(table, request)
        return pb.RenameTableResponse(table=table.info(), **self._tables.place)

    async def _place(self, request: pb.RenameTableRequest, keeper: int) -> None:
        name = request.new_name
        if not self._ranges.is_by_hash(name, self._shard.shard):
            raise InvalidArgument(f"shard {self._shard.shard} does not know who keeps {name}")
        with suppress(NotFound, PlacedElsewhere):
            await self._tables.settled(name)
            raise AlreadyExists(f"table {name} exists already")
        if name not in self._shard.names.placed:
            with suppress(IllegalState):
                await self._propose(cmd.PlaceTable(name, keeper))
        placed = self._shard.names.placed.get(name)
        if placed is None or placed.shard != keeper:
            raise _stays_elsewhere(request)

    async def _check(self, table: TableState, request: pb.RenameTableRequest) -> None:
        """Raises NotFound, AlreadyExists; IllegalState, InvalidArgument where the new name is another shard's."""
        await self._ranges.check_keeper(request.new_name, self._shard.shard)
        try:
            await self._tables.settled(request.new_name)
        except PlacedElsewhere:
            raise _stays_elsewhere(request) from None
        except NotFound:
            pass
        else:
            raise AlreadyExists(f"table {request.new_name} exists already")
        now = await self._tables.settled(request.table)
        if now is not table:
            raise dropping.no_table(request.table_id, self._shard.shard)

    async def _left(self, table: TableState, wait_millis: int) -> list[TxnId]:
        """Transactions that have begun to work on the table, or to lock it: none, or time is up."""
        deadline = asyncio.get_running_loop().time() + time_left(min(wait_millis / 1000, MAX_WAIT_SECONDS))
        while True:
            await self._tables.publish_decided(table)  # what is acknowledged is not at work any more
            left = list(table.unfinished)
            if not left or asyncio.get_running_loop().time() >= deadline:
                return left
            await self._tables.wait_for_end(table.table_id, deadline)

    async def _rename(self, table: TableState, request: pb.RenameTableRequest) -> None:
        """Readers see it from a timestamp on; those at or above it wait until it has applied, as for new columns."""
        async with self._reads.turn:
            if table.former.has_made(request.request_id):
                return
            renames, is_known = table.former.renames, True
            try:
                older = await self._ranges.begun()
                at = await self._reads.close_gate(table.table_id, self._clock.now())
                await self._propose(cmd.RenameTable(table.table_id, request.new_name, at, request.request_id, older))
            except OutcomeUnknown:
                is_known = table.former.renames != renames  # it may apply yet, if this replica leads no more
                raise
            finally:
                if is_known:
                    self._reads.open_gate(table.table_id)


def _stays_elsewhere(request: pb.RenameTableRequest) -> IllegalState:
    return IllegalState(
        f"table {request.table} cannot be called {request.new_name}: another table was, and left that name in another "
        f"shard than the one of {request.table}; a name stays where it is",
        hint="take a name that no table had; or CREATE TABLE under this one AS SELECT",
    )
