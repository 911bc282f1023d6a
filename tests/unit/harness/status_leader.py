"""The leader of a status range without its shell: a table, its manager, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterable

from txnstatus.backoff import Backoff
from txnstatus.errors import TxnError, Unavailable
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.events import (
    CommandApplied,
    Effect,
    Event,
    LeadershipGained,
    ParticipantAnswered,
    Propose,
    Tick,
)
from txnstatus.status.manager import ManagerSettings, TxnStatusManager
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import (
    AbortCause,
    AbortCode,
    Participant,
    ParticipantId,
    ParticipantOpType,
    Timestamp,
    TxnId,
    TxnState,
)

OWNER, OTHER = "ada", "bob"
TXN = TxnId(0)
A, B = ParticipantId("0.0"), ParticipantId("1.0")
NAMES = {A: "air.flights", B: "air.weather"}
BEGIN_COMMIT, FINALIZE = ParticipantOpType.BEGIN_COMMIT, ParticipantOpType.FINALIZE_COMMIT
ABORT = ParticipantOpType.ABORT_TXN
KEEPALIVE_SECONDS = 3.0
SPAN = 1_000_000
SETTINGS = ManagerSettings(
    staleness_check_seconds=1.0,
    max_tick_gap_seconds=1.0,
    retries=Backoff(first_seconds=0.1, most_seconds=1.0, growth=2.0),
    forget_grace_seconds=0.0,
)
GONE = Unavailable("nobody answered")
REQUESTED = AbortCause(AbortCode.REQUESTED, "the program said so", OWNER)
CLOSE = 1e-9


class Leader:
    """One leader: its table, its manager, and the time."""

    def __init__(
        self, table: TxnStatusTable | None = None, settings: ManagerSettings = SETTINGS, *, leads: bool = True
    ) -> None:
        self.table = table or TxnStatusTable(0, SPAN)
        self.manager = TxnStatusManager(self.table, settings)
        self.now = 1000.0
        self.wall_micros = 42
        if leads:
            self.handle(LeadershipGained())

    def handle(self, event: Event) -> list[Effect]:
        effects = self.manager.handle(event, self.now, self.wall_micros)
        self.manager.check_invariants()
        return effects

    def apply(self, command: cmd.Command) -> list[Effect]:
        """Takes the command through the log and tells the manager."""
        outcome = self.table.apply(command)
        self.table.check_invariants()
        return self.handle(CommandApplied(command, outcome))

    def apply_all(self, effects: Iterable[Effect]) -> list[Effect]:
        """Takes what the manager proposed through the log; returns what follows."""
        return [
            following for effect in effects if isinstance(effect, Propose) for following in self.apply(effect.command)
        ]

    def begin(
        self, *participants: ParticipantId, request_id: str = "request-0", keepalive: float = KEEPALIVE_SECONDS
    ) -> TxnId:
        command = cmd.BeginTxns(request_id, 1, OWNER, "", int(keepalive * 1000), 1)
        outcome = self.table.apply(command)
        assert isinstance(outcome, StatusApplied)
        self.handle(CommandApplied(command, outcome))
        for participant in participants:
            self.register(outcome.txn_ids[0], participant)
        return outcome.txn_ids[0]

    def register(self, txn_id: TxnId, participant: ParticipantId) -> None:
        assert (
            self.apply(cmd.RegisterParticipants(txn_id, OWNER, (Participant(participant, NAMES[participant]),))) == []
        )

    def commit(self, txn_id: TxnId = TXN) -> list[Effect]:
        return self.apply(cmd.BeginCommit(txn_id, OWNER, 2))

    def abort(self, txn_id: TxnId = TXN) -> list[Effect]:
        return self.apply(cmd.BeginAbort(txn_id, OWNER, REQUESTED, 2))

    def answer(
        self,
        participant: ParticipantId,
        op: ParticipantOpType,
        ts: int = 0,
        error: TxnError | None = None,
        txn_id: TxnId = TXN,
    ) -> list[Effect]:
        return self.handle(ParticipantAnswered(txn_id, participant, op, Timestamp(ts), error))

    def beat(self, txn_id: TxnId = TXN, owner: str = OWNER) -> TxnError | None:
        return self.manager.keep_alive([txn_id], owner).get(txn_id)

    def tick(self, seconds: float = 0.0) -> list[Effect]:
        self.now += seconds
        return self.handle(Tick())

    def live(self, seconds: float, step: float = 0.5) -> list[Effect]:
        """Healthy time: ticks that come as they should."""
        effects = []
        for _ in range(round(seconds / step)):
            effects += self.tick(step)
        return effects

    @property
    def state(self) -> TxnState:
        return self.table.get(TXN).state


def expiries(effects: Iterable[Effect]) -> list[cmd.Expire]:
    return [e.command for e in effects if isinstance(e, Propose) and isinstance(e.command, cmd.Expire)]


def send(op: ParticipantOpType, *participants: ParticipantId, ts: int = 0, txn_id: TxnId = TXN) -> list[SendOp]:
    return [SendOp(txn_id, participant, op, Timestamp(ts)) for participant in participants]


def leader_with_txn_in(state: TxnState, settings: ManagerSettings = SETTINGS) -> Leader:
    """A leader whose transaction 0 has participants A and B, and of which nobody has answered in this phase."""
    leader = Leader(settings=settings)
    leader.begin(A, B)
    if state in (TxnState.COMMIT_IN_PROGRESS, TxnState.FINALIZE_IN_PROGRESS, TxnState.COMMITTED):
        leader.commit()
    if state in (TxnState.FINALIZE_IN_PROGRESS, TxnState.COMMITTED):
        leader.answer(A, BEGIN_COMMIT, 100)
        leader.apply_all(leader.answer(B, BEGIN_COMMIT, 120))
    if state is TxnState.COMMITTED:
        leader.answer(A, FINALIZE)
        leader.apply_all(leader.answer(B, FINALIZE))
    if state in (TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED):
        leader.abort()
    if state is TxnState.ABORTED:
        leader.answer(A, ABORT)
        leader.apply_all(leader.answer(B, ABORT))
    assert leader.state is state
    return leader
