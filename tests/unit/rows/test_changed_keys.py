"""ChangedKeys beside a list of all commits that is searched from end to end."""

from __future__ import annotations

import random

import pytest

from txnparticipant.rows import changed_keys
from txnparticipant.rows.changed_keys import ChangedKeys, Commit
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId

KEYS = [bytes([letter]) for letter in range(97, 107)]


def some(rng: random.Random) -> tuple[bytes, ...]:
    return tuple(rng.sample(KEYS, rng.randrange(1, 4)))


@pytest.mark.parametrize("seed", range(50))
def test_the_first_to_have_changed_any_of_the_rows_is_found(seed: int) -> None:
    rng, keys = random.Random(seed), ChangedKeys()
    commits: list[Commit] = []
    for number in range(60):
        # Not in the order of their timestamps: what was decided last may be finalised first.
        commit = Commit(Timestamp(10 + number + rng.randrange(10)), TxnId(number), some(rng))
        keys.prepare(commit.txn_id, commit.keys)
        keys.end(commit.txn_id, commit.keys)
        keys.add(commit)
        commits.append(commit)
        own, snapshot = some(rng), Timestamp(rng.randrange(80))
        last = {key: max((c.commit_ts, c.txn_id) for c in commits if key in c.keys) for c in commits for key in c.keys}
        late = {change for key, change in last.items() if key in own and change[0] > snapshot}
        found = keys.changed_since(own, snapshot)
        assert (found is None) == (not late)
        if found is not None:
            assert found[0] == min(late)[1]
            assert found[1] == sorted(key for key in own if last.get(key) == min(late))


def test_what_is_prepared_is_in_the_way_until_it_ends() -> None:
    keys = ChangedKeys()
    keys.prepare(TxnId(1), [b"a", b"b"])
    assert keys.changed_since([b"b", b"c"], Timestamp(99)) == (1, [b"b"])
    assert keys.first_prepared == 1
    keys.end(TxnId(2), [b"b"])  # another one, which never was prepared
    assert keys.changed_since([b"b"], Timestamp(99)) == (1, [b"b"])
    keys.end(TxnId(1), [b"a", b"b"])
    assert keys.changed_since([b"b"], Timestamp(99)) is None
    assert keys.first_prepared is None


def test_the_oldest_go_first_and_what_a_later_commit_changed_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "KEPT_SPAN", Timestamp(5))
    keys = ChangedKeys()
    for ts, names in ((12, (b"b", b"c")), (10, (b"a", b"b"))):
        keys.add(Commit(Timestamp(ts), TxnId(ts), names))
    assert not keys.may_drop(Timestamp(14))
    assert keys.may_drop(Timestamp(15))
    keys.drop(Timestamp(15), Timestamp(9))
    assert keys.above == NO_TIMESTAMP, "somebody needs them"
    keys.drop(Timestamp(15), None)
    assert keys.above == 10
    assert keys.changed_since([b"a"], Timestamp(10)) is None
    assert keys.changed_since([b"b"], Timestamp(10)) == (12, [b"b"])
    assert [commit.txn_id for commit in keys] == [12]


def test_too_many_go_though_somebody_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "KEPT_BYTES", 450)
    keys = ChangedKeys()
    for ts in range(10, 15):
        keys.add(Commit(Timestamp(ts), TxnId(ts), (b"a",)))
    keys.drop(Timestamp(15), Timestamp(9))
    assert (keys.above, [commit.txn_id for commit in keys]) == (12, [13, 14])
    keys.add(Commit(Timestamp(11), TxnId(99), (b"a",)))
    assert [commit.txn_id for commit in keys] == [13, 14], "with what is this old nobody is compared any more"
