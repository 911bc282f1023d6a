"""OpenTelemetry's spans. Nothing imports this but who wants traces: it brings the SDK.

A span that has ended goes into a queue of bounded length, from which a thread sends batches; what does not fit is
dropped. So a collector that is slow, or gone, holds up nobody.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from importlib.metadata import entry_points, version
from typing import Any, TypeVar

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from txnstatus.errors import InvalidArgument
from txnstatus.tracing.spans import CONTEXT_BYTES, TRACE_ID_BYTES, Facts, Kind, is_context

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

NAME = "txnstatus"
EXPORTERS = "opentelemetry_traces_exporter"
"""Entry points of exporters, by the names that OTEL_TRACES_EXPORTER has for them."""
HTTP = "http/protobuf"
TRACES_PATH = "/v1/traces"
LAST_SECONDS = 2.0
"""Time that a process which ends gives to what it has not sent."""
_SPAN_ID = slice(TRACE_ID_BYTES, CONTEXT_BYTES - 1)


class OtelSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.context = context.trace_id.to_bytes(16) + context.span_id.to_bytes(8) + bytes([context.trace_flags & 1])

    @property
    def is_over(self) -> bool:
        return not self._span.is_recording()

    def note(self, facts: Facts) -> None:
        _quietly(lambda: self._span.set_attributes(dict(facts)))

    def tell(self, event: str, facts: Facts) -> None:
        _quietly(lambda: self._span.add_event(event, dict(facts)))

    def end(self, error: str = "") -> None:
        if not self.is_over:
            if error:
                _quietly(lambda: self._span.set_status(Status(StatusCode.ERROR, error)))
            _quietly(self._span.end)


class OtelTracer:
    """Spans of a provider: OpenTelemetry's own settings say which are kept, and where they go."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(NAME, version("txnstatus"))
        self._sending: threading.Thread | None = None

    def begin(self, name: str, kind: Kind, parent: bytes, facts: Facts) -> OtelSpan | None:
        above = trace.set_span_in_context(_remote(parent)) if parent else None
        kinds = SpanKind[kind.value]
        span = _quietly(lambda: self._tracer.start_span(name, above, kinds, dict(facts)))
        return OtelSpan(span) if span is not None and span.is_recording() else None

    def surrounding(self) -> bytes:
        span = trace.get_current_span()
        return OtelSpan(span).context if span.get_span_context().is_valid else b""

    def flush(self) -> None:
        if not (self._sending and self._sending.is_alive()):
            self._sending = self._begin("force_flush")

    def close(self, seconds: float) -> None:
        self._begin("shutdown").join(seconds)

    def _begin(self, what: str) -> threading.Thread:
        """In a thread: the SDK's own time-outs are not those of whoever waits here."""
        act = getattr(self._provider, what, lambda: None)
        thread = threading.Thread(target=_quietly, args=(act,), name="last-spans", daemon=True)
        thread.start()
        return thread


def by_environment(service: str, instance: str, endpoint: str) -> OtelTracer:
    """By the provider that the program has set, or by one of its own, as OTEL_* say. Raises InvalidArgument."""
    given = trace.get_tracer_provider()
    if isinstance(given, TracerProvider):
        return OtelTracer(given)
    said = {"service.version": version("txnstatus")}
    if instance:
        said["service.instance.id"] = instance
    if not os.environ.get("OTEL_SERVICE_NAME"):
        said["service.name"] = service
    provider = TracerProvider(resource=Resource.create(said), shutdown_on_exit=False)
    try:
        provider.add_span_processor(BatchSpanProcessor(_exporter(endpoint)))
    except InvalidArgument:
        raise
    except Exception as error:
        raise InvalidArgument(f"traces cannot be sent: {error}", hint="see the OTEL_* variables") from error
    found = OtelTracer(provider)
    atexit.register(found.close, LAST_SECONDS)
    return found


def _exporter(endpoint: str) -> SpanExporter:
    """`endpoint`: of a collector that takes OTLP over HTTP; empty: as the environment says."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if endpoint or name == "otlp":
        said = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        protocol = HTTP if endpoint else said or HTTP
        name = "otlp_proto_http" if protocol == HTTP else f"otlp_proto_{protocol}"
    found = next(iter(entry_points(group=EXPORTERS, name=name)), None)
    if found is None:
        raise InvalidArgument(
            f"no exporter of traces {name!r} is installed", hint="pip install 'txnstatus[otel]', or the exporter's own"
        )
    made: Any = found.load()
    exporter: SpanExporter = made(endpoint=endpoint.rstrip("/") + TRACES_PATH) if endpoint else made()
    return exporter


def _remote(parent: bytes) -> trace.Span:
    if not is_context(parent):
        return trace.INVALID_SPAN
    context = SpanContext(
        int.from_bytes(parent[:TRACE_ID_BYTES]),
        int.from_bytes(parent[_SPAN_ID]),
        is_remote=True,
        trace_flags=TraceFlags(parent[-1] & 1),
    )
    return NonRecordingSpan(context)


def _quietly(act: Callable[[], ResultT]) -> ResultT | None:
    """Whatever a program's own provider raises is not the business of whoever is traced."""
    try:
        return act()
    except Exception:
        log.debug("a span was not recorded", exc_info=True)
        return None
