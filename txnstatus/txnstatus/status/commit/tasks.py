"""CommitTask: who has answered what, and whom to ask again when, for one transaction in one phase."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from txnstatus.backoff import Backoff
from txnstatus.errors import TxnError
from txnstatus.types import NO_TIMESTAMP, Participant, ParticipantId, ParticipantOpType, Timestamp, TxnId
from txnstatus.values import value

MAX_TOLD = 3
"""Participants that `held_up` names."""


@value
class SendOp:
    """Effect: ask the participant. The answer comes back as ParticipantAnswered, also when nobody answered."""

    txn_id: TxnId
    participant_id: ParticipantId
    op: ParticipantOpType
    commit_ts: Timestamp
    first_write: str = ""
    """See Participant."""


@dataclass(slots=True)
class _Progress:
    first_write: str
    answered: bool = False
    in_flight: bool = False
    attempts: int = 0
    said: str = ""
    """The last error with which it answered, or did not."""
    next_try: float = 0.0


@dataclass(slots=True)
class CommitTask:
    """One phase (BEGIN_COMMIT, FINALIZE_COMMIT or ABORT_TXN) of one transaction.

    Every participant is asked at once, and again until it answers: a dead one holds nobody else up.
    """

    txn_id: TxnId
    op: ParticipantOpType
    commit_ts: Timestamp
    retries: Backoff
    highest_timestamp: Timestamp = NO_TIMESTAMP
    refusal: tuple[ParticipantId, TxnError] | None = None
    """BEGIN_COMMIT only: the first final refusal. The transaction must abort."""
    proposed: bool = False
    """The next state is on its way through the log."""
    _progress: dict[ParticipantId, _Progress] = field(default_factory=dict)
    _unanswered: int = 0
    """The number of those without an answer; asked for after each answer, of up to a thousand participants."""

    def include(self, participants: Iterable[Participant]) -> None:
        for participant_id, _, first_write in participants:
            if participant_id not in self._progress:
                self._progress[participant_id] = _Progress(first_write)
                self._unanswered += 1

    def __len__(self) -> int:
        """Participants."""
        return len(self._progress)

    @property
    def complete(self) -> bool:
        return not self._unanswered

    @property
    def waiting_for(self) -> list[ParticipantId]:
        return [participant_id for participant_id, p in self._progress.items() if not p.answered]

    def held_up(self, participants: Mapping[ParticipantId, Participant]) -> str:
        """The participants that have not answered, how often each was asked and what it said, for people."""
        waiting = self.waiting_for
        told = [
            f"{participants[each].name if each in participants else each} "
            f"(asked {self._progress[each].attempts} times: "
            f"{self._progress[each].said or 'no answer yet'})"
            for each in waiting[:MAX_TOLD]
        ]
        return ", ".join(told) + (f", and {len(waiting) - MAX_TOLD} more" if len(waiting) > MAX_TOLD else "")

    def due(self, now: float) -> Iterator[SendOp]:
        """What is to be sent now; each counts as in flight until it is answered."""
        for participant_id, progress in self._progress.items():
            if progress.answered or progress.in_flight or now < progress.next_try:
                continue
            progress.in_flight = True
            progress.attempts += 1
            yield SendOp(self.txn_id, participant_id, self.op, self.commit_ts, progress.first_write)

    def answered(
        self, participant_id: ParticipantId, timestamp: Timestamp, error: TxnError | None, now: float
    ) -> float | None:
        """Returns when the participant is to be asked again, if it is."""
        progress = self._progress.get(participant_id)
        if progress is None:
            return None
        progress.in_flight = False
        if error is None:
            self._has_answered(progress)
            self.highest_timestamp = max(self.highest_timestamp, timestamp)
        elif self.op is ParticipantOpType.BEGIN_COMMIT and not error.retriable:
            self._has_answered(progress)
            self.refusal = self.refusal or (participant_id, error)
        else:
            progress.said = error.message
            # FINALIZE_COMMIT and ABORT_TXN have only one right answer: whatever stands in its way, ask again.
            # The spread is a function of who, whom and which try: a core rolls no dice.
            chance = zlib.crc32(f"{self.txn_id}/{participant_id}/{progress.attempts}".encode()) / 2**32
            progress.next_try = now + self.retries.pause(progress.attempts, chance)
            return progress.next_try
        return None

    def _has_answered(self, progress: _Progress) -> None:
        self._unanswered -= not progress.answered
        progress.answered = True
