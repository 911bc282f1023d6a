"""Names of tables: which table a name means at a time, as tables are made, renamed and dropped."""

from __future__ import annotations

import random

import pytest

from tests.unit.harness.shards import OWNER, begin_txn, create, ok, refused
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.records import MAX_RENAMES
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import AlreadyExists, IllegalState, LimitReached, NotFound, PlacedElsewhere, Unavailable
from txnstatus.id_sets import NO_IDS, IdSet, below
from txnstatus.types import Timestamp, TxnId

A, B = "air.a", "air.b"


def shard_with(*names: str) -> ParticipantShard:
    shard = ParticipantShard(3)
    for name in names:
        ok(shard, create(name, f"made {name}", f"file:///lake/{name}"))
    return shard


def rename(table_id: str, name: str, at: int, request_id: str = "", older: IdSet = NO_IDS) -> cmd.RenameTable:
    return cmd.RenameTable(table_id, name, Timestamp(at), request_id or f"to {name} at {at}", older)


def restored(shard: ParticipantShard) -> ParticipantShard:
    again = ParticipantShard(shard.shard)
    again.restore(shard.snapshot())
    again.check_invariants()
    return again


def test_a_reader_finds_the_table_by_the_name_of_its_time_and_by_the_one_of_now() -> None:
    shard = shard_with(A)
    ok(shard, rename("3.0", B, 10))
    for each in (shard, restored(shard)):
        assert each.table(B).table_id == "3.0"
        assert each.table(B).location == f"file:///lake/{A}", "its directory stays"
        assert [each.table_at(*seen).table_id for seen in ((A, 9), (B, 9), (B, 10))] == ["3.0"] * 3  # type: ignore[arg-type]
        for look in (lambda: each.table(A), lambda: each.table_at(A, Timestamp(10))):  # noqa: B023
            with pytest.raises(NotFound, match=r"air\.a was renamed to air\.b .* at timestamp 10") as told:
                look()
            assert "it is called air.b" in told.value.hint


def test_the_old_name_is_free_at_once_and_the_past_stays_whose_it_was() -> None:
    shard = shard_with(A)
    ok(shard, rename("3.0", B, 10), create(A, "another", "file:///lake/other"))
    ok(shard, rename("3.1", "air.c", 20), rename("3.0", A, 30))
    for each in (shard, restored(shard)):
        found = {name: [each.table_at(name, Timestamp(at)).table_id for at in (5, 15, 35)] for name in (A,)}
        assert found == {A: ["3.0", "3.1", "3.0"]}
        assert each.table_at("air.c", Timestamp(15)).table_id == "3.1"
        assert each.table_at(B, Timestamp(15)).table_id == "3.0", "by the name of then, though it has none such now"
        with pytest.raises(NotFound, match="did not exist"):
            each.table_at("air.c", Timestamp(5))
        assert each.table_at(A, Timestamp(25)).table_id == "3.0", "by the name of now: nobody had it then"
        with pytest.raises(NotFound, match=r"air\.b was renamed to air\.a"):
            each.table_at(B, Timestamp(35))


def test_a_rename_comes_once_and_a_create_that_comes_again_after_it_finds_its_table() -> None:
    shard = shard_with(A)
    command = rename("3.0", B, 10)
    ok(shard, command, create(A, "another", "file:///lake/other"))
    state = shard.snapshot()
    ok(shard, command)
    assert ok(shard, create(A, f"made {A}")).table_id == "3.0"
    assert shard.snapshot() == state


def test_what_is_in_the_way_refuses_it() -> None:
    shard = shard_with(A, B)
    assert isinstance(refused(shard, rename("3.0", B, 10)), AlreadyExists)
    ok(shard, cmd.PlaceTable("air.far", 9))
    assert isinstance(refused(shard, rename("3.0", "air.far", 10)), PlacedElsewhere)
    ok(shard, begin_txn(TxnId(7), "3.0", OWNER))
    assert isinstance(refused(shard, rename("3.0", "air.c", 10)), Unavailable)
    ok(shard, cmd.AbortTxn(TxnId(7), "3.0"), rename("3.0", "air.c", 10))
    assert isinstance(refused(shard, rename("3.0", "air.d", 10)), Unavailable), "two at one time"
    assert isinstance(refused(shard, rename("3.1", A, 10)), Unavailable), "the name was free for no time"
    assert isinstance(refused(shard, cmd.PlaceTable(A, 9)), IllegalState), "its past is here"
    ok(shard, rename("3.1", A, 11))


def test_who_began_before_stays_out_by_either_name() -> None:
    shard = shard_with(A, B)
    ok(shard, rename("3.0", "air.c", 10, older=below(5)), create(A, "another", "file:///lake/other"))
    for each in (shard, restored(shard)):
        for name in (A, "air.c"):
            with pytest.raises(IllegalState, match=r"transaction 4 began before table air\.a was renamed to air\.c"):
                each.table_for(name, TxnId(4))
            each.table_for(name, TxnId(5))
        for table_id in ("3.0", "3.2"):
            late = refused(each, cmd.OpenWrite(TxnId(4), table_id, OWNER, "write001", begins=True))
            assert isinstance(late, IllegalState), "a write that was under way"
        each.table_for(B, TxnId(4))


def test_former_names_are_bounded() -> None:
    shard = shard_with("air.n0")
    for number in range(MAX_RENAMES):
        ok(shard, rename("3.0", f"air.n{number + 1}", number + 1, older=below(number + 1)))
    assert isinstance(refused(shard, rename("3.0", "air.more", 1_000)), LimitReached)
    ok(shard, cmd.ForgetTxns(below(1)), rename("3.0", "air.more", 1_000))
    shard.check_invariants()
    with pytest.raises(NotFound):
        shard.table_at("air.n0", Timestamp(0))
    assert shard.table_at("air.n1", Timestamp(1)).table_id == "3.0"


def test_a_dropped_table_is_found_by_all_its_names_until_it_is_forgotten() -> None:
    shard = shard_with(A)
    ok(shard, rename("3.0", B, 10))
    lock = cmd.AcquireLocks(TxnId(7), "3.0", OWNER, (Lock(B, Mode.X),), Otherwise.WAITS, Timestamp(1), begins=True)
    ok(shard, lock, cmd.DropTable(TxnId(7), "3.0", OWNER, below(7)))
    ok(shard, cmd.BeginCommit(TxnId(7), "3.0", Timestamp(20)), cmd.FinalizeCommit(TxnId(7), "3.0", Timestamp(20)))
    for name in (A, B):
        with pytest.raises(NotFound, match=r"table air\.b was dropped by transaction 7"):
            shard.table(name)
    assert [shard.table_at(name, Timestamp(at)).table_id for name, at in ((A, 9), (B, 9), (B, 15))] == ["3.0"] * 3
    ok(shard, cmd.Retire("3.0", Timestamp(20)), cmd.ForgetTxns(below(8)), cmd.ForgetTable("3.0"))
    shard.check_invariants()
    for name in (A, B):
        with pytest.raises(NotFound, match="does not exist"):
            shard.table(name)


@pytest.mark.parametrize("seed", range(50))
def test_names_at_all_times_against_a_list_of_who_had_them(seed: int) -> None:
    dice, shard = random.Random(seed), ParticipantShard(3)
    names = [f"air.{letter}" for letter in "abcd"]
    held: dict[str, str] = {}
    past: list[dict[str, str]] = [{}]
    made: dict[str, int] = {}
    for clock in range(1, 61):
        name = dice.choice(names)
        if dice.random() < 0.3 and name not in held:
            command = create(name, f"r{clock}", f"file:///lake/{clock}")
            table_id = ok(shard, cmd.CreateTable(*_fields(command), created=Timestamp(clock - 1))).table_id
            held[name] = table_id
            made[table_id] = clock - 1
            past[-1] = dict(held)  # it is there from the last commit before it on
        elif held:
            was = dice.choice(sorted(held))
            command_ = rename(held[was], name, clock)
            if name in held:
                refused(shard, command_)
            else:
                ok(shard, command_)
                held[name] = held.pop(was)
        past.append(dict(held))
        if dice.random() < 0.1:
            shard = restored(shard)
    shard.check_invariants()
    for at, then in enumerate(past):
        for name in names:
            expected = then.get(name)
            if expected is None and name in held and made[held[name]] <= at:
                expected = held[name]
            try:
                found = shard.table_at(name, Timestamp(at)).table_id
            except NotFound:
                found = None
            assert found == expected, (at, name)


def _fields(command: cmd.CreateTable) -> tuple[object, ...]:
    return command.name, command.schema, command.location, command.request_id, command.conflicts
