"""Who waits for whom: every transaction that waits is told once below each that it waits for, and circles end."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from txnclient import LockInfo
from txndeploy.console import waits
from txnstatus.types import Timestamp, TxnId


def lock(txn_id: int, *behind: int, acquired: bool = False, what: str = "air.flights") -> LockInfo:
    ids = tuple(map(TxnId, behind))
    return LockInfo(what, "X", acquired, TxnId(txn_id), f"user{txn_id}", Timestamp(1), ids, txn_label=f"job {txn_id}")


def told(locks: list[LockInfo], most: int = 100) -> list[tuple[int, int, int | None]]:
    return [(each.txn_id, each.depth, each.behind) for each in waits.forest(locks, most)]


def test_nobody_waits_where_locks_are_only_held() -> None:
    assert told([lock(1, acquired=True), lock(2, acquired=True)]) == []


def test_a_chain_is_told_from_its_holder_on() -> None:
    locks = [lock(3, 2), lock(2, 1), lock(1, acquired=True)]
    assert told(locks) == [(1, 0, None), (2, 1, 1), (3, 2, 2)]
    holder, waiter, _ = waits.forest(locks, 10)
    assert (holder.owner, holder.label, holder.objects) == ("user1", "job 1", ())
    assert waiter.objects == ("air.flights (X)",)


def test_one_that_waits_for_two_is_below_both() -> None:
    assert told([lock(1, acquired=True), lock(2, acquired=True), lock(3, 1, 2)]) == [
        (1, 0, None),
        (3, 1, 1),
        (2, 0, None),
        (3, 1, 2),
    ]


def test_a_circle_ends_where_it_closes() -> None:
    found = waits.forest([lock(1, 2), lock(2, 1)], 10)
    assert [(each.txn_id, each.depth, each.circle) for each in found] == [(1, 0, False), (2, 1, False), (1, 2, True)]


def test_a_holder_that_is_not_known_has_no_name() -> None:
    first, second = waits.forest([lock(5, 4)], 10)
    assert (first.txn_id, first.owner, second.behind) == (4, "", 4)


EDGES = st.lists(st.tuples(st.integers(1, 8), st.sets(st.integers(1, 8), max_size=4)), max_size=12)


@given(EDGES, st.integers(1, 40))
def test_all_that_wait_are_told_and_it_ends(edges: list[tuple[int, set[int]]], most: int) -> None:
    locks = [lock(txn_id, *sorted(behind - {txn_id})) for txn_id, behind in edges]
    found = waits.forest(locks, most)
    assert len(found) <= most
    if len(found) < most:
        waiting = {each.txn_id for each in locks if each.blocked_by}
        assert waiting <= {each.txn_id for each in found}
        pairs = {(each.txn_id, other) for each in locks for other in each.blocked_by}
        assert pairs == {(each.txn_id, each.behind) for each in found if each.behind is not None}
    depths = [-1, *(each.depth for each in found)]
    assert all(later <= earlier + 1 for earlier, later in pairwise(depths))


def test_a_long_chain_is_no_recursion() -> None:
    locks = [lock(1, acquired=True), *(lock(number, number - 1) for number in range(2, 3_000))]
    assert len(waits.forest(locks, 5_000)) == 2_999
