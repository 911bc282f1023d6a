"""What a handle does with every answer: begin, commit, abort, tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest
from google.protobuf.message import Message

import txnclient
from tests.support import wait_until
from tests.unit.harness.fake_manager import FakeManager, committed, in_turn, raises
from txnclient import (
    Client,
    CommitUnknown,
    Conflict,
    IllegalState,
    InternalError,
    InvalidArgument,
    NotAuthorized,
    NotFound,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.errors import Forgotten
from txnstatus.proto import common_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import AbortCause, AbortCode, TxnId, TxnState

CAUSE = AbortCause(AbortCode.EXPIRED, "no heartbeat for 5.0 s", "staleness tracker")
ABORTED = TxnAborted("transaction 1 was aborted", cause=CAUSE)


def in_state(state: str, cause: AbortCause | None = None) -> Callable[[pb.CommitTransactionRequest], Message]:
    wire = common_pb2.AbortCause(code=cause.code, message=cause.message, by=cause.by) if cause else None

    def answer(request: pb.CommitTransactionRequest) -> Message:
        return pb.CommitTransactionResponse(txn=common_pb2.TxnInfo(txn_id=request.txn_id, state=state, cause=wire))

    return answer


# ---- begin


def test_begin_many_is_one_call(manager: FakeManager, client: Client) -> None:
    txns = client.begin_many(1_000, label="batch", keepalive_millis=70_000)
    assert len({txn.id for txn in txns}) == 1_000
    (request,) = manager.requests["BeginTransaction"]
    assert (request.count, request.label, request.owner, request.keepalive_millis) == (1_000, "batch", "me", 70_000)
    assert not request.is_retry
    assert all(txn.keepalive_seconds == 70 for txn in txns)


@pytest.mark.parametrize("count", [0, -1, 1_001, 10**30, 1.0, "2", None, True])
def test_begin_many_beyond_its_limits(manager: FakeManager, client: Client, count: int) -> None:
    with pytest.raises(InvalidArgument, match=r"1 to 1000") as caught:
        client.begin_many(count)
    assert repr(count) in caught.value.message
    assert not manager.requests


def test_a_repeated_begin_says_so_and_is_the_same_request(manager: FakeManager, client: Client) -> None:
    """An older range must be able to tell a begin that may have taken effect from a new one."""
    begin = manager.answers["BeginTransaction"]
    manager.answers["BeginTransaction"] = in_turn(raises(Unavailable("later")), raises(ConnectionAbortedError()), begin)
    client.begin()
    client.begin()
    attempts = manager.requests["BeginTransaction"]
    assert [attempt.is_retry for attempt in attempts] == [False, True, True, False]
    assert len({attempt.request_id for attempt in attempts[:3]}) == 1
    assert len({attempt.request_id for attempt in attempts}) == 2


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"label": 5}, "label 5"),
        ({"label": "\ud800"}, r"label '\\ud800'"),
        ({"keepalive_millis": -1}, "keepalive_millis -1"),
        ({"keepalive_millis": 2**40}, "keepalive_millis 1099511627776"),
        ({"keepalive_millis": "3s"}, "keepalive_millis '3s'"),
        ({"label": b"\xff"}, "label"),
    ],
)
def test_values_that_fit_no_field_are_named(
    manager: FakeManager, client: Client, fields: dict[str, object], says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says):
        client.begin(**fields)  # type: ignore[arg-type]
    for call in (lambda: client.get(2**70), lambda: client.abort("7", "x")):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            call()
    assert not manager.requests


# ---- commit


def test_a_commit_that_is_answered(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    receipt = txn.commit()
    assert (receipt.txn_id, receipt.commit_timestamp, receipt.tables) == (txn.id, 4096, ("air.flights",))
    assert txn.commit() is receipt
    assert manager.count("CommitTransaction") == 1
    assert not txn.alive


def test_a_commit_goes_on_asking_until_it_is_decided(manager: FakeManager, client: Client) -> None:
    manager.answers["CommitTransaction"] = in_turn(
        in_state("COMMIT_IN_PROGRESS"),
        raises(Unavailable("no leader")),
        raises(ConnectionAbortedError()),
        in_state("COMMIT_IN_PROGRESS"),
        in_state("FINALIZE_IN_PROGRESS"),
    )
    txn = client.begin()
    txn.commit()
    assert {request.txn_id for request in manager.requests["CommitTransaction"]} == {txn.id}
    assert manager.count("CommitTransaction") == 5


def test_a_manager_answers_before_it_would_be_taken_for_one_that_hangs(manager: FakeManager) -> None:
    with txnclient.connect([manager.address] * 3) as client:
        client.begin().commit(timeout=6.0)
    (request,) = manager.requests["CommitTransaction"]
    assert request.wait_millis <= 1_000


NO_ANSWER = [
    Unavailable("no leader"),
    InternalError("a fault"),
    ConnectionAbortedError(),
    ConnectionAbortedError(),
]


@pytest.mark.parametrize("failure", NO_ANSWER, ids=repr)
def test_no_answer_is_no_outcome(manager: FakeManager, client: Client, failure: Exception) -> None:
    manager.answers["CommitTransaction"] = raises(failure)
    txn = client.begin()
    with pytest.raises(CommitUnknown, match="not known") as caught:
        txn.commit(timeout=0.3)
    assert "call commit() again" in caught.value.hint
    with pytest.raises(IllegalState, match="being committed"):
        txn.write(None, "air.flights")
    manager.answers["CommitTransaction"] = lambda request: committed(request.txn_id)
    assert txn.commit().txn_id == txn.id


def test_a_commit_that_never_ends_is_unknown(manager: FakeManager, client: Client) -> None:
    manager.answers["CommitTransaction"] = in_state("COMMIT_IN_PROGRESS")
    with pytest.raises(CommitUnknown, match="COMMIT_IN_PROGRESS"):
        client.begin().commit(timeout=0.2)


def test_an_answer_that_does_not_come_does_not_hide_the_one_that_came(manager: FakeManager, client: Client) -> None:
    """Else the message of a commit under way would depend on which attempt the deadline meets."""
    manager.answers["CommitTransaction"] = in_turn(in_state("COMMIT_IN_PROGRESS"), manager.hang)
    with pytest.raises(CommitUnknown, match="its last known state is COMMIT_IN_PROGRESS"):
        client.begin().commit(timeout=0.2)


@pytest.mark.parametrize(
    "before",
    [
        raises(Unavailable("no leader")),
        raises(ConnectionAbortedError()),
        in_state("COMMIT_IN_PROGRESS"),
    ],
    ids=["unavailable", "reset", "in progress"],
)
def test_forgotten_after_a_lost_answer_is_neither_success_nor_failure(
    manager: FakeManager, client: Client, before: Callable[[object], Message]
) -> None:
    manager.answers["CommitTransaction"] = in_turn(before, raises(Forgotten("transaction 1 is forgotten")))
    txn = client.begin()
    with pytest.raises(CommitUnknown, match="never will be: transaction 1 is forgotten") as caught:
        txn.commit()
    assert "record was forgotten" in caught.value.hint
    with pytest.raises(CommitUnknown, match="never will be"):
        txn.commit()
    manager.answers["GetTransactionState"] = raises(Forgotten("transaction 1 is forgotten"))
    with pytest.raises(CommitUnknown, match="never will be"):
        txn.is_commit_complete()


def test_forgotten_after_a_commit_that_was_interrupted_is_neither(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C, or as a task of asyncio is cancelled: it may have been sent by then."""
    txn = client.begin()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(client.session.channel, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            txn.commit()
    manager.answers["CommitTransaction"] = raises(Forgotten("transaction 1 is forgotten"))
    with pytest.raises(CommitUnknown, match="never will be"):
        txn.commit()


def test_forgotten_before_any_commit_is_what_it_says(manager: FakeManager, client: Client) -> None:
    manager.answers["CommitTransaction"] = raises(Forgotten("transaction 1 is forgotten"))
    manager.answers["GetTransactionState"] = raises(Forgotten("transaction 1 is forgotten"))
    txn = client.begin()
    for call in (txn.commit, txn.is_commit_complete):
        with pytest.raises(Forgotten, match="forgotten"):
            call()


@pytest.mark.parametrize("kind", [IllegalState, InvalidArgument, NotAuthorized, NotFound])
def test_a_refused_commit_leaves_the_handle_as_it_was(
    manager: FakeManager, client: Client, kind: type[TxnError]
) -> None:
    manager.answers["CommitTransaction"] = raises(kind("no"))
    manager.answers["GetTable"] = raises(NotFound("the table does not exist"))
    txn = client.begin()
    with pytest.raises(kind, match="no"):
        txn.commit()
    assert txn.alive
    with pytest.raises(NotFound, match="the table"):
        txn.insert("air.flights", None)


@pytest.mark.parametrize("answer", [raises(ABORTED), in_state("ABORTED", CAUSE), in_state("ABORT_IN_PROGRESS", CAUSE)])
def test_an_aborted_commit_says_by_whom_and_why(
    manager: FakeManager, client: Client, answer: Callable[[object], Message]
) -> None:
    manager.answers["CommitTransaction"] = answer
    txn = client.begin()
    news: list[TxnError] = []
    txn.on_lost(news.append)
    for _ in range(2):
        with pytest.raises(TxnAborted) as caught:
            txn.commit()
        assert (caught.value.by, caught.value.reason) == ("staleness tracker", "no heartbeat for 5.0 s")
    assert not txn.alive
    assert [type(error) for error in news] == [TxnAborted]


def test_a_handle_whose_state_is_not_known_still_asks(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    txn.handle.heartbeat_silent(9.0, Unavailable("nobody"))
    assert not txn.alive
    assert txn.commit().txn_id == txn.id


def test_so_does_a_lost_one(manager: FakeManager, client: Client) -> None:
    """Another handle of the transaction may have committed it: the receipt is this one's too."""
    txn = client.begin()
    txn.handle.heartbeat_refused(IllegalState("KeepAlive is not possible: transaction 1 is COMMITTED"))
    assert not txn.alive
    with pytest.raises(IllegalState, match="COMMITTED"):
        txn.write(None, "air.flights")
    assert txn.commit().txn_id == txn.id


def test_a_commit_under_way_is_no_loss(manager: FakeManager, client: Client) -> None:
    manager.answers["CommitTransaction"] = in_state("COMMIT_IN_PROGRESS")
    txn = client.begin()
    news: list[TxnError] = []
    txn.on_lost(news.append)
    txn.start_commit()
    txn.handle.heartbeat_refused(IllegalState("KeepAlive is not possible: transaction 1 is COMMIT_IN_PROGRESS"))
    assert not news
    txn.handle.heartbeat_refused(ABORTED)
    assert [error.message for error in news] == [ABORTED.message]


# ---- writes that bring the news


def test_a_role_that_is_lacking_leaves_the_transaction_as_it_is(manager: FakeManager, client: Client) -> None:
    manager.answers["OpenWrite"] = raises(NotAuthorized("ada may not call Table/OpenWrite"))
    txn = client.begin()
    news: list[TxnError] = []
    txn.on_lost(news.append)
    with pytest.raises(NotAuthorized):
        txn.write(None, "air.flights")
    assert not news


@pytest.mark.parametrize("error", [ABORTED, Conflict("lost to 9"), NotAuthorized("is not his", txn_id=TxnId(5))])
def test_a_write_that_learns_of_the_end_ends_the_handle(manager: FakeManager, client: Client, error: TxnError) -> None:
    manager.answers["OpenWrite"] = raises(error)
    txn = client.begin()
    news: list[TxnError] = []
    txn.on_lost(news.append)
    for _ in range(2):
        with pytest.raises(type(error)):
            txn.write(None, "air.flights")
    assert manager.count("OpenWrite") == 1, "the second one fails at once"
    assert [str(known) for known in news] == [str(error)]
    assert not txn.alive


# ---- abort


def test_abort_can_be_repeated_and_is_no_news(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    news: list[TxnError] = []
    txn.on_lost(news.append)
    txn.abort("enough")
    txn.abort("enough")
    assert [request.reason for request in manager.requests["AbortTransaction"]] == ["enough"] * 2
    with pytest.raises(TxnAborted, match="by this handle"):
        txn.write(None, "air.flights")
    manager.answers["CommitTransaction"] = raises(ABORTED)
    with pytest.raises(TxnAborted, match="was aborted"):
        txn.commit()
    assert not news
    assert not txn.alive


def test_an_abort_that_nobody_answered_is_not_known(manager: FakeManager, client: Client) -> None:
    manager.answers["AbortTransaction"] = raises(ConnectionAbortedError())
    with txnclient.connect(manager.address, timeout=0.2) as hasty:
        txn = hasty.begin()
        with pytest.raises(Unavailable):
            txn.abort()
        manager.answers["AbortTransaction"] = lambda _request: pb.AbortTransactionResponse()
        txn.abort()


def test_abort_after_the_commit_is_refused(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    txn.commit()
    manager.answers["AbortTransaction"] = raises(IllegalState("BeginAbort is not possible: it is COMMITTED"))
    with pytest.raises(IllegalState, match="COMMITTED"):
        txn.abort()
    assert txn.receipt is not None


def test_commit_and_abort_race_and_each_says_what_came_of_it(manager: FakeManager, client: Client) -> None:
    """A commit waits; another thread aborts."""
    aborted = threading.Event()

    def commit(_request: object) -> Message:
        aborted.wait(30)
        raise ABORTED

    def abort(_request: object) -> Message:
        aborted.set()
        return pb.AbortTransactionResponse()

    manager.answers.update(CommitTransaction=commit, AbortTransaction=abort)
    txn = client.begin()
    outcome: list[TxnError] = []

    def committing() -> None:
        try:
            txn.commit()
        except TxnError as error:
            outcome.append(error)

    thread = threading.Thread(target=committing)
    thread.start()
    wait_until(lambda: manager.count("CommitTransaction"), "the commit is under way")
    txn.abort()
    thread.join()
    assert [type(error) for error in outcome] == [TxnAborted]


def test_the_exception_of_the_block_is_the_one_raised(manager: FakeManager, client: Client) -> None:
    manager.answers["AbortTransaction"] = raises(NotFound("gone"))

    def job() -> None:
        with client.transaction():
            raise ZeroDivisionError("of the program")

    with pytest.raises(ZeroDivisionError, match="of the program"):
        job()
    assert "ZeroDivisionError" in manager.requests["AbortTransaction"][0].reason


# ---- tokens


def test_a_token_is_the_same_whatever_happened(manager: FakeManager, client: Client) -> None:
    """As in Kudu: it holds no state, and making it needs no call."""
    txn, lost, aborted = client.begin(), client.begin(), client.begin()
    before = [handle.token() for handle in (txn, lost, aborted)]
    txn.commit()
    lost.handle.heartbeat_refused(ABORTED)
    aborted.abort()
    assert [handle.token() for handle in (txn, lost, aborted)] == before
    assert txn.token(enable_keepalive=True) != txn.token()
    assert not manager.count("GetCluster"), "the begin said which cluster it is"


@pytest.mark.parametrize("no_table", [[], (), iter(())])
def test_a_token_for_no_table_is_not_one_for_all(client: Client, no_table: Iterable[str]) -> None:
    """A list that came out empty widened what its holder may do."""
    with pytest.raises(InvalidArgument, match="a token for no table would be one for all"):
        client.begin().token(tables=no_table)


def test_join(manager: FakeManager, client: Client) -> None:
    manager.answers["GetTransactionState"] = lambda request: pb.GetTransactionStateResponse(
        txn=common_pb2.TxnInfo(txn_id=request.txn_id, state="OPEN")
    )
    txn = client.begin()
    with txnclient.connect(manager.address, owner="me") as other:
        quiet, beating = other.join(txn.token()), other.join(txn.token(enable_keepalive=True))
        asked, silenced = other.join(txn.token(), heartbeat=True), other.join(beating.token(), heartbeat=False)
        assert {handle.id for handle in (quiet, beating, asked, silenced)} == {txn.id}
        assert len(other.session.heartbeats._schedule) == 2
        assert quiet.token() == txn.token(), "a chain of joins passes the same token on"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("ABORTED", TxnAborted),
        ("ABORT_IN_PROGRESS", TxnAborted),
        ("COMMIT_IN_PROGRESS", IllegalState),
        ("FINALIZE_IN_PROGRESS", IllegalState),
        ("COMMITTED", IllegalState),
    ],
)
def test_whoever_has_only_a_token_joins_what_is_over_and_cannot_write(
    manager: FakeManager, client: Client, state: str, kind: type[TxnError]
) -> None:
    """A process with a token could not ask for the outcome: nobody could join what is over."""
    txn = client.begin()
    manager.answers["GetTransactionState"] = lambda request: pb.GetTransactionStateResponse(
        txn=common_pb2.TxnInfo(txn_id=request.txn_id, state=state)
    )
    joined = client.join(txn.token(), heartbeat=True)
    assert joined.state() is TxnState[state]
    assert not joined.alive
    assert len(client.session.heartbeats._schedule) == 1, "there is nothing to keep alive"
    calls: list[Callable[[], object]] = [
        lambda: joined.write(None, "air.flights"),
        lambda: joined.insert("air.flights", None),
        lambda: joined.lock("air.flights", "X"),
        lambda: joined.snapshot,
        lambda: joined.enlist("billing", None),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(kind, match=f"transaction {txn.id}"):
            call()
    assert not manager.count("AbortTransaction"), "what fails on it ends nothing"


def test_whoever_has_only_a_token_polls_the_outcome(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    told = committed(txn.id).txn
    under_way = common_pb2.TxnInfo(txn_id=txn.id, state="COMMIT_IN_PROGRESS")
    manager.answers["GetTransactionState"] = in_turn(
        *(lambda _, info=info: pb.GetTransactionStateResponse(txn=info) for info in (under_way, under_way, told))
    )
    joined = client.join(txn.token())
    assert not joined.is_commit_complete()
    assert joined.is_commit_complete()
    assert joined.commit().tables == ("air.flights",)


def test_a_closed_client(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    client.close()
    calls: list[Callable[[], object]] = [client.begin, txn.commit, txn.abort, lambda: txn.write(None, "t.t"), txn.state]
    for call in calls:
        with pytest.raises(IllegalState, match="closed"):
            call()


def test_a_write_names_the_table_it_cannot_name(manager: FakeManager, client: Client) -> None:
    with pytest.raises(InvalidArgument, match="table 5"):
        client.begin().write(None, 5)  # type: ignore[arg-type]
    assert not manager.count("OpenWrite")
