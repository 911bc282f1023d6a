"""Phases: what a range's leader does of a transaction's end, in its trace: `decide`, then `publish` or `discard`.

Of commits and aborts that somebody asks this leader for, in a call that is part of a trace. What a leader ends on its
own, after one before it has died, or when nobody beats, is in none.
"""

from __future__ import annotations

from collections.abc import Sequence

from txnstatus.replicated import Rejected
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied
from txnstatus.tracing import spans
from txnstatus.tracing.served import operation
from txnstatus.tracing.spans import Fact, Kind, Span
from txnstatus.types import ParticipantOpType, TxnId, TxnState

MAX_PHASES = 10_000
"""Transactions that are followed at one time."""
_NEXT = {TxnState.FINALIZE_IN_PROGRESS: "publish", TxnState.ABORT_IN_PROGRESS: "discard"}
"""States with a phase of their own."""
_ENDS = {*_NEXT, TxnState.COMMITTED, TxnState.ABORTED}


class _Phase:
    __slots__ = ("name", "parent", "span")

    def __init__(self, name: str, parent: bytes, txn_id: TxnId, group: str) -> None:
        self.name, self.parent = name, parent
        facts: dict[str, Fact] = {"txn.id": txn_id, "txn.group": group}
        self.span = spans.tracer.begin(name, Kind.INTERNAL, parent, facts) if spans.tracer is not None else None


class Phases:
    def __init__(self, group: str) -> None:
        self._group = group
        self._of: dict[TxnId, _Phase] = {}

    def asked(self, name: str, txn_id: TxnId, record: TxnRecord | None, parent: bytes) -> None:
        """Somebody asks for the end of a transaction; of one that is not OPEN somebody has before."""
        if parent and record is not None and record.state is TxnState.OPEN and txn_id not in self._of:
            if len(self._of) >= MAX_PHASES:
                self._end(self._of.pop(next(iter(self._of))), "too many are under way")
            self._of[txn_id] = _Phase(name, parent, txn_id, self._group)

    def applied(self, outcomes: Sequence[StatusApplied | Rejected]) -> None:
        if not self._of:
            return
        for outcome in outcomes:
            if isinstance(outcome, StatusApplied):
                for record in outcome.records:
                    if (phase := self._of.get(record.txn_id)) is not None:
                        self._applied(phase, record, outcome)

    def _applied(self, phase: _Phase, record: TxnRecord, outcome: StatusApplied) -> None:
        span = phase.span
        if span is not None:
            for step in outcome.steps:
                facts = {"txn.participant": step.participant_id, "txn.command": type(step.command).__name__}
                span.tell("refused" if step.refused else "done in the same entry", facts)
        name = _NEXT.get(record.state, "")
        if record.state not in _ENDS or phase.name == name:
            return
        if span is not None:
            span.note({"txn.state": record.state.name, "txn.commit_timestamp": record.commit_ts})
        self._end(phase, record.cause.message if record.cause is not None and phase.name == "decide" else "")
        if name:
            self._of[record.txn_id] = _Phase(name, phase.parent, record.txn_id, self._group)
        else:
            del self._of[record.txn_id]

    def asks(self, txn_id: TxnId, participant_id: str, op: ParticipantOpType) -> Span | None:
        """The span of an operation that a participant elsewhere is asked for."""
        phase = self._of.get(txn_id)
        if phase is None or spans.tracer is None:
            return None
        parent = phase.span.context if phase.span is not None else phase.parent
        return spans.tracer.begin(
            operation(op), Kind.CLIENT, parent, {"txn.id": txn_id, "txn.participant": participant_id}
        )

    def forget(self, why: str) -> None:
        """This replica leads no more."""
        for phase in self._of.values():
            self._end(phase, why)
        self._of.clear()

    def _end(self, phase: _Phase, error: str) -> None:
        if phase.span is not None:
            phase.span.end(error)
