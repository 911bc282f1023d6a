"""Faults planted in the shipped code, for the search to find: a search that finds nothing must be able to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from tests.exhaustive import invariants as rules
from tests.exhaustive.clients import APPEND, DROP, OVERWRITE, Config
from tests.exhaustive.violation import OWN_CHECKS
from txnparticipant.shard import changes, dropping
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard import transitions as txn
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import FileSet
from txnstatus.errors import TxnError
from txnstatus.status import commands as cmd
from txnstatus.status import table
from txnstatus.status.commit.tasks import CommitTask
from txnstatus.status.events import Decided, Effect, Propose
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.records import TxnRecord
from txnstatus.status.transitions import TRANSITIONS, Op, Stay
from txnstatus.types import Participant, ParticipantId, ParticipantOpType, ParticipantState, Timestamp, TxnId, TxnState

BOTH: Mapping[int, str] = {0: APPEND, 1: APPEND}
OVER: Mapping[int, str] = {0: OVERWRITE}
ONE = Config("one", (BOTH,), crashes=1, faults=1, in_flight=3, written=True)
HASTY = Config("hasty", (BOTH,), crashes=0, faults=1, in_flight=3, impatient=True, aborts=False)
TWO = Config("two", (BOTH, BOTH), crashes=0, faults=0, in_flight=3, written=True, aborts=False, expires=False)
RIVALS = Config("rivals", (OVER, OVER), crashes=0, faults=0, in_flight=3, written=True)
SHAKY = Config("shaky", (BOTH,), crashes=0, faults=2, in_flight=3, written=True, aborts=False, expires=False)

DROPS = Config("drops", ({0: DROP}, {0: APPEND}), crashes=0, faults=0, in_flight=2, aborts=False, expires=False)

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Planted:
    name: str
    plant: Callable[[Patch], None]
    config: Config
    rule: str
    """The rule that is broken first."""
    steps: int
    """Steps of a shortest way there."""


def _status_rule(state: TxnState, op: Op, outcome: TxnState | Stay) -> Callable[[Patch], None]:
    return lambda patch: patch.setitem(TRANSITIONS, (state, op), outcome)


def _shard_rule(state: ParticipantState, op: txn.Op, outcome: ParticipantState | txn.Stay) -> Callable[[Patch], None]:
    return lambda patch: patch.setitem(txn.TRANSITIONS, (state, op), outcome)


def _one_answer_is_enough(patch: Patch) -> None:
    def complete(task: CommitTask) -> bool:
        prepares = task.op is ParticipantOpType.BEGIN_COMMIT
        return (any if prepares else all)(p.answered for p in task._progress.values())

    patch.setattr(CommitTask, "complete", property(complete))


def _late_participants_are_not_asked(patch: Patch) -> None:
    include = CommitTask.include

    def first_only(task: CommitTask, participants: Iterable[Participant]) -> None:
        if not task._progress:
            include(task, participants)

    patch.setattr(CommitTask, "include", first_only)


def _decisions_are_not_compared(patch: Patch) -> None:
    """The number of prepared participants is not compared with those who have registered by then."""
    apply = table.TxnStatusTable.apply

    def trusting(status: table.TxnStatusTable, command: cmd.Command) -> Any:
        if isinstance(command, cmd.FinalizeCommit) and (record := status.find(command.txn_id)):
            command = structs.replace(command, prepared=len(record.participants))
        return apply(status, command)

    patch.setattr(table.TxnStatusTable, "apply", trusting)


def _answering(
    change: Callable[[CommitTask, ParticipantId, Timestamp, TxnError | None], None],
) -> Callable[[Patch], None]:
    """`change` runs after each answer."""

    def plant(patch: Patch) -> None:
        answered = CommitTask.answered

        def changed(
            task: CommitTask, who: ParticipantId, at: Timestamp, error: TxnError | None, now: float
        ) -> float | None:
            again = answered(task, who, at, error, now)
            change(task, who, at, error)
            return again

        patch.setattr(CommitTask, "answered", changed)

    return plant


def _last_timestamp(task: CommitTask, _who: ParticipantId, at: Timestamp, error: TxnError | None) -> None:
    if error is None:
        task.highest_timestamp = at


def _silence_is_consent(task: CommitTask, who: ParticipantId, _at: Timestamp, error: TxnError | None) -> None:
    if error is not None and task.op is ParticipantOpType.BEGIN_COMMIT:
        task._progress[who].answered = True


def _never_asked_again(task: CommitTask, who: ParticipantId, _at: Timestamp, error: TxnError | None) -> None:
    if error is not None:
        task._progress[who].in_flight = True


def _asked_for_ever(patch: Patch) -> None:
    answered = CommitTask.answered

    def and_again(
        task: CommitTask, who: ParticipantId, at: Timestamp, error: TxnError | None, now: float
    ) -> float | None:
        again = answered(task, who, at, error, now)
        if task.complete or task.op is ParticipantOpType.BEGIN_COMMIT:
            return again
        task._unanswered = len(task)
        for progress in task._progress.values():
            progress.answered, progress.next_try = False, now + 1
        return now + 1

    patch.setattr(CommitTask, "answered", and_again)


def _outcomes_are_not_asked_for(patch: Patch) -> None:
    patch.setattr(rules, "undecided_at", lambda _prepared, _at: [])


def _told_too_early(patch: Patch) -> None:
    advance = TxnStatusManager._advance

    def advance_and_tell(manager: TxnStatusManager, record: TxnRecord, now: float, wall_micros: int) -> list[Effect]:
        effects = advance(manager, record, now, wall_micros)
        commits = [e for e in effects if isinstance(e, Propose) and isinstance(e.command, cmd.FinalizeCommit)]
        return effects + [Decided(structs.replace(record, state=TxnState.FINALIZE_IN_PROGRESS)) for _ in commits]

    patch.setattr(TxnStatusManager, "_advance", advance_and_tell)


def _new_leader_starts_nothing(patch: Patch) -> None:
    start = TxnStatusManager._start_leading

    def start_idle(manager: TxnStatusManager, now: float) -> list[Effect]:
        start(manager, now)
        manager._tasks.clear()
        return []

    patch.setattr(TxnStatusManager, "_start_leading", start_idle)


def _timestamps_do_not_rise(patch: Patch) -> None:
    patch.setattr(table, "max", lambda prepared, _after_the_last: prepared, raising=False)


def _no_tombstone(patch: Patch) -> None:
    apply = ParticipantShard.apply

    def forgetting(shard: ParticipantShard, command: shard_cmd.Command) -> Any:
        if isinstance(command, shard_cmd.AbortTxn) and command.txn_id not in next(shard.tables()).txns:
            return changes.ShardApplied()
        return apply(shard, command)

    patch.setattr(ParticipantShard, "apply", forgetting)


def _conflicts_are_overlooked(patch: Patch) -> None:
    patch.setattr(changes, "first_committer_wins", lambda *_: None)


def _claims_outlive_an_abort(patch: Patch) -> None:
    discard = TableState.discard

    def discard_but_claims(held: TableState, record: TableTxn) -> tuple[TxnId, ...]:
        claims = {fs.id: fs.replaced_by for fs in held.file_sets.values()}
        let_in = discard(held, record)
        for file_set in held.file_sets.values():
            file_set.replaced_by = claims[file_set.id]
        return let_in

    patch.setattr(TableState, "discard", discard_but_claims)


def _removed_files_stay(patch: Patch) -> None:
    patch.setattr(FileSet, "visible_at", lambda file_set, ts: file_set.commit_ts <= ts)


def _a_drop_forgets_who_is_prepared(patch: Patch) -> None:
    patch.setattr(dropping, "prepared_beside", lambda *_: iter(()))


def _a_drop_keeps_nobody_out(patch: Patch) -> None:
    patch.setattr(dropping, "prepare_refused", lambda *_: None)


_S, _P = TxnState, ParticipantState
PLANTED = (
    Planted("finalise when one has prepared", _one_answer_is_enough, ONE, rules.PREPARED, 5),
    Planted("silence is consent", _answering(_silence_is_consent), ONE, rules.PREPARED, 6),
    Planted("do not ask who registered late", _late_participants_are_not_asked, HASTY, rules.LIVENESS, 23),
    Planted("decide for those who were asked", _decisions_are_not_compared, HASTY, rules.ONE_TIMESTAMP, 24),
    Planted(
        "register during the commit",
        _status_rule(_S.COMMIT_IN_PROGRESS, Op.REGISTER_PARTICIPANT, Stay.OK),
        HASTY,
        rules.PREPARED,
        13,
    ),
    Planted(
        "expire a commit in progress",
        _status_rule(_S.COMMIT_IN_PROGRESS, Op.EXPIRE, _S.ABORT_IN_PROGRESS),
        ONE,
        rules.EXPIRY,
        4,
    ),
    Planted(
        "commit what is being aborted",
        _status_rule(_S.ABORT_IN_PROGRESS, Op.BEGIN_COMMIT, _S.COMMIT_IN_PROGRESS),
        ONE,
        rules.ONE_DECISION,
        4,
    ),
    Planted(
        "abort after the commit point",
        _status_rule(_S.FINALIZE_IN_PROGRESS, Op.BEGIN_ABORT, _S.ABORT_IN_PROGRESS),
        ONE,
        rules.ONE_DECISION,
        10,
    ),
    Planted("acknowledge before the decision", _told_too_early, ONE, rules.ACKNOWLEDGED, 6),
    Planted("the last prepare's timestamp", _answering(_last_timestamp), ONE, rules.ONE_TIMESTAMP, 7),
    Planted("timestamps do not rise", _timestamps_do_not_rise, TWO, rules.STABLE_READS, 17),
    Planted("nobody asks again", _answering(_never_asked_again), ONE, rules.LIVENESS, 7),
    Planted("all are asked again", _asked_for_ever, ONE, rules.LIVENESS, 11),
    Planted("readers do not ask for outcomes", _outcomes_are_not_asked_for, ONE, rules.VISIBILITY, 7),
    Planted("a new leader starts nothing", _new_leader_starts_nothing, ONE, OWN_CHECKS, 2),
    Planted("no tombstone for an abort that comes first", _no_tombstone, HASTY, rules.ENDED, 13),
    Planted(
        "prepare after an abort",
        _shard_rule(_P.ABORTED, txn.Op.BEGIN_COMMIT, _P.COMMIT_IN_PROGRESS),
        ONE,
        rules.ONE_DECISION,
        7,
    ),
    Planted(
        "prepare twice",
        _shard_rule(_P.COMMIT_IN_PROGRESS, txn.Op.BEGIN_COMMIT, _P.COMMIT_IN_PROGRESS),
        SHAKY,
        rules.ONE_TIMESTAMP,
        5,
    ),
    Planted(
        "write after the prepare",
        _shard_rule(_P.COMMIT_IN_PROGRESS, txn.Op.WRITE, txn.Stay.OK),
        HASTY,
        rules.SEALED,
        13,
    ),
    Planted("overlook conflicts", _conflicts_are_overlooked, RIVALS, rules.CONFLICTS, 6),
    Planted("claims outlive an abort", _claims_outlive_an_abort, RIVALS, OWN_CHECKS, 7),
    Planted("a drop forgets who is prepared", _a_drop_forgets_who_is_prepared, DROPS, OWN_CHECKS, 26),
    Planted("a drop keeps nobody out", _a_drop_keeps_nobody_out, DROPS, OWN_CHECKS, 26),
    Planted("removed files stay visible", _removed_files_stay, RIVALS, rules.VISIBILITY, 8),
)
