"""Compactions of a shard's tables, on its leader: who wants one, who works at one, and how each ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from txnparticipant.leader import moving
from txnparticipant.leader.reads import changes_to_wire
from txnparticipant.leader.seekers import Seekers
from txnparticipant.leader.switching import Switching
from txnparticipant.leader.tables import TableService
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import compaction_choice, views
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.compacting import OVERWRITTEN, held, overwritten
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.upkeep.initiator import Initiator
from txnparticipant.versions.compactions import Compaction, Kind, State, compaction_id
from txnparticipant.versions.directories import COMPACTIONS, CompactionDirectory
from txnparticipant.versions.mvcc import (
    DeadRowsRef,
    FileSet,
    HiddenRows,
    LineageRef,
    Manifest,
    commit_times,
    together,
)
from txnstatus import limits, partitions
from txnstatus.catalog.options import Options
from txnstatus.errors import IllegalState, InternalError, InvalidArgument, Unavailable
from txnstatus.pages import first_page
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.proto import table_pb2
from txnstatus.sizes import Sizes
from txnstatus.types import HybridClock

Propose = Callable[[cmd.Command], Awaitable[ShardApplied]]
PARTITIONS_AT_ONCE = 200
"""Partitions of a request that are looked at before others may run."""


@dataclass(slots=True)
class CompactionService:
    """Implements the Compactions service for one shard."""

    shard: ParticipantShard
    tables: TableService
    initiator: Initiator
    switching: Switching
    propose: Propose
    clock: HybridClock
    blocking: Executor
    options: Callable[[], Options]
    check_lease: Callable[[], None]
    """Raises NotTheLeader where this replica does not lead, or cannot prove it."""
    _seekers: Seekers = field(default_factory=lambda: Seekers(0.0))
    _measured: dict[tuple[str, str], int] = field(default_factory=dict)
    """Table and compaction → bytes that it would have read when somebody was to have it last, where it still waits."""
    _claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Two workers that ask at once get two tasks."""

    def forget(self) -> None:
        """For a new leadership."""
        self._seekers = Seekers(_now())
        self._measured.clear()

    # ---- who wants one

    async def request_compaction(self, request: pb.RequestCompactionRequest) -> pb.RequestCompactionResponse:
        self.check_lease()
        kind = _kind(request.kind)
        table = await self.tables.settled(request.table)
        if request.partition:
            if table.schema.primary_key:
                raise InvalidArgument(
                    f"{table.name} has a primary key: all of it is compacted, and no partition by itself"
                )
            partitions.check_all([request.partition], table.schema.partition_by, table.name, whole=True)
        await self.tables.publish_decided(table)
        living = compaction_choice.living(table)
        response = pb.RequestCompactionResponse()
        for number, partition in enumerate([request.partition] if request.partition else living):
            if found := await self._wanted(table, partition, kind, living.get(partition, ())):
                response.compaction_ids.append(found)
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return response

    async def _wanted(self, table: TableState, partition: str, kind: Kind, living: Sequence[FileSet]) -> str | None:
        """The id of the one that is open, or will be. None: there is nothing to do."""
        known = table.compactions.of(partition)
        if known is not None:
            return known.compaction_id
        at = self.clock.now()
        inputs = compaction_choice.inputs(table, kind, living, at, self.options().compact_file_bytes)
        if inputs is None:
            return None
        new, size = compaction_id(kind, at), compaction_choice.input_bytes(table, inputs, at)
        try:
            await self.propose(
                cmd.OpenCompaction(table.table_id, new, kind, partition, requested=True, at=at, input_bytes=size)
            )
        except IllegalState:
            if (meanwhile := table.compactions.of(partition)) is None:
                raise
            return meanwhile.compaction_id
        return new

    async def list_compactions(self, request: pb.ListCompactionsRequest) -> pb.ListCompactionsResponse:
        self.check_lease()
        tables = [await self.tables.settled(request.table)] if request.table else list(self.shard.tables())
        after = request.after.table_id, request.after.compaction_id
        found = sorted((each for table in tables for each in self._infos(table)), key=place)
        page, more = first_page([each for each in found if place(each) > after])
        return pb.ListCompactionsResponse(compactions=page, more=more, given_to=self.shard.given_to)

    # ---- who works at one

    async def lease_compaction(self, request: pb.LeaseCompactionRequest) -> pb.LeaseCompactionResponse:
        self.check_lease()
        sizes = _sizes(request)
        async with self._claiming:
            for table, wanted in self._open():
                if wanted.lease_id == request.lease_id:
                    return pb.LeaseCompactionResponse(task=self._task(table, wanted))
            self._seekers.asks(request.worker, sizes, request.table, _now())
            for table, wanted in self._waiting(request.table, sizes):
                if await self._claim(table, wanted, request, sizes):
                    claimed = table.compactions.open[wanted.compaction_id]
                    return pb.LeaseCompactionResponse(task=self._task(table, claimed))
        return pb.LeaseCompactionResponse()

    def _waiting(self, table: str, sizes: Sizes) -> list[tuple[TableState, Compaction]]:
        """What a worker may have, of one table or of all: first what it takes by itself, and what waits for longest."""
        waiting = {_key(of, wanted): (of, wanted) for of, wanted in self._open() if not wanted.worker}
        self._measured = {key: size for key, size in self._measured.items() if key in waiting}
        found = [
            (of, wanted)
            for of, wanted in waiting.values()
            if table in ("", of.name) and self._may_take(sizes, of, self._size(of, wanted))
        ]
        return sorted(found, key=lambda each: (not sizes.fit(self._size(*each)), each[1].opened))

    def _may_take(self, sizes: Sizes, table: TableState, size: int) -> bool:
        return self._seekers.may_take(sizes, table.name, size, _now(), self.options().compact_wait_ms / 1000)

    def _size(self, table: TableState, wanted: Compaction) -> int:
        """Bytes that one that waits would read, as far as is known: it is measured when somebody is to have it."""
        return self._measured.get(_key(table, wanted), wanted.input_bytes)

    async def _claim(
        self, table: TableState, wanted: Compaction, request: pb.LeaseCompactionRequest, sizes: Sizes
    ) -> bool:
        as_of = compaction_choice.read_at(table, await self.tables.publish_decided(table))
        if wanted.compaction_id not in table.compactions.open:
            return False
        file_bytes = self.options().compact_file_bytes
        living = compaction_choice.living(table).get(wanted.partition, ())
        inputs = compaction_choice.inputs(table, wanted.kind, living, as_of, file_bytes)
        if inputs is None:
            await self._end(table, wanted.compaction_id, State.ATTEMPTED, "there is nothing to compact")
            return False
        size = self._measured[_key(table, wanted)] = compaction_choice.input_bytes(table, inputs, as_of)
        if not self._may_take(sizes, table, size):
            return False  # it is not any more what it was when it was opened
        try:
            await self.propose(
                cmd.ClaimCompaction(
                    table.table_id, wanted.compaction_id, request.worker, request.lease_id, as_of, inputs
                )
            )
        except Unavailable as error:
            if type(error) is not Unavailable:
                raise
            return False  # its files are being overwritten: the next look says what is left
        self.initiator.heard_of(table.table_id, wanted.compaction_id)
        if not moving.is_loaded():
            asyncio.get_running_loop().run_in_executor(self.blocking, moving.load)
        return True

    async def renew_compaction(self, request: pb.RenewCompactionRequest) -> pb.RenewCompactionResponse:
        self.check_lease()
        table = self.shard.table_by_id(request.table_id)
        self._seekers.works(held(table, request.compaction_id, request.lease_id).worker, _now())
        self.initiator.heard_of(table.table_id, request.compaction_id)
        return pb.RenewCompactionResponse(lease_millis=self.options().compact_lease_ms)

    async def fail_compaction(self, request: pb.FailCompactionRequest) -> pb.FailCompactionResponse:
        self.check_lease()
        table = self.shard.table_by_id(request.table_id)
        limits.check_length("a reason", request.reason, limits.MAX_REASON_CHARACTERS)
        if table.compactions.is_given_up(request.compaction_id, request.lease_id):
            # A worker that is late may have written something after its directory was removed.
            await self.propose(cmd.Adopt(table.table_id, CompactionDirectory(request.compaction_id).name))
            return pb.FailCompactionResponse()
        held(table, request.compaction_id, request.lease_id)
        state = State.ATTEMPTED if request.returned else State.FAILED
        await self._end(table, request.compaction_id, state, request.reason)
        return pb.FailCompactionResponse()

    async def complete_compaction(self, request: pb.CompleteCompactionRequest) -> pb.CompleteCompactionResponse:
        self.check_lease()
        table = self.shard.table_by_id(request.table_id)
        wanted = request.compaction_id
        if done := table.compactions.done(wanted):
            return pb.CompleteCompactionResponse(switched=done)
        compaction = held(table, wanted, request.lease_id)
        output, lineage = cmd.manifest_from_wire(request.manifest), cmd.lineage_from_wire(request.lineage)
        directory = table.directory(COMPACTIONS, wanted)
        hides = request.hidden if request.HasField("hidden") else None
        for path in (output.path, lineage.path, *([hides.path] if hides else [])):
            if not path.startswith(f"{directory}/") or "/" in path[len(directory) + 1 :]:
                raise InvalidArgument(f"{path[:300]!r} is not in the compaction's own {directory}")
        if overwritten(table, compaction):
            await self._end(table, wanted, State.ATTEMPTED, OVERWRITTEN)
            raise IllegalState(f"compaction {wanted} of {table.name}: {OVERWRITTEN}")
        fault, hidden = await self._examined(table, compaction, output, lineage, hides)
        if fault:
            await self._end(table, wanted, State.FAILED, fault)
            raise InvalidArgument(f"compaction {wanted} of {table.name} is not taken: {fault}")
        self.initiator.heard_of(table.table_id, wanted)
        if not table.schema.primary_key:
            output = replace(output, partitions=_named(compaction.partition) if output.file_count else ())
        switched = await self.switching.switch(table, wanted, request.lease_id, output, lineage, hidden)
        return pb.CompleteCompactionResponse(switched=switched)

    async def _examined(
        self,
        table: TableState,
        wanted: Compaction,
        output: Manifest,
        lineage: LineageRef,
        hides: table_pb2.DeadRowsRef | None,
    ) -> tuple[str, HiddenRows | None]:
        """Why the output cannot be what is left of the inputs; empty: it is. And which other rows it hides."""
        inputs = [replace(each.manifest, partitions=_named(each.partition)) for each in self._inputs(table, wanted)]
        others = {each.id: each.manifest for each in self._beside(table, wanted)}
        is_keyed, dead = bool(table.schema.primary_key), self._known_dead(table, wanted)
        directory = table.directory(COMPACTIONS, wanted.compaction_id)
        folds = is_keyed and table.rows.changed_at(wanted.as_of)
        partition = None if is_keyed else wanted.partition

        def work() -> tuple[str, HiddenRows | None]:
            story = moving.fault(inputs, dead, output, partition, directory, lineage, folds)
            if story or hides is None:
                return story, None
            return moving.hidden_rows(cmd.dead_rows_from_wire(hides), others)

        try:
            return await asyncio.get_running_loop().run_in_executor(self.blocking, work)
        except InternalError as error:
            return error.message, None

    # ---- inside

    def _open(self) -> Iterator[tuple[TableState, Compaction]]:
        for table in self.shard.tables():
            yield from ((table, wanted) for wanted in table.compactions.open.values())

    def _task(self, table: TableState, wanted: Compaction) -> pb.CompactionTask:
        self.initiator.heard_of(table.table_id, wanted.compaction_id)
        options = self.options()
        task = pb.CompactionTask(
            table=table.info(),
            compaction_id=wanted.compaction_id,
            kind=wanted.kind.value,
            partition=wanted.partition,
            directory=table.directory(COMPACTIONS, wanted.compaction_id),
            as_of=wanted.as_of,
            target_file_bytes=options.compact_file_bytes,
            lease_millis=options.compact_lease_ms,
        )
        inputs, others = self._inputs(table, wanted), self._beside(table, wanted)
        task.inputs.extend(map(cmd.manifest_to_wire, together(inputs)))
        task.dead.extend(map(cmd.dead_rows_to_wire, self._known_dead(table, wanted)))
        changes = views.rows_view(table).at(wanted.as_of, {})
        if changes.row_sets or changes.flushes:
            task.others.extend(map(cmd.manifest_to_wire, together(others)))
            task.changes.CopyFrom(changes_to_wire(changes))
            times = commit_times([*inputs, *others], (), {})
            task.commit_timestamps.extend(times[ref.path] for ref in (*task.inputs, *task.others))
        return task

    def _inputs(self, table: TableState, wanted: Compaction) -> list[FileSet]:
        return [found for id_ in wanted.inputs if (found := table.file_sets.get(id_))]

    def _beside(self, table: TableState, wanted: Compaction) -> list[FileSet]:
        """Other files of which row changes may hide rows."""
        return compaction_choice.beside(table, wanted.inputs, wanted.as_of) if table.schema.primary_key else []

    def _known_dead(self, table: TableState, wanted: Compaction) -> list[DeadRowsRef]:
        """What was deleted of the inputs, and of others that it may look at, at the time at which they are read."""
        ids = [*wanted.inputs, *(each.id for each in self._beside(table, wanted))]
        known = table.deletes.later(ids, compaction_choice.NONE)
        return [each.ref for each in known if each.commit_ts <= wanted.as_of]

    async def _end(self, table: TableState, wanted: str, state: State, reason: str) -> None:
        await self.propose(cmd.DropCompaction(table.table_id, wanted, state, reason, self.clock.now()))

    # ---- listed

    def _infos(self, table: TableState) -> Iterator[pb.CompactionInfo]:
        for wanted in table.compactions.open.values():
            info = _info(table, wanted, wanted.state)
            if not wanted.worker:
                info.input_bytes = self._size(table, wanted)
                info.reason = self._seekers.lack(table.name, info.input_bytes, _now())
            yield info
        yield from _ended(table)


def _key(table: TableState, wanted: Compaction) -> tuple[str, str]:
    return table.table_id, wanted.compaction_id


def _named(partition: str) -> tuple[str, ...]:
    return (partition,) if partition else ()


def place(info: pb.CompactionInfo) -> tuple[str, str]:
    """Its place in listings, which never changes."""
    return info.table_id, info.compaction_id


def _ended(table: TableState) -> Iterator[pb.CompactionInfo]:
    for ended in table.compactions.ended:
        info = _info(table, ended.compaction, ended.state)
        info.ended, info.switched = ended.ended, ended.switched
        info.input_rows, info.output_rows = ended.input_rows, ended.output_rows
        info.output_files, info.reason = ended.output_files, ended.reason
        yield info


def _info(table: TableState, wanted: Compaction, state: State) -> pb.CompactionInfo:
    return pb.CompactionInfo(
        compaction_id=wanted.compaction_id,
        table_id=table.table_id,
        table=table.name,
        partition=wanted.partition,
        kind=wanted.kind.value,
        state=state.value,
        requested=wanted.requested,
        opened=wanted.opened,
        worker=wanted.worker,
        as_of=wanted.as_of,
        input_file_sets=len(wanted.inputs),
        input_bytes=wanted.input_bytes,
    )


def _kind(of: int) -> Kind:
    try:
        return Kind(of)
    except ValueError:
        raise InvalidArgument(f"no kind of compaction {of}: there are COMPACTION_MINOR and COMPACTION_MAJOR") from None


def _sizes(request: pb.LeaseCompactionRequest) -> Sizes:
    """The sizes that the worker takes. Raises InvalidArgument."""
    limits.check_length("a worker's name", request.worker, limits.MAX_LABEL_CHARACTERS)
    limits.check_length("a lease id", request.lease_id, limits.MAX_LEASE_ID_CHARACTERS)
    if not request.worker or not request.lease_id:
        raise InvalidArgument("whoever leases a compaction says its name, and a lease id")
    if request.max_bytes and request.min_bytes >= request.max_bytes:
        raise InvalidArgument(
            f"no compaction reads {request.min_bytes} bytes or more and less than {request.max_bytes}"
        )
    return Sizes(request.min_bytes, request.max_bytes)


def _now() -> float:
    return asyncio.get_running_loop().time()
