"""Subtle faults in the status table, its leaders and its ranges, put in on purpose, as in planted.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from tests.sim.planted.faults import Seams
from txnstatus.catalog import changes as catalog_changes
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.status import commands as cmd
from txnstatus.status.begin_calls import BeginCalls
from txnstatus.status.commit.tasks import CommitTask
from txnstatus.status.events import ParticipantAnswered
from txnstatus.status.finished import Finished
from txnstatus.status.keep_alives import KeepAlives
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.records import TxnRecord
from txnstatus.status.service import StatusService
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import DECIDED_COMMIT, NO_TIMESTAMP, ParticipantId, ParticipantOpType, Timestamp, TxnId, TxnState

TABLE = "txnstatus.status.table:TxnStatusTable"
MANAGER = "txnstatus.status.manager:TxnStatusManager"
RANGES = "txnstatus.status.ranges:StatusRanges"

# ---- two phases


def answers_of_two_phases_are_mixed() -> Seams:
    answered = TxnStatusManager._answered

    def mixed(self: TxnStatusManager, answer: ParticipantAnswered, now: float, wall_micros: int) -> Any:
        task = self._tasks.get(answer.txn_id)
        return answered(self, replace(answer, op=task.op) if task else answer, now, wall_micros)

    return [(f"{MANAGER}._answered", mixed)]


def a_task_goes_on_in_the_next_phase() -> Seams:
    """A participant that has answered BEGIN_COMMIT is not told of the abort."""
    task = TxnStatusManager._task

    def same(self: TxnStatusManager, record: TxnRecord, op: ParticipantOpType) -> CommitTask:
        known = self._tasks.get(record.txn_id)
        if known is not None and op is ParticipantOpType.ABORT_TXN and known.op is not op:
            known.op, known.proposed = op, False
        return task(self, record, op)

    return [(f"{MANAGER}._task", same)]


def decided_for_those_who_were_asked() -> Seams:
    apply = TxnStatusTable.apply

    def trusting(self: TxnStatusTable, command: cmd.Command) -> Any:
        if isinstance(command, cmd.FinalizeCommit) and (record := self.find(command.txn_id)):
            command = structs.replace(command, prepared=len(record.participants))
        return apply(self, command)

    advance = TxnStatusManager._advance

    def hasty(self: TxnStatusManager, record: TxnRecord, now: float, wall_micros: int) -> Any:
        task = self._tasks.get(record.txn_id)
        asked = {each: record.participants[each] for each in record.participants if task and each in task._progress}
        return advance(self, structs.replace(record, participants=asked), now, wall_micros)

    return [(f"{TABLE}.apply", trusting), (f"{MANAGER}._advance", hasty)]


def a_refused_decision_is_not_taken_again() -> Seams:
    return [(f"{MANAGER}._decide_again", lambda *_: [])]


def a_proposal_that_failed_stays_proposed() -> Seams:
    def failed(self: TxnStatusManager, command: cmd.Command, _now: float) -> None:
        if isinstance(command, cmd.Forget):
            self._forgetting = False
        self._forget_expiry(command)

    return [(f"{MANAGER}.proposal_failed", failed)]


def a_silent_participant_is_asked_once() -> Seams:
    answered = CommitTask.answered

    def once(self: CommitTask, who: ParticipantId, timestamp: Timestamp, error: Any, now: float) -> float | None:
        again = answered(self, who, timestamp, error, now)
        if error is not None and self.op is ParticipantOpType.FINALIZE_COMMIT:
            self._has_answered(self._progress[who])
            return None
        return again

    return [("txnstatus.status.commit.tasks:CommitTask.answered", once)]


def an_outcome_at_the_snapshots_timestamp_is_above() -> Seams:
    def commit_ts_at(self: TxnStatusTable, txn_id: TxnId, snapshot_ts: Timestamp) -> Timestamp:
        record = self.find(txn_id)
        if record is None or record.state not in DECIDED_COMMIT or record.commit_ts >= snapshot_ts:
            return NO_TIMESTAMP
        return record.commit_ts

    return [(f"{TABLE}.commit_ts_at", commit_ts_at)]


def commit_timestamps_do_not_rise() -> Seams:
    changed = TxnStatusTable._changed

    def as_prepared(self: TxnStatusTable, record: TxnRecord, command: Any, outcome: Any) -> TxnRecord:
        after = changed(self, record, command, outcome)
        if isinstance(command, cmd.FinalizeCommit) and after.commit_ts:
            return structs.replace(after, commit_ts=command.commit_ts)
        return after

    return [(f"{TABLE}._changed", as_prepared)]


# ---- who is alive


def a_beat_revives_who_expires() -> Seams:
    def beat(
        self: KeepAlives, txn_ids: Iterable[int], owner: str, records: Mapping[TxnId, TxnRecord], now: float
    ) -> list[TxnId]:
        others = []
        for txn_id in map(TxnId, txn_ids):
            record = records.get(txn_id)
            if txn_id in self._heard and record and record.state is TxnState.OPEN and record.owner == owner:
                self._heard[txn_id] = max(now, self._heard[txn_id])
            else:
                others.append(txn_id)
        return others

    return [("txnstatus.status.keep_alives:KeepAlives.beat", beat)]


def a_leaders_pause_counts_against_clients() -> Seams:
    def advance_time(self: TxnStatusManager, now: float) -> None:
        gap = now - self._advanced_at if self._advanced_at is not None else 0.0
        self._advanced_at = now
        self._healthy_seconds += gap

    return [(f"{MANAGER}.advance_time", advance_time)]


def a_failed_expiry_is_never_proposed_again() -> Seams:
    return [("txnstatus.status.keep_alives:KeepAlives.expiry_failed", lambda *_: None)]


# ---- snapshots and forgetting


def requests_are_not_counted_when_restored() -> Seams:
    restore = TxnStatusTable._restore_requests

    def once(self: TxnStatusTable, records: Iterable[TxnRecord]) -> None:
        restore(self, records)
        self._kept = dict.fromkeys(self._kept, 1)

    return [(f"{TABLE}._restore_requests", once)]


def the_finished_come_back_in_the_order_of_their_ids() -> Seams:
    encoded = Finished.encoded

    def by_id(self: Finished) -> tuple[bytes, ...]:
        order = dict(zip(self._encoded, encoded(self), strict=True))
        return tuple(order[txn_id] for txn_id in sorted(order))

    return [("txnstatus.status.finished:Finished.encoded", by_id)]


def the_unfinished_are_forgotten_too() -> Seams:
    """`oldest_kept` goes over those that are not finished: shards forget them."""

    def keeps(self: TxnStatusTable, txn_id: TxnId) -> bool:
        return txn_id in self._finished

    return [(f"{TABLE}._keeps", keeps)]


def a_repeated_begin_makes_more() -> Seams:
    """A request whose first transactions have all finished begins anew."""
    begun_by = TxnStatusTable.begun_by

    def unfinished(self: TxnStatusTable, request_id: str) -> Any:
        begun = begun_by(self, request_id)
        return begun if begun is None or any(each.txn_id in self._unfinished for each in begun) else None

    return [(f"{TABLE}.begun_by", unfinished)]


# ---- ranges and floors


def a_new_range_begins_without_a_floor() -> Seams:
    command = BeginCalls._command
    return [("txnstatus.status.begin_calls:BeginCalls._command", _without_floor(command))]


def _without_floor(command: Callable[..., cmd.BeginTxns]) -> Callable[..., cmd.BeginTxns]:
    return lambda self, wrapped: structs.replace(command(self, wrapped), floor=NO_TIMESTAMP)


def only_the_last_range_is_asked_for_a_snapshot() -> Seams:
    async def snapshot(self: StatusRanges, at_least: Timestamp = NO_TIMESTAMP) -> Timestamp:
        numbers = self._state.ranges
        answers = await self._raise_floors(numbers[-1:], NO_TIMESTAMP)
        return max([at_least, self._state.floor, *(Timestamp(each.last_commit_timestamp) for each in answers.values())])

    return [(f"{RANGES}.snapshot", snapshot)]


def floors_are_not_raised() -> Seams:
    raise_floors = StatusRanges._raise_floors

    async def asked(self: StatusRanges, numbers: Any, _timestamp: Timestamp) -> Any:
        return await raise_floors(self, numbers, NO_TIMESTAMP)

    return [(f"{RANGES}._raise_floors", asked)]


def a_full_last_range_gives_snapshots() -> Seams:
    """The next range may exist by then, unseen, with commits below."""
    raise_floors = StatusRanges._raise_floors

    async def not_full(self: StatusRanges, numbers: Any, timestamp: Timestamp) -> Any:
        answers = await raise_floors(self, numbers, timestamp)
        for answer in answers.values():
            answer.full = False
        return answers

    return [(f"{RANGES}._raise_floors", not_full)]


def a_dropped_range_lowers_the_floor() -> Seams:
    drop = catalog_changes._drop_range

    def lowers(state: CatalogState, number: int, last_commit: Timestamp) -> CatalogState:
        after = drop(state, number, last_commit)
        return after if after is state else replace(after, floor=last_commit)

    return [("txnstatus.catalog.changes:_drop_range", lowers)]


def a_range_is_dropped_with_what_is_kept() -> Seams:
    return [(f"{TABLE}.spent", property(lambda self: self.settled))]


def an_older_catalog_is_taken() -> Seams:
    update = ClusterMap.update

    def any_other(self: ClusterMap, state: CatalogState) -> None:
        if state.version < self.state.version:
            self.state = replace(self.state, version=state.version - 1)
        update(self, state)

    return [("txnstatus.catalog.cluster_map:ClusterMap.update", any_other)]


def outcomes_are_read_without_a_lease() -> Seams:
    async def get_outcomes(self: StatusService, request: pb.GetOutcomesRequest) -> pb.GetOutcomesResponse:
        at = Timestamp(request.timestamp)
        outcomes = [self.table.commit_ts_at(TxnId(txn_id), at) for txn_id in request.txn_ids]
        return pb.GetOutcomesResponse(commit_timestamps=outcomes)

    return [("txnstatus.status.service:StatusService.get_outcomes", get_outcomes)]


STATUS: Mapping[str, Callable[[], Seams]] = {
    "answers of two phases are mixed": answers_of_two_phases_are_mixed,
    "a task goes on in the next phase": a_task_goes_on_in_the_next_phase,
    "decided for those who were asked": decided_for_those_who_were_asked,
    "a refused decision is not taken again": a_refused_decision_is_not_taken_again,
    "a proposal that failed stays proposed": a_proposal_that_failed_stays_proposed,
    "a silent participant is asked once": a_silent_participant_is_asked_once,
    "an outcome at the snapshot's timestamp is above": an_outcome_at_the_snapshots_timestamp_is_above,
    "commit timestamps do not rise": commit_timestamps_do_not_rise,
    "a beat revives who expires": a_beat_revives_who_expires,
    "a leader's pause counts against clients": a_leaders_pause_counts_against_clients,
    "a failed expiry is never proposed again": a_failed_expiry_is_never_proposed_again,
    "requests are not counted when restored": requests_are_not_counted_when_restored,
    "the finished come back in the order of their ids": the_finished_come_back_in_the_order_of_their_ids,
    "the unfinished are forgotten, too": the_unfinished_are_forgotten_too,
    "a repeated begin makes more": a_repeated_begin_makes_more,
    "a new range begins without a floor": a_new_range_begins_without_a_floor,
    "only the last range is asked for a snapshot": only_the_last_range_is_asked_for_a_snapshot,
    "floors are not raised": floors_are_not_raised,
    "a full last range gives snapshots": a_full_last_range_gives_snapshots,
    "a dropped range lowers the floor": a_dropped_range_lowers_the_floor,
    "a range is dropped with what is kept": a_range_is_dropped_with_what_is_kept,
    "an older catalog is taken": an_older_catalog_is_taken,
    "outcomes are read without a lease": outcomes_are_read_without_a_lease,
}
