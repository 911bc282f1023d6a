"""Stories of the leader of a status range: what it is told, what it wants done, and what becomes of transactions.

The files in `scenarios` are played against the table and the manager, in as many replicas as the story wants; its log
reaches all of them at once. Proposals wait until the story applies them or lets them fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import structs

from tests.unit.harness.scenarios import Story, check, scenarios
from tests.unit.harness.status_leader import NAMES, OWNER, REQUESTED, SETTINGS, Leader, leader_with_txn_in
from txnstatus import errors
from txnstatus.errors import Conflict, TxnError
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import SendOp
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
from txnstatus.status.manager import ManagerSettings
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied
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

IDS = {name.removeprefix("air."): participant_id for participant_id, name in NAMES.items()}
SHORT = {participant_id: short for short, participant_id in IDS.items()}


@scenarios(beside=__file__)
def test_a_story_of_the_status_leader(path: Path) -> None:
    check(path, StatusStory())


class StatusStory(Story):
    def __init__(self) -> None:
        self.new()

    # ---- replicas

    def new(self, replicas: str = "1", **settings: str) -> None:
        """Everything anew: the first replica leads, of an empty range."""
        leaders = [Leader(settings=_settings(settings), leads=not n) for n in range(int(replicas))]
        self._replicas = {f"n{n}": leader for n, leader in enumerate(leaders, 1)}
        self._records: dict[TxnId, str] = {}
        self._proposed: list[tuple[Leader, cmd.Command]] = []
        self._asked: dict[tuple[TxnId, ParticipantId], ParticipantOpType] = {}
        self._unheard: list[tuple[cmd.Command, StatusApplied | Rejected]] | None = None
        self._begun = 0

    def given(self, state: str) -> Iterable[str]:
        """A transaction of flights and weather in this state, in which nobody has answered yet; it is the first one."""
        (leader,) = self._replicas.values()
        made = leader_with_txn_in(TxnState[state], leader.manager.settings)
        self._replicas = {"n1": made}
        task = made.manager.task_of(TxnId(0))
        if task is not None:
            self._asked = {(TxnId(0), participant_id): task.op for participant_id in NAMES}
        return self._moved()

    def lead(self, name: str) -> Iterable[str]:
        return self._tell(LeadershipGained(), name)

    def lose(self, name: str) -> Iterable[str]:
        return self._tell(LeadershipLost(), name)

    def configure(self, **settings: str) -> None:
        for leader in self._replicas.values():
            leader.manager.configure(_settings(settings))

    def deaf(self) -> None:
        """From now on managers lag behind their tables, until they `hear`."""
        self._unheard = []

    def hear(self) -> Iterable[str]:
        while self._unheard:
            command, outcome = self._unheard.pop(0)
            yield f"heard {type(command).__name__}"
            yield from self._tell(CommandApplied(command, outcome))
        self._unheard = None
        for leader in self._replicas.values():
            leader.manager.check_invariants()

    def show(self) -> Iterable[str]:
        """What a leader has in memory."""
        for name, leader in self._replicas.items():
            manager = leader.manager
            yield f"{self._at(name)}{len(manager._keep_alives)} kept alive, {len(manager._tasks)} driven"
            for txn_id, task in manager._tasks.items():
                yield f"{self._at(name)}{txn_id}: {task.op.name} waits for {_names(task.waiting_for)}"

    # ---- the log

    def begin(self, *participants: str, keepalive: str = "3") -> Iterable[str]:
        """Its participants register, too."""
        number, self._begun = self._begun, self._begun + 1
        command = cmd.BeginTxns(f"request-{number}", 1, OWNER, "", int(float(keepalive) * 1000), self._wall)
        yield from self._append(command)
        for participant in participants:
            yield from self.register(str(number), participant)

    def register(self, txn: str, participant: str) -> Iterable[str]:
        participant_id = IDS[participant]
        return self._append(
            cmd.RegisterParticipants(_txn(txn), OWNER, (Participant(participant_id, NAMES[participant_id]),))
        )

    def commit_asked(self, txn: str, owner: str = OWNER) -> Iterable[str]:
        """A commit is about to be proposed."""
        return self._tell(CommitRequested(_txn(txn), owner))

    def commit(self, txn: str) -> Iterable[str]:
        return self._append(cmd.BeginCommit(_txn(txn), OWNER, self._wall))

    def abort(self, txn: str) -> Iterable[str]:
        return self._append(cmd.BeginAbort(_txn(txn), OWNER, REQUESTED, self._wall))

    def forget(self, before: str) -> Iterable[str]:
        return self._append(cmd.Forget(int(before)))

    def apply(self, *kinds: str) -> Iterable[str]:
        """What was proposed, of these kinds or all, reaches the log."""
        for _leader, command in self._take(kinds):
            yield from self._append(command)

    def fail(self, *kinds: str) -> None:
        """What was proposed does not."""
        for leader, command in self._take(kinds):
            leader.manager.proposal_failed(command, leader.now)

    # ---- participants, owners and time

    def answer(
        self,
        txn: str,
        participant: str,
        ts: str = "0",
        to: str = "",
        at: str = "",
        error: str = "",
        says: str = "",
        winner: str = "",
    ) -> Iterable[str]:
        """To what it was asked last, or `to` another; at one replica, or all."""
        txn_id, participant_id = _txn(txn), IDS.get(participant, ParticipantId(participant))
        op = ParticipantOpType[to] if to else self._asked[txn_id, participant_id]
        raised: TxnError | None = getattr(errors, error)(says) if error else None
        if winner:
            name = NAMES[participant_id]
            cause = AbortCause(AbortCode.CONFLICT, says, name, TxnId(int(winner)), (name,))
            raised = Conflict(says, cause=cause)
        return self._tell(ParticipantAnswered(txn_id, participant_id, op, Timestamp(int(ts)), raised), at)

    def beat(self, txn: str, owner: str = OWNER) -> Iterable[str]:
        for name, leader in self._replicas.items():
            if leader.manager.leading:
                leader.manager.advance_time(leader.now)
                refusal = leader.beat(_txn(txn), owner)
                yield f"{self._at(name)}{txn}: {'alive' if refusal is None else type(refusal).__name__}"

    def tick(self, seconds: str = "0") -> Iterable[str]:
        self.sleep(seconds)
        return self._tell(Tick())

    def live(self, seconds: str, beats: str = "", every: str = "") -> Iterable[str]:
        """Healthy time: a tick every half second; the owner of `beats` is heard `every` so many seconds."""
        for half in range(round(float(seconds) * 2)):
            if beats and half % round(float(every) * 2) == 0:
                heard = list(self.beat(beats))
                yield from (line for line in heard if not line.endswith("alive"))
            yield from self.tick("0.5")

    def sleep(self, seconds: str) -> None:
        """Time in which nobody ticks."""
        for leader in self._replicas.values():
            leader.now += float(seconds)

    def wall(self, micros: str, at: str = "n1") -> None:
        self._replicas[at].wall_micros = int(micros)

    # ---- what came of it

    @property
    def _wall(self) -> int:
        return self._replicas["n1"].wall_micros

    def _append(self, command: cmd.Command) -> Iterator[str]:
        leaders = list(self._replicas.items())
        outcome, *others = [leader.table.apply(command) for _, leader in leaders]
        for (_, leader), other in zip(leaders[1:], others, strict=True):
            assert type(other) is type(outcome)
            assert list(leader.table.snapshot()) == list(leaders[0][1].table.snapshot())
        if isinstance(outcome, Rejected):
            yield f"{type(command).__name__} is refused: {type(outcome.error).__name__}"
        yield from self._moved()
        if self._unheard is not None:
            self._unheard.append((command, outcome))
        else:
            yield from self._tell(CommandApplied(command, outcome))

    def _tell(self, event: Event, at: str = "") -> Iterator[str]:
        for name, leader in self._replicas.items():
            if at in ("", name):
                effects = leader.manager.handle(event, leader.now, leader.wall_micros)
                if self._unheard is None:  # else the manager may not know what its table knows
                    leader.manager.check_invariants()
                yield from self._told(name, effects)

    def _take(self, kinds: Iterable[str]) -> list[tuple[Leader, cmd.Command]]:
        taken = [each for each in self._proposed if not kinds or type(each[1]).__name__ in kinds]
        assert taken, "nothing is proposed"
        self._proposed = [each for each in self._proposed if each not in taken]
        return taken

    def _moved(self) -> Iterator[str]:
        """The transactions whose state is another one now."""
        table = self._replicas["n1"].table
        table.check_invariants()
        records = {record.txn_id: _told_of(record) for record in table.records()}
        for txn_id in sorted(records.keys() | self._records.keys()):
            before, now = self._records.get(txn_id, ""), records.get(txn_id, "forgotten")
            if before != now:
                yield f"{txn_id}: {before.split()[0]} -> {now}" if before else f"{txn_id}: {now}"
        self._records = records

    def _told(self, name: str, effects: Iterable[Effect]) -> Iterator[str]:
        def alike(effect: Effect) -> object:
            return (effect.txn_id, effect.op, effect.commit_ts) if isinstance(effect, SendOp) else id(effect)

        for _, alikes in groupby(list(effects), key=alike):
            yield self._at(name) + self._effect(name, list(alikes))

    def _effect(self, name: str, effects: list[Effect]) -> str:
        match effects[0]:
            case Propose(command, awaited):
                self._proposed.append((self._replicas[name], command))
                return f"{_proposal(command)}{'' if awaited else ', which nobody awaits'}"
            case SendOp(txn_id, _, op, commit_ts):
                asked = [effect.participant_id for effect in effects if isinstance(effect, SendOp)]
                self._asked |= {(txn_id, participant_id): op for participant_id in asked}
                return f"{txn_id}: {op.name}{f' at {commit_ts}' if commit_ts else ''} to {_names(asked)}"
            case Decided(record):
                return f"{record.txn_id}: decided"

    def _at(self, name: str) -> str:
        return f"{name}: " if len(self._replicas) > 1 else ""


def _settings(settings: dict[str, str]) -> ManagerSettings:
    return replace(SETTINGS, **{name: float(setting) for name, setting in settings.items()})


def _txn(text: str) -> TxnId:
    return TxnId(int(text))


def _names(participants: Iterable[ParticipantId]) -> str:
    return ", ".join(SHORT[participant_id] for participant_id in participants) or "nobody"


def _told_of(record: TxnRecord) -> str:
    at = f" at {record.commit_ts}" if record.commit_ts else ""
    return f"{record.state.name}{at}{f' {_cause(record.cause)}' if record.cause else ''}"


def _cause(cause: AbortCause) -> str:
    first = f" to {cause.winner} over {', '.join(cause.objects)}" if cause.winner is not None else ""
    return f"{cause.code.value}{first} by {cause.by}: {cause.message}"


def _proposal(command: Any) -> str:
    fields = structs.asdict(command)
    txn = f"{fields.pop('txn_id')}: " if "txn_id" in fields else ""
    shown = (f"{name}={_cause(field) if isinstance(field, AbortCause) else field}" for name, field in fields.items())
    return f"{txn}propose {type(command).__name__} {', '.join(shown)}"
