"""A collector of OpenTelemetry's: takes spans as any other does, over HTTP, and keeps them for whoever looks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True)
class Seen:
    service: str
    process: str
    """Which one of the service's, where it says so."""
    name: str
    trace: str
    id: str
    parent: str
    facts: dict[str, Any]
    events: tuple[str, ...]
    failed: bool
    begun: int
    ended: int


@dataclass
class Collector:
    port: int = 0
    _spans: list[Seen] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """By which processes send their spans here, and soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self._spans += [_seen(about, span) for span in scope.spans]

    def spans(self, **wanted: Any) -> list[Seen]:
        """Spans of which all this holds, in the order in which they began."""
        found = [each for each in list(self._spans) if all(getattr(each, key) == wanted[key] for key in wanted)]
        return sorted(found, key=lambda each: each.begun)


def _seen(about: dict[str, str], span: Any) -> Seen:
    return Seen(
        about.get("service.name", ""),
        about.get("service.instance.id", ""),
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes},
        tuple(each.name for each in span.events),
        span.status.code == Status.STATUS_CODE_ERROR,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
