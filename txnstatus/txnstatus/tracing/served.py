"""Spans of what a process is asked: one of a call, or, of a call that is about many transactions, one of each part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from txnstatus.errors import TxnError
from txnstatus.proto import participant_pb2 as participant_pb
from txnstatus.tracing import spans
from txnstatus.tracing.spans import Fact, Kind, Span

PARTS = {"txnstatus.Participant/Participate": "ops", "txnstatus.TxnStatus/RegisterParticipants": "registrations"}
"""Methods that are asked for many transactions at once → the field with what is asked for each, and its context."""


def context_for(method: str, context: bytes) -> bytes:
    """What goes with a call that is made on behalf of the span with this context."""
    return b"" if method in PARTS else context


class Served:
    """What a call is in its trace, or a part of it in each of theirs, until it is answered."""

    __slots__ = ("_parts", "span")

    def __init__(self, span: Span | None, parts: Sequence[Span | None] = ()) -> None:
        self.span = span
        self._parts = parts

    def answered(self, answer: Any) -> None:
        if self.span is not None:
            _remember_begun(self.span, answer)
            self.span.end(f"{answer.code}: {answer.message}" if isinstance(answer, TxnError) else "")
        for number, part in enumerate(self._parts):
            if part is not None:
                part.end(_refusal(answer, number))

    def given_up(self) -> None:
        for span in (self.span, *self._parts):
            if span is not None:
                span.end("nobody waits for the answer")


def begin(method: str, group: str, request: Any, context: bytes) -> Served | None:
    """None: it is part of no trace. `context`: what came with the call."""
    tracer = spans.tracer
    if tracer is None:
        return None
    if field := PARTS.get(method):
        asked = getattr(request, field)
        parts = [_part(method, group, each) if each.trace else None for each in asked]
        return Served(None, parts) if any(parts) else None
    if not spans.is_context(context):
        return None
    txn_id = spans.txn_of(request)
    span = tracer.begin(method, Kind.SERVER, context, _facts(method, group, txn_id))
    if span is None:
        return None
    if txn_id is not None:
        spans.remember(txn_id, span.context)
    return Served(span)


def operation(kind: int) -> str:
    """The name of the span of what a participant is asked."""
    return participant_pb.ParticipantOpType.Name(kind)


def _part(method: str, group: str, asked: Any) -> Span | None:
    if spans.tracer is None or not spans.is_context(asked.trace):
        return None
    facts = _facts(method, group, asked.txn_id)
    if isinstance(asked, participant_pb.ParticipantOp):
        name, facts["txn.participant"] = operation(asked.type), asked.table_id
    else:
        name, facts["txn.participant"] = "REGISTER", asked.participant.participant_id
    span = spans.tracer.begin(name, Kind.SERVER, asked.trace, facts)
    if span is not None:
        spans.remember(asked.txn_id, span.context)
    return span


def _facts(method: str, group: str, txn_id: int | None) -> dict[str, Fact]:
    service, _, name = method.partition("/")
    facts: dict[str, Fact] = {"rpc.system": "txnstatus", "rpc.service": service, "rpc.method": name}
    if group:
        facts["txn.group"] = group
    if txn_id is not None:
        facts["txn.id"] = txn_id
    return facts


def _refusal(answer: Any, number: int) -> str:
    if isinstance(answer, TxnError):
        return f"{answer.code}: {answer.message}"
    result = answer.results[number]
    return f"{result.error.code}: {result.error.message}" if result.HasField("error") else ""


def _remember_begun(span: Span, answer: Any) -> None:
    """A transaction that begins has its id, and its participants, when the begin is answered."""
    begun: Sequence[int] = getattr(answer, "txn_ids", ())
    if len(begun) == 1:
        span.note({"txn.id": begun[0]})
        spans.remember(begun[0], span.context)
