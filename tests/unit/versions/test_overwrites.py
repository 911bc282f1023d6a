"""Overwrites of partitions: what they replace, who is in whose way, and a shard against a model that looks at all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import ok
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.versions.mvcc import Manifest, visible
from txnstatus.errors import Conflict
from txnstatus.partitions import covers
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.types import ConflictStrategy, Timestamp, TxnId

OWNER, TABLE, NAME = "ada", "3.0", "air.flights"
SCHEMA = Schema((Column("id", "bigint"), Column("m", "int"), Column("d", "int")), ("m", "d"))
JAN1, JAN2, FEB1 = "m=1/d=1", "m=1/d=2", "m=2/d=1"


def new_shard() -> ParticipantShard:
    shard = ParticipantShard(3)
    shard.apply(cmd.CreateTable(NAME, SCHEMA, "file:///lake/air/flights", "r"))
    return shard


def added(
    txn: int, partitions: tuple[str, ...], overwrites: tuple[str, ...] = (), base: int = 0, number: int = 0
) -> list[cmd.Command]:
    """A write to these partitions, and what is before it."""
    name, txn_id = f"txn{txn}w{number}xxx", TxnId(txn)
    manifest = replace(Manifest(f"{txn}/{name}", 1, 1, len(partitions), 1, 1), partitions=partitions)
    return [
        begin_txn(txn_id, TABLE, OWNER),
        cmd.OpenWrite(txn_id, TABLE, OWNER, name),
        cmd.AddFiles(txn_id, TABLE, OWNER, name, manifest, overwrites, Timestamp(base)),
    ]


def prepare(shard: ParticipantShard, txn: int, ts: int) -> ShardApplied | Rejected:
    outcome = shard.apply(cmd.BeginCommit(TxnId(txn), TABLE, Timestamp(ts)))
    shard.check_invariants()
    return outcome


def commit(shard: ParticipantShard, txn: int, ts: int) -> None:
    outcome = prepare(shard, txn, ts)
    assert isinstance(outcome, ShardApplied), outcome
    ok(shard, cmd.FinalizeCommit(TxnId(txn), TABLE, Timestamp(ts)))


def conflict(shard: ParticipantShard, txn: int, ts: int = 500) -> Conflict:
    outcome = prepare(shard, txn, ts)
    assert isinstance(outcome, Rejected), outcome
    assert isinstance(outcome.error, Conflict)
    return outcome.error


def seen(shard: ParticipantShard, ts: int) -> list[tuple[str, str]]:
    """The transactions that a reader sees, each with the partition that it wrote to."""
    found = visible(shard.table(NAME).file_sets.values(), [], {}, Timestamp(ts))
    return sorted((m.path.split("/")[0], partition) for m in found for partition in m.partitions)


def test_only_the_partitions_named_are_replaced() -> None:
    shard = new_shard()
    ok(shard, *added(1, (JAN1, JAN2, FEB1)))
    commit(shard, 1, 100)
    ok(shard, *added(2, (JAN1,), (JAN1,), base=100))
    commit(shard, 2, 110)
    assert seen(shard, 109) == [("1", JAN1), ("1", JAN2), ("1", FEB1)]
    assert seen(shard, 110) == [("1", JAN2), ("1", FEB1), ("2", JAN1)]
    ok(shard, *added(3, (JAN2,), ("m=1",), base=110))
    commit(shard, 3, 120)
    assert seen(shard, 120) == [("1", FEB1), ("3", JAN2)]


def test_an_overwrite_with_nothing_empties_a_partition_and_leaves_no_directory() -> None:
    shard = new_shard()
    ok(shard, *added(1, (JAN1, FEB1)))
    commit(shard, 1, 100)
    ok(shard, *added(2, (), ("m=1",), base=100))
    commit(shard, 2, 110)
    assert seen(shard, 110) == [("1", FEB1)]
    assert [txn_id for _, txn_id, _ in shard.to_clean()] == [2], "nothing refers to its manifest"


def test_an_overwrite_replaces_what_its_snapshot_has_and_nothing_later() -> None:
    shard = new_shard()
    ok(shard, *added(1, (JAN1,)))
    commit(shard, 1, 100)
    ok(shard, *added(2, (JAN1,)))
    commit(shard, 2, 110)
    ok(shard, *added(3, (JAN1,), (JAN1,), base=105))
    commit(shard, 3, 120)
    assert seen(shard, 120) == [("2", JAN1), ("3", JAN1)]


def test_a_later_overwrite_of_the_same_transaction_takes_its_part_of_an_earlier_write() -> None:
    shard = new_shard()
    ok(shard, *added(1, (JAN1, FEB1)), *added(1, (JAN1,), (JAN1,), number=1))
    commit(shard, 1, 100)
    ((_, jan), (_, feb)) = sorted(
        (m.partitions, m.path) for m in visible(shard.table(NAME).file_sets.values(), [], {}, Timestamp(100))
    )
    assert jan != feb
    assert not list(shard.to_clean())


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (JAN1, JAN1, True),
        (JAN1, JAN2, False),
        (JAN1, "m=1", True),
        ("m=1", JAN1, True),
        ("m=1", FEB1, False),
        ("", FEB1, True),
        (FEB1, "", True),
        ("m=1", "m=10", False),
    ],
)
@pytest.mark.parametrize("final", [False, True])
def test_overwrites_conflict_where_they_meet_also_where_there_is_nothing(
    one: str, other: str, meet: bool, final: bool
) -> None:
    shard = new_shard()
    ok(shard, *added(1, (), (one,), base=50), *added(2, (), (other,), base=50))
    assert isinstance(prepare(shard, 1, 100), ShardApplied)
    if final:
        ok(shard, cmd.FinalizeCommit(TxnId(1), TABLE, Timestamp(100)))
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    if not meet:
        commit(restored, 2, 110)
        return
    error = conflict(restored, 2)
    assert error.winner == 1
    assert error.objects == ((NAME if other == "" else f"{NAME}/{other}"),)


def test_of_several_parts_in_the_way_the_same_one_is_named_after_a_restart() -> None:
    shard = new_shard()
    for number, part in enumerate((JAN2, JAN1)):
        ok(shard, *added(1, (part,), (part,), number=number))
    ok(shard, *added(2, (JAN1,), ("m=1",)))
    commit(shard, 1, 100)
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    assert conflict(shard, 2).message == conflict(restored, 2).message


def test_the_first_that_prepares_wins_by_snapshot_and_not_by_the_files() -> None:
    """Both have read the partition while it was empty."""
    shard = new_shard()
    ok(shard, *added(1, (JAN1,), (JAN1,), base=50), *added(2, (JAN1,), (JAN1,), base=50))
    commit(shard, 2, 100)
    assert conflict(shard, 1).winner == 2
    ok(shard, cmd.AbortTxn(TxnId(1), TABLE))
    ok(shard, *added(3, (JAN1,), (JAN1,), base=100))
    commit(shard, 3, 120)
    assert seen(shard, 120) == [("3", JAN1)]


def test_an_aborted_overwrite_is_in_nobodys_way() -> None:
    shard = new_shard()
    ok(shard, *added(1, (), (JAN1,), base=50), *added(2, (), ("m=1",), base=50))
    prepare(shard, 1, 100)
    ok(shard, cmd.AbortTxn(TxnId(1), TABLE))
    commit(shard, 2, 110)


def locked(txn: int, name: str, mode: Mode) -> cmd.Command:
    return cmd.AcquireLocks(TxnId(txn), TABLE, OWNER, (Lock(name, mode),), Otherwise.WAITS, Timestamp(1))


@pytest.mark.parametrize(
    ("overwrites", "locks"),
    [
        # Each lock, and whether it is enough for a write to January 1st.
        (("m=1",), [(f"{NAME}/{JAN1}", Mode.X, False), (f"{NAME}/m=1", Mode.S, False), (f"{NAME}/m=1", Mode.X, True)]),
        (("m=1",), [(NAME, Mode.SHARED_WRITE, False), (NAME, Mode.X, True)]),
        ((), [(NAME, Mode.S, False), (f"{NAME}/m=1", Mode.S, False), (f"{NAME}/{JAN1}", Mode.S, True)]),
        ((), [(f"{NAME}/{JAN2}", Mode.X, False), (f"{NAME}/m=1", Mode.X, True)]),
        ((), [(f"{NAME}/{JAN1}", Mode.SHARED_WRITE, True)]),
    ],
)
def test_a_table_that_settles_conflicts_by_locks_wants_them_of_what_is_written(
    overwrites: tuple[str, ...], locks: list[tuple[str, Mode, bool]]
) -> None:
    shard = ParticipantShard(3)
    shard.apply(cmd.CreateTable(NAME, SCHEMA, "file:///lake", "r", ConflictStrategy.WAIT))
    *before, add = added(1, (JAN1,), overwrites)
    ok(shard, *before)
    refused = shard.apply(add)
    assert isinstance(refused, Rejected)
    assert f"{NAME}/{overwrites[0] if overwrites else JAN1} must be locked" in refused.error.message
    for name, mode, enough in locks:
        ok(shard, locked(1, name, mode))
        assert isinstance(shard.apply(add), ShardApplied) == enough
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    assert restored.table(NAME).conflicts == ConflictStrategy.WAIT


# ---- against a model


@dataclass
class Txn:
    base: int
    adds: tuple[str, ...]
    overwrites: tuple[str, ...]
    commit_ts: int = 0


@dataclass
class Model:
    """Every transaction that has committed, looked at one by one."""

    committed: list[Txn] = field(default_factory=list)

    def conflicts(self, txn: Txn) -> bool:
        return any(
            covers({ours}, theirs) or covers({theirs}, ours)
            for other in self.committed
            if other.commit_ts > txn.base
            for ours in txn.overwrites
            for theirs in other.overwrites
        )

    def seen(self, ts: int) -> list[tuple[int, str]]:
        there = [txn for txn in self.committed if txn.commit_ts <= ts]
        return sorted(
            (txn.commit_ts, partition)
            for txn in there
            for partition in txn.adds
            if not any(other.base >= txn.commit_ts and covers(set(other.overwrites), partition) for other in there)
        )


objects = st.sets(st.sampled_from([JAN1, JAN2, FEB1, "m=1", "m=2", ""]), max_size=2).map(lambda s: tuple(sorted(s)))
steps = st.lists(
    st.tuples(st.sets(st.sampled_from([JAN1, JAN2, FEB1]), max_size=3), objects, st.integers(0, 3), st.booleans()),
    max_size=12,
)


@settings(deadline=None, max_examples=200)
@given(steps)
def test_a_shard_does_what_the_model_does(drawn: list[tuple[set[str], tuple[str, ...], int, bool]]) -> None:
    """Bases are timestamps of the past; what is based on one is settled there, as the shell makes sure."""
    shard, model = new_shard(), Model()
    for number, (partitions, overwrites, age, restore) in enumerate(drawn):
        ts = 100 + 10 * number
        base = max(0, ts - 10 * (age + 1)) if overwrites else 0
        adds = tuple(sorted(p for p in partitions if not overwrites or covers(set(overwrites), p)))
        txn = Txn(base, adds, overwrites, ts)
        ok(shard, *added(number, adds, overwrites, base))
        outcome = prepare(shard, number, ts)
        assert isinstance(outcome, Rejected) == model.conflicts(txn)
        if isinstance(outcome, ShardApplied):
            ok(shard, cmd.FinalizeCommit(TxnId(number), TABLE, Timestamp(ts)))
            model.committed.append(txn)
        if restore:
            data, shard = shard.snapshot(), ParticipantShard(3)
            shard.restore(data)
        for at in range(90, ts + 20, 10):
            assert sorted((100 + 10 * int(txn), p) for txn, p in seen(shard, at)) == model.seen(at)
