"""ChangedKeys beside a list of all commits that is searched from end to end."""

from __future__ import annotations

import random

import pytest

from txnparticipant.rows import changed_keys
from txnparticipant.rows.changed_keys import Changed, ChangedKeys, Commit
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
def test_the_first_to_have_changed_any_of_the_keys_is_found(seed: int) -> None:
    rng, keys = random.Random(seed), ChangedKeys()
    commits: list[tuple[Timestamp, TxnId, Changed]] = []
    for number in range(60):
        # Not in the order of their timestamps: what was decided last may be finalised first.
        changed, commit_ts = some(rng), Timestamp(10 + number + rng.randrange(10))
        keys.prepare(TxnId(number), changed)
        keys.check_prepared({TxnId(number): changed})
        keys.end(TxnId(number), changed.keys)
        keys.check_prepared({})
        keys.add(Commit(commit_ts, TxnId(number), changed.keys, changed.ranges))
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


def test_what_is_prepared_is_in_the_way_until_it_ends() -> None:
    keys = ChangedKeys()
    keys.prepare(TxnId(1), Changed((b"1", b"2"), (KeyRange(b"10", b"12"),)))
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
        keys.add(Commit(Timestamp(ts), TxnId(ts), names, (KeyRange(b"%d0" % ts, b"%d9" % ts),)))
    assert not keys.may_drop()
    keys.add(Commit(Timestamp(15), TxnId(15), (b"5",)))
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
        keys.add(Commit(Timestamp(ts), TxnId(ts), (b"a",)))
    keys.drop(Timestamp(9))
    assert (keys.above, [commit.txn_id for commit in keys]) == (12, [13, 14])
    keys.add(Commit(Timestamp(11), TxnId(99), (b"a",)))
    assert [commit.txn_id for commit in keys] == [13, 14], "with what is this old nobody is compared any more"


def test_the_newest_is_the_same_on_a_replica_that_was_restored() -> None:
    """Transactions note it: of what is kept and of what went it must come out alike."""
    keys = ChangedKeys()
    keys.add(Commit(Timestamp(10), TxnId(1), (b"1",)))
    restored = ChangedKeys(keys.above)
    for commit in keys:
        restored.add(commit)
    assert restored.newest == keys.newest == 10
    assert ChangedKeys(Timestamp(12)).newest == 12
