"""Faults put into the service on purpose: a simulator that does not find them finds nothing.

Each is a list of seams (see tests.sim.world.seams): the name that is replaced, and the faulty stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs
from pysyncobj import SyncObj

from tests.sim.judges.leaders import Overheard
from txnparticipant.leader.reads import Reads
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.shard.transitions import TRANSITIONS as SHARD_TRANSITIONS
from txnparticipant.shard.transitions import Op as ShardOp
from txnparticipant.shard.transitions import Stay as ShardStay
from txnparticipant.upkeep.cleaner import Cleaner
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.errors import TxnError
from txnstatus.raft import frames
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.segments import Segments
from txnstatus.rpc.calls import Call, takes_calls
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import CommitTask
from txnstatus.status.keep_alives import KeepAlives
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.service import StatusService
from txnstatus.status.table import TRANSITIONS, Op, TxnStatusTable
from txnstatus.types import AbortCause, AbortCode, ParticipantState, Timestamp, TxnId, TxnState

Seams = list[tuple[str, Any]]


@dataclass(frozen=True)
class Planted:
    rules: tuple[str, ...]
    """The beginnings of the violations by which the fault may come to light."""
    profile: str
    seeds: int
    """Seeds within which the fault must come to light."""
    seams: Callable[[], Seams]
    first: int = 0
    """The first of these seeds: what it does not show in those before it costs nothing in every run."""


def no_sync() -> Seams:
    return [("tests.sim.world.disk:_SimFile.sync", lambda _self: None)]


def acknowledge_before_the_sync() -> Seams:
    sync = RaftDriver._sync

    async def early(self: RaftDriver) -> None:
        self._send(self.group.take_late())
        await sync(self)

    return [("txnstatus.raft.driver:RaftDriver._sync", early)]


def forget_the_vote() -> Seams:
    remember = SyncObj._SyncObj__setCurrentTerm
    return [
        (
            "pysyncobj.syncobj:SyncObj._SyncObj__setCurrentTerm",
            lambda self, term, _voted_for: remember(self, term, None),
        )
    ]


def a_lease_for_ever() -> Seams:
    return [("txnstatus.raft.group:RaftGroup.has_lease", RaftGroup.is_ready)]


def answer_before_the_decision() -> Seams:
    commit = StatusService.commit_transaction

    @takes_calls
    def hasty(self: StatusService, calls: Sequence[Call]) -> None:
        def heard(answer: Any) -> None:
            if not isinstance(answer, TxnError) and answer.txn.state == TxnState.COMMIT_IN_PROGRESS:
                answer.txn.state = TxnState.FINALIZE_IN_PROGRESS.name
                answer.txn.commit_timestamp = self._clock.now()

        commit(self, [Overheard(call, heard) for call in calls])

    return [("txnstatus.status.service:StatusService.commit_transaction", hasty)]


def drop_a_participant() -> Seams:
    change = TxnStatusTable._changed

    def forgetful(self: TxnStatusTable, record: Any, command: Any, outcome: Any) -> Any:
        if isinstance(command, cmd.RegisterParticipants):
            command = structs.replace(command, participants=command.participants[: 2 - len(record.participants)])
        return change(self, record, command, outcome)

    return [("txnstatus.status.table:TxnStatusTable._changed", forgetful)]


def expire_what_is_prepared() -> Seams:
    expire = TxnStatusManager._expire_stale

    def eager(self: TxnStatusManager, wall_micros: int) -> Iterator[Any]:
        yield from expire(self, wall_micros)
        for record in list(self.table.unfinished):
            if record.state is TxnState.COMMIT_IN_PROGRESS:
                cause = AbortCause(AbortCode.EXPIRED, "it takes long", "staleness tracker")
                yield from [_propose(cmd.Expire(record.txn_id, cause, wall_micros))]

    transitions = {**TRANSITIONS, (TxnState.COMMIT_IN_PROGRESS, Op.EXPIRE): TxnState.ABORT_IN_PROGRESS}
    return [
        ("txnstatus.status.manager:TxnStatusManager._expire_stale", eager),
        ("txnstatus.status.table:TRANSITIONS", transitions),
    ]


def _propose(command: Any) -> Any:
    from txnstatus.status.manager import Propose

    return Propose(command)


def no_grace_after_a_failover() -> Seams:
    start = TxnStatusManager._start_leading

    def harsh(self: TxnStatusManager, now: float) -> Any:
        effects = start(self, now)
        alive = self._keep_alives
        alive.look_at_all()
        for txn_id in alive._heard:
            alive._heard[txn_id] -= 2 * alive._deadline(txn_id, self.table.get(txn_id).keepalive_millis)
        return effects

    return [("txnstatus.status.manager:TxnStatusManager._start_leading", harsh)]


def request_ids_ignored() -> Seams:
    return [("txnstatus.status.table:TxnStatusTable.begun_by", lambda _self, _request_id: None)]


def the_first_participants_timestamp() -> Seams:
    answered = CommitTask.answered

    def first(self: CommitTask, participant_id: Any, timestamp: Timestamp, error: Any, now: float) -> Any:
        before = self.highest_timestamp
        again = answered(self, participant_id, timestamp, error, now)
        self.highest_timestamp = before or self.highest_timestamp
        return again

    return [("txnstatus.status.commit.tasks:CommitTask.answered", first)]


def decide_before_all_have_prepared() -> Seams:
    def complete(self: CommitTask) -> bool:
        return any(progress.answered for progress in self._progress.values())

    return [("txnstatus.status.commit.tasks:CommitTask.complete", property(complete))]


def a_snapshot_below_the_last_commit() -> Seams:
    take = StatusRanges.snapshot

    async def stale(self: StatusRanges) -> Timestamp:
        return Timestamp(max(0, await take(self) - 1))

    return [("txnstatus.status.ranges:StatusRanges.snapshot", stale)]


def scans_ignore_the_prepared() -> Seams:
    return [("txnparticipant.leader.reads:undecided_at", lambda _prepared, _ts: [])]


def overwrites_never_conflict() -> Seams:
    return [("txnparticipant.shard.changes:first_committer_wins", lambda *_: None)]


def an_empty_partition_is_in_nobodys_way() -> Seams:
    return [("txnparticipant.versions.conflicts:Overwrites.in_the_way", lambda *_: None)]


def an_overwrite_forgets_what_it_is_based_on() -> Seams:
    base = Reads.base

    async def now(self: Reads, _read_timestamp: Timestamp | None) -> Timestamp:
        return await base(self, None)

    return [("txnparticipant.leader.reads:Reads.base", now)]


def an_overwrite_of_a_part_takes_all() -> Seams:
    rooms = ("changes", "table")
    return [(f"txnparticipant.shard.{name}:covers", lambda objects, _partition: bool(objects)) for name in rooms]


def writes_after_the_prepare() -> Seams:
    late = {
        (ParticipantState.COMMIT_IN_PROGRESS, ShardOp.WRITE): ShardStay.OK,
        (ParticipantState.COMMITTED, ShardOp.WRITE): ShardStay.OK,
    }
    return [("txnparticipant.shard.shard:TRANSITIONS", {**SHARD_TRANSITIONS, **late})]


def the_cleaner_takes_from_the_living() -> Seams:
    def newly_to_clean(self: ParticipantShard) -> list[tuple[str, TxnId]]:
        return [
            (table.table_id, txn_id)
            for table in self._tables.values()
            for txn_id in [*table.uncleaned, *table.unfinished]
        ]

    def writes_to_clean(self: ParticipantShard, table_id: str, txn_id: TxnId) -> tuple[str, ...]:
        record = self._tables[table_id].txns.get(txn_id)
        return tuple(record.claimed) if record else ()

    return [
        ("txnparticipant.shard.shard:ParticipantShard.newly_to_clean", newly_to_clean),
        ("txnparticipant.shard.shard:ParticipantShard.writes_to_clean", writes_to_clean),
    ]


def reads_without_a_lease() -> Seams:
    def check(self: RaftDriver) -> None:
        if not self.group.is_ready:
            raise self.not_the_leader()

    return [("txnstatus.raft.driver:RaftDriver.check_lease", check)]


def the_cleaner_takes_one_pass() -> Seams:
    run_once = Cleaner.run_once

    async def hasty(self: Cleaner) -> None:
        await run_once(self)
        self._passes = {key: replace(done, first_at=float("-inf")) for key, done in self._passes.items()}
        self._due = [(0.0, table_id, txn_id) for _, table_id, txn_id in self._due]
        await run_once(self)

    return [("txnparticipant.upkeep.cleaner:Cleaner.run_once", hasty)]


def expire_one_interval_late() -> Seams:
    deadline = KeepAlives._deadline

    def late(self: KeepAlives, txn_id: TxnId, millis: int) -> float:
        return deadline(self, txn_id, millis) + millis / 1000

    return [("txnstatus.status.keep_alives:KeepAlives._deadline", late)]


def forget_to_drive() -> Seams:
    def idle(self: TxnStatusManager, record: Any, _now: float) -> list[Any]:
        return []

    return [("txnstatus.status.manager:TxnStatusManager._drive", idle)]


def repeat_a_failed_sync() -> Seams:
    append = Segments.append

    def stubborn(self: Segments, data: bytes, last: int, header: Any) -> None:
        try:
            append(self, data, last, header)
        except OSError:
            assert self._file is not None
            self._file.sync()

    return [("txnstatus.raft.segments:Segments.append", stubborn)]


def frames_unchecked() -> Seams:
    def read_frame(data: bytes, offset: int = 0) -> tuple[bytes, bytes] | None:
        header = frames.read_header(data[offset : offset + frames.HEADER_BYTES])
        if header is None:
            return None
        kind, length, _ = header
        payload = data[offset + frames.HEADER_BYTES : offset + frames.HEADER_BYTES + length]
        return (kind, payload) if len(payload) == length else None

    return [("txnstatus.raft.frames:read_frame", read_frame)]


def vote_after_a_wipe() -> Seams:
    return [("txnstatus.raft.journal:Journal.abstaining", property(lambda _self: False, lambda _self, _value: None))]


def begins_beyond_the_cap() -> Seams:
    begin = TxnStatusTable._begin

    def generous(self: TxnStatusTable, command: cmd.BeginTxns) -> Any:
        return begin(self, structs.replace(command, max_unfinished=command.max_unfinished * 2))

    return [("txnstatus.status.table:TxnStatusTable._begin", generous)]


def options_not_replicated() -> Seams:
    update = ClusterMap.update

    def deaf(self: ClusterMap, state: CatalogState) -> None:
        update(self, replace(state, options=self.state.options))

    return [("txnstatus.catalog.cluster_map:ClusterMap.update", deaf)]


def leases_ignored() -> Seams:
    return [("txnparticipant.shard.leases:Leases.take", lambda *_: None)]


def reads_below_what_is_retired() -> Seams:
    return [("txnparticipant.shard.leases:Leases._check", lambda *_: None)]


def retired_too_far() -> Seams:
    """What a commit added goes with what it removed."""

    retire = TableState.retire

    def too_far(table: TableState, up_to: Timestamp) -> None:
        retire(table, up_to)
        added = [fs.id for fs in table.file_sets.values() if fs.commit_ts == up_to and not fs.replaced_ts]
        table.replace(added, up_to)

    return [("txnparticipant.shard.table:TableState.retire", too_far)]


CORE = "no process ends itself"
"""A core's own `check_invariants` was first: it is called after every command, and ends the process."""


def adopt_anything() -> Seams:
    return [("txnparticipant.shard.adoption:refusal", lambda *_: None)]


def examine_once() -> Seams:
    return [("tests.sim.actors.doctor:confirmed", lambda _first, second: iter(second))]


PLANTED: Mapping[str, Planted] = {
    "no sync": Planted(("an ack", "one", "no process", "2", "3", "6", "8", "11", "12"), "blackout", 10, no_sync),
    "acknowledge before the sync": Planted(
        ("an ack", "synced first", "3", "10", "11", "6"), "blackout", 20, acknowledge_before_the_sync
    ),
    "forget the vote": Planted(("one vote", "one leader"), "swizzle", 40, forget_the_vote),
    "a lease for ever": Planted(("one lease", "6"), "partitions", 20, a_lease_for_ever),
    "answer before the decision": Planted(("1", "3", "6"), "everything", 20, answer_before_the_decision),
    "drop a participant": Planted(("4", "8", "everything"), "calm", 5, drop_a_participant),
    "expire what is prepared": Planted(("1", "9"), "pauses", 20, expire_what_is_prepared),
    "no grace after a failover": Planted(("9",), "deaths", 20, no_grace_after_a_failover),
    "request ids ignored": Planted(("12",), "calm", 5, request_ids_ignored),
    "the first participant's timestamp": Planted(("4",), "calm", 5, the_first_participants_timestamp),
    "decide before all have prepared": Planted(("4",), "calm", 5, decide_before_all_have_prepared),
    "a snapshot below the last commit": Planted(("6",), "calm", 5, a_snapshot_below_the_last_commit),
    "scans ignore the prepared": Planted(("4", "5"), "pauses", 60, scans_ignore_the_prepared),
    "overwrites never conflict": Planted(
        ("4", "5", "7", "11", "isolation", CORE), "calm", 20, overwrites_never_conflict
    ),
    "an empty partition is in nobody's way": Planted(
        ("5", "7", "isolation", CORE), "calm", 10, an_empty_partition_is_in_nobodys_way
    ),
    "an overwrite forgets its base": Planted(
        ("5", "7", "isolation"), "calm", 10, an_overwrite_forgets_what_it_is_based_on
    ),
    "an overwrite of a part takes all": Planted(("5", "isolation"), "calm", 10, an_overwrite_of_a_part_takes_all),
    "writes after the prepare": Planted(("8", CORE), "calm", 30, writes_after_the_prepare),
    "reads without a lease": Planted(("1", "2", "5", "6"), "partitions", 60, reads_without_a_lease, first=25),
    "the cleaner takes one pass": Planted(("10",), "calm", 100, the_cleaner_takes_one_pass, first=10),
    "expire one interval late": Planted(("9",), "calm", 10, expire_one_interval_late),
    "forget to drive": Planted(("the leader's books",), "calm", 5, forget_to_drive),
    "repeat a failed sync": Planted(("a failed sync", "an ack"), "repairs", 20, repeat_a_failed_sync),
    "frames unchecked": Planted(
        ("corruption", "no process", "nothing", "11", "one log"), "repairs", 20, frames_unchecked
    ),
    "vote after a wipe": Planted(
        ("one", "an ack", "2", "3", "11", "nothing", "members", CORE), "repairs", 60, vote_after_a_wipe
    ),
    "begins beyond the cap": Planted(("the cap",), "calm", 20, begins_beyond_the_cap),
    "options not replicated": Planted(("options",), "options", 10, options_not_replicated),
    "leases ignored": Planted(("10", "5"), "calm", 40, leases_ignored, first=20),
    "reads below what is retired": Planted(("4", "5"), "calm", 20, reads_below_what_is_retired, first=5),
    "retired too far": Planted(("4", "5", "10"), "calm", 20, retired_too_far),
    "the cleaner takes from the living": Planted(("10",), "everything", 20, the_cleaner_takes_from_the_living),
    "adopt anything": Planted(("10", CORE), "calm", 20, adopt_anything),
    "examine once": Planted(("10",), "calm", 20, examine_once),
}
