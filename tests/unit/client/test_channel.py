"""One manager after the other, until one answers or the deadline passes: over real connections on loopback."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

import txnclient
from tests.unit.harness.fake_manager import FakeManager, committed, in_turn, raises
from txnclient import Client
from txnclient.calls.channel import BAD_SECONDS, ManagerChannel, Roster, parse_addresses
from txndeploy.local.network import free_ports
from txnstatus.errors import (
    IllegalState,
    InternalError,
    InvalidArgument,
    NotAuthorized,
    NotFound,
    Overloaded,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.proto import admin_pb2, catalog_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.errors import NOT_SERVED

TIMEOUT = 6.0


@pytest.fixture
def good() -> Iterator[FakeManager]:
    with FakeManager() as manager:
        yield manager


def commit(channel: ManagerChannel, timeout: float = TIMEOUT, **options: object) -> pb.CommitTransactionResponse:
    return channel.call(
        "txnstatus.TxnManager/CommitTransaction",
        pb.CommitTransactionRequest(txn_id=7, owner="me"),
        pb.CommitTransactionResponse,
        timeout=timeout,
        **options,  # type: ignore[arg-type]
    )


@contextmanager
def asking(*addresses: str) -> Iterator[ManagerChannel]:
    """A channel whose first address is asked first."""
    channel = ManagerChannel(addresses)
    channel._roster = Roster(addresses)
    try:
        yield channel
    finally:
        channel.close()


# ---- one manager fails, in every way there is


@contextmanager
def refusing() -> Iterator[str]:
    yield f"127.0.0.1:{free_ports(1)[0]}"


@contextmanager
def accepting_and_saying(what: bytes, *, then_close: bool) -> Iterator[str]:
    """A port where no node is."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as connections:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                if what:
                    connection.sendall(what)
                if then_close:
                    connection.recv(1)
                    connection.close()
                else:
                    connections.enter_context(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        host, port = server.getsockname()
        yield f"{host}:{port}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def answering(answer: Callable[[object], object]) -> Iterator[str]:
    with FakeManager() as manager:
        manager.answers["CommitTransaction"] = answer  # type: ignore[assignment]
        yield manager.address


@contextmanager
def hanging() -> Iterator[str]:
    with FakeManager() as manager:
        manager.answers["CommitTransaction"] = manager.hang
        yield manager.address


@contextmanager
def dying_in_the_call() -> Iterator[str]:
    with FakeManager() as manager:

        def answer(request: object) -> object:
            threading.Thread(target=manager.stop, daemon=True).start()
            return manager.hang(request)

        manager.answers["CommitTransaction"] = answer  # type: ignore[assignment]
        yield manager.address


@contextmanager
def no_manager() -> Iterator[str]:
    with answering(raises(Unavailable("this node does not serve TxnManager", hint=NOT_SERVED))) as address:
        yield address


BROKEN = {
    "refuses": refusing,
    "resets": lambda: accepting_and_saying(b"", then_close=True),
    "accepts and is silent": lambda: accepting_and_saying(b"", then_close=False),
    "speaks HTTP/1": lambda: accepting_and_saying(b"HTTP/1.1 400 Bad Request\r\n\r\n", then_close=True),
    "hangs": hanging,
    "dies in the call": dying_in_the_call,
    "is no manager": no_manager,
    "says UNAVAILABLE": lambda: answering(raises(Unavailable("no leader here"))),
    "says overloaded": lambda: answering(raises(Overloaded("too much"))),
    "ends the connection": lambda: answering(raises(ConnectionAbortedError())),
    "answers garbage": lambda: accepting_and_saying(b"\0\0\0\4\xff\xff\xff\xff", then_close=False),
    "answers half": lambda: accepting_and_saying(b"\0\0\0\4\xff", then_close=True),
    "answers nothing": lambda: accepting_and_saying(b"\0\0\0\0", then_close=False),
}


@pytest.mark.parametrize("failure", BROKEN)
def test_another_manager_is_asked(failure: str, good: FakeManager) -> None:
    with BROKEN[failure]() as bad, asking(bad, good.address) as channel:
        repeated = []
        started = time.monotonic()
        assert commit(channel, on_repeat=lambda: repeated.append(1)).txn.txn_id == 7
        assert time.monotonic() - started < TIMEOUT, "within the deadline of the caller"
        assert repeated, "the first attempt went to the one that failed"
        first = len(repeated)
        assert commit(channel, on_repeat=lambda: repeated.append(1)).txn.txn_id == 7
        assert len(repeated) == first, "the one that failed is not asked again at once"


@pytest.mark.parametrize("failure", [name for name in BROKEN if name != "is no manager"])
def test_nobody_answers(failure: str) -> None:
    with BROKEN[failure]() as bad, asking(bad) as channel, pytest.raises(Unavailable) as caught:
        commit(channel, timeout=1.0)
    assert bad in caught.value.message
    assert "1 s" in caught.value.message
    assert "check that the cluster runs" in caught.value.hint


def test_two_hang_and_the_third_answers_before_the_deadline(good: FakeManager) -> None:
    with hanging() as first, hanging() as second, asking(first, second, good.address) as channel:
        assert channel.attempt_seconds(TIMEOUT) == TIMEOUT / 3
        assert commit(channel).txn.txn_id == 7


def test_addresses_without_a_manager_are_no_outage() -> None:
    with no_manager() as one, no_manager() as other, asking(one, other) as channel:
        with pytest.raises(InvalidArgument, match=r"none of .* answers") as caught:
            commit(channel)
        assert "manager role" in caught.value.hint


def test_a_cluster_that_was_founded_anew_at_the_address_is_another_one() -> None:
    """An old handle committed in the new cluster, whose transactions have the same ids."""
    with FakeManager() as manager, asking(manager.address) as channel:
        manager.cluster_id = "local.1"
        commit(channel)
        assert channel.cluster_id == "local.1"
        assert manager.meant == [], "whoever has met nobody means whoever is there"
        manager.stop()
        with FakeManager(manager.address) as other:
            other.cluster_id = "local.2"
            with pytest.raises(InvalidArgument, match=r"is cluster 'local\.2'; cluster 'local\.1' is meant") as caught:
                commit(channel)
            assert other.meant == ["local.1"]
            assert "connect anew" in caught.value.hint
        with FakeManager(manager.address) as again:
            again.cluster_id = "local.1"
            assert commit(channel).txn.txn_id == 7


def test_a_cluster_that_is_not_founded_yet_has_no_id_that_a_token_could_carry(
    manager: FakeManager, client: Client
) -> None:
    """A client that asked early was of no cluster, and then of whichever it met next."""
    ids = itertools.chain(["", ""], itertools.repeat("local.1"))
    manager.answers["GetCluster"] = lambda _request: admin_pb2.GetClusterResponse(
        catalog=catalog_pb2.CatalogState(cluster_id=next(ids))
    )
    assert client.cluster_id == "local.1"
    assert manager.count("GetCluster") == 3


def test_a_cluster_that_nobody_founds_is_told_at_the_deadline(manager: FakeManager) -> None:
    manager.answers["GetCluster"] = lambda _request: admin_pb2.GetClusterResponse()
    with (
        txnclient.connect(manager.address, timeout=0.2) as waiting,
        pytest.raises(Unavailable, match=r"was not founded within 0\.2 s"),
    ):
        _ = waiting.cluster_id


def test_a_node_of_another_cluster_among_the_addresses_is_passed_by(good: FakeManager) -> None:
    with FakeManager() as stray, asking(stray.address, good.address) as channel:
        stray.cluster_id, good.cluster_id = "local.2", "local.1"
        channel.adopt("local.1")
        assert commit(channel).txn.txn_id == 7
        assert stray.meant == ["local.1"]


def test_a_manager_that_was_restarted_is_found_again() -> None:
    with FakeManager() as manager, asking(manager.address) as channel:
        commit(channel)
        manager.stop()
        answers: list[pb.CommitTransactionResponse] = []
        caller = threading.Thread(target=lambda: answers.append(commit(channel, timeout=60)))
        caller.start()
        with FakeManager(manager.address):
            caller.join()
    assert answers == [committed(7)]


def test_a_connection_that_ended_while_it_rested_costs_no_attempt() -> None:
    with FakeManager() as manager, asking(manager.address) as channel:
        commit(channel)
        manager.stop()
        with FakeManager(manager.address):
            commit(channel, on_repeat=lambda: pytest.fail("asked twice"))


def test_a_call_that_may_have_been_heard_is_told_as_repeated() -> None:
    """On a connection that served an earlier call, too: a begin must say that it is sent again."""
    with FakeManager() as manager, asking(manager.address) as channel:
        commit(channel)
        manager.answers["CommitTransaction"] = in_turn(
            raises(ConnectionAbortedError()), manager.answers["CommitTransaction"]
        )
        repeated: list[int] = []
        commit(channel, on_repeat=lambda: repeated.append(1))
        assert len(repeated) == 1
        assert manager.count("CommitTransaction") == 3


def test_threads_do_not_wait_for_each_other(good: FakeManager) -> None:
    together = threading.Barrier(8, timeout=TIMEOUT)
    answer = good.answers["CommitTransaction"]

    def once_all_have_come(request: object) -> object:
        together.wait()
        return answer(request)

    good.answers["CommitTransaction"] = once_all_have_come  # type: ignore[assignment]
    with asking(good.address) as channel, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: commit(channel).txn.txn_id, range(16)))
    assert answers == [7] * 16


def test_closing_fails_what_is_under_way(good: FakeManager) -> None:
    asked = threading.Event()

    def hang(request: object) -> object:
        asked.set()
        return good.hang(request)

    good.answers["CommitTransaction"] = hang  # type: ignore[assignment]
    with asking(good.address) as channel, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(commit, channel)
        assert asked.wait(TIMEOUT)
        channel.close()
        with pytest.raises(IllegalState, match="closed"):
            waiting.result(TIMEOUT)


# ---- what is final


@pytest.mark.parametrize("kind", [IllegalState, InternalError, InvalidArgument, NotAuthorized, NotFound, TxnAborted])
def test_a_final_answer_is_final(kind: type[TxnError], good: FakeManager) -> None:
    with FakeManager() as refuses, asking(refuses.address, good.address) as channel:
        refuses.answers["CommitTransaction"] = raises(kind("no, and that is that"))
        with pytest.raises(kind, match="that is that"):
            commit(channel)
        assert refuses.count("CommitTransaction") == 1
    assert not good.requests


def test_a_message_that_is_too_large_is_not_sent_again(good: FakeManager) -> None:
    with asking(good.address) as channel, pytest.raises(InvalidArgument, match="are possible"):
        channel.call(
            "txnstatus.TxnManager/BeginTransaction",
            pb.BeginTransactionRequest(label="x" * (65 << 20)),
            pb.BeginTransactionResponse,
            timeout=TIMEOUT,
        )
    assert not good.requests


def test_every_attempt_carries_the_same_request(good: FakeManager) -> None:
    good.answers["CommitTransaction"] = in_turn(raises(Unavailable("not now")), good.answers["CommitTransaction"])
    with asking(good.address) as channel:
        commit(channel)
    first, second = good.requests["CommitTransaction"]
    assert first == second


def test_a_closed_channel_says_so(good: FakeManager) -> None:
    with asking(good.address) as channel:
        commit(channel)
        channel.close()
        with pytest.raises(IllegalState, match="closed"):
            commit(channel)


# ---- whom to ask


def test_a_manager_that_had_to_ask_another_node_is_left_for_that_one(good: FakeManager) -> None:
    with FakeManager() as passes_on, asking(passes_on.address, good.address) as channel:
        passes_on.led_at = good.address
        while not good.requests:
            commit(channel)
        asked = passes_on.count("CommitTransaction")
        for _ in range(10):
            commit(channel)
        assert passes_on.count("CommitTransaction") == asked
        good.stop()
        assert commit(channel).txn.txn_id == 7, "nobody stays with one that has ended"


def test_the_roster_stays_with_whom_it_knows_and_leaves_out_who_failed_lately() -> None:
    roster = Roster(("b", "c", "a"))
    assert [roster.choose(0), roster.choose(0)] == ["b", "b"]
    assert roster.failed("b", 0.0), "there are others"
    assert roster.choose(0.0) == "c"
    assert roster.failed("c", 0.1)
    assert roster.choose(0.1) == "a"
    roster.answered("a")
    assert roster.choose(100.0) == "a", "no reason to go back"


def test_the_roster_goes_to_the_one_beside_the_leader_unless_that_failed_lately() -> None:
    roster = Roster(("a", "b", "c"))
    roster.prefer("c", 0.0)
    assert roster.choose(0.0) == "c"
    roster.prefer("by another name", 0.0)
    assert roster.choose(0.0) == "c", "what is not among the addresses nobody can reach"
    assert roster.failed("c", 0.0)
    roster.prefer("c", 0.0)
    assert roster.choose(0.0) == "a", "an old word about a leader that has died since"
    roster.prefer("c", BAD_SECONDS)
    assert roster.choose(BAD_SECONDS) == "c"


def test_clients_that_lose_a_manager_do_not_all_go_to_the_same() -> None:
    addresses = tuple("abcdefgh")
    nexts = set()
    for _ in range(100):
        roster = ManagerChannel(addresses)._roster
        roster.prefer("a", 0.0)
        roster.failed("a", 0.0)
        nexts.add(roster.choose(0.0))
    assert nexts > {"b"}


def test_when_all_failed_they_are_asked_round_and_round() -> None:
    roster = Roster(("a", "b", "c"))
    at, asked = 0.0, []
    for _ in range(6):
        asked.append(roster.choose(at))
        roster.failed(asked[-1], at)
        at += BAD_SECONDS  # a failure takes so long, that the one before has rested already
    assert asked == ["a", "b", "c"] * 2


def test_when_all_failed_lately_there_is_nobody_to_ask_at_once() -> None:
    roster = Roster(("a", "b", "c"))
    assert [roster.failed(address, 0.1) for address in "abc"] == [True, True, False]
    assert roster.choose(0.2) == "a"


@pytest.mark.parametrize("addresses", ["", " , ", "nohost", "host:", "host:0", "host:65536", ":1", "a:1,b", "a:-1"])
def test_bad_addresses(addresses: str) -> None:
    with pytest.raises(InvalidArgument, match="host:port"):
        parse_addresses(addresses)


def test_addresses() -> None:
    assert parse_addresses(" a:1 ,b:2,") == ("a:1", "b:2")
    assert parse_addresses(["[::1]:3"]) == ("[::1]:3",)
