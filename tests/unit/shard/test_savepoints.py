"""Savepoints of a shard: what they keep is kept whatever else happens, and goes when they are released."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.harness.shards import (
    NAME,
    TABLE,
    committed,
    create,
    new_shard,
    ok,
    refused,
    seen,
    table_of,
    to_clean,
)
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import savepoints
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.savepoints import MAX_SAVEPOINTS, expired, held_bytes
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import AlreadyExists, LimitReached, SnapshotTooOld
from txnstatus.types import NO_TIMESTAMP, Timestamp

HORIZON = Timestamp(10_000)


def savepoint(
    name: str, at: int, *, id_: str = "", tables: tuple[str, ...] = (), expires: int = 0, is_home: bool = True
) -> cmd.Savepoint:
    named = (NAME,) if tables else ()
    ends = Timestamp(expires)
    return cmd.Savepoint(id_ or name, name, "ada", Timestamp(at), named, tables, Timestamp(1), ends, is_home)


def hold(shard: ParticipantShard, name: str, at: int, **options: object) -> None:
    ok(shard, cmd.HoldSavepoint(savepoint(name, at, **options)))  # type: ignore[arg-type]


def retire(shard: ParticipantShard, up_to: int = HORIZON) -> None:
    ok(shard, cmd.Retire(TABLE, Timestamp(up_to)))


def overwritten_twice() -> ParticipantShard:
    """The table as of 100, 200 and 300."""
    shard = new_shard()
    committed(shard, 1, "first001", 100)
    committed(shard, 2, "second01", 200, overwrite=True)
    committed(shard, 3, "third001", 300, overwrite=True)
    return shard


def restored(shard: ParticipantShard) -> ParticipantShard:
    again = ParticipantShard(3)
    again.restore(shard.snapshot())
    again.check_invariants()
    assert again.snapshot() == shard.snapshot()
    return again


def test_what_a_reader_at_a_savepoint_sees_is_kept_until_it_is_released() -> None:
    shard = overwritten_twice()
    hold(shard, "before load", 250)
    shard = restored(shard)
    retire(shard)
    assert seen(shard, 250) == ["second01"]
    assert to_clean(shard) == {1: ["first001"]}
    ok(shard, cmd.DropSavepoint("before load"))
    retire(shard)
    assert to_clean(shard) == {1: ["first001"], 2: ["second01"]}


def test_a_leader_proposes_nothing_that_a_savepoint_would_hold_back() -> None:
    shard, leases = overwritten_twice(), Leases(10)
    leases.begin(0)
    leases.advance(1, HORIZON)
    assert leases.retirable(table_of(shard)) == 300
    hold(shard, "before load", 150)
    assert leases.retirable(table_of(shard)) == NO_TIMESTAMP
    ok(shard, cmd.DropSavepoint("before load"))
    assert leases.retirable(table_of(shard)) == 300


def test_whoever_comes_may_read_from_a_savepoint_on_and_not_before_it() -> None:
    shard, leases = overwritten_twice(), Leases(10)
    leases.begin(0)
    leases.advance(1, HORIZON)
    hold(shard, "before load", 150)
    for at in (150, 160):
        leases.check_new_reader(table_of(shard), Timestamp(at))
    with pytest.raises(SnapshotTooOld):
        leases.check_new_reader(table_of(shard), Timestamp(149))


def test_the_lowest_of_several_counts_and_other_tables_are_not_held() -> None:
    shard = overwritten_twice()
    ok(shard, create("air.other", "request-2", "file:///lake/air/other"))
    hold(shard, "old", 100, tables=(TABLE,))
    hold(shard, "new", 250)
    other = shard.table("air.other")
    assert (set(table_of(shard).held_at), set(other.held_at)) == ({100, 250}, {250})
    ok(shard, cmd.DropSavepoint("old"))
    assert set(table_of(shard).held_at) == {250}


def test_a_table_that_was_created_later_is_not_held() -> None:
    shard = new_shard()
    hold(shard, "before load", 150)
    later = cmd.CreateTable("air.later", table_of(shard).schema, "file:///later", "request-2", created=Timestamp(151))
    ok(shard, later)
    assert (set(table_of(shard).held_at), set(shard.table("air.later").held_at)) == ({150}, set())


def test_a_name_is_taken_where_it_is_kept_and_the_same_request_is_no_other() -> None:
    shard = overwritten_twice()
    hold(shard, "before load", 250)
    assert isinstance(refused(shard, cmd.HoldSavepoint(savepoint("before load", 300, id_="another"))), AlreadyExists)
    hold(shard, "before load", 250)
    # The shard that has the name decides: another one holds what it is asked to.
    hold(shard, "before load", 300, id_="another", is_home=False)
    assert set(table_of(shard).held_at) == {250, 300}


def test_one_whose_time_is_over_is_named() -> None:
    shard = overwritten_twice()
    hold(shard, "short", 250, expires=500)
    hold(shard, "for ever", 250)
    assert [each.name for each in expired(shard.savepoints(), Timestamp(499))] == []
    assert [each.name for each in expired(shard.savepoints(), Timestamp(500))] == ["short"]


def test_what_is_retired_cannot_be_kept_any_more() -> None:
    shard = overwritten_twice()
    retire(shard, 250)
    error = refused(shard, cmd.HoldSavepoint(savepoint("too late", 199)))
    assert isinstance(error, SnapshotTooOld)
    assert NAME in error.message
    hold(shard, "in time", 200)


def test_of_two_at_one_timestamp_the_other_one_still_holds() -> None:
    shard = overwritten_twice()
    for name in ("one", "two"):
        hold(shard, name, 150)
    ok(shard, cmd.DropSavepoint("one"))
    retire(shard)
    assert seen(restored(shard), 150) == ["first001"]
    ok(shard, cmd.DropSavepoint("two"))
    assert not table_of(shard).held_at


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoints, "MAX_SAVEPOINTS", 2)
    shard = overwritten_twice()
    for name in ("one", "two"):
        hold(shard, name, 250)
    assert isinstance(refused(shard, cmd.HoldSavepoint(savepoint("three", 250))), LimitReached)
    hold(shard, "two", 250)
    assert MAX_SAVEPOINTS == 1_000


def test_bytes_are_counted_that_only_readers_of_the_past_see() -> None:
    shard = overwritten_twice()
    hold(shard, "old", 150)
    hold(shard, "new", 300)
    old, new = shard.savepoints()
    assert (held_bytes(old, shard.tables()), held_bytes(new, shard.tables())) == (80, 0)
    committed(shard, 4, "fourth01", 400, overwrite=True)
    assert (held_bytes(old, shard.tables()), held_bytes(new, shard.tables())) == (80, 80)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.booleans(), st.just(0)),
        st.tuples(st.just("hold"), st.integers(0, 3), st.integers(0, 12)),
        st.tuples(st.just("drop"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("retire"), st.just(0), st.integers(0, 14)),
        st.tuples(st.just("restore"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@given(steps)
def test_every_savepoint_reads_as_when_it_was_made_in_any_order_of_steps(script: list[tuple[str, int, int]]) -> None:
    """Against a model: what was seen at each timestamp as it was committed."""
    shard, model, kept, now = new_shard(), {0: list[str]()}, dict[str, int](), 0
    for number, (step, which, at) in enumerate(script):
        match step:
            case "commit":
                now += 1
                write = f"write{number:03}"
                committed(shard, number + 1, write, now, overwrite=bool(which))
                model[now] = [write] if which else [*model[now - 1], write]
            case "hold" if f"s{which}" not in kept and at <= now:
                name = f"s{which}"
                try:
                    hold(shard, name, at)
                except AssertionError:
                    assert table_of(shard).readable_from > at
                else:
                    kept[name] = at
            case "drop":
                kept.pop(f"s{which}", None)
                ok(shard, cmd.DropSavepoint(f"s{which}"))
            case "retire":
                retire(shard, at)
            case "restore":
                shard = restored(shard)
        for held in kept.values():
            assert seen(shard, held) == model[held]
            assert table_of(shard).readable_from <= held
