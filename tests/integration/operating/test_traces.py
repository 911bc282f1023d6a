"""Traces against real nodes, by a collector as any: one of each transaction, over all that works for it.

And what becomes of calls where the collector is broken: nothing.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w

import txnclient
from tests.collector import Collector, Seen, collecting
from tests.support import SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txnclient import Client
from txndeploy.local.cluster import LocalCluster
from txnstatus.tracing import spans

EXECUTOR = """
import sys
import pyarrow as pa
import txnclient

token = bytes.fromhex(sys.stdin.read())
with txnclient.connect(sys.argv[1], credentials=token) as client:
    txn = client.join(token)
    txn.write(pa.table({"id": pa.array([2], pa.int64()), "note": ["there"]}), "b.events")
    txn.stage(pa.table({"id": pa.array([3], pa.int64()), "note": ["of a task"]}), "b.events")
"""
"""A process that has a token and nothing else, as Spark's tasks have."""


@contextmanager
def traced(directory: Path, collector: Collector) -> Iterator[LocalCluster]:
    """Two groups of shards, each with a database; logs as JSON."""
    cluster = fast_cluster(directory, groups=2, secure=True, environment=collector.environment)
    for node in cluster.configs:
        path = cluster.config_path(node)
        path.write_text(tomli_w.dumps({**tomllib.loads(path.read_text()), "log_format": "json"}))
    with cluster:
        yield cluster


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Its variables; what it traces by them ends with the test."""
    yield monkeypatch
    spans.close(1.0)


def make_tables(client: Client) -> None:
    for name, group in (("a", "group-0"), ("b", "group-1")):
        client.place_database(name, group)
        client.create_table(f"{name}.events", SCHEMA)


def test_a_transaction_is_one_trace_over_all_processes(tmp_path: Path, program: pytest.MonkeyPatch) -> None:
    with collecting() as collector, traced(tmp_path / "cluster", collector) as cluster:
        with connect(cluster) as client:
            make_tables(client)
        assert not collector.spans(), "calls for no transaction begin no traces"
        for name, value in collector.environment.items():
            program.setenv(name, value)
        with connect(cluster) as client:
            txn = client.begin("load")
            txn.write(rows(1), "a.events")
            subprocess.run(
                [sys.executable, "-c", EXECUTOR, cluster.addresses], input=txn.token().hex(), text=True, check=True
            )
            txn.commit()
            client.begin("thrown away").abort("no more")
            assert visible(client, "a.events", "b.events") == [[1], [2]]

        def whole() -> list[Seen]:
            """All of the trace, once its last spans are here: the transaction's own, and those of its publication."""
            (found,) = [each for each in collector.spans(name="transaction") if each.facts["txn.label"] == "load"] or [
                None
            ]
            seen = collector.spans(trace=found.trace) if found else []
            names = [each.name for each in seen]
            return seen if names.count("FINALIZE_COMMIT") >= 2 and "publish" in names else []

        seen = wait_until(whole, "the trace is whole")
        check_tree(seen, txn.id)
        check_commit(seen)
        check_executor(seen)
        check_abort(wait_until(lambda: aborted(collector), "the other trace is whole"))
        check_logs(cluster, txn.id, seen[0].trace)


def check_tree(seen: list[Seen], txn_id: int) -> None:
    """One root; everybody else's parent is there, and began before."""
    by_id = {each.id: each for each in seen}
    (root,) = [each for each in seen if not each.parent]
    assert root.name == "transaction"
    assert (root.service, root.facts["txn.state"], root.failed) == ("txnclient", "COMMITTED", False)
    assert {each.facts.get("txn.id", txn_id) for each in seen} == {txn_id}
    proposed = [each for each in seen if each.name.startswith("propose ")]
    assert {"propose OpenWrite", "propose AddFiles"} & {each.name for each in proposed}
    about_none = {each.name.partition("/")[2] for each in seen if "txn.id" not in each.facts and each not in proposed}
    assert about_none <= {"BeginTransaction", "BeginInRange", "GetTable", "ChangeCatalog"}
    assert not [each for each in seen if "KeepTransactionAlive" in each.name], "one call is for many transactions"
    for each in seen:
        assert not each.parent or each.parent in by_id, f"{each.name}: nobody has sent its parent"
        assert each.begun <= each.ended
    assert {each.process for each in seen if each.service == "txnstatus-node"} <= {"n1", "n2", "n3"}
    names = [each.name for each in seen]
    for method in ("BeginTransaction", "CommitTransaction"):
        client, served = f"txnstatus.TxnManager/{method}", [each for each in seen if each.name.endswith(f"/{method}")]
        assert client in names
        assert {each.service for each in served} == {"txnclient", "txnstatus-node"}


def check_commit(seen: list[Seen]) -> None:
    """The decision is below the call that asks for it, and the other group's table is asked below that."""
    by_id = {each.id: each for each in seen}
    (decide,), (publish,) = ([each for each in seen if each.name == name] for name in ("decide", "publish"))
    above = ancestors(decide, by_id)
    assert [each.name for each in above if each.service == "txnclient"] == [
        "txnstatus.TxnManager/CommitTransaction",
        "commit",
        "transaction",
    ]
    assert decide.facts["txn.state"] == "FINALIZE_IN_PROGRESS"
    assert publish.parent == decide.parent
    for name, phase in (("BEGIN_COMMIT", decide), ("FINALIZE_COMMIT", publish)):
        asks, answers = [each for each in seen if each.name == name]
        assert asks.parent == phase.id
        assert answers.parent == asks.id
        assert asks.facts["txn.participant"] == answers.facts["txn.participant"]
    assert "done in the same entry" in decide.events


def check_executor(seen: list[Seen]) -> None:
    """What the process does that has joined is below the transaction, which is the driver's."""
    by_id = {each.id: each for each in seen}
    root = next(each for each in seen if not each.parent)
    mine, theirs = (
        [each for each in seen if each.name == "write" and each.facts["txn.what"] == f"a write to {table}"]
        for table in ("a.events", "b.events")
    )
    assert [each.parent for each in (*mine, *theirs)] == [root.id, root.id]
    below = [each for each in seen if theirs[0] in ancestors(each, by_id)]
    assert {"txnstatus.Table/OpenWrite", "txnstatus.Table/AddFiles"} <= {each.name for each in below}
    (registers,) = [each for each in seen if each.name == "REGISTER"]
    assert registers in below, [each.name for each in ancestors(registers, by_id)]
    (staged,) = [each for each in seen if each.facts.get("txn.what") == "staging for b.events"]
    assert (staged.name, staged.parent) == ("write", root.id)
    below = [each.name for each in seen if staged in ancestors(each, by_id)]
    assert "txnstatus.Table/OpenWrite" in below, "what a task of Spark asks for is in no span of its own"


def aborted(collector: Collector) -> list[Seen]:
    roots = [each for each in collector.spans(name="transaction") if each.facts["txn.label"] == "thrown away"]
    seen = collector.spans(trace=roots[0].trace) if roots else []
    return seen if any(each.name == "discard" for each in seen) else []


def check_abort(seen: list[Seen]) -> None:
    root = next(each for each in seen if not each.parent)
    assert (root.facts["txn.state"], root.failed) == ("ABORTED", True)
    assert "abort" in [each.name for each in seen]


def check_logs(cluster: LocalCluster, txn_id: int, trace: str) -> None:
    """Lines about the transaction name its trace, in any node's log."""
    for node in cluster.configs:
        for line in cluster.log_path(node).read_text().splitlines():
            told = json.loads(line)
            assert told.get("txn_id") != txn_id or told["trace_id"] == trace, line


def ancestors(span: Seen, by_id: dict[str, Seen]) -> list[Seen]:
    found = []
    while span.parent:
        span = by_id[span.parent]
        found.append(span)
    return found


def test_a_program_that_traces_nothing_has_no_spans(tmp_path: Path) -> None:
    with collecting() as collector, traced(tmp_path / "cluster", collector) as cluster, connect(cluster) as client:
        make_tables(client)
        with client.begin("untraced") as txn:
            txn.write(rows(1), "a.events")
            txn.write(rows(2), "b.events")
        assert visible(client, "a.events", "b.events") == [[1], [2]]
    assert not collector.spans(), "all of them have been sent: the nodes have ended"


@pytest.mark.parametrize("how", ["refuses", "hangs"])
def test_a_broken_collector_harms_nothing(tmp_path: Path, program: pytest.MonkeyPatch, how: str) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if how == "hangs":  # it takes connections, and never answers
            listening.listen()
        broken = Collector(listening.getsockname()[1])
        for name, value in {**broken.environment, "OTEL_BSP_MAX_QUEUE_SIZE": "600"}.items():
            program.setenv(name, value)
        with traced(tmp_path / "cluster", broken) as cluster:
            with connect(cluster) as client:
                make_tables(client)
                slowest = 0.0
                for number in range(60):
                    began = time.monotonic()
                    with client.begin(f"load {number}") as txn:
                        txn.write(rows(number), "a.events")
                        txn.write(rows(number), "b.events")
                    slowest = max(slowest, time.monotonic() - began)
                assert visible(client, "a.events") == [list(range(60))]
            assert slowest < 5.0, "no transaction waits for the collector, whose time-out is 10 s"
            began = time.monotonic()
            spans.close(0.5)
        assert time.monotonic() - began < 20.0, "nor do nodes that stop"


def test_a_program_without_opentelemetry_goes_on(tmp_path: Path, program: pytest.MonkeyPatch) -> None:
    """Its variables may be there for somebody else."""
    program.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    program.setitem(sys.modules, "txnstatus.tracing.otel", None)
    with fast_cluster(tmp_path / "cluster", nodes=1) as cluster, connect(cluster) as client:
        assert spans.tracer is None
        assert client.begin().commit()
    assert txnclient.connect
