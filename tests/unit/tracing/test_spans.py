"""Spans: who wants them, whose they are, and that nothing of them reaches whoever is traced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from txnclient.calls import traces
from txnclient.calls.traces import TxnTrace, calling
from txnstatus.errors import InvalidArgument, NotFound
from txnstatus.proto import participant_pb2, txn_manager_pb2
from txnstatus.tracing import beginning, otel, served, spans
from txnstatus.tracing.spans import Kind

COMMIT = "txnstatus.TxnManager/CommitTransaction"
PARTICIPATE = "txnstatus.Participant/Participate"


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """What is sent by a tracer that sends at once."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.use(otel.OtelTracer(provider))
    yield exporter
    spans.use(None)


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, False),
        ({"OTEL_SERVICE_NAME": "load"}, False),
    ],
)
def test_opentelemetrys_own_variables_say_whether_traces_are_wanted(environ: dict[str, str], wanted: bool) -> None:
    assert beginning.is_wanted(environ) is wanted


def test_who_wants_no_traces_imports_nothing_of_them() -> None:
    program = (
        "import sys, txnclient, txndeploy.node.process; txnclient.connect('127.0.0.1:1').close();"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={})
    assert told.stdout.strip() == "[]"


def test_an_endpoint_without_opentelemetry_is_refused_and_a_variable_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "txnstatus.tracing.otel", None)
    with pytest.raises(InvalidArgument, match="traces need OpenTelemetry") as refused:
        beginning.begin("txnstatus-node", "n1", "http://127.0.0.1:4318")
    assert refused.value.hint == "pip install 'txnstatus[otel]'"
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    beginning.begin("txnclient")
    assert spans.tracer is None


@pytest.mark.parametrize(
    ("variable", "value"), [("OTEL_TRACES_EXPORTER", "carrier-pigeon"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_an_exporter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidArgument, match=value):
        otel.by_environment("txnclient", "", "")


def test_a_context_goes_through_bytes(exported: InMemorySpanExporter) -> None:
    assert spans.tracer is not None
    above = spans.tracer.begin("above", Kind.INTERNAL, b"", {})
    assert above is not None
    assert spans.is_context(above.context)
    below = spans.tracer.begin("below", Kind.SERVER, above.context, {})
    assert below is not None
    below.end("why")
    above.end()
    above.end()  # idempotent
    told, root = exported.get_finished_spans()
    assert told.parent is not None
    assert told.context is not None
    assert root.context is not None
    assert (told.parent.span_id, told.context.trace_id) == (root.context.span_id, root.context.trace_id)
    assert told.status.description == "why"
    assert above.is_over


@pytest.mark.parametrize("sent", [b"", b"short", b"x" * 24, b"x" * 26, b"x" * 1000, bytes(25)])
def test_what_is_no_context_is_as_if_nothing_were_said(exported: InMemorySpanExporter, sent: bytes) -> None:
    request = txn_manager_pb2.CommitTransactionRequest(txn_id=7)
    assert served.begin(COMMIT, "", request, sent) is None
    ops = [participant_pb2.ParticipantOp(txn_id=7, type=participant_pb2.BEGIN_COMMIT, trace=sent)]
    assert served.begin(PARTICIPATE, "shard-0", participant_pb2.ParticipateRequest(ops=ops), bytes(25)) is None


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"01-{TRACE}-{SPAN}-01-whatever comes later", True),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}", False),
        (f"00-{TRACE}-{SPAN}-01\n", False),
        ("", False),
    ],
)
def test_a_header_of_w3c_is_a_context_or_as_if_it_were_not_there(said: str, is_one: bool) -> None:
    assert spans.from_traceparent(said) == (bytes.fromhex(f"{TRACE}{SPAN}01") if is_one else b"")


def test_operations_of_one_call_are_each_in_its_own_trace(exported: InMemorySpanExporter) -> None:
    assert spans.tracer is not None
    first, second = (spans.tracer.begin("transaction", Kind.INTERNAL, b"", {}) for _ in range(2))
    assert first is not None
    assert second is not None
    ops = [
        participant_pb2.ParticipantOp(txn_id=1, table_id="t", type=participant_pb2.BEGIN_COMMIT, trace=first.context),
        participant_pb2.ParticipantOp(txn_id=2, table_id="t", type=participant_pb2.BEGIN_COMMIT),
        participant_pb2.ParticipantOp(txn_id=3, table_id="t", type=participant_pb2.ABORT_TXN, trace=second.context),
    ]
    found = served.begin(PARTICIPATE, "shard-0", participant_pb2.ParticipateRequest(ops=ops), first.context)
    assert found is not None
    assert found.span is None
    answer = participant_pb2.ParticipateResponse()
    for _ in ops:
        answer.results.add()
    answer.results[2].error.code = "CONFLICT"
    found.answered(answer)
    prepared, discarded = exported.get_finished_spans()
    assert [prepared.name, discarded.name] == ["BEGIN_COMMIT", "ABORT_TXN"]
    assert prepared.parent is not None
    assert discarded.parent is not None
    assert prepared.parent.trace_id.to_bytes(16) == first.context[:16]
    assert discarded.parent.trace_id.to_bytes(16) == second.context[:16]
    assert prepared.status.is_ok
    assert not discarded.status.is_ok
    assert spans.trace_id(3) == second.context[:16].hex()


def test_what_goes_on_after_a_call_has_ended_is_not_its(exported: InMemorySpanExporter) -> None:
    assert spans.tracer is not None
    span = spans.tracer.begin("call", Kind.SERVER, b"", {})
    assert span is not None
    with spans.within(span):
        assert spans.current() is span
        span.end()
        assert spans.current() is None
    assert spans.below(spans.current()) == b""


def test_a_provider_that_raises_fails_nobody() -> None:
    class Broken(SpanProcessor):
        def on_start(self, *_: object, **__: object) -> None:
            raise RuntimeError("started")

        def on_end(self, *_: object) -> None:
            raise RuntimeError("ended")

    provider = TracerProvider()
    provider.add_span_processor(Broken())
    tracer = otel.OtelTracer(provider)
    span = tracer.begin("call", Kind.CLIENT, b"", {})
    if span is not None:
        span.end("badly")
    tracer.close(1.0)


def test_a_begin_that_fails_ends_its_spans(exported: InMemorySpanExporter) -> None:
    with pytest.raises(NotFound), traces.beginning("load", "ada", 3):
        raise NotFound("there is no table 'x'")
    found = exported.get_finished_spans()
    assert [each.name for each in found] == ["transaction"] * 3
    assert {each.status.description for each in found} == {"NOT_FOUND: there is no table 'x'"}


def test_a_call_is_below_its_transaction_or_the_programs_own_span_in_that(exported: InMemorySpanExporter) -> None:
    assert spans.tracer is not None
    request = txn_manager_pb2.CommitTransactionRequest(txn_id=7)
    contexts: dict[int, bytes] = {}
    with calling(contexts, COMMIT, request) as nothing:
        assert nothing == b"", "a call begins no trace"
    with traces.beginning("load", "ada", 1) as begun:
        (root,) = begun
    assert root is not None
    trace = TxnTrace(contexts, 7, root.context, root)
    with calling(contexts, COMMIT, request):
        pass
    with trace.step("commit", {}), calling(contexts, COMMIT, request):
        pass
    trace.end("COMMITTED")
    assert not contexts
    bare, inner, step, transaction = exported.get_finished_spans()
    assert [bare.name, inner.name, step.name, transaction.name] == [COMMIT, COMMIT, "commit", "transaction"]
    parents = [each.parent.span_id if each.parent else 0 for each in (bare, inner, step, transaction)]
    own = [each.context.span_id if each.context else 0 for each in (bare, inner, step, transaction)]
    assert parents == [own[3], own[2], own[3], 0]


def test_a_transaction_that_its_program_drops_says_so(exported: InMemorySpanExporter) -> None:
    with traces.beginning("load", "ada", 1) as begun:
        (root,) = begun
    assert root is not None
    contexts: dict[int, bytes] = {}
    trace = TxnTrace(contexts, 7, root.context, root)
    joined = TxnTrace(contexts, 7, root.context)
    joined.end("COMMITTED")
    assert contexts, "the one that has begun it goes on"
    del trace, begun, root
    (span,) = exported.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["txn.state"] == "left open by its program"
    assert not contexts


def test_what_is_remembered_is_bounded() -> None:
    for txn_id in range(spans.MAX_KNOWN + 10):
        spans.remember(txn_id, bytes([1]) * 25)
    assert spans.trace_id(0) == ""
    assert spans.trace_id(spans.MAX_KNOWN + 9) == "01" * 16
