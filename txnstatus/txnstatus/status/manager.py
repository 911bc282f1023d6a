"""TxnStatusManager: what the leader of a status range decides beyond the table.

The volatile half of the coordinator: commit tasks, keep-alives, expiry. It owns no thread, clock or socket:
`handle(event)` returns effects, the shell (status/service.py) performs them and feeds the answers back as events.
Effects may be performed twice, by two leaders; participants answer "already applied" as success. Gaining leadership
rebuilds every task from the table: start, failover and retry are one path.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from txnstatus.backoff import Backoff
from txnstatus.errors import TxnError
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import CommitTask
from txnstatus.status.events import (
    CommandApplied,
    CommitRequested,
    Decided,
    Effect,
    Event,
    LeadershipGained,
    LeadershipLost,
    ParticipantAnswered,
    Propose,
    Tick,
)
from txnstatus.status.keep_alives import KeepAlives
from txnstatus.status.records import TxnRecord, illegal, refused
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.status.transitions import Op
from txnstatus.types import (
    DECIDED,
    TERMINAL,
    AbortCause,
    AbortCode,
    Participant,
    ParticipantId,
    ParticipantOpType,
    TxnId,
    TxnState,
)

STALENESS_TRACKER = "staleness tracker"
MAX_TAKEN_OVER = 1_000
"""Transactions that a new leader takes over before it answers anybody, and then in each tick: a millisecond's work."""
MAX_EXPIRIES = 2_000
"""Most expiries that one pass proposes."""
FOREVER = (1 << 63) - 1
RETRIES = Backoff(first_seconds=0.05, most_seconds=5.0, growth=2.0)


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    staleness_check_seconds: float = 1.0
    """How often the staleness pass runs. 0 = off: nothing expires."""
    max_tick_gap_seconds: float = 1.0
    """A longer gap between two ticks counts as this much: the leader itself was not well, so nobody ages."""
    failover_grace_seconds: float = 2.0
    """A new leader hears nothing until its clients have found it: it expires nobody before that, once."""
    retries: Backoff = RETRIES
    """Pauses before a participant is asked again."""
    retention_seconds: float = 3600.0
    """How long a finished transaction's record is kept."""
    forget_grace_seconds: float = 300.0
    """A new leader forgets nothing before that, or the retention if it is shorter: the records bear the time of another
    node's clock, and what ended a moment ago may seem old."""
    max_lifetime_seconds: float = 0.0
    """An OPEN transaction older than this expires, however well it beats. 0 = no limit."""


@dataclass(slots=True)
class TxnStatusManager:
    table: TxnStatusTable
    settings: ManagerSettings = field(default_factory=ManagerSettings)
    is_here: Callable[[TxnId, ParticipantId], bool] = lambda _txn_id, _participant_id: False
    """Whether a transaction's participant is in the log of the table: there it is asked (see `together`)."""
    kept_from: Callable[[TxnStatusTable], int] = lambda _table: FOREVER
    """Microseconds: a transaction that ended then or later is not forgotten yet, however old it is."""
    leading: bool = False
    _tasks: dict[TxnId, CommitTask] = field(default_factory=dict)
    _retries: list[tuple[float, TxnId]] = field(default_factory=list)
    """A heap of when which task has something to do again."""
    _keep_alives: KeepAlives = field(default_factory=KeepAlives)
    """Keep-alives of all that are OPEN; leader memory only, never written."""
    _healthy_seconds: float = 0.0
    _leading_since: float = 0.0
    """The start of this leadership, in healthy seconds."""
    _advanced_at: float | None = None
    _next_staleness_check: float = 0.0
    _forgetting: bool = False
    _to_take_over: list[TxnId] = field(default_factory=list)
    """Unfinished ones of a former leader, which this one does not watch or drive yet."""

    def __post_init__(self) -> None:
        self.configure(self.settings)

    def handle(self, event: Event, now: float, wall_micros: int) -> list[Effect]:
        """`now` is this process's monotonic clock in seconds.

        `wall_micros` labels records, and says how old they are: it must not jump while this replica leads.
        """
        match event:
            case CommandApplied(command, outcome) if self.leading:
                self.advance_time(now)
                return self._applied(command, outcome, now, wall_micros)
            case ParticipantAnswered() if self.leading:
                return self._answered(event, now, wall_micros)
            case CommitRequested(txn_id, owner) if self.leading:
                return self._prepare_early(txn_id, owner, now)
            case Tick(unsettled_seconds) if self.leading:
                return self._tick(now, wall_micros, unsettled_seconds)
            case LeadershipGained():
                return self._start_leading(now)
            case LeadershipLost():
                self._stop_leading()
        return []  # a late answer to a former leader: the next one asks again

    def configure(self, settings: ManagerSettings) -> None:
        """Settings may change at any time; they hold from now on, also for what is OPEN."""
        if settings.max_lifetime_seconds != self._keep_alives.max_lifetime:
            self._keep_alives.max_lifetime = settings.max_lifetime_seconds
            self._keep_alives.look_at_all()
        self.settings = settings

    def keep_alive(self, txn_ids: Iterable[int], owner: str) -> dict[TxnId, TxnError]:
        """Stamps the transactions; returns the others with their refusals. Costs no log write, as in Kudu.

        Call `advance_time` first: the time since the last tick must not count against who beats now.
        """
        records = self.table.unfinished_by_id
        others = self._keep_alives.beat(txn_ids, owner, records, self._healthy_seconds)
        if others and self._to_take_over:
            self._watch(record for txn_id in others if (record := records.get(txn_id)) is not None)
            others = self._keep_alives.beat(others, owner, records, self._healthy_seconds)
        return {txn_id: self._keep_alive_refusal(txn_id, owner) for txn_id in others}

    def _keep_alive_refusal(self, txn_id: TxnId, owner: str) -> TxnError:
        try:
            record = self.table.get(txn_id)
        except TxnError as error:
            return error
        return self.table.check_owner(record, owner) or illegal(record, Op.KEEP_ALIVE)

    def advance_time(self, now: float) -> None:
        """Healthy time goes on, by what passed since the last time, or less if that was long."""
        gap = now - self._advanced_at if self._advanced_at is not None else 0.0
        self._advanced_at = now
        self._healthy_seconds += min(gap, self.settings.max_tick_gap_seconds)

    @property
    def is_taking_over(self) -> bool:
        """Whether there are more that a former leader has left: the next tick should come soon."""
        return bool(self._to_take_over)

    @property
    def ending_count(self) -> int:
        """Transactions that it is about to commit or abort."""
        return len(self._tasks)

    def longest_ending(self, wall_micros: int) -> float:
        """Seconds; of these transactions, since one was asked to end, or changed its state on the way."""
        records = (self.table.find(txn_id) for txn_id in self._tasks)
        since = min((record.last_transition_micros for record in records if record is not None), default=wall_micros)
        return max(0, wall_micros - since) / 1e6

    def task_of(self, txn_id: TxnId) -> CommitTask | None:
        return self._tasks.get(txn_id)

    def waits_for(self, txn_id: TxnId) -> str:
        """The participants without which the transaction is not decided, and why, for people; empty: none."""
        task, record = self._tasks.get(txn_id), self.table.find(txn_id)
        if task is None or record is None or record.state in DECIDED:
            return ""
        return task.held_up(record.participants)

    def elsewhere(self, record: TxnRecord) -> list[Participant]:
        """Its participants that are to be asked by messages."""
        return [each for each in record.participants.values() if not self.is_here(record.txn_id, each.participant_id)]

    # ---- leadership

    def _start_leading(self, now: float) -> list[Effect]:
        self._stop_leading()
        self.leading = True
        self._advanced_at, self._leading_since = now, self._healthy_seconds
        self._next_staleness_check = now + self.settings.staleness_check_seconds
        self._to_take_over = list(self.table.unfinished_by_id)
        return self._take_over(now)

    def _take_over(self, now: float) -> list[Effect]:
        """Watches or drives what a former leader has left, the newest first, MAX_TAKEN_OVER at a time: a leader that
        did so with a million at once would be silent for longer than its followers wait."""
        taken = self._to_take_over[-MAX_TAKEN_OVER:]
        del self._to_take_over[-MAX_TAKEN_OVER:]
        find, is_open = self.table.unfinished_by_id.get, TxnState.OPEN
        records = [record for record in map(find, taken) if record is not None]
        self._watch(records)
        return [effect for record in records if record.state is not is_open for effect in self._drive(record, now)]

    def _watch(self, records: Iterable[TxnRecord]) -> None:
        """Records that are OPEN get one grace, once: the beats of the last interval died with the former leader."""
        opened = [record for record in records if record.state is TxnState.OPEN]
        self._keep_alives.take_over(opened, self._leading_since, self.settings.failover_grace_seconds)

    def _stop_leading(self) -> None:
        self.leading = self._forgetting = False
        self._to_take_over = []
        self._tasks.clear()
        self._retries.clear()
        self._keep_alives.clear()

    # ---- driving transactions

    def _applied(
        self, command: cmd.Command, outcome: StatusApplied | Rejected, now: float, wall_micros: int
    ) -> list[Effect]:
        if isinstance(command, cmd.Forget):
            self._forgetting = False
        if isinstance(outcome, Rejected):
            if isinstance(command, cmd.FinalizeCommit):
                return self._decide_again(command.txn_id, now, wall_micros)
            return self._forget_expiry(command)
        effects: list[Effect] = []
        for applied in outcome.records:
            txn_id = applied.txn_id
            # As it is now: later commands may have applied already. What has ended stays as it is.
            record = applied if applied.state in TERMINAL else self.table.find(txn_id)
            if record is not None and record.state is TxnState.OPEN:
                if txn_id not in self._keep_alives:
                    self._keep_alives.add(record, self._healthy_seconds)
                continue
            self._keep_alives.remove(txn_id)
            # What is forgotten by now was decided when this applied, or will be by what follows.
            told = record or applied
            if told.state in DECIDED:
                effects.append(Decided(told))
            if record is None or record.state in TERMINAL:
                self._tasks.pop(txn_id, None)
            else:
                effects += self._drive(record, now)
                effects += self._advance(record, now, wall_micros)
        return effects

    def _forget_expiry(self, command: cmd.Command) -> list[Effect]:
        if isinstance(command, cmd.Expire):
            self._keep_alives.expiry_failed(command.txn_id)
        return []

    def _decide_again(self, txn_id: TxnId, now: float, wall_micros: int) -> list[Effect]:
        """The decision was refused: somebody registered before the commit began, or the commit did not begin."""
        record, task = self.table.find(txn_id), self._tasks.get(txn_id)
        if record is None or task is None:
            return []
        task.proposed = False
        begun = record.state is TxnState.COMMIT_IN_PROGRESS
        return [*self._drive(record, now), *self._advance(record, now, wall_micros)] if begun else []

    def _prepare_early(self, txn_id: TxnId, owner: str, now: float) -> list[Effect]:
        """BEGIN_COMMIT goes out before COMMIT_IN_PROGRESS is durable: one durable round less for the client.

        Safe, because a participant in COMMIT_IN_PROGRESS can still be aborted, and because the table takes the decision
        only in COMMIT_IN_PROGRESS, and only for all participants that it knows of then.
        """
        record = self.table.find(txn_id)
        if record is None or record.state is not TxnState.OPEN or self.table.check_owner(record, owner):
            return []
        if not self.elsewhere(record):
            return []
        return list(self._task(record, ParticipantOpType.BEGIN_COMMIT).due(now))

    def _drive(self, record: TxnRecord, now: float) -> Iterable[Effect]:
        """Makes the transaction's task match its state, and sends what is due."""
        op = _OP_BY_STATE[record.state]
        task = self._task(record, op)
        return list(task.due(now))

    def _task(self, record: TxnRecord, op: ParticipantOpType) -> CommitTask:
        task = self._tasks.get(record.txn_id)
        if task is None or task.op is not op:
            task = self._tasks[record.txn_id] = CommitTask(record.txn_id, op, record.commit_ts, self.settings.retries)
        task.include(self.elsewhere(record))
        return task

    def _answered(self, answer: ParticipantAnswered, now: float, wall_micros: int) -> list[Effect]:
        task = self._tasks.get(answer.txn_id)
        if task is None or task.op is not answer.op:
            return []  # of a phase that is over
        again_at = task.answered(answer.participant_id, answer.timestamp, answer.error, now)
        if again_at is not None:
            heapq.heappush(self._retries, (again_at, answer.txn_id))
        record = self.table.find(answer.txn_id)
        return self._advance(record, now, wall_micros) if record else []

    def _advance(self, record: TxnRecord, now: float, wall_micros: int) -> list[Effect]:
        """Proposes the next state once all participants have answered for this one.

        That the commit begins may still be on its way through the log: the decision follows it there.
        """
        task = self._tasks.get(record.txn_id)
        state = TxnState.COMMIT_IN_PROGRESS if record.state is TxnState.OPEN else record.state
        if task is None or task.proposed or _OP_BY_STATE.get(state) is not task.op:
            return []
        if task.refusal is not None and state is TxnState.COMMIT_IN_PROGRESS:
            task.proposed = True
            return [Propose(cmd.BeginAbort(record.txn_id, None, refused(record, *task.refusal), wall_micros))]
        # The task may be older than the record: one may have registered between the early prepare and the commit.
        task.include(self.elsewhere(record))
        if not task.complete:  # one that has gone to another log since is asked by nobody yet
            return [] if record.state is TxnState.OPEN else list(task.due(now))
        task.proposed = True
        match state:
            case TxnState.COMMIT_IN_PROGRESS:
                return [Propose(cmd.FinalizeCommit(record.txn_id, task.highest_timestamp, wall_micros, len(task)))]
            case TxnState.FINALIZE_IN_PROGRESS:
                return [Propose(cmd.CompleteCommit(record.txn_id, wall_micros), awaited=False)]
            case _:
                return [Propose(cmd.FinalizeAbort(record.txn_id, wall_micros), awaited=False)]

    # ---- time

    def _tick(self, now: float, wall_micros: int, unsettled_seconds: float) -> list[Effect]:
        self.advance_time(now)
        effects = self._take_over(now) if self._to_take_over else []
        while self._retries and self._retries[0][0] <= now:
            _, txn_id = heapq.heappop(self._retries)
            task, record = self._tasks.get(txn_id), self.table.find(txn_id)
            if task is not None and record is not None:
                effects += task.due(now)
                effects += self._advance(record, now, wall_micros)
        if self.settings.staleness_check_seconds and now >= self._next_staleness_check:
            effects += self._expire_stale(wall_micros)
            if not self._keep_alives.behind:  # else the next tick goes on
                self._next_staleness_check = now + self.settings.staleness_check_seconds
        return effects + self._forget_old(wall_micros, unsettled_seconds)

    def _forget_old(self, wall_micros: int, unsettled_seconds: float) -> list[Effect]:
        retention = self.settings.retention_seconds
        oldest_kept = wall_micros - int(max(retention, unsettled_seconds) * 1e6)
        led_for = self._healthy_seconds - self._leading_since
        if self._forgetting or led_for < min(retention, self.settings.forget_grace_seconds):
            return []
        if not self.table.finished_before(oldest_kept):
            return []
        oldest_kept = min(oldest_kept, self.kept_from(self.table))
        if not self.table.finished_before(oldest_kept):
            return []
        self._forgetting = True
        return [Propose(cmd.Forget(oldest_kept), awaited=False)]

    def _expire_stale(self, wall_micros: int) -> Iterable[Effect]:
        """Some thousands at most: the rest come next time."""
        records = self.table.unfinished_by_id
        for txn_id in self._keep_alives.overdue(records, self._healthy_seconds, MAX_EXPIRIES):
            yield Propose(cmd.Expire(txn_id, self._why(records[txn_id]), wall_micros))

    def _why(self, record: TxnRecord) -> AbortCause:
        silent = self._healthy_seconds - self._keep_alives.heard(record.txn_id)
        age = self._healthy_seconds - self._keep_alives.born(record.txn_id)
        if silent * 1000 > record.keepalive_millis:
            message = f"no heartbeat for {silent:.1f} s; the keep-alive interval is {record.keepalive_millis} ms"
        else:
            message = f"{age:.1f} s old; the maximum lifetime is {self.settings.max_lifetime_seconds:.1f} s"
        return AbortCause(AbortCode.EXPIRED, message, STALENESS_TRACKER)

    def proposal_failed(self, command: cmd.Command, now: float) -> None:
        """A proposal of ours did not get through and is not known to: let the next tick try again."""
        if isinstance(command, cmd.Forget):
            self._forgetting = False
        elif not isinstance(command, cmd.BeginTxns | cmd.RaiseFloor):
            if task := self._tasks.get(command.txn_id):
                task.proposed = False
                heapq.heappush(self._retries, (now, command.txn_id))
            self._forget_expiry(command)

    def check_invariants(self) -> None:
        """Raises AssertionError."""
        if not self.leading:
            assert not self._tasks, "a follower drives nothing"
            assert not len(self._keep_alives), "a follower expires nothing"
            return
        waiting = set(self._to_take_over)
        for record in self.table.unfinished:
            if record.txn_id in waiting:
                continue
            is_open = record.state is TxnState.OPEN
            assert is_open == (record.txn_id in self._keep_alives), f"keep-alive of {record}"
            assert not is_open or self._keep_alives.is_looked_at(record.txn_id), f"never looked at: {record}"
            assert is_open or record.txn_id in self._tasks, f"nobody drives {record}"


_OP_BY_STATE = {
    TxnState.COMMIT_IN_PROGRESS: ParticipantOpType.BEGIN_COMMIT,
    TxnState.FINALIZE_IN_PROGRESS: ParticipantOpType.FINALIZE_COMMIT,
    TxnState.ABORT_IN_PROGRESS: ParticipantOpType.ABORT_TXN,
}
