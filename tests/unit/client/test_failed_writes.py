"""A write that failed: its transaction can only be aborted, whoever asks for the commit, and by whatever call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.unit.harness.fake_manager import FakeManager, in_turn, raises
from txnclient import (
    Client,
    CommitUnknown,
    IllegalState,
    InvalidArgument,
    Locked,
    NotFound,
    Transaction,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnclient.change.plan import MergePlan
from txnclient.write.files import FileWrites
from txnclient.write.staged_files import StagedFiles
from txnstatus.proto import common_pb2, table_pb2, txn_manager_pb2

ROWS = pa.table({"id": [1]})
NO_TABLE = NotFound("table air.flihgts does not exist")
WRITES: dict[str, Callable[[Transaction], object]] = {
    "write": lambda txn: txn.write(ROWS, "air.flihgts"),
    "mode": lambda txn: txn.write(ROWS, "air.flihgts", mode="append!"),  # type: ignore[arg-type]
    "truncate": lambda txn: txn.truncate("air.flihgts"),
    "add": lambda txn: txn.add([], "air.flihgts"),
    "insert": lambda txn: txn.insert("air.flihgts", ROWS),
    "insert_ignore": lambda txn: txn.insert_ignore("air.flihgts", ROWS),
    "upsert": lambda txn: txn.upsert("air.flihgts", ROWS),
    "update": lambda txn: txn.update("air.flihgts", ROWS),
    "delete": lambda txn: txn.delete("air.flihgts", ROWS),
    "delete_where": lambda txn: txn.delete_where("air.flihgts", "id = 1"),
    "update_where": lambda txn: txn.update_where("air.flihgts", {"id": "2"}, "id = 1"),
    "spark": lambda txn: txn.delete_where("air.flihgts", "id = 1", spark="spark"),  # type: ignore[arg-type]
    "merge": lambda txn: txn.merge("air.flihgts", ROWS, "target.id = source.id"),
    "run_merge": lambda txn: txn.run_merge("air.flihgts", ROWS, MergePlan("target.id = source.id")),
    "enlist": lambda txn: txn.enlist("air.flihgts", None),  # type: ignore[arg-type]
    "postgres": lambda txn: txn.postgres("air.flihgts", "host=127.0.0.1 port=1 connect_timeout=1"),
}


@pytest.fixture
def manager(manager: FakeManager) -> FakeManager:
    manager.answers.update(OpenWrite=raises(NO_TABLE), GetTable=raises(NO_TABLE), Enlist=raises(NO_TABLE))
    return manager


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_it_can_only_be_aborted(manager: FakeManager, client: Client, write: Callable[[Transaction], object]) -> None:
    """The next cell of a notebook wrote something else, and committed without the write that had failed."""
    txn = client.begin()
    with pytest.raises(TxnError):
        write(txn)
    manager.answers["OpenWrite"] = lambda _request: table_pb2.OpenWriteResponse()
    for call in (txn.commit, txn.start_commit, lambda: txn.write(ROWS, "air.planes"), lambda: txn.snapshot):
        with pytest.raises(IllegalState, match=r"can only be aborted: .* air\.flihgts failed: ") as caught:
            call()
        assert "abort it, and run it again" in caught.value.hint
    assert not manager.count("CommitTransaction")
    txn.abort()


MERGES: dict[str, Callable[[Transaction], object]] = {
    "on": lambda txn: txn.merge("air.flights", ROWS, ""),
    "clause": lambda txn: txn.merge("air.flights", ROWS, "true").when_matched_update({"nope": "1"}),
    "no clause": lambda txn: txn.merge("air.flights", ROWS, "true").execute(),
}


@pytest.mark.parametrize("write", MERGES.values(), ids=MERGES)
def test_a_merge_that_cannot_be_built_is_a_write_that_failed(
    manager: FakeManager, client: Client, write: Callable[[Transaction], object]
) -> None:
    manager.answers["GetTable"] = lambda _request: table_pb2.GetTableResponse()
    txn = client.begin()
    with pytest.raises(InvalidArgument):
        write(txn)
    with pytest.raises(IllegalState, match=r"can only be aborted: merge of rows of air\.flights failed: "):
        txn.commit()


def test_the_first_failure_is_the_one_that_is_named(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    for table in ("air.flihgts", "air.palnes"):
        with pytest.raises(TxnError):
            txn.write(ROWS, table)
    with pytest.raises(IllegalState, match=r"a write to air\.flihgts failed: NotFound: table air\.flihgts does not"):
        txn.commit()


def test_a_block_that_swallows_the_error_does_not_commit(manager: FakeManager, client: Client) -> None:
    def job() -> None:
        with client.transaction() as txn, contextlib.suppress(NotFound):
            txn.write(ROWS, "air.flihgts")

    with pytest.raises(IllegalState, match="can only be aborted"):
        job()
    assert not manager.count("CommitTransaction")


def test_a_call_that_python_refuses_was_never_made(manager: FakeManager, client: Client) -> None:
    """A misspelt keyword reaches nobody: only the end of a block that it leaves aborts."""
    txn = client.begin()
    with pytest.raises(TypeError, match="moode"):
        txn.write(ROWS, "air.flights", moode="overwrite")  # type: ignore[call-arg]
    assert not txn.handle.failure
    assert not manager.count("AbortTransaction")
    with pytest.raises(TypeError), client.transaction() as block:
        block.write(ROWS, "air.flights", moode="overwrite")  # type: ignore[call-arg]
    (request,) = manager.requests["AbortTransaction"]
    assert request.txn_id == block.id


def test_no_other_handle_commits_it_either(manager: FakeManager, client: Client) -> None:
    """Only the handle that failed knows, so the service is told, at once."""
    manager.answers["GetTransactionState"] = lambda request: txn_manager_pb2.GetTransactionStateResponse(
        txn={"txn_id": request.txn_id, "state": "OPEN"}
    )
    txn = client.begin()
    joined = client.join(txn.token())
    with pytest.raises(NotFound):
        joined.write(ROWS, "air.flihgts")
    (request,) = manager.requests["AbortTransaction"]
    assert request.txn_id == txn.id
    assert request.reason == "a write to air.flihgts failed: NotFound: table air.flihgts does not exist"


@pytest.mark.parametrize("failure", [Unavailable("no leader"), ConnectionAbortedError()], ids=repr)
def test_a_write_that_nobody_answered_is_one(manager: FakeManager, failure: Exception, client: Client) -> None:
    """What became of it is not known: a commit could be with it or without it."""
    manager.answers.update(OpenWrite=raises(failure), AbortTransaction=raises(failure))
    client.timeout = 0.2
    txn = client.begin()
    with pytest.raises(Unavailable):
        txn.write(ROWS, "air.flights")
    with pytest.raises(IllegalState, match=r"a write to air\.flights failed: Unavailable"):
        txn.commit()


def test_so_is_one_that_was_refused_because_the_handle_was_silent(manager: FakeManager, client: Client) -> None:
    """The next heartbeat may be answered, and the handle be alive again."""
    txn = client.begin()
    txn.handle.heartbeat_silent(9.0, Unavailable("nobody"))
    with pytest.raises(Unavailable):
        txn.write(ROWS, "air.flights")
    txn.handle.heartbeat_answered(0)
    with pytest.raises(IllegalState, match="can only be aborted"):
        txn.commit()


def test_an_interrupt_is_a_failure(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    txn._files.write = lambda *_, **__: raises(KeyboardInterrupt())(None)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        txn.write(ROWS, "air.flights")
    with pytest.raises(IllegalState, match=r"a write to air\.flights failed: KeyboardInterrupt"):
        txn.commit()


def test_locks_that_a_write_did_not_get_are_a_failure(manager: FakeManager, client: Client) -> None:
    """They left it open: whoever swallowed the error committed without the write."""
    manager.answers["OpenWrite"] = in_turn(raises(Locked("held by 9")), raises(NO_TABLE))
    txn = client.begin()
    with pytest.raises(Locked):
        txn.write(ROWS, "air.flights")
    with pytest.raises(IllegalState, match="failed: Locked: held by 9"):
        txn.commit()


def test_a_lock_that_is_not_granted_leaves_it_open(manager: FakeManager, client: Client) -> None:
    manager.answers["Lock"] = raises(Locked("held by 9"))
    txn = client.begin()
    with pytest.raises(Locked):
        txn.lock("air.flights", "X", strategy="no-wait")
    assert txn.commit().txn_id == txn.id


def test_a_wait_that_makes_no_sense_is_a_failure(client: Client) -> None:
    """It was looked at before the write began, and forgotten."""
    txn = client.begin()
    with pytest.raises(InvalidArgument, match="lock_timeout -1"):
        txn.write(ROWS, "air.flights", lock_timeout=-1)
    with pytest.raises(IllegalState, match="lock_timeout -1"):
        txn.commit()


def test_a_task_that_could_not_stage_may_be_tried_again(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    with pytest.raises(NotFound):
        txn.stage(ROWS, "air.flihgts")
    assert txn.commit().txn_id == txn.id


def test_a_write_after_the_commit_was_asked_for_does_not_hide_its_outcome(manager: FakeManager, client: Client) -> None:
    commit = manager.answers["CommitTransaction"]
    manager.answers["CommitTransaction"] = raises(Unavailable("no leader"))
    txn = client.begin()
    with pytest.raises(CommitUnknown):
        txn.commit(timeout=0.2)
    with pytest.raises(IllegalState, match="being committed"):
        txn.write(ROWS, "air.flights")
    manager.answers["CommitTransaction"] = commit
    assert txn.commit().txn_id == txn.id
    assert not manager.count("AbortTransaction")


def test_a_write_that_finds_the_transaction_aborted_says_so(manager: FakeManager, client: Client) -> None:
    """Why it was aborted is the better story than that a write failed."""
    by_bob = raises(TxnAborted("aborted by bob"))
    manager.answers.update(OpenWrite=by_bob, CommitTransaction=by_bob)
    txn = client.begin()
    for call in (lambda: txn.write(ROWS, "air.flights"), txn.commit):
        with pytest.raises(TxnAborted, match="by bob"):
            call()


def test_bad_data_is_named(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    with pytest.raises(InvalidArgument):
        txn.write(ROWS, 5)  # type: ignore[arg-type]
    with pytest.raises(IllegalState, match="a write to 5 failed: InvalidArgument"):
        txn.commit()


def test_whose_abort_it_was_is_said_where_only_a_table_answers(manager: FakeManager, client: Client) -> None:
    """A table knows only that it is aborted; who and why, the program had to ask for by itself."""
    cause = {"code": "requested", "message": "a write to air.flihgts failed", "by": "ann"}
    manager.answers["OpenWrite"] = raises(TxnAborted("transaction 1 was aborted"))
    manager.answers["GetTransactionState"] = lambda request: txn_manager_pb2.GetTransactionStateResponse(
        txn={"txn_id": request.txn_id, "state": "ABORTED", "cause": cause}
    )
    with pytest.raises(TxnAborted, match=r"aborted by ann: a write to air\.flihgts failed"):
        client.begin().write(ROWS, "air.flights")


def test_staged_files_that_are_none_or_come_twice_are_refused(manager: FakeManager, client: Client) -> None:
    """Their rows were there twice."""
    staged = StagedFiles("air.flights", "w" * 32, ())
    for given, said in (([object()], "expected what `stage` has returned, not object"), ([staged] * 2, "given twice")):
        with pytest.raises(InvalidArgument, match=said):
            client.begin().add(given, "air.flights")  # type: ignore[arg-type]
    assert not manager.count("AddFiles")


def finds_its_files_gone(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch, record: common_pb2.TxnInfo
) -> None:
    """Writes in a transaction of which the status table has this record."""

    def gone(*_: object, **__: object) -> None:
        raise FileNotFoundError("part-00000.parquet")

    txn = client.begin()
    monkeypatch.setattr(FileWrites, "write", gone)
    record.txn_id = txn.id
    manager.answers["GetTransactionState"] = lambda _request: txn_manager_pb2.GetTransactionStateResponse(txn=record)
    txn.write(ROWS, "air.flights")


def test_files_that_are_gone_since_the_service_aborted_are_told_as_the_abort(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction had expired, its directories were removed, and the write raised FileNotFoundError."""
    cause = common_pb2.AbortCause(code="expired", message="no heartbeat for 60 s")
    record = common_pb2.TxnInfo(state="ABORTED", cause=cause)
    with pytest.raises(TxnAborted, match="no heartbeat for 60 s") as caught:
        finds_its_files_gone(manager, client, monkeypatch, record)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_files_that_are_gone_while_the_transaction_is_open_are_told_as_they_are(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        finds_its_files_gone(manager, client, monkeypatch, common_pb2.TxnInfo(state="OPEN"))
