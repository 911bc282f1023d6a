"""What a handle does with its parts in foreign participants: when each is prepared, published and discarded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import txnclient
from tests.unit.harness.fake_manager import FakeManager, committed, raises
from txnclient import (
    Client,
    CommitUnknown,
    Conflict,
    IllegalState,
    InvalidArgument,
    NotFound,
    Transaction,
    TxnAborted,
    Unavailable,
)
from txnstatus.proto import common_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import AbortCause, AbortCode

ABORTED = TxnAborted("aborted", cause=AbortCause(AbortCode.EXPIRED, "no heartbeat", "staleness tracker"))


class Recorded:
    """A part that notes what it is told, in a book that several share, and refuses if it is to."""

    def __init__(self, name: str, book: list[str], refusal: Exception | None = None) -> None:
        self._name = name
        self._book = book
        self._refusal = refusal

    def prepare(self) -> None:
        self._book.append(f"prepare {self._name}")
        if self._refusal:
            raise self._refusal

    def publish(self) -> None:
        self._book.append(f"publish {self._name}")

    def discard(self) -> None:
        self._book.append(f"discard {self._name}")


@pytest.fixture
def book() -> list[str]:
    return []


@pytest.fixture
def manager(manager: FakeManager, book: list[str]) -> FakeManager:
    manager.answers["Enlist"] = lambda _request: pb.EnlistResponse()
    manager.answers["CommitTransaction"] = lambda request: (book.append("commit"), committed(request.txn_id))[1]
    manager.answers["AbortTransaction"] = lambda _request: (book.append("abort"), pb.AbortTransactionResponse())[1]
    return manager


@pytest.fixture
def client(manager: FakeManager) -> Iterator[Client]:
    with txnclient.connect(manager.address, owner="me", timeout=1.0) as connected:
        yield connected


def with_parts(client: Client, book: list[str], *refusals: Exception | None) -> Transaction:
    txn = client.begin()
    for number, refusal in enumerate(refusals or (None, None)):
        txn.enlist(f"p{number}", Recorded(f"p{number}", book, refusal))
    return txn


def test_every_part_is_prepared_before_the_commit_is_asked_for_and_published_after(
    manager: FakeManager, client: Client, book: list[str]
) -> None:
    txn = with_parts(client, book)
    assert [request.participant for request in manager.requests["Enlist"]] == ["p0", "p1"]
    txn.commit()
    assert book == ["prepare p0", "prepare p1", "commit", "publish p0", "publish p1"]
    txn.commit()
    assert len(book) == 5


def test_what_cannot_be_enlisted_is_no_part(manager: FakeManager, client: Client, book: list[str]) -> None:
    txn = with_parts(client, book, None)
    with pytest.raises(IllegalState, match="p0 is part of transaction"):
        txn.enlist("p0", Recorded("second", book))
    assert book == ["discard p0", "abort"]
    other = with_parts(client, book, None)
    manager.answers["Enlist"] = raises(NotFound("the cluster knows no foreign participant p9"))
    with pytest.raises(NotFound):
        other.enlist("p9", Recorded("p9", book))
    with pytest.raises(IllegalState, match="work in p9 failed: NotFound: the cluster knows no"):
        other.commit()
    assert book == ["discard p0", "abort"] * 2


def test_nothing_is_enlisted_after_the_commit(manager: FakeManager, client: Client, book: list[str]) -> None:
    txn = with_parts(client, book, None)
    txn.commit()
    assert book == ["prepare p0", "commit", "publish p0"]
    with pytest.raises(IllegalState):
        txn.enlist("late", Recorded("late", book))


def test_a_refusal_aborts_and_is_what_the_program_sees(client: Client, book: list[str]) -> None:
    txn = with_parts(client, book, None, InvalidArgument("a constraint"), None)
    with pytest.raises(InvalidArgument, match="a constraint"):
        txn.commit()
    assert book == ["prepare p0", "prepare p1", "discard p2", "abort", "discard p0", "discard p1"]
    assert not txn.alive


def test_a_refusal_that_another_run_may_not_meet_says_so(client: Client, book: list[str]) -> None:
    txn = with_parts(client, book, Unavailable("could not serialize"))
    with pytest.raises(TxnAborted, match="could not serialize") as caught:
        txn.commit()
    assert caught.value.by == "p0"
    assert "commit" not in book


def test_a_commit_whose_outcome_is_unknown_ends_no_part_and_prepares_none_twice(
    manager: FakeManager, client: Client, book: list[str]
) -> None:
    """It may be committed: whoever rolled back now would take half of it away."""
    manager.answers["CommitTransaction"] = raises(Unavailable("gone"))
    txn = with_parts(client, book)
    with pytest.raises(CommitUnknown):
        txn.commit(timeout=0.5)
    assert book == ["prepare p0", "prepare p1"]
    manager.answers["CommitTransaction"] = lambda request: committed(request.txn_id)
    txn.commit()
    assert book == ["prepare p0", "prepare p1", "publish p0", "publish p1"]


@pytest.mark.parametrize("error", [ABORTED, Conflict("another was first")])
def test_an_abort_that_is_known_discards_what_is_prepared(
    manager: FakeManager, client: Client, book: list[str], error: TxnAborted
) -> None:
    manager.answers["CommitTransaction"] = raises(error)
    txn = with_parts(client, book)
    with pytest.raises(type(error)):
        txn.commit()
    assert book == ["prepare p0", "prepare p1", "discard p0", "discard p1"]


def test_an_abort_that_comes_as_a_state_discards_too(manager: FakeManager, client: Client, book: list[str]) -> None:
    cause = common_pb2.AbortCause(code="expired", message="no heartbeat", by="staleness tracker")
    info = common_pb2.TxnInfo(txn_id=1, state="ABORT_IN_PROGRESS", cause=cause)
    manager.answers["CommitTransaction"] = lambda _request: pb.CommitTransactionResponse(txn=info)
    txn = with_parts(client, book, None)
    with pytest.raises(TxnAborted):
        txn.commit()
    assert book == ["prepare p0", "discard p0"]


def test_an_abort_that_did_not_arrive_discards_only_what_was_never_prepared(
    manager: FakeManager, client: Client, book: list[str]
) -> None:
    """The commit before it may have been heard: then what is prepared is published, by its host."""
    manager.answers["CommitTransaction"] = raises(Unavailable("gone"))
    manager.answers["AbortTransaction"] = raises(Unavailable("gone"))
    prepared = with_parts(client, book, None)
    with pytest.raises(CommitUnknown):
        prepared.commit(timeout=0.5)
    with pytest.raises(Unavailable):
        prepared.abort()
    assert book == ["prepare p0"]
    with pytest.raises(Unavailable):
        with_parts(client, book, None).abort()
    assert book == ["prepare p0", "discard p0"]


def test_start_commit_prepares_and_the_outcome_publishes(manager: FakeManager, client: Client, book: list[str]) -> None:
    txn = with_parts(client, book, None)
    manager.answers["GetTransactionState"] = lambda request: pb.GetTransactionStateResponse(
        txn=committed(request.txn_id).txn
    )
    txn.start_commit()
    assert book == ["prepare p0", "commit"]
    assert txn.is_commit_complete()
    assert book == ["prepare p0", "commit", "publish p0"]


def test_a_part_that_cannot_be_published_by_the_program_fails_nothing(client: Client, book: list[str]) -> None:
    class Lost(Recorded):
        def publish(self) -> None:
            raise Unavailable("the connection is lost")

    txn = client.begin()
    txn.enlist("p0", Lost("p0", book))
    txn.enlist("p1", Recorded("p1", book))
    assert txn.commit().txn_id == txn.id
    assert book == ["prepare p0", "prepare p1", "commit", "publish p1"]
