"""A shard that is divided by its tables: what goes, what stays, and who says where it is."""

from __future__ import annotations

import random

import pytest

from tests.unit.harness.shards import NAME, OWNER, TABLE, begun, committed, create, new_shard, ok, prepare, refused
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.dividing import MAX_SHARE
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import NotFound, PlacedElsewhere
from txnstatus.id_sets import NO_IDS, below
from txnstatus.raft.migration import Splits
from txnstatus.raft.parts import splitting
from txnstatus.raft.replica import MAX_BATCH_BYTES
from txnstatus.types import ParticipantState, Timestamp, TxnId

A, B, C = "air.a", "air.b", "air.c"


def shard_with(*names: str) -> ParticipantShard:
    shard = ParticipantShard(3)
    for name in names:
        ok(shard, create(name, f"made {name}", f"file:///lake/{name}"))
    return shard


def divided(shard: ParticipantShard, *share: str, number: int = 8) -> ParticipantShard:
    """The new shard. Both are as a snapshot has them, too."""
    other = ParticipantShard(number)
    shard.divide(other, set(share))
    for each in (shard, other):
        each.check_invariants()
        again = ParticipantShard(each.shard)
        again.restore(each.snapshot())
        again.check_invariants()
        assert again.snapshot() == each.snapshot()
    return other


def rename(table_id: str, name: str, at: int) -> cmd.RenameTable:
    return cmd.RenameTable(table_id, name, Timestamp(at), f"to {name} at {at}", NO_IDS)


def ids(shard: ParticipantShard) -> list[str]:
    return [table.table_id for table in shard.tables()]


def test_a_table_goes_with_its_id_and_the_shard_that_it_left_says_where_it_is() -> None:
    shard = shard_with(A, B)
    other = divided(shard, "3.1")
    assert (ids(shard), ids(other)) == (["3.0"], ["3.1"])
    assert other.table(B).table_id == "3.1"
    for ask in (lambda: shard.table(B), lambda: shard.table_by_id("3.1")):
        with pytest.raises(PlacedElsewhere) as told:
            ask()
        assert told.value.shard == 8
    for command in (cmd.BeginCommit(TxnId(1), "3.1", Timestamp(5)), cmd.AbortTxn(TxnId(1), "3.1")):
        error = refused(shard, command)
        assert isinstance(error, PlacedElsewhere), "no answer of the participant's own: it is asked there"
        assert error.shard == 8
    assert ok(other, create("air.new", "another")).table_id == "8.0"
    assert ok(shard, create("air.newer", "one more")).table_id == "3.2"
    assert isinstance(refused(shard, create(B, "again")), PlacedElsewhere)


def test_what_is_open_prepared_and_committed_goes_along() -> None:
    shard = new_shard()
    committed(shard, 1, "first001", 100)
    open_, prepared = begun(shard, 2), begun(shard, 3)
    ok(shard, cmd.AcquireLocks(open_, TABLE, OWNER, (Lock(NAME, Mode.X),), Otherwise.REFUSED, Timestamp(1)))
    prepare(shard, prepared, 150)
    ok(shard, cmd.ForgetTxns(below(TxnId(1))))
    shard.apart_below = TxnId(2)
    before = shard.table(NAME)
    other = divided(shard, TABLE)
    assert other.table(NAME) is before
    assert [(id_, each.state) for id_, each in before.txns.items()] == [
        (TxnId(1), ParticipantState.COMMITTED),
        (open_, ParticipantState.OPEN),
        (prepared, ParticipantState.COMMIT_IN_PROGRESS),
    ]
    assert [claim.lock.object for claim in before.locks.held_by(open_)] == [NAME]
    assert (other.forgotten, other.apart_below) == (shard.forgotten, TxnId(2))
    ok(other, cmd.FinalizeCommit(prepared, TABLE, Timestamp(160)), cmd.AbortTxn(open_, TABLE))


def test_tables_that_had_a_name_in_common_stay_together() -> None:
    shard = shard_with(A, B, C)
    ok(shard, rename("3.0", "air.x", 10), rename("3.1", A, 20), rename("3.2", B, 30))
    other = divided(shard, "3.0", "3.1")
    assert ids(other) == [], "the third one is called what the second one was"
    other = divided(shard, "3.0", "3.1", "3.2")
    assert (ids(shard), ids(other)) == ([], ["3.0", "3.1", "3.2"])
    assert other.table_at(A, Timestamp(5)).table_id == "3.0"
    assert other.table_at(A, Timestamp(25)).table_id == "3.1"
    for name in (A, B, C, "air.x"):
        with pytest.raises(PlacedElsewhere):
            shard.table_at(name, Timestamp(25))


def test_what_was_dropped_goes_with_the_table_that_has_its_name_now() -> None:
    shard = shard_with(A, B)
    txn_id = TxnId(5)
    ok(shard, cmd.AcquireLocks(txn_id, "3.0", OWNER, (Lock(A, Mode.X),), Otherwise.REFUSED, Timestamp(1), begins=True))
    ok(shard, cmd.DropTable(txn_id, "3.0", OWNER, NO_IDS))
    ok(shard, cmd.BeginCommit(txn_id, "3.0", Timestamp(50)), cmd.FinalizeCommit(txn_id, "3.0", Timestamp(60)))
    ok(shard, create(A, "anew", "file:///lake/anew"))
    other = divided(shard, "3.0", "3.2")
    assert ids(other) == ["3.0", "3.2"]
    assert other.table_at(A, Timestamp(55)).table_id == "3.0"
    assert other.table(A).table_id == "3.2"
    assert ids(shard) == ["3.1"]


def test_savepoints_hold_on_both_and_the_name_has_one_home() -> None:
    shard = shard_with(A, B)
    held = cmd.Savepoint("id", "before", "ada", Timestamp(100), (), (), Timestamp(1), Timestamp(0), True)
    ok(shard, cmd.HoldSavepoint(held))
    other = divided(shard, "3.1")
    assert [(each.savepoint_id, each.is_home) for each in shard.savepoints()] == [("id", True)]
    assert [(each.savepoint_id, each.is_home) for each in other.savepoints()] == [("id", False)]
    assert other.table(B).held_at == {Timestamp(100): 1}
    ok(other, cmd.DropSavepoint("id"))
    assert not other.table(B).held_at
    assert shard.table(A).held_at == {Timestamp(100): 1}


def test_who_never_came_to_a_table_that_went_and_is_gone_ends_there() -> None:
    shard = shard_with(A)
    other = divided(shard, "3.0")
    txn_id = TxnId(5)
    ok(other, cmd.AcquireLocks(txn_id, "3.0", OWNER, (Lock(A, Mode.X),), Otherwise.REFUSED, Timestamp(1), begins=True))
    ok(other, cmd.DropTable(txn_id, "3.0", OWNER, NO_IDS))
    ok(other, cmd.BeginCommit(txn_id, "3.0", Timestamp(50)), cmd.FinalizeCommit(txn_id, "3.0", Timestamp(60)))
    ok(other, cmd.ForgetTxns(below(TxnId(6))), cmd.Retire("3.0", Timestamp(70)), cmd.ForgetTable("3.0"))
    assert ids(other) == []
    ok(other, cmd.AbortTxn(TxnId(9), "3.0"))
    assert isinstance(refused(other, cmd.BeginCommit(TxnId(9), "3.0", Timestamp(80))), NotFound)
    assert isinstance(refused(other, cmd.AbortTxn(TxnId(9), "3.1")), NotFound), "it never had that one"


def test_what_is_split_off_is_split_again() -> None:
    shard = shard_with(A, B, C)
    second = divided(shard, "3.1", "3.2")
    third = divided(second, "3.2", number=9)
    assert [ids(each) for each in (shard, second, third)] == [["3.0"], ["3.1"], ["3.2"]]
    with pytest.raises(PlacedElsewhere) as told:
        shard.table(C)
    assert told.value.shard == 8, "it knows no more"
    with pytest.raises(PlacedElsewhere) as told:
        second.table(C)
    assert told.value.shard == 9
    assert [each.keeps("3.2") for each in (shard, second, third)] == [False, False, True]


def test_no_other_table_is_made_where_one_is_that_went() -> None:
    shard = shard_with(A)
    divided(shard, "3.0")
    assert shard.free_location(f"file:///lake/{A}") == f"file:///lake/{A}.1"


def test_a_half_is_by_the_recent_work() -> None:
    shard = shard_with(*(f"air.t{number}" for number in range(5)))
    for txn in range(1, 9):
        ok(shard, cmd.OpenWrite(TxnId(txn), "3.0", OWNER, "write0001", begins=True))
    assert shard.half() == ("3.1", "3.2", "3.3", "3.4"), "the busy one has a shard of its own"
    assert shard_with(A).half() == ()
    assert shard_with(A, B, C).half() == ("3.1",)
    assert ParticipantShard(3).half() == ()


def test_no_more_go_than_an_entry_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the shard would have left its log, and could not come back."""
    wanted = Splits("shard-1023", 1 << 60, "shard-1024", tuple(f"1023.{10**9 + number}" for number in range(MAX_SHARE)))
    assert len(splitting(wanted)) < MAX_BATCH_BYTES
    monkeypatch.setattr("txnparticipant.shard.dividing.MAX_SHARE", 2)
    assert shard_with(*(f"air.t{number}" for number in range(9))).half() == ("3.1", "3.3")


def test_databases_stay() -> None:
    shard = shard_with(A)
    ok(
        shard,
        cmd.AcquireLocks(
            TxnId(1), "3.air", OWNER, (Lock("air", Mode.S),), Otherwise.REFUSED, Timestamp(1), begins=True
        ),
    )
    other = divided(shard, "3.0", "3.air")
    assert (ids(shard), ids(other)) == (["3.air"], ["3.0"])


@pytest.mark.parametrize("seed", range(20))
def test_any_half_of_any_history_can_go(seed: int) -> None:
    """What is proposed as a half goes whole; and a name means the same table as before, wherever that is."""
    rng, shard, at = random.Random(seed), ParticipantShard(3), 0
    names = [f"air.n{number}" for number in range(6)]
    for step in range(40):
        at += 10
        name = rng.choice(names)
        if shard.names.has(name):
            free = [each for each in names if not shard.names.has(each)]
            if free:
                ok(shard, rename(shard.table(name).table_id, rng.choice(free), at))
        elif rng.random() < 0.4:
            ok(shard, create(name, f"step {step}", f"file:///lake/{step}"))
    times = [Timestamp(each) for each in range(5, at + 10, 10)]

    def meant(*shards: ParticipantShard) -> dict[tuple[str, Timestamp], list[str]]:
        return {
            (name, time): [id_ for each in shards for id_ in _seen(each, name, time)]
            for name in names
            for time in times
        }

    before, half = meant(shard), shard.half()
    other = divided(shard, *half)
    assert sorted(ids(other)) == sorted(half)
    assert meant(shard, other) == before


def _seen(shard: ParticipantShard, name: str, at: Timestamp) -> list[str]:
    try:
        return [shard.table_at(name, at).table_id]
    except (NotFound, PlacedElsewhere):
        return []
