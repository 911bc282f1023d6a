"""Locks in the client: how long it asks, what it asks last, and what ends the handle."""

from __future__ import annotations

import itertools

import pytest

import txnclient
from tests.unit.harness.fake_manager import FakeManager, in_turn, raises
from txnclient import Client, InvalidArgument, Locked, TxnAborted, Unavailable
from txnclient.showing import Shown
from txnclient.write import locks
from txnstatus.proto import common_pb2
from txnstatus.proto import table_pb2 as pb


def answers(granted: bool) -> pb.LockResponse:
    return pb.LockResponse(granted=granted)


def test_patience_is_hives() -> None:
    """91m:42s:300ms with 100 retries and 60 s, as its documentation reckons."""
    waits = list(locks.waits(100, 60.0))
    assert waits[:3] == [0.1, 0.2, 0.4]
    assert max(waits) == 60.0
    assert len(waits) == 100
    assert sum(waits) == pytest.approx(91 * 60 + 42.3)
    assert locks.SLEEP_BETWEEN_RETRIES == 60.0
    assert list(locks.waits(0, 60.0)) == []


def test_a_wait_is_cut_into_turns_and_the_last_request_does_not_wait() -> None:
    sent: list[tuple[int, str]] = []

    def ask(_method: str, request: pb.LockRequest, _response: type[pb.LockResponse]) -> pb.LockResponse:
        sent.append((request.wait_millis, request.settled_by))
        return answers(False)

    locks.acquire(pb.LockRequest(settled_by="wait"), ask, iter([0.5, 2.5]), 1.0)
    assert sent == [(500, "wait"), *((ms, "wait") for ms in (1000, 1000, 500)), (0, "no-wait")]


def test_a_lock_that_is_granted_after_a_while(manager: FakeManager, client: Client) -> None:
    manager.answers["Lock"] = in_turn(*(itertools.repeat(lambda _: answers(False), 2)), lambda _: answers(True))
    txn = client.begin()
    txn.lock("air.t", "shared-write", partition="month=1", strategy="wait-die", numretries=100)
    first, second, third = manager.requests["Lock"]
    assert (first.txn_id, first.owner, first.table, list(first.partitions)) == (txn.id, "me", "air.t", ["month=1"])
    assert (first.mode, first.settled_by) == (pb.LOCK_SHARED_WRITE, "wait-die")
    assert [each.wait_millis for each in (first, second, third)] == [100, 200, 400]


def test_a_refusal_leaves_the_handle_alive_and_a_death_does_not(manager: FakeManager, client: Client) -> None:
    txn = client.begin()
    manager.answers["Lock"] = raises(Locked("transaction 7 holds it"))
    with pytest.raises(Locked, match="7 holds it"):
        txn.lock("air.t", "X", numretries=0)
    assert manager.requests["Lock"][0].settled_by == "no-wait"
    assert txn.alive
    manager.answers["Lock"] = in_turn(raises(Unavailable("no leader")), raises(TxnAborted("wait-die")))
    with pytest.raises(TxnAborted):
        txn.lock("air.t", "X")
    assert not txn.alive


def test_what_is_locked_is_told(manager: FakeManager, client: Client) -> None:
    known = common_pb2.TxnInfo(txn_id=7, state="OPEN", label="nightly")
    manager.answers["ShowLocks"] = lambda _: pb.ShowLocksResponse(
        locks=[
            pb.LockInfo(object="air.t", mode="LOCK_S", granted=True, txn_id=7, owner="me", since=4096, txn=known),
            pb.LockInfo(object="air.t", mode="LOCK_X", txn_id=8, owner="you", since=8192, blocked_by=[7]),
        ]
    )
    first, second = client.locks("air.t", "month=1", extended=True)
    assert (first.mode, first.acquired, first.txn_state, first.txn_label) == (
        "S",
        True,
        txnclient.TxnState.OPEN,
        "nightly",
    )
    assert (second.mode, second.acquired, second.blocked_by, second.txn_state) == ("X", False, (7,), None)
    (request,) = manager.requests["ShowLocks"]
    assert (request.table, request.partition, request.extended) == ("air.t", "month=1", True)


def test_locks_come_page_by_page(manager: FakeManager, client: Client) -> None:
    def page(request: pb.ShowLocksRequest) -> pb.ShowLocksResponse:
        rest = [(since, txn_id) for since, txn_id in ((1, 8), (2, 7), (3, 9)) if since > request.after.since]
        locks = [pb.LockInfo(object="a.t", mode="LOCK_S", txn_id=t, since=s, granted=t == 7) for s, t in rest[:1]]
        return pb.ShowLocksResponse(locks=locks, more=len(rest) > 1)

    manager.answers["ShowLocks"] = page
    found = client.locks()
    assert [lock.txn_id for lock in found] == [7, 8, 9], "who holds it comes first"
    assert isinstance(found, Shown), "a notebook was shown plain text"
    assert [each.after.txn_id for each in manager.requests["ShowLocks"]] == [0, 8, 7]


@pytest.mark.parametrize(
    ("of_client", "of_call", "waited"),
    [({}, {}, 60.0), ({"lock_timeout": 7}, {}, 7.0), ({"lock_timeout": 7}, {"lock_timeout": 12}, 12.0)],
)
def test_a_lock_is_waited_for_as_long_as_the_call_says_or_the_client(
    of_client: dict[str, float], of_call: dict[str, float], waited: float, manager: FakeManager
) -> None:
    """A write had no parameter for it, and waited 91 minutes: as long as Hive's defaults come to."""
    refused: list[pb.LockRequest] = []

    def lock(request: pb.LockRequest) -> pb.LockResponse:
        if request.settled_by == "no-wait":
            raise Locked("transaction 7 holds it")
        refused.append(request)
        return answers(False)

    manager.answers["Lock"] = lock
    with txnclient.connect(manager.address, owner="me", **of_client) as client:  # type: ignore[arg-type]
        with pytest.raises(Locked):
            client.begin().lock("air.t", "X", **of_call)  # type: ignore[arg-type]
        assert sum(request.wait_millis for request in refused) == waited * 1000


def test_writes_wait_as_long_as_they_are_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    txn = client.begin()
    monkeypatch.setattr(txn._files, "write", lambda *_, **__: waited.extend(txn._locks.patience()))
    monkeypatch.setattr(txn._files, "truncate", lambda *_: waited.extend(txn._locks.patience()))
    monkeypatch.setattr(txn._rows, "write", lambda *_: waited.extend(txn._locks.patience()))
    txn.write(None, "air.t", lock_timeout=0)
    txn.truncate("air.t", lock_timeout=1)
    for seconds, write in enumerate((txn.insert, txn.insert_ignore, txn.upsert, txn.update, txn.delete), start=2):
        write("air.t", None, lock_timeout=seconds)
    txn.write(None, "air.t")
    assert waited == [0, 1, 2, 3, 4, 5, 6, 60.0]


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "5", True])
def test_no_time_to_wait_for_locks(wrong: object, client: Client) -> None:
    with pytest.raises(InvalidArgument, match=r"lock_timeout .*seconds, 0 or more"):
        client.begin().lock("air.t", "X", lock_timeout=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="lock_timeout"):
        txnclient.connect("h:1", lock_timeout=wrong)  # type: ignore[arg-type]
