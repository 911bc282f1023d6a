"""Watches every status leader from inside: its bookkeeping after each event, and how soon it expires who is silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from tests.sim.judges.ledger import Txn
from tests.sim.judges.watch import WatchedGroup
from txnstatus.catalog.catalog import CatalogState
from txnstatus.errors import TxnError
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.raft.proposer import Told
from txnstatus.rpc.calls import Call, PassedOn, takes_calls
from txnstatus.status import commands as cmd
from txnstatus.status.events import CommandApplied, Event, LeadershipGained, Tick
from txnstatus.status.service import StatusService
from txnstatus.status.table import StatusApplied
from txnstatus.types import TxnId, TxnState

AnswerT = TypeVar("AnswerT")

SLOWEST_CLOCK, FASTEST_CLOCK = 0.97, 1.03
MOST_GAP_SECONDS = 1.0
TICK_GAP_SECONDS = 0.3
"""A leader whose ticks are further apart was not well."""
EXPIRY_SLACK_SECONDS = 0.5
"""Time from when the staleness pass is due until the Expire has applied, if nothing fails: a tick, and a commit.

With the keep-alive interval and the pass's own that is less than two intervals, which is the promise (9).
"""


class Awake:
    """How long a leader has been well, at most: a longer gap counts as MOST_GAP_SECONDS."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seconds = 0.0
        self._looked = now()
        self._at: dict[TxnId, float] = {}

    def look(self) -> None:
        """To be called wherever the leader looks at its clock."""
        now = self._now()
        self._seconds += min((now - self._looked) * FASTEST_CLOCK, MOST_GAP_SECONDS)
        self._looked = now

    def note(self, txn_id: TxnId) -> None:
        """The transaction is heard of now."""
        self._at[txn_id] = self._seconds

    def since(self, txn_id: TxnId) -> float:
        return self._seconds - self._at[txn_id]


class Overheard(PassedOn):
    """A call whose answer is heard by somebody else first."""

    def __init__(self, origin: Call, heard: Callable[[Any], None]) -> None:
        super().__init__(origin, origin.request)
        self._heard = heard

    def _hear(self, answer: Any) -> None:
        self._heard(answer)
        super()._hear(answer)


class WatchedStatusService(StatusService):
    """StatusService, checked."""

    now: Callable[[], float]
    violated: Callable[[str, str], None]
    quiet_since: Callable[[], float]
    """Time since which no fault has been at work on the cluster; infinite while one is."""
    txns: Mapping[int, Txn]
    """What any replica knows of each transaction."""

    def __init__(self, *args: Any) -> None:
        self._unheard = 0
        """Proposals of which the manager has not heard the outcome."""
        self._last_tick = self._well_since = float("inf")
        self._heard: dict[TxnId, tuple[float, float]] = {}
        """When this leader last heard of each OPEN transaction, and how long that is good for."""
        self._awake = Awake(self.now)
        self._expiring: Counter[TxnId] = Counter()
        """Expiries on their way through the log."""
        super().__init__(*args)
        self._unwatched_submit, self._proposer.submit = self._proposer.submit, self._submit  # type: ignore[method-assign]

    def configure(self, catalog: CatalogState) -> None:
        self._well_since = self.now()
        super().configure(catalog)

    @takes_calls
    def begin_in_range(self, calls: Sequence[Call]) -> None:
        super().begin_in_range([Overheard(call, self._hear_begun) for call in calls])

    def _hear_begun(self, answer: Any) -> None:
        if isinstance(answer, status_pb.RangeBeginResponse):
            self._awake.look()
            for txn_id in answer.begun.txn_ids:  # perhaps of an earlier attempt
                self._hear(TxnId(txn_id), answer.begun.keepalive_millis / 1000)

    async def keep_transaction_alive(self, request: pb.KeepTransactionAliveRequest) -> pb.KeepTransactionAliveResponse:
        answer = await self._fresh(super().keep_transaction_alive(request))
        refused = {each.txn_id for each in answer.refused}
        self._awake.look()
        for txn_id in request.txn_ids:
            if txn_id not in refused and self._expiring[TxnId(txn_id)]:
                self.violated("9 expiry", f"transaction {txn_id} is kept alive, and its expiry is on its way")
            record = self.table.find(TxnId(txn_id))
            if record is not None and txn_id not in refused:
                self._hear(record.txn_id, record.keepalive_millis / 1000)
        return answer

    @takes_calls
    def get_transaction_state(self, calls: Sequence[Call]) -> None:
        successor = self._successor()

        def heard(answer: Any) -> None:
            if not isinstance(answer, TxnError):
                self._check_fresh(successor)

        super().get_transaction_state([Overheard(call, heard) for call in calls])

    async def raise_floor(self, request: status_pb.RaiseFloorRequest) -> status_pb.RaiseFloorResponse:
        return await self._fresh(super().raise_floor(request))

    async def get_outcomes(self, request: status_pb.GetOutcomesRequest) -> status_pb.GetOutcomesResponse:
        """Whoever reads at a timestamp hears of all that was decided at or below it by the time it asks."""
        known = [self.txns.get(txn_id) for txn_id in request.txn_ids]
        decided = [txn.commit_ts if txn is not None and txn.committed else 0 for txn in known]
        answer = await self._fresh(super().get_outcomes(request))
        for txn_id, commit_ts, told in zip(request.txn_ids, decided, answer.commit_timestamps, strict=True):
            if not told and 0 < commit_ts <= request.timestamp and self.table.find(TxnId(txn_id)):
                story = f"range {self.number}: {txn_id} had committed at {commit_ts}"
                self.violated("6 reads are fresh", f"{story}; who reads at {request.timestamp} is told that it has not")
        return answer

    async def _fresh(self, answer: Awaitable[AnswerT]) -> AnswerT:
        """Where another leads by the time it is asked, nobody answers from memory."""
        successor = self._successor()
        result = await answer
        self._check_fresh(successor)
        return result

    def _check_fresh(self, successor: str) -> None:
        if successor:
            self.violated("6 reads are fresh", f"range {self.number} was read where {successor} led it by then")

    def _successor(self) -> str:
        ours = self._driver.group
        assert isinstance(ours, WatchedGroup)
        for node, (process, group) in ours.history.groups.items():
            if process.alive and group is not ours and group.is_ready and group.term >= ours.term:
                return node
        return ""

    def _submit(self, commands: Sequence[cmd.Command], told: Told[StatusApplied], *, linger: bool = False) -> None:
        expiries = [command.txn_id if isinstance(command, cmd.Expire) else None for command in commands]

        def heard(start: int, answers: Sequence[StatusApplied | TxnError]) -> None:
            self._unheard -= len(answers)
            told(start, answers)
            self._expiring.subtract(filter(None, expiries[start : start + len(answers)]))
            self._check_bookkeeping()

        self._unheard += len(commands)
        for txn_id in filter(None, expiries):
            self._expiring[txn_id] += 1
            self._check_silence(txn_id)
        self._unwatched_submit(commands, heard, linger=linger)

    def _handle(self, events: Sequence[Event]) -> None:
        self._awake.look()
        super()._handle(events)
        self._check_bookkeeping()
        for event in events:
            self._after(event)

    def _after(self, event: Event) -> None:
        if isinstance(event, LeadershipGained):
            self._heard.clear()
            self._well_since = self._last_tick = self.now()
            self._look(self.manager.settings.failover_grace_seconds)
        elif isinstance(event, CommandApplied) and isinstance(event.command, cmd.BeginTxns):
            self._look(0.0)
        elif isinstance(event, Tick):
            if self.now() - self._last_tick > TICK_GAP_SECONDS:
                self._well_since = self.now()
            self._last_tick = self.now()
            self._look(0.0)
            self._check_expiry()

    def _check_bookkeeping(self) -> None:
        group = self._driver.group
        if self._unheard or not group.is_ready or self._driver._driver._ready_term != group.term:
            # What has applied and is not heard of yet is not in the books; nor is a successor's work, in the cycle in
            # which this leader gives way.
            return
        try:
            self.manager.check_invariants()
        except AssertionError as error:
            self.violated("the leader's books", f"range {self.number}: {error}")

    def _hear(self, txn_id: TxnId, good_for: float) -> None:
        now = self.now()
        at, before = self._heard.get(txn_id, (now, good_for))
        self._heard[txn_id] = (now, max(good_for, at + before - now))
        self._awake.note(txn_id)

    def _check_silence(self, txn_id: TxnId) -> None:
        """Time in which the leader itself was not well does not count against anybody."""
        record = self.table.find(txn_id)
        if record is None or txn_id not in self._heard:
            return
        silent = self._awake.since(txn_id)
        if silent < record.keepalive_millis / 1000:
            self.violated("9 expiry", f"transaction {txn_id} is to expire, and was silent for {silent:.2f} s")

    def _look(self, grace: float) -> None:
        """Takes up those that it sees for the first time."""
        for record in self.table.unfinished:
            if record.state is TxnState.OPEN and record.txn_id not in self._heard:
                self._hear(record.txn_id, max(record.keepalive_millis / 1000, grace))

    def _check_expiry(self) -> None:
        pass_seconds = self.manager.settings.staleness_check_seconds
        if not pass_seconds:
            return
        well_since = max(self._well_since, self.quiet_since())
        for record in self.table.unfinished:
            if record.state is not TxnState.OPEN:
                continue
            at, good_for = self._heard[record.txn_id]
            due = max(at, well_since) + (good_for + pass_seconds) / SLOWEST_CLOCK
            if self.now() > due + EXPIRY_SLACK_SECONDS:
                silent = self.now() - at
                self.violated("9 expiry", f"transaction {record.txn_id} is OPEN, and was silent for {silent:.2f} s")


def watched_status(
    now: Callable[[], float],
    violated: Callable[[str, str], None],
    quiet_since: Callable[[], float],
    txns: Mapping[int, Txn],
) -> type[WatchedStatusService]:
    """The StatusService of one world: takes the place of the name in txndeploy.node.roles."""
    there: dict[str, Callable[..., Any]] = {"now": now, "violated": violated, "quiet_since": quiet_since}
    calls = {name: staticmethod(each) for name, each in there.items()}
    return type("Service", (WatchedStatusService,), {**calls, "txns": txns})
