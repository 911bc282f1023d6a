"""Writes that are a transaction each: which calls they make, and what becomes of them when one fails."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import txnclient
from tests.support import rows
from tests.unit.harness.fake_manager import FakeManager, committed, in_turn, raises
from txnclient import Client, CommitUnknown, Conflict, InvalidArgument, RowsRefused, TxnAborted, Unavailable, session
from txnclient.calls.channel import ManagerChannel
from txnclient.write import files as file_writes
from txnstatus.errors import IllegalState, LimitReached, TxnError
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.schema import Column, Schema

TABLE = "air.flights"
SCHEMA = Schema((Column("id", "bigint"), Column("note", "string")), primary_key=("id",))
KEYLESS = Schema((Column("id", "bigint"), Column("note", "string")))


@pytest.fixture
def manager(manager: FakeManager, tmp_path: Path) -> FakeManager:
    info = common.TableInfo(table_id="0.0", name=TABLE, location=tmp_path.as_uri(), schema=SCHEMA.to_wire())
    info.conflicts = "first-committer-wins"
    manager.answers |= {
        "OpenWrite": lambda request: table_pb.OpenWriteResponse(
            table=info, directory=f"{tmp_path.as_uri()}/delta_{request.txn_id}_{request.write_id}"
        ),
        "AddFiles": lambda _: table_pb.AddFilesResponse(),
        "Scan": lambda _: table_pb.ScanResponse(table=info, lease_millis=60_000),
        "GetTable": lambda _: table_pb.GetTableResponse(table=info),
        "GetSnapshot": lambda _: pb.GetSnapshotResponse(timestamp=4096),
        "WriteRows": lambda _: table_pb.WriteRowsResponse(written=2),
    }
    return manager


def in_state(state: str) -> pb.GetTransactionStateResponse:
    return pb.GetTransactionStateResponse(txn=common.TxnInfo(txn_id=7, state=state))


def begun_before(manager: FakeManager, state: str) -> None:
    manager.answers["BeginTransaction"] = lambda _: pb.BeginTransactionResponse(
        txn_ids=[7], keepalive_millis=60_000, cluster_id="fake", begun_before=True
    )
    manager.answers["GetTransactionState"] = lambda _: in_state(state)


def calls(manager: FakeManager) -> dict[str, int]:
    return {method: len(requests) for method, requests in manager.requests.items()}


def last_writes(manager: FakeManager) -> list[table_pb.AddFilesRequest]:
    """What the last commit carried."""
    return list(manager.requests["CommitTransaction"][-1].last_writes)


@pytest.mark.parametrize(
    ("options", "more"), [({"keys_are_new": True}, ["GetSnapshot"]), ({}, ["GetSnapshot", "Scan"])]
)
def test_a_write_of_files_takes_three_calls_and_up_to_two_for_their_keys(
    manager: FakeManager, client: Client, options: dict[str, bool], more: list[str]
) -> None:
    receipt = client.write(rows(1), TABLE, **options)  # type: ignore[arg-type]
    assert calls(manager) == dict.fromkeys(["BeginTransaction", "OpenWrite", "CommitTransaction", *more], 1)
    (added,) = last_writes(manager)
    assert added.claim.snapshot == 4096
    assert (added.claim.HasField("range"), added.claim.HasField("own_writes")) == (bool(options), not options)
    (begin,) = manager.requests["BeginTransaction"]
    assert (begin.label, begin.owner, begin.is_retry, len(begin.request_id)) == ("auto-commit", "me", False, 32)
    assert (receipt.commit_timestamp, receipt.tables, receipt.rows) == (4096, (TABLE,), None)


def test_a_write_of_files_where_there_is_no_key_takes_two(manager: FakeManager, client: Client, tmp_path: Path) -> None:
    """Its begin claims the directory, and its commit adds the files."""
    info = common.TableInfo(table_id="0.0", name=TABLE, location=tmp_path.as_uri(), schema=KEYLESS.to_wire())
    info.conflicts = "first-committer-wins"

    def begin(request: pb.BeginTransactionRequest) -> pb.BeginTransactionResponse:
        (write,) = request.first_writes
        assert write.table == TABLE
        opened = table_pb.OpenWriteResponse(table=info, directory=f"{tmp_path.as_uri()}/delta_7_{write.write_id}")
        return pb.BeginTransactionResponse(
            txn_ids=[7], keepalive_millis=60_000, cluster_id="fake", first_writes=[opened]
        )

    manager.answers["BeginTransaction"] = begin
    client.write(rows(1), TABLE)
    assert calls(manager) == dict.fromkeys(["BeginTransaction", "CommitTransaction"], 1)
    (added,) = last_writes(manager)
    assert (added.txn_id, added.owner, added.table) == (7, "me", TABLE)
    assert added.write_id == manager.requests["BeginTransaction"][0].first_writes[0].write_id
    manager.answers["CommitTransaction"] = lambda _: committed(8)
    with client.transaction(tables=iter([TABLE, TABLE])) as txn:
        txn.write(rows(1), TABLE)
        txn.write(rows(2), TABLE)
    assert manager.count("OpenWrite") == 1, "the second write of a table opens as ever"
    assert manager.count("AddFiles") == 2, "another handle, or a read, may come between a write and the commit"
    assert not last_writes(manager)


def test_a_write_of_rows_takes_five(manager: FakeManager, client: Client) -> None:
    receipt = client.upsert(TABLE, rows(1, 2), label="nightly")
    assert calls(manager) == dict.fromkeys(
        ("BeginTransaction", "GetTable", "GetSnapshot", "WriteRows", "CommitTransaction"), 1
    )
    assert manager.requests["BeginTransaction"][0].label == "nightly"
    assert receipt.rows == txnclient.RowsWritten(2)


def test_an_option_that_no_write_has_is_named(manager: FakeManager, client: Client) -> None:
    with pytest.raises(TypeError, match="no option 'lable'; it has label, request_id, timeout"):
        client.insert(TABLE, rows(1), lable="nightly")  # type: ignore[call-arg]
    assert calls(manager) == {}


def test_an_error_aborts_and_shows_as_itself(manager: FakeManager, client: Client) -> None:
    manager.answers["OpenWrite"] = raises(InvalidArgument("no such thing"))
    with pytest.raises(InvalidArgument, match="no such thing"):
        client.write(rows(1), TABLE)
    (abort,) = manager.requests["AbortTransaction"]
    assert abort.reason == f"a write to {TABLE} failed: InvalidArgument: no such thing"
    assert not manager.requests["CommitTransaction"]


@pytest.mark.parametrize("error", [InvalidArgument("no such thing"), LimitReached("too many partitions")])
def test_a_last_write_that_is_refused_aborts_and_shows_as_itself(
    manager: FakeManager, client: Client, error: TxnError
) -> None:
    """The commit has not begun."""
    manager.answers["CommitTransaction"] = raises(error)
    with pytest.raises(type(error), match=error.message):
        client.write(rows(1), TABLE)
    (abort,) = manager.requests["AbortTransaction"]
    assert abort.reason == f"{type(error).__name__}: {error.message}"


def test_a_last_write_that_is_refused_when_sent_again_leaves_the_outcome_unknown(
    manager: FakeManager, client: Client
) -> None:
    """The first attempt may be on its way still, and may be taken."""
    manager.answers["CommitTransaction"] = in_turn(
        raises(ConnectionAbortedError()), raises(InvalidArgument("its column was dropped meanwhile"))
    )
    with pytest.raises(CommitUnknown, match="its column was dropped meanwhile"):
        client.write(rows(1), TABLE)
    assert not manager.requests["AbortTransaction"], "an abort now could only blur it"


def test_what_is_too_large_for_a_commit_is_added_before(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writes, "MAX_LAST_WRITE_BYTES", 10)
    client.write(rows(1), TABLE, keys_are_new=True)
    assert (manager.count("AddFiles"), manager.count("CommitTransaction")) == (1, 1)
    assert not last_writes(manager)


@pytest.mark.parametrize("error", [Conflict("who was first"), TxnAborted("expired")])
def test_an_abort_shows_as_itself(manager: FakeManager, client: Client, error: TxnAborted) -> None:
    manager.answers["CommitTransaction"] = raises(error)
    with pytest.raises(type(error), match=error.message):
        client.write(rows(1), TABLE)
    assert not manager.requests["AbortTransaction"]


def test_refused_rows_abort_all_of_it(manager: FakeManager, client: Client) -> None:
    manager.answers["WriteRows"] = lambda _: table_pb.WriteRowsResponse(written=1, refused=[1])
    with pytest.raises(RowsRefused, match=r"1 of 2 rows: .*: 2") as caught:
        client.insert(TABLE, rows(1, 2))
    assert (caught.value.rows, caught.value.written) == ((1,), 0)
    assert "none of the rows is written" in caught.value.hint
    assert manager.count("AbortTransaction") == 1


def test_an_unknown_outcome_tells_how_to_find_out(manager: FakeManager, client: Client) -> None:
    manager.answers["CommitTransaction"] = raises(ConnectionAbortedError())
    with pytest.raises(CommitUnknown) as caught:
        client.write(rows(1), TABLE, timeout=0.3)
    request_id = manager.requests["BeginTransaction"][0].request_id
    assert f"request_id='{request_id}'" in caught.value.hint
    assert not manager.requests["AbortTransaction"], "an abort now could only blur it"


@pytest.mark.parametrize("silent", ["BeginTransaction", "OpenWrite", "GetSnapshot", "CommitTransaction"])
def test_the_time_is_that_of_all_calls_together(
    manager: FakeManager, client: Client, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a dead majority a write with five seconds raised after thirty: its begin had the client's own time."""
    given: list[float] = []
    call, clock = ManagerChannel.call, itertools.count()

    def told(self: ManagerChannel, method: str, *args: Any, timeout: float, **more: Any) -> Any:
        given.append(timeout)
        if method.endswith(silent):
            raise Unavailable("nobody answers")
        return call(self, method, *args, timeout=timeout, **more)

    client.timeout = 100.0
    monkeypatch.setattr(ManagerChannel, "call", told)
    # A second for each call.
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=time.sleep))
    with pytest.raises((Unavailable, CommitUnknown)):
        client.write(rows(1), TABLE, timeout=10.0)
    assert given[0] == 10.0
    assert all(later <= earlier - 1 for earlier, later in itertools.pairwise(given))


def test_who_repeats_a_call_is_told_that_it_has_committed(manager: FakeManager, client: Client) -> None:
    """And not what became of each row: nobody keeps that."""
    begun_before(manager, "COMMITTED")
    receipt = client.insert_ignore(TABLE, rows(1, 2), request_id="load")
    assert (receipt.commit_timestamp, receipt.rows) == (4096, None)
    assert not manager.requests["WriteRows"]


@pytest.mark.parametrize("state", ["COMMITTED", "FINALIZE_IN_PROGRESS", "COMMIT_IN_PROGRESS"])
def test_a_repeated_call_asks_for_the_outcome_and_writes_nothing(
    manager: FakeManager, client: Client, state: str
) -> None:
    begun_before(manager, state)
    receipt = client.write(rows(1), TABLE, request_id="load 1")
    assert (receipt.txn_id, receipt.commit_timestamp) == (7, 4096)
    assert manager.requests["BeginTransaction"][0].is_retry, "a range that is full by now may have begun it"
    assert not manager.requests["OpenWrite"]


def test_a_repeated_call_ends_an_attempt_that_still_writes(manager: FakeManager, client: Client) -> None:
    begun_before(manager, "OPEN")
    with pytest.raises(TxnAborted, match="'load 1' before, and was open") as caught:
        client.write(rows(1), TABLE, request_id="load 1")
    assert "another request_id" in caught.value.hint
    assert manager.requests["AbortTransaction"][0].txn_id == 7
    assert not manager.requests["CommitTransaction"]
    assert not manager.requests["OpenWrite"]


def test_an_attempt_that_commits_while_it_is_looked_at_is_no_loss(manager: FakeManager, client: Client) -> None:
    begun_before(manager, "OPEN")
    manager.answers["AbortTransaction"] = raises(IllegalState("COMMITTED"))
    assert client.write(rows(1), TABLE, request_id="load 1").txn_id == 7


def test_a_begin_that_was_sent_twice_by_one_call_goes_on(manager: FakeManager, client: Client) -> None:
    """The id is this call's own: nobody else can have begun it."""
    begun_before(manager, "OPEN")
    manager.answers["CommitTransaction"] = lambda request: committed(request.txn_id)
    assert client.write(rows(1), TABLE).txn_id == 7
    assert len(last_writes(manager)) == 1


def test_an_abort_that_does_not_arrive_leaves_the_error_as_it_is(manager: FakeManager, client: Client) -> None:
    manager.answers["OpenWrite"] = raises(InvalidArgument("no such thing"))
    manager.answers["AbortTransaction"] = raises(Unavailable("nobody"))
    client.timeout = 0.3
    with pytest.raises(InvalidArgument, match="no such thing"):
        client.write(rows(1), TABLE)


def test_a_request_id_names_a_write_to_one_table(client: Client, manager: FakeManager) -> None:
    """A load of two tables with one id got two receipts, and wrote the first of them."""
    begun_before(manager, "COMMITTED")
    assert client.write(rows(1), TABLE, request_id="load 1").tables == (TABLE,)
    told = (
        f"'load 1' names a write to {TABLE} that has committed, transaction 7: this write to air.other is another one"
    )
    for write in (client.write, lambda data, table, **options: client.upsert(table, data, **options)):
        with pytest.raises(InvalidArgument, match=told):
            write(rows(1), "air.other", request_id="load 1")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "10", True, None], ids=str)
def test_every_wait_ends(manager: FakeManager, client: Client, seconds: Any) -> None:
    """With NaN the deadline never came; text was a TypeError."""
    txn = client.begin()
    waits = [
        lambda: txnclient.connect(client.session.addresses, timeout=seconds),
        lambda: setattr(client, "timeout", seconds),
        lambda: txn.commit(seconds),
        lambda: client.write(rows(1), TABLE, timeout=seconds),
        lambda: client.compact(TABLE, timeout=seconds),
    ]
    if seconds is not None:  # there it means: as the client says
        waits.append(lambda: txn.lock(TABLE, "X", lock_timeout=seconds))
        waits.append(lambda: client.drop_table(TABLE, timeout=seconds))
    for wait in waits:
        with pytest.raises(InvalidArgument, match=r"(lock_)?timeout .*: it is seconds, 0 or more"):
            wait()
    assert txn.commit().tables, "what was refused changed nothing"


def test_a_request_id_names_something(client: Client, manager: FakeManager) -> None:
    with pytest.raises(InvalidArgument, match="request_id ''"):
        client.write(rows(1), TABLE, request_id="")
    with pytest.raises(InvalidArgument, match="request_id 5"):
        client.write(rows(1), TABLE, request_id=5)  # type: ignore[arg-type]
    assert not manager.requests
