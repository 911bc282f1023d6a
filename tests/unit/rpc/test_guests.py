"""Who may stay at a port, and who has to go."""

from __future__ import annotations

import pytest

from txnstatus.rpc.guests import FRAME_SECONDS, OPENING_SECONDS, Bounds, Guests

BOUNDS = Bounds(clients=2, peers=1, strangers=3, unfinished_bytes=100)


def guests() -> Guests[str]:
    return Guests(BOUNDS)


def test_the_first_stranger_makes_room_for_the_one_that_comes() -> None:
    """About 950 connections that said nothing ended a node: its journal could not open the next file."""
    here = guests()
    assert [here.came(name, 0.0) for name in "abcde"] == [[], [], [], ["a"], ["b"]]


def test_whoever_speaks_takes_no_place_of_a_stranger() -> None:
    here = guests()
    for name in "abc":
        here.came(name, 0.0)
        assert here.known(name, is_peer=name == "c")
    assert [here.came(name, 0.0) for name in "def"] == [[], [], []]


def test_clients_are_refused_beyond_their_number_and_peers_are_let_in() -> None:
    here = guests()
    for name in "abc":
        here.came(name, 0.0)
    assert [here.known(name, is_peer=False) for name in "abc"] == [True, True, False]
    here.came("peer", 0.0)
    assert here.known("peer", is_peer=True)
    here.left("a")
    here.came("d", 0.0)
    assert here.known("d", is_peer=False)


def test_a_stranger_that_is_silent_goes_and_a_client_may_rest() -> None:
    here = guests()
    for name in ("client", "stranger"):
        here.came(name, 0.0)
    here.known("client", is_peer=False)
    assert here.late(OPENING_SECONDS - 1) == []
    assert here.late(OPENING_SECONDS) == ["stranger"]
    assert here.late(1e9) == []
    assert not here.any_may_be_late


def test_a_frame_has_its_time_however_its_bytes_drop_in() -> None:
    here = guests()
    here.came("slow", 0.0)
    for second in range(int(FRAME_SECONDS)):
        assert here.holds("slow", second + 1, float(second), begun=second == 0) == []
        assert here.late(float(second)) == []
    assert here.late(FRAME_SECONDS) == ["slow"]


def test_each_frame_has_a_time_of_its_own() -> None:
    here = guests()
    here.came("busy", 0.0)
    here.known("busy", is_peer=False)
    here.holds("busy", 10, 0.0, begun=True)
    here.holds("busy", 10, FRAME_SECONDS - 1, begun=True)
    assert here.late(FRAME_SECONDS) == []
    here.holds("busy", 0, FRAME_SECONDS, begun=False)
    assert here.late(1e9) == []


def test_the_oldest_frame_makes_room_where_too_many_bytes_wait_for_their_rest() -> None:
    here = guests()
    for name, count in (("a", 60), ("b", 30)):
        here.came(name, 0.0)
        assert here.holds(name, count, 0.0, begun=True) == []
    assert here.holds("b", 45, 0.0, begun=False) == ["a"]
    assert here.holds("b", 99, 0.0, begun=False) == []
    here.left("b")
    here.came("c", 0.0)
    assert here.holds("c", 100, 0.0, begun=True) == []


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [(752, Bounds(470, 94, 188)), (1 << 20, Bounds(10_000, 256, 1_000)), (4_000, Bounds(2_744, 256, 1_000))],
)
def test_all_of_them_fit_into_the_descriptors(descriptors: int, expected: Bounds) -> None:
    found = Bounds.within(descriptors)
    assert found == expected
    assert found.clients + found.peers + found.strangers <= descriptors


@pytest.mark.parametrize(("descriptors", "clients"), [(40, None), (-200, None), (1_000, 900)])
def test_too_few_descriptors_are_an_error(descriptors: int, clients: int | None) -> None:
    with pytest.raises(ValueError, match="ulimit -n"):
        Bounds.within(descriptors, clients)
