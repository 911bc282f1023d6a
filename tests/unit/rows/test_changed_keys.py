"""ChangedKeys beside a list of all commits that is searched from end to end."""

from __future__ import annotations

import random
import sys

import pytest

from txnparticipant.rows import changed_keys, key_places
from txnparticipant.rows.changed_keys import ChangedKeys, Commit
from txnparticipant.rows.key_places import Changed
from txnstatus.key_ranges import KeyOrder, KeyRange
from txnstatus.schema import Column, Schema
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId

KEYS = [b"%d" % number for number in range(5, 15)]  # as texts they have another order
ORDER = KeyOrder(Schema((Column("k", "bigint"),), primary_key=("k",)))


def some(rng: random.Random) -> Changed:
    if rng.random() < 0.3:
        low, high = sorted(rng.sample(range(len(KEYS)), 2))
        lowest, highest = (rng.choice([KEYS[end], KEYS[end], None]) for end in (low, high))
        return Changed((), (KeyRange(lowest, highest),))
    return Changed(tuple(rng.sample(KEYS, rng.randrange(1, 4))))


def may_meet(one: Changed, other: Changed) -> bool:
    return bool(possible(one) & possible(other))


def possible(changed: Changed) -> set[int]:
    """The keys that it may have changed, among all that there are, and some around."""
    found = set(map(int, changed.keys))
    for each in changed.ranges:
        low, high = int(each.lowest or b"0"), int(each.highest or b"20")
        found |= set(range(low, high + 1))
    return found


@pytest.mark.parametrize("seed", range(50))
def test_the_first_to_have_changed_any_of_the_keys_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_places, "MAX_MERGED", seed if seed % 2 else seed % 3)
    monkeypatch.setattr(key_places, "MAX_YOUNG", seed % 5)
    rng, keys = random.Random(seed), ChangedKeys()
    commits: list[tuple[Timestamp, TxnId, Changed]] = []
    for number in range(60):
        # Not in the order of their timestamps: what was decided last may be finalised first.
        changed, commit_ts = some(rng), Timestamp(10 + number + rng.randrange(10))
        keys.prepare(TxnId(number), changed, ORDER)
        keys.check_prepared({TxnId(number): changed})
        keys.end(TxnId(number), changed.keys)
        keys.check_prepared({})
        keys.add(Commit(commit_ts, TxnId(number), changed.keys, changed.ranges), ORDER)
        commits.append((commit_ts, TxnId(number), changed))
        own, snapshot = some(rng), Timestamp(rng.randrange(80))
        late = {(ts, txn_id) for ts, txn_id, changed in commits if ts > snapshot and may_meet(changed, own)}
        found = keys.met(own, snapshot, ORDER)
        assert (found is None) == (not late)
        if found is not None:
            theirs = next(changed for _, txn_id, changed in commits if txn_id == found.winner)
            assert found.winner in {txn_id for _, txn_id in late}
            assert found.keys or found.ranges
            assert set(map(int, found.keys)) <= possible(own) & possible(theirs)
            assert set(found.ranges) <= set(theirs.ranges)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (KeyRange(b"1", b"5"), KeyRange(b"5", b"9"), True),
        (KeyRange(b"1", b"5"), KeyRange(b"6", b"9"), False),
        (KeyRange(b"2", b"9"), KeyRange(b"10", b"11"), False),
        (KeyRange(b"-5", b"-3"), KeyRange(b"-4", b"4"), True),
        (KeyRange(b"1", None), KeyRange(b"6", b"9"), True),
        (KeyRange(b"1", None), KeyRange(None, b"0"), False),
        (KeyRange(), KeyRange(b"6", b"9"), True),
        (KeyRange(b"1", b"5", ("m=1", "m=2")), KeyRange(b"1", b"5", ("m=3",)), False),
        (KeyRange(b"1", b"5", ("m=1", "m=2")), KeyRange(b"1", b"5", ("m=2", "m=3")), True),
    ],
)
@pytest.mark.parametrize("prepared", [False, True])
def test_ranges_that_may_have_a_key_in_common_meet(one: KeyRange, other: KeyRange, meet: bool, prepared: bool) -> None:
    for theirs, ours in ((one, other), (other, one)):
        keys = ChangedKeys()
        if prepared:
            keys.prepare(TxnId(1), Changed((), (theirs,)), ORDER)
        else:
            keys.add(Commit(Timestamp(5), TxnId(1), (), (theirs,)), ORDER)
        found = keys.met(Changed((), (ours,)), Timestamp(4), ORDER)
        assert found == ((1, [], [theirs]) if meet else None)


def test_what_meets_a_range_is_found_without_a_look_at_all_keys() -> None:
    """Beyond 50,000 comparisons a commit was refused, though nobody had changed what it did."""
    keys, count = ChangedKeys(), 100_000
    for number in range(count):  # one key each, all below and above the range
        key = number if number % 2 else count + 100 + number
        keys.add(Commit(Timestamp(10 + number), TxnId(number), (b"%d" % key,)), ORDER)
    for ours, expected in (
        (KeyRange(b"%d" % count, b"%d" % (count + 99)), None),
        (KeyRange(b"%d" % count, b"%d" % (count + 100)), b"%d" % (count + 100)),
        (KeyRange(b"70001", b"70001"), b"70001"),
    ):
        looks = 0

        def count_steps(*_: object) -> None:
            nonlocal looks
            looks += 1

        sys.setprofile(count_steps)
        found = keys.met(Changed((), (ours,)), Timestamp(9), ORDER)
        sys.setprofile(None)
        assert (found and found.keys) == (expected and [expected])
        assert looks < 5_000
    assert keys.met(Changed((), (KeyRange(b"1", b"%d" % (2 * count)),)), Timestamp(10 + count), ORDER) is None


@pytest.mark.parametrize("kinds", [("bigint",), ("bigint", "string")])
def test_many_keys_are_prepared_beside_many_without_a_step_for_each(kinds: tuple[str, ...]) -> None:
    """Each was given its place, and they were sorted, though nobody had a range: 10,000 took 14 to 24 ms."""
    columns = tuple(Column(f"c{number}", kind) for number, kind in enumerate(kinds))
    order = KeyOrder(Schema(columns, primary_key=tuple(column.name for column in columns)))
    keys, count = ChangedKeys(), 10_000
    names = [b"%d" % number if len(kinds) == 1 else b"%d,x" % number for number in range(11 * count)]
    for number in range(10):
        part = tuple(names[number * count : (number + 1) * count])
        keys.add(Commit(Timestamp(10 + number), TxnId(number), part), order)
    mine, steps = Changed(tuple(names[10 * count :])), 0

    def count_steps(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count_steps)
    assert keys.met(mine, Timestamp(9), order) is None
    keys.prepare(TxnId(99), mine, order)
    keys.end(TxnId(99), mine.keys)
    sys.setprofile(None)
    assert steps < 200
    keys.check_prepared({})
    keys.prepare(TxnId(99), mine, order)
    looked_for = Changed((), (KeyRange(b"%d" % (11 * count - 1), None),))
    assert keys.met(looked_for, Timestamp(9), order) == (99, [names[-1]], [])
    assert keys.met(Changed((), (KeyRange(None, b"0"),)), Timestamp(9), order) == (0, [names[0]], [])


def test_a_key_whose_place_nobody_knows_may_be_in_any_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_places, "MAX_MERGED", 2)
    keys, far = ChangedKeys(), b"10000-01-01"
    order = KeyOrder(Schema((Column("d", "date"),), primary_key=("d",)))
    keys.prepare(TxnId(1), Changed((b"2026-01-01", b"2026-01-02", far)), order)
    assert keys.met(Changed((), (KeyRange(b"1999-01-01", b"1999-01-02"),)), Timestamp(9), order) == (1, [far], [])


def test_what_is_prepared_is_in_the_way_until_it_ends() -> None:
    keys = ChangedKeys()
    keys.prepare(TxnId(1), Changed((b"1", b"2"), (KeyRange(b"10", b"12"),)), ORDER)
    mine = Changed((b"2", b"3"))
    assert keys.met(mine, Timestamp(99), ORDER) == (1, [b"2"], [])
    assert keys.met(Changed((b"9", b"11")), Timestamp(99), ORDER) == (1, [b"11"], [])
    assert keys.met(Changed((), (KeyRange(b"2", b"5"),)), Timestamp(99), ORDER) == (1, [b"2"], [])
    assert keys.met(Changed((), (KeyRange(b"3", b"9"),)), Timestamp(99), ORDER) is None
    keys.end(TxnId(2), [b"2"])  # another one, which never was prepared
    assert keys.met(mine, Timestamp(99), ORDER) == (1, [b"2"], [])
    keys.end(TxnId(1), [b"1", b"2"])
    assert keys.met(mine, Timestamp(99), ORDER) is None
    assert keys.met(Changed((b"11",)), Timestamp(99), ORDER) is None


def test_the_oldest_go_first_and_what_a_later_commit_changed_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "KEPT_SPAN", Timestamp(5))
    keys = ChangedKeys()
    for ts, names in ((12, (b"2", b"3")), (10, (b"1", b"2"))):
        keys.add(Commit(Timestamp(ts), TxnId(ts), names, (KeyRange(b"%d0" % ts, b"%d9" % ts),)), ORDER)
    assert not keys.may_drop()
    keys.add(Commit(Timestamp(15), TxnId(15), (b"5",)), ORDER)
    assert keys.may_drop()
    keys.drop(Timestamp(9))
    assert keys.above == NO_TIMESTAMP, "somebody needs them"
    keys.drop(None)
    assert keys.above == 10
    assert keys.met(Changed((b"1", b"105")), Timestamp(9), ORDER) is None
    assert keys.met(Changed((b"2",)), Timestamp(10), ORDER) == (12, [b"2"], [])
    assert keys.met(Changed((b"125",)), Timestamp(10), ORDER) == (12, [b"125"], [])
    assert [commit.txn_id for commit in keys] == [12, 15]


def test_too_many_go_though_somebody_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "KEPT_BYTES", 450)
    keys = ChangedKeys()
    for ts in range(10, 15):
        keys.add(Commit(Timestamp(ts), TxnId(ts), (b"a",)), ORDER)
    keys.drop(Timestamp(9))
    assert (keys.above, [commit.txn_id for commit in keys]) == (12, [13, 14])
    keys.add(Commit(Timestamp(11), TxnId(99), (b"a",)), ORDER)
    assert [commit.txn_id for commit in keys] == [13, 14], "with what is this old nobody is compared any more"


def test_the_newest_is_the_same_on_a_replica_that_was_restored() -> None:
    """Transactions note it: of what is kept and of what went it must come out alike."""
    keys = ChangedKeys()
    keys.add(Commit(Timestamp(10), TxnId(1), (b"1",)), ORDER)
    restored = ChangedKeys(keys.above)
    for commit in keys:
        restored.add(commit, ORDER)
    assert restored.newest == keys.newest == 10
    assert ChangedKeys(Timestamp(12)).newest == 12
