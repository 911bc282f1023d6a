"""Savepoints of a shard, on its leader: held, listed, released; and released by itself once their time is over."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from txnparticipant.shard import commands as cmd
from txnparticipant.shard import savepoints
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.limits import MAX_SAVEPOINT_TABLES, check_count
from txnstatus.names import check_table_name
from txnstatus.proto import savepoint_pb2 as pb
from txnstatus.savepoints import check_request
from txnstatus.types import HybridClock, Timestamp

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SavepointService:
    """Implements the SavepointHolder service for one shard, and what Savepoints asks of it."""

    shard: ParticipantShard
    settled: Callable[[Timestamp | None], Awaitable[Timestamp]]
    """Answers the timestamp. Raises InvalidArgument where something may yet commit at or below it."""
    propose: Callable[[cmd.Command], Awaitable[ShardApplied]]
    clock: HybridClock
    check_lease: Callable[[], None]
    """Raises NotTheLeader where this replica does not lead, or cannot prove it."""

    async def hold_savepoint(self, request: pb.HoldSavepointRequest) -> pb.HoldSavepointResponse:
        """Raises InvalidArgument, AlreadyExists, LimitReached; NotFound and SnapshotTooOld, naming the table."""
        self.check_lease()
        wanted = request.savepoint
        check_request(wanted)
        check_count(len(request.here), "tables", MAX_SAVEPOINT_TABLES)
        at = await self.settled(Timestamp(wanted.timestamp))
        ids = [self.shard.table_at(check_table_name(name), at).table_id for name in request.here]
        now = self.clock.now()
        if wanted.expires and wanted.expires <= now:
            raise InvalidArgument(
                f"savepoint {wanted.name!r} would have expired already: at {wanted.expires}, by {now}"
            )
        savepoint = cmd.Savepoint(
            wanted.savepoint_id,
            wanted.name,
            wanted.owner,
            at,
            tuple(sorted(set(wanted.tables))),
            tuple(sorted(set(ids))),
            now,
            Timestamp(wanted.expires),
            request.is_home,
        )
        await self.propose(cmd.HoldSavepoint(savepoint))
        return pb.HoldSavepointResponse(savepoint=self._info(savepoint))

    async def drop_savepoint(self, request: pb.DropSavepointRequest) -> pb.DropSavepointResponse:
        self.check_lease()
        if any(each.savepoint_id == request.savepoint_id for each in self.shard.savepoints()):
            await self.propose(cmd.DropSavepoint(request.savepoint_id))
        return pb.DropSavepointResponse()

    async def list_savepoints(self, _request: pb.ListSavepointsRequest) -> pb.ListSavepointsResponse:
        """What this shard holds: where it is not the home of the name, as unfinished."""
        self.check_lease()
        return pb.ListSavepointsResponse(savepoints=map(self._info, self.shard.savepoints()))

    async def run_once(self) -> None:
        """Releases what has expired. To be called again and again while this replica leads with a lease."""
        held = self.shard.savepoints()
        for over in savepoints.expired(held, self.clock.now()) if held else ():
            try:
                await self.propose(cmd.DropSavepoint(over.savepoint_id))
            except TxnError as error:
                log.info("savepoint %r, which has expired, is released later: %s", over.name, error.message)
            else:
                log.info("savepoint %r of %s has expired, and is released", over.name, over.owner)

    def _info(self, savepoint: cmd.Savepoint) -> pb.SavepointInfo:
        return pb.SavepointInfo(
            savepoint_id=savepoint.savepoint_id,
            name=savepoint.name,
            owner=savepoint.owner,
            timestamp=savepoint.timestamp,
            tables=savepoint.tables,
            created=savepoint.created,
            expires=savepoint.expires,
            held_bytes=savepoints.held_bytes(savepoint, self.shard.tables()),
            unfinished=not savepoint.is_home,
        )
