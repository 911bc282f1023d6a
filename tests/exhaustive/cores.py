"""The shipped cores, one step at a time, from one numbered state to the next.

Nothing of the protocol is written here: every step thaws a core, lets it take one command or event, and freezes it
again. Cores are deterministic, so a step that was computed once need not be computed again; that is what makes the
search fast. All knowledge of how the cores keep their state is in this module.

Time is left out. A call that waits for its next try is due at the next `retry`; a transaction is silent when `expire`
says so. Both may happen at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from tests.exhaustive.one_log import Command, OneLog
from tests.exhaustive.shards import ShardCore
from tests.exhaustive.values import OWNER, Error, Interned
from tests.exhaustive.violation import guarded
from tests.unit.harness.restoring import restore
from txnstatus.backoff import Backoff
from txnstatus.errors import TxnError
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import CommitTask, SendOp, _Progress
from txnstatus.status.events import (
    CommandApplied,
    CommitRequested,
    Effect,
    Event,
    LeadershipGained,
    ParticipantAnswered,
    Tick,
)
from txnstatus.status.keep_alives import BUCKETS_PER_SECOND
from txnstatus.status.manager import ManagerSettings, TxnStatusManager
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import ParticipantId, ParticipantOpType, Timestamp, TxnId

KEEPALIVE_MILLIS = 1_000
RANGE = 0, 100
NOW = 0.0
LATER = 1e6
WAITING = 1.0
"""A `next_try` after NOW and before LATER."""
RETRIES = Backoff(WAITING, WAITING, growth=1.0)
SETTINGS = ManagerSettings(
    staleness_check_seconds=1.0,
    max_tick_gap_seconds=0.0,  # healthy time stands still: `expire` says who is silent
    failover_grace_seconds=0.0,
    retries=RETRIES,
    retention_seconds=LATER,
)


class FrozenTask(NamedTuple):
    txn_id: TxnId
    op: ParticipantOpType
    commit_ts: Timestamp
    highest: Timestamp
    refusal: tuple[ParticipantId, Error] | None
    proposed: bool
    progress: tuple[tuple[ParticipantId, bool, bool, bool], ...]
    """Participant, answered, in flight, waiting for the next try."""


class FrozenManager(NamedTuple):
    tasks: tuple[FrozenTask, ...]
    retries: tuple[TxnId, ...]
    """The tasks that have something to do again."""
    open: tuple[tuple[TxnId, bool, bool], ...]
    """The transactions that may expire: whether an Expire is on its way, and whether the staleness pass looks."""


class Done(NamedTuple):
    """StatusApplied, as a value. Nothing is forgotten here, so the records are found again by their ids."""

    txn_ids: tuple[TxnId, ...]
    changed: bool

    def thawed(self, table: TxnStatusTable) -> StatusApplied:
        return StatusApplied(tuple(map(table.get, self.txn_ids)), self.changed)


class StatusCore:
    """TxnStatusTable and TxnStatusManager, with the tables that are in the same log."""

    def __init__(
        self,
        check_step: Callable[[TxnStatusTable, Command, Any, TxnStatusTable], None],
        here: Mapping[ParticipantId, ShardCore],
    ) -> None:
        self._check_step = check_step
        self._here = here
        self._snapshots = Interned[tuple[tuple[bytes, ...], tuple[int, ...]]]()
        self._tables: list[TxnStatusTable] = []
        self.managers = Interned[FrozenManager]()
        self._applied: dict[tuple[int, Command], tuple[int, Done | Error]] = {}
        self._handled: dict[tuple[int, int, Hashable], tuple[int, tuple[Effect, ...]]] = {}
        self.start = self._number(TxnStatusTable(*RANGE), tuple(core.start for core in here.values()))
        self.steps = 0

    def table(self, number: int) -> TxnStatusTable:
        """To be read only."""
        return self._tables[number]

    def shards(self, number: int) -> tuple[int, ...]:
        """The states of the shards in the same log."""
        return self._snapshots.values[number][1]

    def apply(self, table: int, command: Command) -> tuple[int, Done | Error]:
        key = table, command
        known = self._applied.get(key)
        if known is None:
            snapshot, shards = self._snapshots.values[table]
            after = _table_from(snapshot)
            log = OneLog(after, self._here, shards)
            with guarded("the log of the status table"):
                outcome = log.apply(command)
            self._check_step(self.table(table), command, outcome, after)
            with guarded("the status table"):
                after.check_invariants()
            if isinstance(outcome, Rejected):
                said: Done | Error = Error.of(outcome.error)
            else:
                said = Done(outcome.txn_ids, outcome.changed) if isinstance(outcome, StatusApplied) else Done((), True)
            known = self._applied[key] = self._number(after, log.numbers), said
            self.steps += 1
        return known

    def _number(self, table: TxnStatusTable, shards: tuple[int, ...]) -> int:
        number = self._snapshots((tuple(table.snapshot()), shards))
        if number == len(self._tables):
            self._tables.append(table)
        return number

    # ---- events of the leader

    def gain(self, table: int) -> tuple[int, tuple[Effect, ...]]:
        return self._handle(table, None, "gain", lambda m: m.handle(LeadershipGained(), NOW, 1))

    def notify(
        self, table: int, manager: int, command: cmd.Command, outcome: Done | Error
    ) -> tuple[int, tuple[Effect, ...]]:
        told = Rejected(outcome.thawed()) if isinstance(outcome, Error) else outcome.thawed(self.table(table))
        event = CommandApplied(command, told)
        return self._handle(table, manager, ("applied", command, outcome), _handling(event))

    def request_commit(self, table: int, manager: int, txn_id: TxnId) -> tuple[int, tuple[Effect, ...]]:
        return self._handle(table, manager, ("requested", txn_id), _handling(CommitRequested(txn_id, OWNER)))

    def answer(
        self, table: int, manager: int, send: SendOp, timestamp: Timestamp, error: Error | None
    ) -> tuple[int, tuple[Effect, ...]]:
        event = ParticipantAnswered(
            send.txn_id, send.participant_id, send.op, timestamp, error.thawed() if error else None
        )
        return self._handle(table, manager, ("answered", send, timestamp, error), _handling(event))

    def retry(self, table: int, manager: int) -> tuple[int, tuple[Effect, ...]]:
        return self._handle(table, manager, "retry", lambda m: m.handle(Tick(), LATER, 1))

    def expire(self, table: int, manager: int, txn_id: TxnId) -> tuple[int, tuple[Effect, ...]]:
        def pass_with_one_silent(m: TxnStatusManager) -> list[Effect]:
            if txn_id in m._keep_alives:
                m._keep_alives._heard[txn_id] = -KEEPALIVE_MILLIS / 1000 - 1
                looked_at = [each for each in m._keep_alives._heard if m._keep_alives.is_looked_at(each)]
                bucket = (0, KEEPALIVE_MILLIS)
                m._keep_alives._buckets = {bucket: dict.fromkeys(looked_at)}
                m._keep_alives._bucket_of = dict.fromkeys(looked_at, bucket)
            return m.handle(Tick(), NOW, 1)

        return self._handle(table, manager, ("expire", txn_id), pass_with_one_silent)

    def proposal_failed(self, table: int, manager: int, command: cmd.Command) -> tuple[int, tuple[Effect, ...]]:
        def fail(m: TxnStatusManager) -> list[Effect]:
            m.proposal_failed(command, NOW)
            return []

        return self._handle(table, manager, ("failed", command), fail)

    def keep_alive(self, table: int, manager: int, txn_id: TxnId) -> TxnError | None:
        return self._thaw(table, manager).keep_alive([txn_id], OWNER).get(txn_id)

    def check_manager(self, table: int, manager: int) -> None:
        """Only where the manager has heard of everything that was applied."""
        with guarded("the status manager"):
            self._thaw(table, manager).check_invariants()

    def _handle(
        self, table: int, manager: int | None, key: Hashable, act: Callable[[TxnStatusManager], list[Effect]]
    ) -> tuple[int, tuple[Effect, ...]]:
        full = table, -1 if manager is None else manager, key
        known = self._handled.get(full)
        if known is None:
            thawed = self._thaw(table, manager)
            with guarded("the status manager"):
                effects = act(thawed)
            known = self._handled[full] = self.managers(_frozen(thawed)), tuple(effects)
            self.steps += 1
        return known

    def _thaw(self, table: int, number: int | None) -> TxnStatusManager:
        manager = TxnStatusManager(self.table(table), SETTINGS, lambda _txn_id, participant: participant in self._here)
        if number is None:
            return manager
        frozen = self.managers.values[number]
        manager.leading = True
        manager._advanced_at = NOW
        manager._tasks = {task.txn_id: _thawed(task) for task in frozen.tasks}
        manager._retries = [(WAITING, txn_id) for txn_id in frozen.retries]
        alive = manager._keep_alives
        alive._heard = {txn_id: NOW for txn_id, _, _ in frozen.open}
        alive._born = dict(alive._heard)
        alive._expiring = {txn_id for txn_id, expiring, _ in frozen.open if expiring}
        for txn_id, _, looks in frozen.open:
            if looks:
                alive._put([txn_id], (int(NOW + KEEPALIVE_MILLIS / 1000) * BUCKETS_PER_SECOND, KEEPALIVE_MILLIS))
        return manager


def _handling(event: Event) -> Callable[[TxnStatusManager], list[Effect]]:
    return lambda manager: manager.handle(event, NOW, 1)


def _frozen(manager: TxnStatusManager) -> FrozenManager:
    tasks = []
    for txn_id, task in sorted(manager._tasks.items()):
        refusal = (task.refusal[0], Error.of(task.refusal[1])) if task.refusal else None
        progress = tuple(
            (p, x.answered, x.in_flight, not x.answered and x.next_try > NOW) for p, x in sorted(task._progress.items())
        )
        tasks.append(
            FrozenTask(txn_id, task.op, task.commit_ts, task.highest_timestamp, refusal, task.proposed, progress)
        )
    alive = manager._keep_alives
    return FrozenManager(
        tuple(tasks),
        tuple(sorted({txn_id for _, txn_id in manager._retries})),
        tuple((txn_id, txn_id in alive._expiring, alive.is_looked_at(txn_id)) for txn_id in sorted(alive._heard)),
    )


def _thawed(frozen: FrozenTask) -> CommitTask:
    return CommitTask(
        frozen.txn_id,
        frozen.op,
        frozen.commit_ts,
        RETRIES,
        highest_timestamp=frozen.highest,
        refusal=(frozen.refusal[0], frozen.refusal[1].thawed()) if frozen.refusal else None,
        proposed=frozen.proposed,
        _progress={
            p: _Progress("", answered, in_flight, attempts=1, next_try=WAITING if waiting else NOW)
            for p, answered, in_flight, waiting in frozen.progress
        },
        _unanswered=sum(not answered for _, answered, _, _ in frozen.progress),
    )


def _table_from(snapshot: tuple[bytes, ...]) -> TxnStatusTable:
    table = TxnStatusTable(*RANGE)
    restore(table, snapshot)
    return table
