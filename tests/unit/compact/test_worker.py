"""A worker: what it hands in is whole, and what goes wrong is told with its reason, or left to the lease."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroaring import BitMap

import txnclient
from tests.unit.harness.data_files import PLAIN, path_of, plain, read, write
from tests.unit.harness.fake_manager import FakeManager, in_turn, raises
from txnclient import Client
from txnclient.compact import leasing, rewriting, worker
from txnclient.compact.worker import Worker
from txnstatus.errors import IllegalState, InternalError, InvalidArgument, Unavailable
from txnstatus.lake import dead_rows, lineage, manifest
from txnstatus.lake.manifest import DataFile
from txnstatus.proto import common_pb2, txn_manager_pb2
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.types import TxnId

ID = "major0000000000000001"


@pytest.fixture
def manager() -> Iterator[FakeManager]:
    with FakeManager() as running:
        running.answers |= {
            "RenewCompaction": lambda _: pb.RenewCompactionResponse(lease_millis=10_000),
            "CompleteCompaction": lambda _: pb.CompleteCompactionResponse(switched=77),
            "FailCompaction": lambda _: pb.FailCompactionResponse(),
            "GetSnapshot": lambda _: txn_manager_pb2.GetSnapshotResponse(timestamp=77),
        }
        yield running


@pytest.fixture
def client(manager: FakeManager) -> Iterator[Client]:
    with txnclient.connect(manager.address, owner="me", timeout=5.0) as connected:
        yield connected


@pytest.fixture
def files(tmp_path: Path) -> list[DataFile]:
    return write(tmp_path, [plain(0, 100), plain(100, 100), plain(200, 100)])


@pytest.fixture
def task(tmp_path: Path, files: list[DataFile], manager: FakeManager) -> pb.CompactionTask:
    """The only task that there is; the second row of the second file is dead."""
    wanted = pb.CompactionTask(
        table=common_pb2.TableInfo(table_id="0.0", name="air.flights", schema=PLAIN.to_wire()),
        compaction_id=ID,
        kind=pb.COMPACTION_MAJOR,
        directory=(tmp_path / f"base_{ID}").as_uri(),
        target_file_bytes=128 << 20,
        lease_millis=10_000,
    )
    for number, file in enumerate(files):
        directory = path_of(file).parent.as_uri()
        listed = manifest.write(directory, [file], table_id="0.0", txn_id=TxnId(number), write_id="00000000")
        wanted.inputs.append(listed)
    wanted.dead.append(dead_rows.write(path_of(files[2]).parent.as_uri(), {files[1].path: BitMap([1])}))
    nothing = pb.LeaseCompactionResponse()
    manager.answers["LeaseCompaction"] = in_turn(lambda _: pb.LeaseCompactionResponse(task=wanted), lambda _: nothing)
    return wanted


@pytest.fixture
def working(client: Client) -> Worker:
    return Worker(client.session, "w1", threading.Event())


def told(manager: FakeManager) -> pb.FailCompactionRequest:
    """How it was given up; it was not completed."""
    assert not manager.count("CompleteCompaction")
    (request,) = manager.requests["FailCompaction"]
    assert isinstance(request, pb.FailCompactionRequest)
    (leased,) = manager.requests["LeaseCompaction"]
    assert (request.table_id, request.compaction_id, request.lease_id) == ("0.0", ID, leased.lease_id)
    return request


def test_what_it_hands_in_is_the_rows_and_where_they_come_from(
    task: pb.CompactionTask, files: list[DataFile], manager: FakeManager, working: Worker
) -> None:
    assert working.run_once()
    (done,) = manager.requests["CompleteCompaction"]
    (leased,) = manager.requests["LeaseCompaction"]
    assert (done.table_id, done.compaction_id, done.lease_id) == ("0.0", ID, leased.lease_id)
    assert leased.worker == "w1"
    outputs = manifest.read(done.manifest)
    assert [row["id"] for row in read(outputs)] == [row for row in range(300) if row != 101]
    assert not lineage.read(done.lineage).fault(
        {file.path: file.rows for file in files}, {file.path: file.rows for file in outputs}
    )
    assert lineage.read(done.lineage).forward({files[1].path: BitMap([1, 2])}) == {outputs[0].path: BitMap([101])}
    assert done.manifest.path.startswith(task.directory)
    assert done.lineage.path.startswith(task.directory)
    assert not manager.count("FailCompaction")
    assert not working.run_once(), "there is nothing else to do"


def test_manifests_of_inputs_are_read_side_by_side(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may be far away, and there may be thousands. One after the other they would never meet here."""
    together, real = threading.Barrier(len(task.inputs)), manifest.read_file

    def read_file(uri: str) -> bytes:
        together.wait(timeout=10.0)
        return real(uri)

    monkeypatch.setattr(manifest, "read_file", read_file)
    assert working.run_once()
    assert manager.count("CompleteCompaction") == 1


def test_data_files_are_synced_once(task: pb.CompactionTask, working: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    from txnstatus.lake import storage

    synced: list[str] = []
    real = storage.sync
    monkeypatch.setattr(storage, "sync", lambda path: (synced.append(str(path)), real(path)))
    assert working.run_once()
    assert sum(Path(path).name.startswith("part-") for path in synced) == 1


def test_an_input_that_is_damaged_is_told(
    task: pb.CompactionTask, files: list[DataFile], manager: FakeManager, working: Worker
) -> None:
    path = path_of(files[1])
    path.write_bytes(path.read_bytes()[:-1])
    assert working.run_once()
    assert f"{files[1].path} is damaged" in told(manager).reason
    assert not told(manager).returned


def test_a_full_disk_is_told(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lineage, "write", full)
    assert working.run_once()
    assert "No space left on device" in told(manager).reason


def test_an_output_that_is_not_what_was_written_is_not_handed_in(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = manifest.write

    def damaging(directory: str, outputs: list[DataFile], **rest: object) -> object:
        path = path_of(outputs[0])
        path.write_bytes(path.read_bytes()[:-1])
        return real(directory, outputs, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(manifest, "write", damaging)
    assert working.run_once()
    assert "is damaged" in told(manager).reason


def test_rows_that_are_not_those_that_were_read_are_not_handed_in(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting._Outputs, "cut", lambda _self: None)
    assert working.run_once()
    assert "is not what was read" in told(manager).reason


def test_a_lease_that_ends_ends_the_work(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it writes no more is told, so that what it wrote since it was given up is removed."""
    manager.answers["RenewCompaction"] = raises(IllegalState("it is given up"))
    task.lease_millis = 50
    refused = threading.Event()
    real = worker.Leased.heartbeat_refused

    def hears(self: worker.Leased, error: txnclient.TxnError) -> None:
        real(self, error)
        refused.set()

    monkeypatch.setattr(worker.Leased, "heartbeat_refused", hears)
    monkeypatch.setattr(worker, "failpoint", lambda name: name != "compactor.reading" or refused.wait(10))
    assert working.run_once()
    assert not manager.count("CompleteCompaction")
    assert told(manager).reason == "it is given up"


def test_it_is_renewed_while_it_works(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    task.lease_millis = 100
    renewed = threading.Semaphore(0)

    def renew(_request: object) -> pb.RenewCompactionResponse:
        renewed.release()
        return pb.RenewCompactionResponse(lease_millis=100)

    manager.answers["RenewCompaction"] = renew
    monkeypatch.setattr(worker, "failpoint", lambda name: name != "compactor.written" or renewed.acquire(timeout=10))
    assert working.run_once()
    assert manager.count("CompleteCompaction") == 1


def test_one_that_is_ended_gives_back_what_it_has(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "failpoint", lambda name: name == "compactor.reading" and working.stopping.set())
    assert working.run_once()
    assert told(manager).returned
    assert told(manager).reason == "w1 was ended"


def test_a_switch_that_is_refused_is_told_like_any_failure(
    task: pb.CompactionTask, manager: FakeManager, working: Worker
) -> None:
    manager.answers["CompleteCompaction"] = raises(IllegalState("its inputs are overwritten"))
    assert working.run_once()
    (request,) = manager.requests["FailCompaction"]
    assert request.reason == "its inputs are overwritten"


def test_a_service_that_does_not_answer_is_no_fault_of_the_compaction(
    task: pb.CompactionTask, manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a shard had no leader for some minutes, two had failed in a row, and no other one was begun."""
    monkeypatch.setattr(leasing, "COMPLETE_SECONDS", 0.2)
    manager.answers["CompleteCompaction"] = raises(Unavailable("no leader of shard-0 answered"))
    assert working.run_once()
    (request,) = manager.requests["FailCompaction"]
    assert isinstance(request, pb.FailCompactionRequest)
    assert request.returned
    assert "no leader of shard-0 answered" in request.reason


def test_nobody_to_ask_is_no_end(manager: FakeManager, working: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_request: object) -> pb.LeaseCompactionResponse:
        if manager.count("LeaseCompaction") < 3:
            raise InternalError("nobody knows")
        working.stopping.set()
        return pb.LeaseCompactionResponse()

    manager.answers["LeaseCompaction"] = answer
    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)
    working.run()
    assert manager.count("LeaseCompaction") == 3


# ---- asking


def info(state: str, **more: object) -> pb.CompactionInfo:
    return pb.CompactionInfo(
        compaction_id=ID, table="air.flights", kind=pb.COMPACTION_MAJOR, state=f"COMPACTION_{state}", **more
    )


def lists(*infos: pb.CompactionInfo) -> pb.ListCompactionsResponse:
    return pb.ListCompactionsResponse(compactions=infos)


def test_who_asks_waits_until_it_is_over(client: Client, manager: FakeManager) -> None:
    manager.answers["RequestCompaction"] = lambda _: pb.RequestCompactionResponse(compaction_ids=[ID])
    states = [info("INITIATED"), info("WORKING", worker="w1"), info("SUCCEEDED", output_rows=7, output_files=1)]
    manager.answers["ListCompactions"] = in_turn(*(lambda _, each=each: lists(each) for each in states))
    seen: list[str] = []
    (done,) = client.compact("air.flights", progress=lambda now: seen.extend(each.state for each in now))
    assert (done.state, done.output_rows, done.output_files) == ("succeeded", 7, 1)
    assert seen == ["initiated", "working", "succeeded"]
    (request,) = manager.requests["RequestCompaction"]
    assert (request.table, request.partition, request.kind) == ("air.flights", "", pb.COMPACTION_MAJOR)


def test_who_asks_is_told_why_it_failed_and_why_it_takes_long(client: Client, manager: FakeManager) -> None:
    manager.answers["RequestCompaction"] = lambda _: pb.RequestCompactionResponse(compaction_ids=[ID])
    manager.answers["ListCompactions"] = lambda _: lists(info("FAILED", reason="the disk is full"))
    with pytest.raises(InternalError, match="the disk is full"):
        client.compact("air.flights")
    manager.answers["ListCompactions"] = lambda _: lists(info("INITIATED"))
    assert [each.state for each in client.compact("air.flights", wait=False)] == ["initiated"]
    with pytest.raises(Unavailable, match=r"is initiated, and not over within 0 s(.|\n)*txnctl compactor"):
        client.compact("air.flights", timeout=0)


def test_nothing_to_compact_is_nothing_to_wait_for(client: Client, manager: FakeManager) -> None:
    manager.answers["RequestCompaction"] = lambda _: pb.RequestCompactionResponse()
    assert client.compact("air.flights") == []


def test_what_cannot_be_asked_for_is_named(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="kind 'huge': 'minor', 'major'"):
        client.compact("air.flights", kind="huge")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="state 'lost': 'initiated'"):
        client.compactions(state="lost")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="timeout -1"):
        client.compact("air.flights", timeout=-1)


def test_a_listing_has_all_pages_and_the_newest_first(client: Client, manager: FakeManager) -> None:
    pages = [
        pb.ListCompactionsResponse(compactions=[info("SUCCEEDED", table_id="0.0", opened=4)], more=True),
        lists(info("FAILED", table_id="0.1", opened=9)),
    ]
    manager.answers["ListCompactions"] = in_turn(*(lambda _, page=page: page for page in pages))
    assert [(each.state, each.opened) for each in client.compactions()] == [("failed", 9), ("succeeded", 4)]
    assert manager.requests["ListCompactions"][1].after == pb.CompactionPlace(table_id="0.0", compaction_id=ID)
    manager.answers["ListCompactions"] = lambda _: lists(info("SUCCEEDED"), info("FAILED"))
    assert [each.state for each in client.compactions("air.flights", "failed")] == ["failed"]
