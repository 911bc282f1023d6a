"""Commands on their way through the log: everybody hears once, and what has applied is acted upon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from txnstatus import features
from txnstatus.errors import IllegalState, InvalidArgument, NotTheLeader, OutcomeUnknown, TxnError
from txnstatus.process import failpoints
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.proposals import Proposal
from txnstatus.raft.proposer import Proposer
from txnstatus.raft.replica import MAX_BATCH_BYTES, MAX_BATCH_COMMANDS
from txnstatus.replicated import Rejected
from txnstatus.tracing import otel, spans
from txnstatus.tracing.spans import Kind

REFUSED = Rejected(IllegalState("no"))


class Log:
    """A driver whose entries end when the test says so."""

    def __init__(self) -> None:
        self.leads = True
        self.waiting: list[tuple[Sequence[bytes], Callable[[Proposal], None]]] = []
        self.heard: list[tuple[Sequence[str], Sequence[str | Rejected]]] = []
        self.proposer: Proposer[str, str] = Proposer(
            "status",
            cast(RaftDriver, self),
            str.encode,
            lambda: features.OWN.newest,
            lambda commands, outcomes: self.heard.append((commands, outcomes)),
        )

    def submit(self, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False) -> None:
        if not self.leads:
            raise NotTheLeader("not here")
        if sum(map(len, commands)) > MAX_BATCH_BYTES:
            raise InvalidArgument("too large")
        self.waiting.append((commands, ended))

    def end(self, *outcomes: object, error: TxnError | None = None) -> None:
        """The entry that waits longest ends; each of its commands has an outcome, or all have the error."""
        commands, ended = self.waiting.pop(0)
        ended(Proposal(commands, outcomes, error))


async def proposed(log: Log, *commands: str) -> asyncio.Task[list[str | TxnError]]:
    """Once they are all on their way."""
    task = asyncio.create_task(log.proposer.propose_all(commands))
    await asyncio.sleep(0)
    return task


async def test_all_of_one_call_go_in_one_entry_and_each_is_answered() -> None:
    log = Log()
    task = await proposed(log, "a", "b")
    assert [commands for commands, _ in log.waiting] == [[b"a", b"b"]]
    log.end("first", REFUSED)
    assert await task == ["first", REFUSED.error]
    assert log.heard == [(("a", "b"), ("first", REFUSED))]
    assert await log.proposer.propose_all([]) == []


async def test_of_what_is_lost_nothing_is_known() -> None:
    log = Log()
    task = await proposed(log, "a", "b")
    log.end(error=OutcomeUnknown("lost"))
    assert [type(answer) for answer in await task] == [OutcomeUnknown, OutcomeUnknown]
    assert log.heard == []


async def test_what_one_entry_cannot_hold_is_cut_and_answered_in_its_order() -> None:
    """However the parts end; and what none can hold is refused alone."""
    log = Log()
    half, huge = "x" * (MAX_BATCH_BYTES // 2), "y" * (MAX_BATCH_BYTES + 1)
    task = await proposed(log, half, half, huge, *"abc")
    (first, ended), (second, _) = log.waiting
    assert [first, second] == [[half.encode()] * 2, [b"a", b"b", b"c"]]
    log.waiting.pop(0)
    log.end("a", "b", "c")
    await asyncio.sleep(0)
    assert not task.done()
    ended(Proposal(first, ("one", "two")))
    one, two, refused, *rest = await task
    assert (one, two, rest) == ("one", "two", ["a", "b", "c"])
    assert isinstance(refused, InvalidArgument)
    many = await proposed(log, *map(str, range(MAX_BATCH_COMMANDS + 1)))
    assert [len(commands) for commands, _ in log.waiting] == [MAX_BATCH_COMMANDS, 1]
    many.cancel()


async def test_what_applies_is_acted_upon_when_whoever_asked_is_gone() -> None:
    """And in the cycle that releases it, before anybody else has a turn."""
    log = Log()
    task = await proposed(log, "a")
    task.cancel()
    await asyncio.sleep(0)
    assert task.cancelled()
    log.end("done")
    assert log.heard == [(("a",), ("done",))]


async def test_who_does_not_lead_takes_nothing() -> None:
    log = Log()
    log.leads = False
    with pytest.raises(NotTheLeader):
        await log.proposer.propose("a")
    told: list[tuple[int, Sequence[str | TxnError]]] = []
    log.proposer.submit(["a", "b"], lambda *of_part: told.append(of_part))
    ((start, answers),) = told
    assert (start, [type(answer) for answer in answers]) == (0, [NotTheLeader] * 2)
    assert not log.heard


async def test_an_answer_that_is_lost_is_acted_upon_all_the_same() -> None:
    log = Log()
    failpoints.arm("status.after.str=error")
    try:
        task = await proposed(log, "a")
        log.end("done")
        (answer,) = await task
    finally:
        failpoints.arm("")
    assert isinstance(answer, OutcomeUnknown)
    assert log.heard == [(("a",), ("done",))]


async def test_what_a_traced_call_proposes_has_a_span_until_it_has_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "tracer", otel.OtelTracer(provider))
    assert spans.tracer is not None
    log, above = Log(), spans.tracer.begin("call", Kind.SERVER, b"", {})
    assert above is not None
    with spans.within(above):
        task = await proposed(log, "a", "b")
        refused = await proposed(log, "c")
    untraced = await proposed(log, "d")
    assert not exporter.get_finished_spans()
    log.end("first", "second")
    log.end(REFUSED)
    log.end("fourth")
    assert [await each for each in (task, refused, untraced)] == [["first", "second"], [REFUSED.error], ["fourth"]]
    first, second = exporter.get_finished_spans()
    for span, commands, is_ok in ((first, 2, True), (second, 1, False)):
        assert (span.name, span.status.is_ok) == ("propose str", is_ok)
        assert span.attributes is not None
        assert (span.attributes["txn.log"], span.attributes["txn.commands"]) == ("status", commands)
        assert span.parent is not None
        assert span.parent.span_id.to_bytes(8) == above.context[16:24]
