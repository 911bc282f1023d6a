"""A shard that was restored knows what follows from its snapshot: nothing but what it does next shows what it lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.sim.judges import derived
from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import COMMIT, NAME, OWNER, TABLE, create, manifest, new_shard, ok, refused
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import snapshot
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import FileSet, KeyClaim
from txnstatus.errors import Conflict
from txnstatus.id_sets import below
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import Timestamp, TxnId

FIRST, SECOND = TxnId(7), TxnId(8)
CLAIM = KeyClaim(Timestamp(1 << 40))


def restored(shard: ParticipantShard) -> ParticipantShard:
    other = ParticipantShard(shard.shard)
    other.restore(shard.snapshot())
    other.check_invariants()
    return other


def write_row(shard: ParticipantShard, txn_id: TxnId, snapshot: int = 0) -> None:
    batch = RowBatch("w", deletes=False, rows=b"rows", keys=(b"1",))
    write = cmd.WriteRows(txn_id, TABLE, OWNER, Timestamp(snapshot), 0, batch)
    ok(shard, begin_txn(txn_id, TABLE, OWNER), write)


def drop(shard: ParticipantShard, table_id: str, txn_id: TxnId, name: str) -> None:
    lock = cmd.AcquireLocks(txn_id, table_id, OWNER, (Lock(name, Mode.X),), Otherwise.WAITS, Timestamp(1))
    ok(shard, begin_txn(txn_id, table_id, OWNER), lock, cmd.DropTable(txn_id, table_id, OWNER, below(txn_id)))
    ok(shard, cmd.BeginCommit(txn_id, table_id, COMMIT), cmd.FinalizeCommit(txn_id, table_id, COMMIT))


def test_keys_of_prepared_rows_are_known_after_a_restore() -> None:
    """They went once: a second transaction prepared on the same row, both committed, and one update was lost."""
    shard = new_shard()
    write_row(shard, FIRST)
    write_row(shard, SECOND)
    ok(shard, cmd.BeginCommit(FIRST, TABLE, Timestamp(100)))
    after = restored(shard)
    assert isinstance(refused(after, cmd.BeginCommit(SECOND, TABLE, Timestamp(101))), Conflict)
    ok(after, cmd.FinalizeCommit(FIRST, TABLE, Timestamp(100)))
    assert isinstance(refused(after, cmd.BeginCommit(SECOND, TABLE, Timestamp(102))), Conflict)


def test_a_table_number_is_never_given_twice() -> None:
    """Counted anew from the tables that are left, the next number was that of a living table, which it replaced."""
    shard = new_shard()
    (second,) = (ok(shard, create("air.second", "request-2")).table_id,)
    drop(shard, TABLE, FIRST, NAME)
    ok(shard, cmd.Retire(TABLE, COMMIT), cmd.ForgetTxns(below(SECOND)), cmd.ForgetTable(TABLE))
    after = restored(shard)
    third = ok(after, create("air.third", "request-3")).table_id
    assert third not in (TABLE, second)
    assert after.table("air.second").table_id == second
    drop(shard, second, SECOND, "air.second")
    ok(shard, cmd.Retire(second, COMMIT), cmd.ForgetTxns(below(9)), cmd.ForgetTable(second))
    assert ok(restored(shard), create(NAME, "request-4")).table_id not in (TABLE, second)


def test_what_follows_from_a_snapshot_is_compared_with_what_is_in_force() -> None:
    """The simulator's judge, in a shard with something of everything, whole and with one index lost."""
    machine = ShardMachine(3, lambda _txn_id: None)
    ok(machine.shard, create(NAME))
    write_row(machine.shard, FIRST)
    ok(machine.shard, cmd.BeginCommit(FIRST, TABLE, Timestamp(100)))
    assert derived.faults(machine) == []
    machine.shard.table(NAME).rows.keys.end(FIRST, [b"1"])
    story, *_ = derived.faults(machine)
    assert "_prepared" in story


def append(shard: ParticipantShard, txn_id: TxnId, at: int) -> None:
    write_id = f"write{txn_id:04}"
    for command in (
        cmd.AddFiles(txn_id, TABLE, OWNER, write_id, manifest(write_id), claim=CLAIM, begins=True),
        cmd.BeginCommit(txn_id, TABLE, Timestamp(at)),
        cmd.FinalizeCommit(txn_id, TABLE, Timestamp(at)),
    ):
        assert isinstance(shard.apply(command), ShardApplied)


def give_up(shard: ParticipantShard, txn_id: TxnId) -> None:
    """It leaves a directory to be cleaned."""
    for command in (cmd.OpenWrite(txn_id, TABLE, OWNER, "w", begins=True), cmd.AbortTxn(txn_id, TABLE)):
        assert isinstance(shard.apply(command), ShardApplied)


@pytest.mark.parametrize("size", [1, 3, 200])
def test_a_snapshot_is_as_of_its_beginning_whatever_comes_while_its_chunks_are_made(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "CHUNK", size)
    shard = new_shard()
    for number in range(1, 9):
        append(shard, TxnId(number), 100 * number)
    write_row(shard, TxnId(9), 800)
    give_up(shard, TxnId(11))
    before, chunks = shard.snapshot(), shard.chunks()
    ok(shard, cmd.AbortTxn(TxnId(9), TABLE))
    whole, base = (WHOLE_TABLE,), Timestamp(900)
    all_of_it = cmd.AddFiles(TxnId(10), TABLE, OWNER, "all", manifest("all"), whole, base, (), CLAIM, begins=True)
    ok(shard, all_of_it, cmd.BeginCommit(TxnId(10), TABLE, Timestamp(1000)))
    made = [next(chunks)]
    ok(shard, cmd.MarkCleaned(TxnId(11), TABLE, ("w",)))
    ok(shard, cmd.FinalizeCommit(TxnId(10), TABLE, Timestamp(1000)), cmd.Retire(TABLE, Timestamp(1000)))
    made.append(next(chunks))
    ok(shard, cmd.ForgetTxns(below(TxnId(6))))
    made += chunks
    assert b"".join(made) == before != shard.snapshot()
    after = ParticipantShard(shard.shard)
    after.restore(b"".join(made))
    after.check_invariants()
    assert after.snapshot() == before
    assert len(made) == 1 + -(-9 // size) + -(-8 // size)


def test_what_is_made_of_a_snapshot_at_once_does_not_grow_with_what_has_ended() -> None:
    """A node's loop stood still for 0.3 s for 20,000 commits that were not forgotten."""
    sizes = set[int]()
    shard = new_shard()
    for number in range(1, 1_001):
        append(shard, TxnId(2 * number), 10 * number)
        give_up(shard, TxnId(2 * number + 1))
        if number in (300, 1_000):
            first, *rest = shard.chunks()
            sizes.add(len(first))
            assert max(map(len, rest)) < 40_000
    small, large = min(sizes), max(sizes)
    assert large - small < 300 * 10, "additions and claims are bounded by themselves"


def test_a_snapshot_is_restored_as_its_chunks_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's loop stood still at the last one, for as long as all of it took. Till then the state is what it was."""
    shard, machine, counted = new_shard(), ShardMachine(3, lambda _txn_id: None), [0]
    for number in range(1, 501):
        append(shard, TxnId(2 * number), 10 * number)
        give_up(shard, TxnId(2 * number + 1))
    before, restore, add = machine.shard.snapshot(), TableState.restore, TableState.add

    def counts(table: TableState, txn: TableTxn) -> None:
        counted[0] += 1
        restore(table, txn)

    def counts_files(table: TableState, file_sets: Sequence[FileSet]) -> None:
        counted[0] += len(file_sets)
        add(table, file_sets)

    monkeypatch.setattr(TableState, "restore", counts)
    monkeypatch.setattr(TableState, "add", counts_files)
    restoring, each = machine.restoring(), list[int]()
    for chunk in shard.chunks():
        counted[0] = 0
        restoring.add(chunk)
        each.append(counted[0])
    counted[0] = 0
    assert machine.shard.snapshot() == before
    restoring.finish()
    assert (max(each), sum(each), counted[0]) == (snapshot.CHUNK, 1_500, 0)
    machine.shard.check_invariants()
    assert machine.shard.snapshot() == shard.snapshot()
