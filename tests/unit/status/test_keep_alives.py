"""KeepAlives by itself: what a pass looks at, and what it leaves for the next."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterable, Iterator

import pytest
from msgspec.structs import replace

from txnstatus.status import commands as cmd
from txnstatus.status.keep_alives import Bucket, KeepAlives
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import TxnId

OWNER = "ada"
MANY = 1_000


class Open:
    """A number of transactions, all begun at 0."""

    def __init__(self, count: int, keepalive: float = 10.0) -> None:
        self.table = TxnStatusTable(0, 1_000_000)
        self.table.apply(cmd.BeginTxns("request-0", count, OWNER, "", int(keepalive * 1000), 1))
        self.kept = KeepAlives()
        for record in self.table.unfinished:
            self.kept.add(record, 0.0)

    def beat(self, ids: Iterable[int], now: float, owner: str = OWNER) -> list[TxnId]:
        return self.kept.beat(ids, owner, self.table.unfinished_by_id, now)

    def overdue(self, now: float, at_most: int = 1_000_000) -> list[TxnId]:
        return sorted(self.kept.overdue(self.table.unfinished_by_id, now, at_most))


def test_a_beat_of_many_returns_those_that_were_not_stamped() -> None:
    those = Open(4)
    those.table.apply(cmd.BeginCommit(TxnId(1), OWNER, 1))  # and nobody has heard of it yet
    assert those.beat(range(6), 5.0) == [1, 4, 5]
    assert those.beat(range(2), 5.0, "bob") == [0, 1]
    assert those.overdue(14.0) == []
    assert those.overdue(15.5) == [0, 2, 3]
    assert those.beat(range(4), 15.5) == [0, 1, 2, 3], "their expiry is on its way"


def test_who_is_not_due_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.status.keep_alives.MAX_LOOKS", 1)
    those = Open(MANY)
    those.overdue(9.5)
    assert not those.kept.behind, "it has looked at none, or there were more to look at"


def test_a_pass_looks_at_so_many_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.status.keep_alives.MAX_LOOKS", 300)
    those = Open(MANY)
    those.beat(range(MANY - 1), 9.0)
    found = []
    for number in range(4):
        found += those.overdue(10.5)
        assert those.kept.behind == (number < 3)
    assert found == [MANY - 1]
    assert those.overdue(18.9) == []
    assert not those.kept.behind, "all others are looked at again when their time may have come"


def test_a_new_leader_watches_all_at_once_each_with_its_interval_and_the_grace() -> None:
    one_by_one, at_once = Open(0), Open(0)
    for those in (one_by_one, at_once):
        for number, keepalive in enumerate((1.0, 5.0, 10.0, 1.0)):
            those.table.apply(cmd.BeginTxns(f"request-{number}", 2, OWNER, "", int(keepalive * 1000), 1))
    at_once.kept.take_over(at_once.table.unfinished, 100.0, 2.0)
    for record in one_by_one.table.unfinished:
        one_by_one.kept.add(record, 100.0 + max(0.0, 2.0 - record.keepalive_millis / 1000))
    for now in (101.5, 102.5, 105.5, 109.0, 110.5):
        assert at_once.overdue(now) == one_by_one.overdue(now), now
    assert all(at_once.kept.is_looked_at(record.txn_id) for record in at_once.table.unfinished)
    assert [at_once.kept.born(TxnId(number)) for number in range(8)] == [100.0] * 8


def test_those_that_beat_together_are_looked_at_together_each_by_its_own_interval_and_lifetime() -> None:
    those = Open(0)
    for number, keepalive in enumerate((10.0, 20.0)):
        those.table.apply(cmd.BeginTxns(f"request-{number}", 3, OWNER, "", int(keepalive * 1000), 1))
    for record in those.table.unfinished:
        those.kept.add(record, 0.0)
    those.beat(range(1, 6), 5.0)
    assert those.overdue(11.0) == [0]
    assert those.overdue(15.5) == [1, 2]
    assert those.overdue(24.9) == []
    assert those.overdue(25.5) == [3, 4, 5]
    those.kept.expiry_failed(TxnId(4))
    assert those.overdue(26.5) == [4], "it is looked at until it has ended"
    young = Open(2, keepalive=10.0)
    young.kept.max_lifetime = 12.0
    young.kept.look_at_all()
    young.beat(range(2), 9.0)
    assert young.overdue(11.9) == []
    assert young.overdue(12.5) == [0, 1]


def test_a_pass_goes_once_through_the_times_however_many_there_are() -> None:
    """Where each transaction has an interval of its own, there are as many."""
    kept, records = KeepAlives(), dict[TxnId, TxnRecord]()
    for number in range(MANY):
        begun = Open(1, keepalive=1.0 + number)
        (record,) = begun.table.unfinished
        records[TxnId(number)] = replace(record, txn_id=TxnId(number))
        kept.add(records[TxnId(number)], 0.0)
    kept._buckets = times = Times(kept._buckets)
    assert kept.overdue(records, 2.0 * MANY, MANY // 2) == list(range(MANY // 2))
    assert times.gone_through == 1


class Times(dict[Bucket, dict[TxnId, None]]):
    gone_through = 0

    def __iter__(self) -> Iterator[Bucket]:
        self.gone_through += 1
        return super().__iter__()


def test_a_shorter_lifetime_is_seen_at_once() -> None:
    those = Open(2, keepalive=1000.0)
    assert those.overdue(5.5) == []
    those.kept.max_lifetime = 5.0
    those.kept.look_at_all()
    assert those.overdue(5.5) == [0, 1]


def test_a_call_that_came_twice_is_heard_of_and_looked_at_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.status.keep_alives.MAX_LOOKS", 1)
    those = Open(MANY)
    for now in (1.0, 2.0, 3.0):
        assert those.beat(range(MANY), now) == []
    behind = []
    for _ in range(2):
        assert those.overdue(12.9) == []
        behind.append(those.kept.behind)
    assert behind == [True, False], "the first of them took its one look, which was for all"
    assert {those.kept.heard(TxnId(number)) for number in range(MANY)} == {3.0}
    assert those.overdue(13.5) == list(range(MANY)), "a flock that is silent is looked at as what it was"


def test_so_many_flocks_part_at_once_that_not_many_more_expire_than_are_asked_for() -> None:
    those = Open(30)
    for first in (0, 10, 20):
        for now in (1.0, 2.0):
            those.beat(range(first, first + 10), now)
    assert those.overdue(12.5, at_most=15) == list(range(20))
    assert those.overdue(12.5, at_most=15) == list(range(20, 30))


@pytest.mark.parametrize("seed", range(100))
def test_a_flock_is_as_its_members_would_be_by_themselves(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever comes in whatever order: beats of some, or of others among them, ends, expiries that fail, a grace."""
    rng, twins = random.Random(seed), (Open(0), Open(0))
    monkeypatch.setattr(twins[1].kept, "_gather", lambda _call: None)
    grace, flocks, now = rng.choice((0.0, 3.0)), 0, 0.0
    for those in twins:
        for number in range(2):
            interval = 2_000 + 1_000 * number * (seed % 2)
            those.table.apply(cmd.BeginTxns(f"request-{number}", 6, OWNER, "", interval, 1))
        those.kept.take_over(those.table.unfinished, 0.0, grace)
    for _ in range(100):
        now += rng.random() / 2
        txn_id = TxnId(rng.randrange(12))
        what = rng.choice(
            ("beat", "beat", "beat", "beat some", "look", "look", "end", "fail") if now > 2 else ("beat",)
        )
        group = rng.choice((range(6), range(6, 12), range(12)))
        some = rng.sample(range(12), rng.randrange(1, 13))
        answers = []
        for those in twins:
            match what:
                case "beat" | "beat some":
                    answers.append(those.beat(group if what == "beat" else some, now))
                case "look":
                    answers.append(those.overdue(now))
                case "end":
                    those.table.apply(cmd.BeginCommit(txn_id, OWNER, 1))
                    those.kept.remove(txn_id)
                case "fail":
                    those.kept.expiry_failed(txn_id)
        assert answers[:1] == answers[1:], (now, what)
        assert all(twins[0].kept.is_looked_at(each) for each in map(TxnId, range(12)) if each in twins[0].kept)
        flocks += len(twins[0].kept._calls)
    assert flocks, "there was none"
    assert twins[0].overdue(100.0) == twins[1].overdue(100.0)


def test_nothing_of_it_is_gone_through_for_garbage() -> None:
    """Or a collection would stop the leader of a million for as long as it takes to walk through them."""
    those = Open(MANY)
    for now in (1.0, 2.0):
        those.beat(range(MANY // 2), now)
    those.overdue(10.5)
    gc.collect()
    of_each = (those.kept._heard, those.kept._born, those.kept._bucket_of, those.kept._flock_of)
    kept = (*of_each, *those.kept._buckets.values())
    assert not any(map(gc.is_tracked, kept))
