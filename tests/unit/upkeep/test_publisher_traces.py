"""The publication of a commit is in the trace of its transaction, where this node knows of one."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.unit.harness.shards import NAME, committed, new_shard, table_of
from txnparticipant.upkeep.publisher import _traced
from txnparticipant.versions.publication import steps, whole
from txnstatus.tracing import otel, spans
from txnstatus.tracing.spans import Kind
from txnstatus.types import NO_TIMESTAMP, Timestamp


def test_commits_are_published_in_the_traces_of_their_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    shard = new_shard()
    committed(shard, 7, "write0001", 100)
    committed(shard, 8, "write0002", 200)
    table = table_of(shard)
    at = Timestamp(300)
    wanted = steps(table.file_sets, table.replaced, [], [], NO_TIMESTAMP, at)
    with _traced(table, wanted):
        pass
    monkeypatch.setattr(spans, "tracer", otel.OtelTracer(provider))
    monkeypatch.setattr(spans, "_known", {})
    assert spans.tracer is not None
    root = spans.tracer.begin("transaction", Kind.INTERNAL, b"", {})
    assert root is not None
    spans.remember(8, root.context)
    with _traced(table, [whole(table.file_sets, [], at)]):
        pass
    assert not exporter.get_finished_spans(), "all there is at once is no commit's"
    with pytest.raises(OSError, match="full"), _traced(table, wanted):
        raise OSError("full")
    (found,) = exporter.get_finished_spans()
    assert found.attributes is not None
    assert dict(found.attributes) == {"txn.id": 8, "txn.table": NAME, "txn.commit_ts": 200}
    assert (found.name, found.status.description) == ("publish delta", "full")
    assert found.parent is not None
    assert found.parent.trace_id.to_bytes(16) == root.context[:16]
