"""The tables of a shard, on its leader: they are created, found and dropped here.

A drop waits here for those that are prepared on the table; whoever comes after it sees it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TypedDict
from urllib.parse import quote

from txnparticipant.leader.reads import Reads
from txnparticipant.leader.waiters import Waiters
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import dropping
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.schemas import NewSchema
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus import features
from txnstatus.errors import IllegalState, InvalidArgument, NotFound, OutcomeUnknown, TxnError
from txnstatus.lake import locations
from txnstatus.lake.locations import Roots
from txnstatus.limits import MAX_LISTED, MAX_WAIT_SECONDS, check_count
from txnstatus.names import check_table_name
from txnstatus.pages import first_page
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as pb
from txnstatus.rpc.deadlines import time_left
from txnstatus.schema import MAX_COLUMNS, Schema
from txnstatus.schema_changes import ColumnChange, changed
from txnstatus.status.ranges import StatusRanges
from txnstatus.table_properties import Property, check_publication, checked, published_as
from txnstatus.types import NO_TIMESTAMP, ConflictStrategy, HybridClock, ParticipantState, Timestamp, TxnId


class Place(TypedDict):
    """Where a table is, in the fields of answers."""

    placement: str
    shard: int


Propose = Callable[[cmd.Command], Awaitable[ShardApplied]]


class TableService:
    """One for a shard's replica; what is in memory here is only who waits on this node."""

    def __init__(
        self,
        shard: ParticipantShard,
        ranges: StatusRanges,
        reads: Reads,
        propose: Propose,
        warehouse: str,
        roots: Roots,
        blocking: Executor,
        check_strategy: Callable[[str], None],
        clock: HybridClock,
        level: Callable[[], int],
    ) -> None:
        """`warehouse`: where tables are that name no location; the others are there, too, or in one of `roots`.

        `check_strategy` raises InvalidArgument for a conflict strategy that there is not.
        """
        self._shard = shard
        self._ranges = ranges
        self._warehouse = warehouse.rstrip("/")
        self._roots = roots
        self._blocking = blocking
        self._check_strategy = check_strategy
        self._clock = clock
        self._level = level
        self._reads = reads
        self._propose = propose
        self._waiters: Waiters[str] = Waiters()

    async def create(self, request: pb.CreateTableRequest) -> common.TableInfo:
        """The new table, or the one that the same request made.

        Raises InvalidArgument, AlreadyExists; PlacedElsewhere; IllegalState where the name is placed in another group
        than the request wants.
        """
        name = check_table_name(request.name)
        await self._ranges.check_keeper(name, self._shard.shard)
        if not request.request_id:
            raise InvalidArgument("a create needs a request id")
        check_count(len(request.schema.columns), "columns", MAX_COLUMNS)  # half a million fit into a request
        properties = checked(Property(each.name, each.value) for each in request.properties)
        loop = asyncio.get_running_loop()
        schema = await loop.run_in_executor(self._blocking, _checked_schema, request)  # a large one takes a while
        try:
            await self.settled(name)
        except NotFound:
            await self._place(name, request.placement)
        conflicts = request.conflicts or ConflictStrategy.FIRST_COMMITTER_WINS
        self._check_strategy(conflicts)
        created = await self._ranges.snapshot()
        location = await self._location(name, request.location.rstrip("/"))
        if request.location and request.reservation:
            await self._ranges.check_reserved(request.reservation)
        check_publication(properties, location, schema.primary_key)
        its = name, schema, location, request.request_id, conflicts, created, properties
        made = self._clock.now() if self._level() >= features.FIELDS["shard.CreateTable.made"] else NO_TIMESTAMP
        command = cmd.CreateTable(*its, made=made)
        applied = await self._propose(command)
        return self._shard.table_by_id(applied.table_id).info()

    async def _place(self, name: str, wanted: str) -> None:
        """Before a table is made: a name goes where the group wants it that is asked for, once and for good.

        Raises PlacedElsewhere where that is not here; IllegalState where it was placed already, InvalidArgument.
        """
        here, own = self._shard.shard, self.placement
        if not self._ranges.is_by_hash(name, here):
            if wanted not in ("", own):
                await self._ranges.placement(name, here, wanted)  # there is such a group
                raise IllegalState(f"table {name} is placed in {own}, and stays there; it cannot be in {wanted}")
            return
        shard = await self._ranges.placement(name, here, wanted)
        if shard == here or (self._left_something(name) and wanted in ("", own)):
            return
        await self._propose(cmd.PlaceTable(name, shard))
        self._shard.table(name)

    def _left_something(self, name: str) -> bool:
        """Whether a table here was called so, or one is where one of this name would be: no other shard knows that."""
        place = self._place_of(name)
        return bool(self._shard.names.ended(name)) or self._shard.free_location(place) != place

    def _place_of(self, name: str) -> str:
        return f"{self._warehouse}/{quote(name.replace('.', '/'))}"

    @property
    def placement(self) -> str:
        """The group that the tables are in."""
        return self._ranges.group_of_shard(self._shard.shard)

    @property
    def place(self) -> Place:
        """Where the tables are, as answers say it."""
        return {"placement": self.placement, "shard": self._shard.shard}

    async def alter(self, request: pb.AlterTableRequest) -> common.TableInfo:
        """The table as it is then. Raises InvalidArgument, NotFound."""
        changes = checked((Property(each.name, each.value) for each in request.properties), may_unset=True)
        table = await self.settled(check_table_name(request.table))
        check_publication(changes, table.location, table.schema.primary_key)
        if published_as(changes):
            _require_as_in_files(table)
        if request.columns:
            await self._change_columns(table, request, changes)
        else:
            await self._propose(cmd.AlterTable(table.table_id, changes))
        return table.info()

    async def _change_columns(
        self, table: TableState, request: pb.AlterTableRequest, properties: tuple[Property, ...]
    ) -> None:
        """Readers see it from a timestamp on; those at or above it wait until it has applied, as for a compaction."""
        check_count(len(request.columns), "columns", MAX_COLUMNS)
        if not request.request_id:
            raise InvalidArgument("a change of columns needs a request id")
        if published_as(table.properties) or published_as(properties):
            raise InvalidArgument(
                f"{table.name} is published: its columns cannot be changed, since its log says what they are",
                hint="end the publication first: publish=None",
            )
        changes = list(map(ColumnChange.from_wire, request.columns))
        loop = asyncio.get_running_loop()
        async with self._reads.turn:
            if table.schemas.has_made(request.request_id):
                return
            was, version, is_known = table.schema, table.schemas.version, True
            new = await loop.run_in_executor(self._blocking, changed, was, changes, table.name)
            try:
                at = await self._reads.close_gate(table.table_id, self._clock.now())
                columns = NewSchema(new, at, version, request.request_id)
                await self._propose(cmd.AlterTable(table.table_id, properties, columns))
            except OutcomeUnknown:
                is_known = table.schemas.version != version  # it may apply yet, if this replica does not lead any more
                raise
            finally:
                if is_known:
                    self._reads.open_gate(table.table_id)

    async def _location(self, name: str, given: str) -> str:
        """Where the table is to be; nothing may be awaited between this and the proposal."""
        database = name.partition(".")[0]
        roots, others = (self._warehouse, *self._roots.of(database)), self._roots.others(database)
        check = partial(locations.check, roots=roots, others=others)
        while True:
            # What is left of a dropped table of this name is cleaned where it was.
            location = given or self._shard.free_location(self._place_of(name))
            await asyncio.get_running_loop().run_in_executor(self._blocking, check, location)
            if given or location == self._shard.free_location(location):
                return location

    async def drop(self, request: pb.DropTableRequest) -> pb.DropTableResponse:
        """From its answer on nobody else prepares on the table; when nobody is named in it, the drop can commit.

        Raises NotFound, and why the transaction cannot drop the table.
        """
        deadline = asyncio.get_running_loop().time() + time_left(min(request.wait_millis / 1000, MAX_WAIT_SECONDS))
        txn_id = TxnId(request.txn_id)
        table = await self.settled(request.table, txn_id)
        if txn_id not in table.txns:
            raise dropping.unlocked(table, txn_id)  # and there is no need to make it take part
        older = await self._ranges.older_than(txn_id)
        await self._propose(cmd.DropTable(txn_id, table.table_id, request.owner, older))
        await self.publish_decided(table)
        record = table.txns[txn_id]
        while left := [other.txn_id for other in dropping.prepared_beside(table, record)]:
            if asyncio.get_running_loop().time() >= deadline:
                return pb.DropTableResponse(waits_for=left)
            await self._waiters.wait(table.table_id, deadline)
        return pb.DropTableResponse()

    async def settled(self, name: str, txn_id: TxnId | None = None) -> TableState:
        """The table of this name, for a write of the transaction, or for anybody.

        A drop is acknowledged before its FINALIZE_COMMIT arrives: whoever comes after it must see it.

        Raises NotFound; IllegalState, see `ParticipantShard.table_for`.
        """
        if self.at_once(name) is None:
            await self.publish_decided(self._shard.table(name))
        return self._shard.table(name) if txn_id is None else self._shard.table_for(name, txn_id)

    def at_once(self, name: str) -> TableState | None:
        """The table of this name, for anybody; None: only `settled` can tell. Raises NotFound."""
        table = self._shard.table(name)
        return None if _may_be_dropped(table) else table

    async def all(self) -> list[TableState]:
        """All that there are now."""
        for table in list(self._shard.tables()):
            if _may_be_dropped(table):
                await self.publish_decided(table)
        return [table for table in self._shard.tables() if not table.is_database and table.dropped is None]

    async def page(self, after: str) -> pb.ListTablesResponse:
        """The tables whose names come after this one: as many as one answer may have."""
        later = sorted((table for table in await self.all() if table.name > after), key=lambda table: table.name)
        page, more = first_page([table.info() for table in later[: MAX_LISTED + 1]])
        return pb.ListTablesResponse(tables=page, more=more, given_to=self._shard.given_to)

    async def publish_decided(self, table: TableState) -> Timestamp:
        """Publishes all that is committed by now, also where FINALIZE_COMMIT is still to come: up to this timestamp."""
        now = await self._reads.base(None)
        for txn_id, commit_ts in await self._reads.decided(table, now):
            await self._propose(cmd.FinalizeCommit(txn_id, table.table_id, commit_ts))
        return now

    async def finalised(self, table: TableState) -> Timestamp:
        """As `publish_decided`, up to a timestamp at or below which nothing of the table changes any more."""
        at = await self._reads.settled(table)
        for txn_id, commit_ts in await self._reads.decided(table, at):
            await self._propose(cmd.FinalizeCommit(txn_id, table.table_id, commit_ts))
        return at

    async def wait_for_end(self, table_id: str, deadline: float) -> None:
        """Until a transaction has ended on the table, or to the deadline."""
        await self._waiters.wait(table_id, deadline)

    def ended(self, table_id: str) -> None:
        """A transaction has ended on the table."""
        self._waiters.wake(table_id)

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for the end of a transaction on a table."""
        return bool(self._waiters)

    def fail(self, error: Callable[[], TxnError]) -> None:
        """For a replica that does not lead any more."""
        self._waiters.fail(error)


def _may_be_dropped(table: TableState) -> bool:
    """Whether a drop of it is prepared: whether that was decided, the table may not have heard yet."""
    return table.dropping is not None and table.dropping.state is ParticipantState.COMMIT_IN_PROGRESS


def _checked_schema(request: pb.CreateTableRequest) -> Schema:
    """Raises InvalidArgument."""
    schema = Schema.from_wire(request.schema)
    schema = replace(
        schema, columns=tuple(replace(each, stored="", initial=None) for each in schema.columns), retired=(), version=0
    )
    schema.check()
    return schema


def _require_as_in_files(table: TableState) -> None:
    """Raises InvalidArgument for a column that is otherwise in files than in the table, as readers of a log know it."""
    for column in table.schema.columns:
        how = (
            f"is called {column.stored!r} in its files"
            if column.stored
            else "has a narrower type in older files"
            if column.widened
            else "has a value in files that do not have it"
            if column.initial is not None
            else ""
        )
        if how:
            raise InvalidArgument(
                f"{table.name} cannot be published: its column {column.name!r} {how}, and readers of its log take "
                "columns as they are there",
                hint="a new table with these columns can be: CREATE TABLE ... AS SELECT",
            )
