"""The shell of a node's participant shards: RPCs to commands; it decides nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from txnparticipant.leader.compactions import CompactionService
from txnparticipant.leader.counting import CommitCounter
from txnparticipant.leader.figures import ShardFigures, figures
from txnparticipant.leader.files import FileService
from txnparticipant.leader.keeping import Keeping
from txnparticipant.leader.locks import LockService, command_of, show
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.leader.readiness import Readiness
from txnparticipant.leader.reads import Reads
from txnparticipant.leader.registering import Registering
from txnparticipant.leader.renaming import Renaming
from txnparticipant.leader.rows import RowService
from txnparticipant.leader.savepoints import SavepointService
from txnparticipant.leader.switching import Switching
from txnparticipant.leader.tables import TableService
from txnparticipant.leader.translating import Translating
from txnparticipant.leader.txn_savepoints import TxnSavepointService
from txnparticipant.locks.strategies import BUILT_IN, Strategy
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.table import TableState
from txnparticipant.upkeep.audit_service import ShardAudit
from txnparticipant.upkeep.cleaner import PASS_SECONDS, Cleaner
from txnparticipant.upkeep.flusher import Flusher
from txnparticipant.upkeep.in_doubt import InDoubt
from txnparticipant.upkeep.initiator import Initiator
from txnparticipant.upkeep.publisher import Publisher
from txnparticipant.upkeep.retirement import Retirement
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.options import Options
from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.lake.locations import Roots
from txnstatus.limits import MAX_OPS_PER_CALL
from txnstatus.process.background import Tasks
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.raft.parts import PartDriver
from txnstatus.raft.proposer import Proposer
from txnstatus.replicated import Rejected
from txnstatus.rpc.calls import Call, one_by_one, takes_calls
from txnstatus.rpc.errors import to_detail
from txnstatus.status.commands import LastWrite
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.records import Step
from txnstatus.types import (
    ConflictStrategy,
    HybridClock,
    ParticipantId,
    ParticipantOpType,
    Timestamp,
    TxnId,
)
from txnstatus.wire import checked_txn_id

log = logging.getLogger(__name__)


FORGET_PASS_SECONDS = 5.0
NO_ROOTS = Roots()


@dataclass(frozen=True, slots=True)
class ShardSettings:
    zombie_grace_seconds: float
    """Time for which somebody may still write for a transaction that has ended."""
    lease_seconds: float
    """Time for which a snapshot that is read is kept."""
    in_doubt_seconds: float
    """Time for which a transaction may be prepared before the status table is asked."""
    row_flush_bytes: int


class ShardService:
    """One shard's replica on this node."""

    def __init__(
        self,
        machine: ShardMachine,
        driver: PartDriver,
        clock: HybridClock,
        ranges: StatusRanges,
        warehouse: str,
        disk: Executor,
        settings: ShardSettings,
        options: Callable[[], Options],
        level: Callable[[], int],
        table_roots: Roots = NO_ROOTS,
        strategies: Mapping[str, Strategy] = BUILT_IN,
    ) -> None:
        """`options`, `level`: the cluster's, as they are now. `table_roots`: URIs below which tables may be, besides
        the warehouse. `strategies`: by name, with those that come with us."""
        self.shard = machine.shard
        self._driver, self._clock = driver, clock
        self._ranges = ranges
        self._options = options
        self._proposer: Proposer[cmd.Command, ShardApplied] = Proposer("shard", driver, cmd.encode, level, self._heard)
        propose = self._propose
        self._range_of, self.is_with = machine.range_of, machine.is_with
        self._registering = Registering(self.shard, ranges, propose, settings.in_doubt_seconds, self._is_here)
        leases, grace = Leases(settings.lease_seconds), settings.zombie_grace_seconds
        self._translating = Translating(self.shard, propose, clock, disk)
        self._reads = Reads(self.shard, ranges, leases, driver.check_lease, self._translating.translate)
        self._switching = Switching(self._reads, propose, clock, disk)
        self._readiness = Readiness(self._registering, self._switching, self._translating)
        self._locks = LockService(self.shard, ranges, propose, strategies)
        self._retirement = Retirement(self.shard, leases, propose, clock, lambda: options().snapshot_retention_seconds)
        self._tables = TableService(
            *(self.shard, ranges, self._reads, propose, warehouse, table_roots, disk),
            *(self._locks.check_strategy, clock, level),
        )
        lease = driver.check_lease
        self._renaming = Renaming(self.shard, self._tables, self._reads, ranges, propose, clock, lease)
        self._get_unsettled = one_by_one("txnstatus.Table/GetTable", self._get_settled)
        self._files = FileService(self.shard, self._tables, self._reads, self._registering, propose)
        self._rows = RowService(self.shard, self._reads, propose, self._registering, self._tables.settled, disk)
        self._flusher = Flusher(
            self.shard, propose, clock, disk, grace, settings.row_flush_bytes, self._rows.wants_room
        )
        self._initiator = Initiator(self.shard, propose, clock, options)
        self.compactions = CompactionService(
            self.shard, self._tables, self._initiator, self._switching, propose, clock, disk, options, lease
        )
        self.savepoints = SavepointService(self.shard, self._reads.base, propose, clock, lease)
        self.txn_savepoints = TxnSavepointService(self.shard, self._registering, propose, lease)
        self.keeping = Keeping(leases, lease)
        self.counter = CommitCounter(self.shard, lease)
        self._cleaner = Cleaner(self.shard, self._proposer.propose_all, disk, grace)
        self._publisher = Publisher(self.shard, self._tables.finalised, driver.check_lease, disk)
        self.audit = ShardAudit(self.shard, propose, lease)
        self._in_doubt = InDoubt(ranges, self._publish, self._discard, settings.in_doubt_seconds, on_request=True)
        self._next_forgetting = 0.0
        self._tasks = Tasks(f"the cleaner of shard {self.shard.shard} failed")

    def start(self) -> None:
        self._tasks.spawn(self._clean())

    async def stop(self) -> None:
        await self._locks.stop()
        await self._tasks.stop()

    def figures(self) -> ShardFigures:
        return figures(self.shard, self._locks, self._cleaner)

    def on_leadership(self, leading: bool) -> None:
        log.info("%s %s", shard_group(self.shard.shard), "leading" if leading else "no longer leading")
        self._retirement.on_leadership(leading)
        self._cleaner.forget()
        self._publisher.forget()
        self._in_doubt.forget()
        self._flusher.forget()
        self._initiator.forget()
        self.compactions.forget()
        self._reads.forget(self._driver.not_the_leader)
        self._registering.forget()
        if leading:
            self._locks.tell_of_missing_strategies()
        else:
            self._locks.fail(self._driver.not_the_leader)
            self._tables.fail(self._driver.not_the_leader)

    # ---- tables

    async def create_table(self, request: table_pb.CreateTableRequest) -> table_pb.CreateTableResponse:
        return table_pb.CreateTableResponse(table=await self._tables.create(request), **self._tables.place)

    @takes_calls
    def get_table(self, calls: Sequence[Call]) -> None:
        """From memory, as every begin with first writes asks; unless somebody's drop may be decided."""
        self._driver.check_lease()
        unsettled: list[Call] = []
        for call in calls:
            try:
                table = self._tables.at_once(call.request.name)
            except TxnError as error:
                call.tell(error)
                continue
            if table is None:
                unsettled.append(call)
            else:
                call.tell(self._told(table))
        self._get_unsettled(unsettled)

    async def _get_settled(self, request: table_pb.GetTableRequest) -> table_pb.GetTableResponse:
        return self._told(await self._tables.settled(request.name))

    def _told(self, table: TableState) -> table_pb.GetTableResponse:
        return table_pb.GetTableResponse(table=table.info(), **self._tables.place)

    async def list_tables(self, request: table_pb.ListTablesRequest) -> table_pb.ListTablesResponse:
        self._driver.check_lease()
        return await self._tables.page(request.after)

    async def alter_table(self, request: table_pb.AlterTableRequest) -> table_pb.AlterTableResponse:
        self._driver.check_lease()
        return table_pb.AlterTableResponse(table=await self._tables.alter(request), **self._tables.place)

    async def rename_table(self, request: table_pb.RenameTableRequest) -> table_pb.RenameTableResponse:
        return await self._renaming.rename(request)

    async def drop_table(self, request: table_pb.DropTableRequest) -> table_pb.DropTableResponse:
        self._driver.check_lease()
        checked_txn_id(request.txn_id)
        return await self._tables.drop(request)

    async def scan(self, request: table_pb.ScanRequest) -> table_pb.ScanResponse:
        return await self._reads.scan(request)

    async def renew_leases(self, request: table_pb.RenewLeasesRequest) -> table_pb.RenewLeasesResponse:
        return self._reads.renew(request)

    # ---- writes

    async def open_write(self, request: table_pb.OpenWriteRequest) -> table_pb.OpenWriteResponse:
        self._driver.check_lease()
        return await self._files.open(request)

    async def add_files(self, request: table_pb.AddFilesRequest) -> table_pb.AddFilesResponse:
        self._driver.check_lease()  # another replica, or this one before it has caught up, may not know the table
        return await self._files.add(request)

    async def last_write(self, request: table_pb.AddFilesRequest) -> LastWrite:
        """The files as a range in the same log adds them, in the entry with which it begins the commit.

        Raises what refuses them, and what is retriable.
        """
        self._driver.check_lease()
        command = replace(await self._files.command(request), begins=True, registers=True)
        self._proposer.check([command])
        return LastWrite(ParticipantId(command.table_id), cmd.encode(command))

    async def write_rows(self, request: table_pb.WriteRowsRequest) -> table_pb.WriteRowsResponse:
        self._driver.check_lease()
        checked_txn_id(request.txn_id)
        return await self._rows.write(request)

    # ---- locks

    async def lock(self, request: table_pb.LockRequest) -> table_pb.LockResponse:
        self._driver.check_lease()
        checked_txn_id(request.txn_id)
        participant = self.shard.participant(request.table)
        if participant.is_database:
            self._ranges.check_shard(request.table, self.shard.shard)  # any shard would make it, and lock it for nobody
        else:
            participant = await self._tables.settled(request.table, TxnId(request.txn_id))
        settled_by = request.settled_by or ConflictStrategy.NO_WAIT
        self._locks.check_strategy(settled_by)
        strict = bool(self._options().strict_locking_mode)
        command = command_of(participant, request, self._clock.now(), strict=strict)
        if await self._registering.registered(participant, command.txn_id, request.owner):
            command = replace(command, begins=True)
        granted = await self._locks.acquire(request.table, command, settled_by, request.wait_millis / 1000)
        return table_pb.LockResponse(granted=granted, mode=f"LOCK_{command.locks[0].mode.name}")

    async def show_locks(self, request: table_pb.ShowLocksRequest) -> table_pb.ShowLocksResponse:
        self._driver.check_lease()
        return show(self.shard, request)

    # ---- two-phase commit

    def _is_here(self, txn_id: TxnId) -> bool:
        """Whether the transaction's record is in the same log."""
        return self._range_of(txn_id) is not None

    async def _propose(self, command: cmd.Command) -> ShardApplied:
        """Raises the refusal, NotTheLeader or OutcomeUnknown."""
        if isinstance(command, cmd.FirstWrite) and command.begins and self._is_here(command.txn_id):
            command = replace(command, registers=True)
        return await self._proposer.propose(command)

    async def make_ready(self, txn_id: TxnId, table_id: ParticipantId) -> None:
        """Before a transaction of a range in the same log prepares on a table here.

        Raises why it never can, such as DataDamaged, or what is retriable.
        """
        await self._readiness.make_ready(table_id, txn_id)

    def is_ready(self, txn_id: TxnId, table_id: ParticipantId) -> bool:
        """Whether the transaction can prepare as it is."""
        return self._readiness.is_ready(table_id, txn_id)

    def has_applied(self, step: Step) -> None:
        """What a range in the same log has asked."""
        assert isinstance(step.outcome, ShardApplied | Rejected)
        command: Any = step.command
        self._heard([command], [step.outcome])

    async def participate(self, request: pb.ParticipateRequest) -> pb.ParticipateResponse:
        """Refusals are answered op by op; what is retriable fails the call, so that its sender finds the leader."""
        if len(request.ops) > MAX_OPS_PER_CALL:
            raise InvalidArgument(f"{len(request.ops)} operations in one call: {MAX_OPS_PER_CALL} are possible")
        self._driver.check_lease()  # another replica would ask about registrations that are none of its business
        self._clock.update(Timestamp(request.now))
        refused = await self._readiness.refusals(request.ops)
        commands = [self._command(op) for number, op in enumerate(request.ops) if number not in refused]
        proposed = iter(await self._proposer.propose_all(commands, linger=self._nobody_waits(commands)))
        response = pb.ParticipateResponse()
        for number in range(len(request.ops)):
            answer = refused[number] if number in refused else next(proposed)
            if not isinstance(answer, TxnError):
                response.results.add(timestamp=answer.timestamp)
            elif answer.retriable:
                raise answer
            else:
                response.results.add(error=to_detail(answer))
        return response

    def _nobody_waits(self, commands: Sequence[cmd.Command]) -> bool:
        """The outcome is known, and readers who meet one that is not applied here yet ask the status table for it."""
        if self._locks.awaited or self._tables.awaited:
            return False
        return all(isinstance(command, cmd.FinalizeCommit) for command in commands)

    def _command(self, op: pb.ParticipantOp) -> cmd.Command:
        txn_id, table_id = TxnId(op.txn_id), op.table_id
        match op.type:
            case ParticipantOpType.BEGIN_COMMIT:
                self._clock.update(self.shard.last_row_change(table_id))
                return cmd.BeginCommit(txn_id, table_id, self._clock.now(), op.first_write)
            case ParticipantOpType.FINALIZE_COMMIT:
                commit_ts = Timestamp(op.commit_timestamp)
                self._clock.update(commit_ts)
                return cmd.FinalizeCommit(txn_id, table_id, commit_ts)
            case ParticipantOpType.ABORT_TXN:
                return cmd.AbortTxn(txn_id, table_id, op.first_write)
            case _:
                raise InvalidArgument(f"no participant operation {op.type}")

    def _heard(self, commands: Sequence[cmd.Command], outcomes: Sequence[ShardApplied | Rejected]) -> None:
        """Tells those who wait for what has applied."""
        for command, outcome in zip(commands, outcomes, strict=True):
            if isinstance(outcome, ShardApplied):
                self._tell(command, outcome)

    def _tell(self, command: cmd.Command, outcome: ShardApplied) -> None:
        if self._locks.awaited and isinstance(command, cmd.TxnCommand):
            self._locks.wake(command.table_id, (command.txn_id, *outcome.let_in))
        match command:
            case cmd.BeginCommit():
                self._registering.ended(command.table_id, command.txn_id)
            case cmd.FinalizeCommit():
                self._tables.ended(command.table_id)
            case cmd.AbortTxn():
                self._registering.ended(command.table_id, command.txn_id)
                self._tables.ended(command.table_id)
                self._rows.made_room()
            case cmd.FlushRows() | cmd.Withdraw():
                self._rows.made_room()

    async def _clean(self) -> None:
        upkeep = (self.savepoints, self._retirement, self._flusher, self._initiator, self._publisher, self._cleaner)
        passes = (*(each.run_once for each in upkeep), self.resolve, self._forget_ended)
        while True:
            await asyncio.sleep(PASS_SECONDS)
            if self._driver.group.has_lease:
                for run_once in passes:
                    await run_once()
                    await asyncio.sleep(0)  # a pass that waits for nothing shares its turn with none of the others

    async def resolve(self) -> None:
        """One pass over what is prepared here, and nobody has told the outcome of; and what may not be registered."""
        now = asyncio.get_running_loop().time()
        prepared = list(self.shard.undecided())
        await asyncio.gather(self._in_doubt.resolve(prepared, now), self._registering.resolve(now))

    async def _publish(self, table_id: ParticipantId, txn_id: TxnId, commit_ts: Timestamp) -> None:
        self._clock.update(commit_ts)
        await self._proposer.propose(cmd.FinalizeCommit(txn_id, table_id, commit_ts))

    async def _discard(self, table_id: ParticipantId, txn_id: TxnId) -> None:
        await self._proposer.propose(cmd.AbortTxn(txn_id, table_id))

    async def _forget_ended(self) -> None:
        """Drops what the status table has forgotten."""
        now = asyncio.get_running_loop().time()
        if now < self._next_forgetting:
            return
        self._next_forgetting = now + FORGET_PASS_SECONDS
        try:
            forgotten = await self._ranges.forgotten()
            if not forgotten <= self.shard.forgotten:
                await self._proposer.propose(cmd.ForgetTxns(forgotten))
        except TxnError as error:
            log.info("%s forgets nothing for now: %s", shard_group(self.shard.shard), error.message)
