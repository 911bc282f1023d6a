"""Compaction on a real cluster: the same rows before and after; whatever happens to workers, nothing is lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.faults.points import COMPACTION_POINTS
from tests.support import FAST_TXN, FORKS, fast_cluster, rows, visible, wait_until
from txnclient import Client, CompactionSummary, InternalError, Snapshot
from txnclient.compact import worker as workers
from txnclient.compact.worker import Worker
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.compactor import LocalCompactor
from txnstatus.proto import audit_pb2

LEASE_MS = 1_500
NEVER = 1_000
"""Small writes, and percent of deleted rows, that no table here comes to: what is compacted is asked for."""
NewTable = Callable[..., str]
NewWorker = Callable[..., LocalCompactor]
STEPS = ("leased", "reading", "written", "lineage", "durable", "completed")
NODE_POINTS = tuple(point for point in COMPACTION_POINTS if not point.startswith("compactor."))
USUAL = ("written", "durable", "compaction.before_switch", "shard.after.CommitCompaction")
"""Steps of workers, and of nodes, that are tried in every run; the others by campaigns."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    by_request = {"compact_delta_num": NEVER, "compact_delta_pct": NEVER, "compact_failures": 3}
    txn = FAST_TXN.model_copy(update={"compact_lease_ms": LEASE_MS, **by_request})
    with fast_cluster(tmp_path_factory.mktemp("cluster"), txn=txn) as running:
        yield running


@pytest.fixture
def new_worker(cluster: LocalCluster, tmp_path: Path) -> Iterator[NewWorker]:
    """Starts a worker's process, with failpoints."""
    started: list[LocalCompactor] = []

    def start(failpoints: str = "") -> LocalCompactor:
        log = tmp_path / f"worker{len(started)}.log"
        started.append(LocalCompactor(cluster.addresses, log, {"TXN_FAILPOINTS": failpoints}, FORKS.spawn))
        started[-1].start()
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def table(client: Client, new_table: NewTable) -> str:
    """Five files of ten rows, of which one in ten is deleted."""
    name = new_table()
    for first in range(0, 50, 10):
        client.write(rows(*range(first, first + 10)), name)
    client.delete_where(name, "id % 10 = 3")
    return name


def _marked(steps: Sequence[str], usual: Sequence[str] = USUAL) -> list[Any]:
    return [step if step in usual else pytest.param(step, marks=pytest.mark.campaign) for step in steps]


LEFT = [row for row in range(50) if row % 10 != 3]


def files(snapshot: Snapshot, table: str) -> int:
    return len(snapshot.table_files(table).files)


def asked(client: Client, table: str) -> str:
    """The id of a compaction that somebody asked for, once the one before it is over."""

    def ask() -> str:
        found = client.compact(table, wait=False)
        return found[0].compaction_id if found and not found[0].worker else ""

    return wait_until(ask, f"{table} waits for a worker")


def once(client: Client, compaction: str, *states: str) -> CompactionSummary:
    """The compaction, when it is in one of the states."""

    def look() -> CompactionSummary | None:
        known = [each for each in client.compactions() if each.compaction_id == compaction]
        return next((each for each in known if each.state in states), None)

    found = wait_until(look, f"{compaction} is {' or '.join(states)}")
    assert found is not None
    return found


def work(client: Client) -> None:
    """Does in this process what there is to do."""
    worker = Worker(client.session, "here", threading.Event())
    while worker.run_once():
        pass


def nothing_is_lost(cluster: LocalCluster, client: Client, table: str, left: Sequence[int] = LEFT) -> None:
    """All rows are there, and all that lies in the table's directory is somebody's, and whole."""
    assert visible(client, table) == [left]

    def well() -> bool:
        result = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--json", "--deep"])
        said = json.loads(result.output)
        return not [each for each in said["findings"] if table.partition(".")[2] in each["where"]]

    wait_until(well, f"the doctor finds nothing about {table}")


def test_the_same_rows_in_one_file(cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker) -> None:
    before = client.snapshot()
    assert files(before, table) == 5
    new_worker()
    (done,) = client.compact(table, timeout=60)
    assert (done.state, done.kind, done.requested) == ("succeeded", "major", True)
    assert (done.input_file_sets, done.input_rows, done.output_rows, done.output_files) == (5, 50, 45, 1)
    with client.snapshot() as after:
        assert files(after, table) == 1
        assert after.files(table).rows == 45, "no row is dead"
        assert [len(each.scan(table).manifests) for each in (before, after)] == [5, 1], "manifests are merged, too"
        assert after.to_arrow(table)["id"].to_pylist() == LEFT, "the order is kept"
    assert before.to_arrow(table)["id"].to_pylist() == LEFT
    assert files(before, table) == 5
    nothing_is_lost(cluster, client, table)


def test_a_minor_one_merges_small_files(client: Client, table: str) -> None:
    (asked_for,) = client.compact(table, kind="minor", wait=False)
    work(client)
    done = once(client, asked_for.compaction_id, "succeeded")
    assert (done.kind, done.output_files) == ("minor", 1)
    assert visible(client, table) == [LEFT]
    assert client.compact(table, kind="minor") == [], "there is nothing left to merge"


def test_one_partition_of_many(client: Client, new_table: NewTable) -> None:
    name = new_table("month int, id bigint", partition_by=["month"])
    for first in range(3):
        client.write(pa.table({"month": pa.array([1, 2, 3], pa.int32()), "id": [first] * 3}), name)
    (one,) = client.compact(name, {"month": 2}, wait=False)
    assert one.partition == "month=2"
    work(client)
    once(client, one.compaction_id, "succeeded")
    with client.snapshot() as snapshot:
        listed = [file.partition for file in snapshot.files(name).files]
    assert sorted(listed) == ["month=1"] * 3 + ["month=2"] + ["month=3"] * 3
    others = client.compact(name, wait=False)
    assert {each.partition for each in others} == {"month=1", "month=3"}
    work(client)
    with client.snapshot() as snapshot:
        assert len(snapshot.files(name).files) == 3
        assert snapshot.to_arrow(name).num_rows == 9


def test_all_rows_dead_leave_no_file(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    name = new_table()
    client.write(rows(1, 2), name)
    client.write(rows(3), name)
    client.delete_where(name, "true")
    compaction = asked(client, name)
    work(client)
    assert once(client, compaction, "succeeded").output_files == 0
    assert visible(client, name) == [[]]
    client.write(rows(7), name)
    assert visible(client, name) == [[7]]


def test_it_comes_by_itself(cluster: LocalCluster, client: Client, new_table: NewTable, new_worker: NewWorker) -> None:
    name = new_table()
    call = CliRunner().invoke(app, ["config", "set", "compact_delta_num", "4", "--cluster", cluster.addresses])
    assert call.exit_code == 0, call.output
    try:
        new_worker()
        for row in range(8):
            client.write(rows(row), name)

        def merged() -> bool:
            with client.snapshot() as snapshot:
                return files(snapshot, name) < 5

        wait_until(merged, "small files are merged")
        assert visible(client, name) == [list(range(8))]
        assert not [each for each in client.compactions(name) if each.requested]
    finally:
        CliRunner().invoke(app, ["config", "set", "compact_delta_num", str(NEVER), "--cluster", cluster.addresses])


@pytest.mark.parametrize("step", _marked(STEPS))
def test_a_worker_that_is_killed_at_any_step_loses_nothing(
    cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker, step: str
) -> None:
    compaction = asked(client, table)
    assert new_worker(f"compactor.{step}=crash").wait(60) == -signal.SIGKILL
    assert visible(client, table) == [LEFT]
    if step == "completed":
        once(client, compaction, "succeeded")
    else:
        lost = once(client, compaction, "failed")
        assert "was not heard of" in lost.reason
        again = asked(client, table)
        work(client)
        once(client, again, "succeeded")
    with client.snapshot() as snapshot:
        assert files(snapshot, table) == 1
    nothing_is_lost(cluster, client, table)


def notes(snapshot: Snapshot, table: str) -> dict[int, str]:
    """Note by id; each id is there once."""
    found = snapshot.to_arrow(table).to_pydict()
    assert len(set(found["id"])) == len(found["id"])
    return dict(zip(found["id"], found["note"], strict=True))


@pytest.fixture
def keyed(client: Client, new_table: NewTable) -> str:
    """As `table`, with a primary key: every fifth row was changed by it, in a flush; later changes are in memory."""
    name = new_table(primary_key=["id"])
    for first in range(0, 50, 10):
        client.write(rows(*range(first, first + 10)), name)
    changed = [*range(0, 50, 5)]
    client.upsert(name, pa.table({"id": pa.array(changed, pa.int64()), "note": ["new" * 1_000] * len(changed)}))
    location = Path(client.table(name).location.removeprefix("file://"))
    wait_until(lambda: list(location.glob("delta_rows*/_manifest.json")), "row changes are flushed")
    client.delete(name, pa.table({"id": pa.array(range(3, 50, 10), pa.int64())}))
    return name


@pytest.mark.parametrize("step", _marked(STEPS, ["durable"]))
def test_a_worker_that_is_killed_as_it_folds_loses_nothing(
    cluster: LocalCluster, client: Client, keyed: str, new_worker: NewWorker, step: str
) -> None:
    """What is changed by key after the kill, and before the next worker, is seen over what that one writes."""
    before = client.snapshot()
    was = notes(before, keyed)
    assert sorted(was) == LEFT
    compaction = asked(client, keyed)
    assert new_worker(f"compactor.{step}=crash").wait(60) == -signal.SIGKILL
    with client.snapshot() as killed:
        assert notes(killed, keyed) == was
    client.upsert(keyed, pa.table({"id": pa.array([1, 3], pa.int64()), "note": ["late", "back"]}))
    client.delete(keyed, pa.table({"id": pa.array([5], pa.int64())}))
    once(client, compaction, "succeeded" if step == "completed" else "failed")
    again = asked(client, keyed)
    work(client)
    once(client, again, "succeeded")
    with client.snapshot() as after:
        assert notes(after, keyed) == {id_: note for id_, note in (was | {1: "late", 3: "back"}).items() if id_ != 5}
        assert after.table_files(keyed).are_the_table, "nothing is left to merge"
        assert files(after, keyed) == 1
    assert notes(before, keyed) == was
    before.close()
    nothing_is_lost(cluster, client, keyed, sorted({*LEFT, 3} - {5}))


@pytest.mark.parametrize("point", _marked(NODE_POINTS))
def test_a_node_that_is_killed_at_any_step_loses_nothing(
    cluster: LocalCluster, client: Client, table: str, tmp_path: Path, point: str
) -> None:
    """One compaction comes to nothing, the next is switched to, and a transaction speaks of what was replaced."""
    txn, mark = client.begin(keepalive_millis=60_000), tmp_path / "mark"
    txn.delete_where(table, "id = 7")
    for node in cluster.configs:
        cluster.arm(node, f"{point}=crash@{mark}")
    try:
        failing = asked(client, table)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workers, "failpoint", _fails_at_written)
            work(client)
        once(client, failing, "failed")
        wait_until(lambda: _comes_to_something(client, table), "one is switched to, though leases end beside it", 120)
        assert visible(client, table) == [LEFT]
        txn.commit()
        wait_until(lambda: mark.exists() and mark.read_text(), f"a node comes to {point}")
        dead = wait_until(lambda: [n for n in cluster.configs if not cluster.running(n)], "it ends")
    finally:
        for node in cluster.configs:
            if cluster.running(node):
                cluster.arm(node, "")
            else:
                cluster.start_node(node)
    cluster.wait_ready()
    assert len(dead) == 1
    nothing_is_lost(cluster, client, table, [row for row in LEFT if row != 7])
    with client.snapshot() as snapshot:
        assert files(snapshot, table) == 1


def _comes_to_something(client: Client, table: str) -> bool:
    compaction = asked(client, table)
    work(client)
    return once(client, compaction, "succeeded", "failed", "attempted").state == "succeeded"


def _fails_at_written(name: str) -> None:
    if name == "compactor.written":
        raise OSError("no room")


@pytest.mark.parametrize("step", _marked(STEPS[:-1]))
def test_a_fault_at_any_step_is_told_with_its_reason(
    cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker, step: str
) -> None:
    compaction = asked(client, table)
    new_worker(f"compactor.{step}=error")
    told = once(client, compaction, "failed")
    assert f"failpoint compactor.{step}" in told.reason
    with pytest.raises(InternalError, match=f"failpoint compactor.{step}"):
        client.compact(table, timeout=60)
    nothing_is_lost(cluster, client, table)


def test_no_room_for_what_it_writes_is_told(
    cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker
) -> None:
    worker = new_worker()
    wait_until(lambda: "looks for something to do" in worker.log_path.read_text(), "it has begun")
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (200, 200))
    with pytest.raises(InternalError, match=r"(?i)file too large"):
        client.compact(table, timeout=60)
    worker.kill()
    nothing_is_lost(cluster, client, table)


def test_a_damaged_input_is_told_and_stays_as_it_is(client: Client, table: str) -> None:
    with client.snapshot() as snapshot:
        path = snapshot.table_files(table).files[2].path
    damaged = Path(path.removeprefix("file://"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    compaction = asked(client, table)
    work(client)
    assert f"{path} is damaged" in once(client, compaction, "failed").reason
    damaged.write_bytes(whole)
    assert visible(client, table) == [LEFT]


def test_a_damaged_output_is_not_switched_to(
    cluster: LocalCluster, client: Client, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bit of a page: its checksum tells, when the worker reads what it has written."""
    compaction = asked(client, table)

    def damage(name: str) -> None:
        if name == "compactor.durable":
            directory = Path(client.table(table).location.removeprefix("file://")) / f"base_{compaction}"
            (output,) = directory.glob("part-*.parquet")
            whole = output.read_bytes()
            output.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])

    monkeypatch.setattr(workers, "failpoint", damage)
    work(client)
    assert "is damaged" in once(client, compaction, "failed").reason
    nothing_is_lost(cluster, client, table)


def test_a_lease_that_ends_while_it_works(
    cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker
) -> None:
    """A process that stands still is not heard of; when it goes on, what it hands in is nobody's."""
    compaction = asked(client, table)
    slow = new_worker("compactor.written=delay:3")
    directory = Path(client.table(table).location.removeprefix("file://")) / f"base_{compaction}"
    wait_until(lambda: list(directory.glob("part-*.parquet")), "it has begun to write")
    os.kill(slow.pid, signal.SIGSTOP)
    once(client, compaction, "failed")
    again = asked(client, table)
    work(client)
    once(client, again, "succeeded")
    os.kill(slow.pid, signal.SIGCONT)
    wait_until(lambda: "comes to nothing" in slow.log_path.read_text(), "it hears that it was given up")
    assert slow.running
    assert once(client, compaction, "failed").switched == 0
    with client.snapshot() as snapshot:
        assert files(snapshot, table) == 1
    nothing_is_lost(cluster, client, table)


def test_what_a_late_worker_writes_is_removed(
    cluster: LocalCluster, client: Client, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still until what it wrote is removed, and then goes on to write: that was nobody's until the doctor."""
    compaction = asked(client, table)
    directory = Path(client.table(table).location.removeprefix("file://")) / f"base_{compaction}"

    def late(name: str) -> None:
        if name == "compactor.written":
            client.write(rows(*LEFT), table, "overwrite")
            once(client, compaction, "attempted")
            wait_until(lambda: _is_cleaned(client, table), "its directory is cleaned")
            directory.mkdir()
            (directory / "part-00009.parquet").write_bytes(b"late")

    monkeypatch.setattr(workers, "failpoint", late)
    work(client)
    wait_until(lambda: not directory.exists(), "what came late is removed")
    nothing_is_lost(cluster, client, table)


def _is_cleaned(client: Client, table: str) -> bool:
    """Whether no record of the table's shard names a compaction's directory."""
    request = audit_pb2.AuditTableRequest(table_id=client.table(table).table_id)
    known = client.call("txnstatus.Audit/AuditTable", request, audit_pb2.AuditTableResponse).directories
    return not [each.name for each in known if each.name.startswith("base_")]


def test_of_two_workers_one_has_it(cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker) -> None:
    pair = [new_worker("compactor.written=delay:0.5") for _ in range(2)]
    (done,) = client.compact(table, timeout=60)
    assert done.state == "succeeded"
    assert sum("became 1" in each.log_path.read_text() for each in pair) <= 1
    assert all(each.running for each in pair)
    assert len(client.compactions(table)) == 1
    nothing_is_lost(cluster, client, table)


def test_sigterm_ends_it_and_gives_back_what_it_has(
    cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker
) -> None:
    compaction = asked(client, table)
    worker = new_worker("compactor.reading=delay:0.3")
    once(client, compaction, "working")
    assert worker.stop() == 0
    given_back = once(client, compaction, "attempted")
    assert "was ended" in given_back.reason
    nothing_is_lost(cluster, client, table)


def ctl(cluster: LocalCluster, *words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*words, "--cluster", cluster.addresses, "--json"])
    assert result.exit_code == code, f"{words}: {result.output} {result.exception!r}"
    return json.loads(result.stdout)["compactions"]


def test_operators_ask_look_and_wait(cluster: LocalCluster, client: Client, table: str, new_worker: NewWorker) -> None:
    (wanted,) = ctl(cluster, "table", "compact", table)
    assert (wanted["state"], wanted["kind"], wanted["worker"]) == ("initiated", "major", None)
    listed = ctl(cluster, "compactions", "--state", "initiated", "--table", table)
    assert [each["compaction_id"] for each in listed] == [wanted["compaction_id"]]
    worker = new_worker()
    (done,) = ctl(cluster, "table", "compact", table, "--wait")
    assert (done["compaction_id"], done["state"], done["output_rows"]) == (
        wanted["compaction_id"],
        "succeeded",
        45,
    )
    assert worker.stop() == 0
    assert ctl(cluster, "compactions", "--table", table, "--state", "failed") == []
    assert ctl(cluster, "table", "compact", table) == [], "there is nothing left to do"
    shown = CliRunner().invoke(app, ["compactions", "--table", table, "--cluster", cluster.addresses])
    assert "succeeded" in shown.output
    wrong = CliRunner().invoke(app, ["table", "compact", table, "--kind", "huge", "--cluster", cluster.addresses])
    assert wrong.exit_code == 2
    assert "there are minor, major" in wrong.output


def test_a_worker_that_is_to_end_when_nothing_is_left(cluster: LocalCluster, client: Client, table: str) -> None:
    asked(client, table)
    words = ["compactor", "--once", "--table", table, "--cluster", cluster.addresses]
    done = subprocess.run(
        [sys.executable, "-m", "txndeploy.ctl.cli", *words], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [each.state for each in client.compactions(table)] == ["succeeded"]
