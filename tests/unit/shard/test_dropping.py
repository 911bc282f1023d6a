"""A table that is dropped, on its shard: every order in which a drop, a commit and a new table can come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.calls import answered
from tests.unit.harness.leader.shard_service import TABLE as SERVED
from tests.unit.harness.leader.shard_service import Status, shard_service, wrote_and_prepared
from tests.unit.harness.shards import ok, refused
from txnparticipant.leader.service import ShardService
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.versions.mvcc import KeyClaim, Manifest
from txnstatus.errors import (
    AlreadyExists,
    Conflict,
    IllegalState,
    InvalidArgument,
    NotAuthorized,
    NotFound,
    SnapshotTooOld,
)
from txnstatus.id_sets import below
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId, micros_of, timestamp, utc_of

OWNER, NAME, OLD, NEW = "ada", "air.flights", "3.0", "3.1"
LOCATION = "file:///lake/air/flights"
SCHEMA = Schema((Column("id", "bigint"),), primary_key=("id",))
WRITER, DROPPER = TxnId(4), TxnId(5)


def created(request_id: str = "first") -> cmd.CreateTable:
    return cmd.CreateTable(NAME, SCHEMA, LOCATION, request_id)


def new_shard() -> ParticipantShard:
    shard = ParticipantShard(3)
    assert isinstance(shard.apply(created()), ShardApplied)
    return shard


def locked(txn_id: TxnId, name: str = NAME) -> cmd.AcquireLocks:
    return cmd.AcquireLocks(txn_id, OLD, OWNER, (Lock(name, Mode.X),), Otherwise.WAITS, Timestamp(1))


def drop(shard: ParticipantShard, ts: int = 100, txn_id: TxnId = DROPPER) -> None:
    ok(shard, begin_txn(txn_id, OLD, OWNER), locked(txn_id), cmd.DropTable(txn_id, OLD, OWNER, below(txn_id)))
    ok(shard, cmd.BeginCommit(txn_id, OLD, Timestamp(ts)), cmd.FinalizeCommit(txn_id, OLD, Timestamp(ts)))


def manifest(write_id: str) -> Manifest:
    return Manifest(f"{LOCATION}/{write_id}/_manifest.json", 1, 1, 1, 1, 1)


def appended(txn_id: TxnId, table_id: str = OLD) -> tuple[cmd.Command, ...]:
    return (
        begin_txn(txn_id, table_id, OWNER),
        cmd.OpenWrite(txn_id, table_id, OWNER, f"w{txn_id}"),
        cmd.AddFiles(
            txn_id,
            table_id,
            OWNER,
            f"w{txn_id}",
            manifest(f"w{txn_id}"),
            claim=KeyClaim(Timestamp(0), (b"%d" % txn_id,)),
        ),
    )


def committed(shard: ParticipantShard, txn: int, ts: int) -> None:
    txn_id = TxnId(txn)
    ok(shard, *appended(txn_id), cmd.BeginCommit(txn_id, OLD, Timestamp(ts)))
    ok(shard, cmd.FinalizeCommit(txn_id, OLD, Timestamp(ts)))


def copy(shard: ParticipantShard) -> ParticipantShard:
    """As a replica has it that began from a snapshot."""
    other = ParticipantShard(shard.shard)
    other.restore(shard.snapshot())
    assert other.snapshot() == shard.snapshot()
    other.check_invariants()
    return other


# ---- all orders


@dataclass(frozen=True)
class Story:
    """A writer, a dropper and a creator, each at some step; and what has become of them."""

    shard: bytes
    now: int
    steps: tuple[int, int, int] = (0, 0, 0)
    ends: tuple[str, str, str] = ("", "", "")


def _play(story: Story, who: int, *, commits: bool) -> Story:
    """The next step of one of the three, as the status table and its client would make it."""
    shard, now = ParticipantShard(3), story.now + 1
    shard.restore(story.shard)
    step, end, ts = story.steps[who], story.ends[who], Timestamp(now)
    if who == 2:
        outcome = shard.apply(created("second"))
        end = "created" if isinstance(outcome, ShardApplied) else "refused"
    else:
        txn_id = (WRITER, DROPPER)[who]
        work = (
            appended(txn_id)
            if who == 0
            else (begin_txn(txn_id, OLD, OWNER), locked(txn_id), cmd.DropTable(txn_id, OLD, OWNER, below(txn_id)))
        )
        if step < len(work):
            outcome = shard.apply(work[step])
        elif step == len(work):
            outcome = shard.apply(cmd.BeginCommit(txn_id, OLD, ts))
        elif commits:
            outcome = shard.apply(cmd.FinalizeCommit(txn_id, OLD, ts))
            assert isinstance(outcome, ShardApplied)
            end = "committed"
        else:
            outcome = shard.apply(cmd.AbortTxn(txn_id, OLD))
            end = "aborted"
        if isinstance(outcome, Rejected):
            assert isinstance(shard.apply(cmd.AbortTxn(txn_id, OLD)), ShardApplied)
            end = "refused"
    shard.check_invariants()
    steps, ends = list(story.steps), list(story.ends)
    steps[who], ends[who] = step + 1, end
    return Story(copy(shard).snapshot(), now, (steps[0], steps[1], steps[2]), (ends[0], ends[1], ends[2]))


def _next(story: Story) -> Iterator[Story]:
    for who in (who for who in range(3) if not story.ends[who]):
        for commits in (True, False) if who < 2 and story.steps[who] == 4 else (True,):
            yield _play(story, who, commits=commits)


def _orders(begin: Story) -> Counter[Story]:
    """The ends of all stories that begin so, and in how many orders each is come to: orders that have come to the same
    go on as one."""
    ends: Counter[Story] = Counter()
    orders = Counter([begin])
    while orders:
        further: Counter[Story] = Counter()
        for story, count in orders.items():
            if all(story.ends):
                ends[story] += count
                continue
            for after in _next(story):
                further[after] += count
        orders = further
    return ends


def test_in_every_order_a_commit_is_before_the_drop_or_refused() -> None:
    ends: Counter[tuple[str, str, str]] = Counter()
    for story, count in _orders(Story(new_shard().snapshot(), 10)).items():
        ends[story.ends] += count
        shard = ParticipantShard(3)
        shard.restore(story.shard)
        writer, dropper, creator = story.ends
        old = shard.table_by_id(OLD)
        assert (old.dropped is not None) == (dropper == "committed")
        assert len(old.file_sets) == (writer == "committed")
        if old.dropped is not None:
            assert all(fs.commit_ts < old.dropped.commit_ts == fs.replaced_ts for fs in old.file_sets.values())
            assert shard.table_at(NAME, Timestamp(old.dropped.commit_ts - 1)) is old
        if creator == "created":
            assert shard.table(NAME).table_id == NEW
            assert not shard.table(NAME).file_sets
        assert creator == "refused" or dropper == "committed"
    found = set(ends)
    assert ("committed", "committed", "created") in found
    assert ("refused", "committed", "created") in found, "the drop came first"
    assert ("committed", "refused", "refused") in found, "the writer was prepared first"
    assert ("aborted", "committed", "refused") in found
    assert sum(ends.values()) > 1_000


# ---- one by one


def test_a_drop_needs_the_lock_and_nothing_else_of_its_transaction() -> None:
    shard = new_shard()
    drops = cmd.DropTable(DROPPER, OLD, OWNER, below(DROPPER))
    assert isinstance(refused(shard, drops), NotFound)
    ok(shard, begin_txn(DROPPER, OLD, OWNER))
    assert isinstance(refused(shard, drops), IllegalState)
    ok(shard, locked(DROPPER))
    assert isinstance(refused(shard, cmd.DropTable(DROPPER, OLD, "bob", below(DROPPER))), NotAuthorized)
    ok(shard, drops, drops)
    for command in (*appended(DROPPER)[1:], locked(DROPPER)):
        assert isinstance(refused(shard, command), IllegalState)
    writes = new_shard()
    ok(writes, *appended(WRITER), locked(WRITER))
    assert isinstance(refused(writes, cmd.DropTable(WRITER, OLD, OWNER, below(WRITER))), IllegalState)


def test_a_database_is_not_dropped() -> None:
    shard = new_shard()
    ok(shard, begin_txn(DROPPER, "3.air", OWNER))
    assert isinstance(refused(shard, cmd.DropTable(DROPPER, "3.air", OWNER, below(DROPPER))), InvalidArgument)


def test_nobody_begins_or_writes_or_prepares_on_a_dropped_table() -> None:
    shard = new_shard()
    ok(shard, *appended(WRITER))
    drop(shard)
    said = f"table {NAME} was dropped by transaction 5 of 'ada' on {utc_of(Timestamp(100))}, at timestamp 100"
    for command in (
        begin_txn(TxnId(9), OLD, OWNER),
        *appended(WRITER)[1:],
        locked(WRITER),
        cmd.WriteRows(WRITER, OLD, OWNER, Timestamp(0), 0, RowBatch("w", False, b"", (b"1",))),
        cmd.DropTable(WRITER, OLD, OWNER, below(WRITER)),
    ):
        error = refused(shard, command)
        assert isinstance(error, NotFound)
        assert error.message == said
    for txn in (WRITER, TxnId(9)):
        error = refused(shard, cmd.BeginCommit(txn, OLD, Timestamp(200)))
        assert isinstance(error, Conflict)
        assert (error.winner, error.objects, error.reason) == (DROPPER, (NAME,), said)
    ok(shard, cmd.AbortTxn(WRITER, OLD))
    assert shard.table_by_id(OLD).uncleaned


def test_a_create_that_is_sent_again_after_the_drop_makes_no_table() -> None:
    shard = new_shard()
    drop(shard)
    assert ok(shard, created()).table_id == OLD
    with pytest.raises(NotFound):
        shard.table(NAME)
    assert ok(shard, created("second")).table_id == NEW
    assert isinstance(refused(shard, created("third")), AlreadyExists)
    assert ok(shard, created()).table_id == OLD


def test_the_drop_is_above_all_that_was_committed_whichever_clock_is_behind() -> None:
    shard = new_shard()
    committed(shard, 1, 500)
    ok(shard, begin_txn(DROPPER, OLD, OWNER), locked(DROPPER), cmd.DropTable(DROPPER, OLD, OWNER, below(DROPPER)))
    assert ok(shard, cmd.BeginCommit(DROPPER, OLD, Timestamp(100))).timestamp == 501


def test_whoever_began_before_the_drop_stays_out_of_the_new_table() -> None:
    shard = new_shard()
    drop(shard)
    ok(shard, created("second"))
    other = copy(shard)
    assert isinstance(refused(other, begin_txn(WRITER, NEW, OWNER)), IllegalState)
    with pytest.raises(IllegalState, match="began before"):
        other.table_for(NAME, WRITER)
    ok(other, *appended(TxnId(6), NEW))


def test_each_reader_finds_the_table_of_its_time() -> None:
    shard = new_shard()
    drop(shard, 100)
    with pytest.raises(NotFound, match="dropped by transaction 5"):
        shard.table_at(NAME, Timestamp(150))
    ok(shard, cmd.CreateTable(NAME, SCHEMA, LOCATION, "second", created=Timestamp(200)))
    other = copy(shard)
    assert other.table_at(NAME, Timestamp(99)).table_id == OLD
    assert other.table_at(NAME, Timestamp(200)).table_id == NEW
    for ts in (100, 199):
        with pytest.raises(NotFound, match="dropped by transaction 5"):
            other.table_at(NAME, Timestamp(ts))
    with pytest.raises(NotFound, match="does not exist"):
        other.table_at("air.nowhere", Timestamp(1))


# ---- cleaning


def test_a_dropped_table_is_retired_cleaned_and_forgotten() -> None:
    shard = new_shard()
    committed(shard, 1, 50)
    ok(shard, *appended(WRITER))
    drop(shard)
    table = shard.table_by_id(OLD)
    forget = cmd.ForgetTable(OLD)

    def not_yet() -> None:
        assert not shard.spent()
        assert isinstance(refused(shard, forget), IllegalState)

    not_yet()
    ok(shard, cmd.Retire(OLD, Timestamp(99)))
    assert table.file_sets
    ok(shard, cmd.Retire(OLD, Timestamp(100)))
    assert not table.file_sets
    not_yet()
    ok(shard, cmd.MarkCleaned(TxnId(1), OLD, ("w1",)))
    not_yet()
    ok(shard, cmd.AbortTxn(WRITER, OLD), cmd.MarkCleaned(WRITER, OLD, (f"w{WRITER}",)))
    not_yet()
    ok(shard, cmd.ForgetTxns(below(DROPPER)))
    not_yet()
    ok(shard, cmd.ForgetTxns(below(DROPPER + 1)))
    assert shard.spent() == [table]
    ok(copy(shard), forget)
    ok(shard, forget)
    with pytest.raises(NotFound, match=f"{NAME} does not exist"):
        shard.table(NAME)
    assert not list(shard.tables())


def test_a_dropped_table_that_was_always_empty_is_there_for_readers_below() -> None:
    shard = new_shard()
    drop(shard)
    ok(shard, cmd.ForgetTxns(below(DROPPER + 1)))
    assert not shard.spent(), "a reader of before the drop sees that it is empty, and not that it is not there"
    ok(shard, cmd.Retire(OLD, Timestamp(100)))
    assert shard.spent()


def test_who_never_came_to_a_table_that_is_gone_ends_there() -> None:
    """Its begin may have made the table a participant, and nothing of that is kept here."""
    shard = new_shard()
    drop(shard)
    ok(shard, cmd.Retire(OLD, Timestamp(100)))
    for txn_id in list(shard.table_by_id(OLD).txns):
        ok(shard, cmd.ForgetTxns(below(txn_id + 1)))
    ok(shard, cmd.ForgetTable(OLD))
    ok(shard, cmd.AbortTxn(WRITER, OLD, "write0001"))
    for unknown in (
        cmd.BeginCommit(WRITER, OLD, Timestamp(200)),
        cmd.AbortTxn(WRITER, "0.17"),
        cmd.AbortTxn(WRITER, "x"),
    ):
        assert isinstance(refused(shard, unknown), NotFound)


def test_a_table_that_is_there_is_never_forgotten() -> None:
    assert isinstance(refused(new_shard(), cmd.ForgetTable(OLD)), IllegalState)


def test_rows_and_their_files_go_with_the_table() -> None:
    shard = new_shard()
    for txn, ts in ((1, 50), (2, 60)):
        batch = RowBatch("w", deletes=False, rows=b"rows", keys=(b"%d" % txn,))
        txn_id = TxnId(txn)
        ok(shard, begin_txn(txn_id, OLD, OWNER), cmd.WriteRows(txn_id, OLD, OWNER, Timestamp(0), 0, batch))
        ok(shard, cmd.BeginCommit(txn_id, OLD, Timestamp(ts)), cmd.FinalizeCommit(txn_id, OLD, Timestamp(ts)))
    ok(shard, cmd.OpenFlush(OLD, "f1"), cmd.FlushRows(OLD, "f1", manifest("f1"), (TxnId(1),)))
    ok(shard, cmd.OpenFlush(OLD, "f2"))
    drop(shard)
    ok(shard, cmd.Retire(OLD, Timestamp(100)))
    rows = shard.table_by_id(OLD).rows
    assert (rows.given_up, rows.flushing, rows.unflushed, rows.flushes) == (["f1"], ["f2"], {}, {})
    assert isinstance(refused(shard, cmd.FlushRows(OLD, "f2", manifest("f2"), (TxnId(2),))), IllegalState)
    ok(shard, cmd.DropFlush(OLD, "f2", gone=False))
    for flush_id in ("f1", "f2"):
        ok(shard, cmd.DropFlush(OLD, flush_id, gone=True))
    ok(shard, cmd.ForgetTxns(below(9)))
    assert shard.spent()


@pytest.mark.parametrize("with_files", [True, False])
def test_leases_keep_a_dropped_table(with_files: bool) -> None:
    shard, leases = new_shard(), Leases(30.0)
    if with_files:
        committed(shard, 1, 50)
    drop(shard)
    table = shard.table_by_id(OLD)
    leases.begin(0.0)
    leases.take(table, "reader", Timestamp(99), 30.0)
    leases.advance(1.0, Timestamp(99))
    leases.check_new_reader(table, Timestamp(99))
    assert not leases.retirable(table)
    leases.advance(2.0, Timestamp(100))
    with pytest.raises(SnapshotTooOld, match="dropped"):
        leases.check_new_reader(table, Timestamp(99))
    assert not leases.retirable(table), "a lease needs it"
    for second in range(3, 60):
        leases.advance(float(second), Timestamp(100))
    assert leases.retirable(table) == 100
    ok(shard, cmd.Retire(OLD, Timestamp(100)))
    assert not leases.retirable(table)
    with pytest.raises(SnapshotTooOld):
        leases.take(table, "late", Timestamp(99), 30.0)


# ---- the leader


def _begin_drop(made: ShardService) -> table_pb.DropTableRequest:
    made.shard.apply(begin_txn(DROPPER, "0.0", OWNER))
    lock = cmd.AcquireLocks(DROPPER, "0.0", OWNER, (Lock(SERVED, Mode.X),), Otherwise.WAITS, Timestamp(1))
    made.shard.apply(lock)
    return table_pb.DropTableRequest(txn_id=DROPPER, owner=OWNER, table=SERVED)


def test_a_drop_names_whom_it_waits_for() -> None:
    made = shard_service()
    wrote_and_prepared(made, 1, "w1", 100)
    assert list(asyncio.run(made.drop_table(_begin_drop(made))).waits_for) == [1]


def test_a_drop_publishes_what_is_committed_and_waits_no_longer() -> None:
    """The commit was acknowledged, its FINALIZE_COMMIT is on its way: the drop must come after it."""
    made = shard_service(Status({1: 110}))
    wrote_and_prepared(made, 1, "w1", 100)
    assert not asyncio.run(made.drop_table(_begin_drop(made))).waits_for
    assert made.shard.table(SERVED).txns[TxnId(1)].state is ParticipantState.COMMITTED


@pytest.mark.parametrize("end", [cmd.AbortTxn(TxnId(1), "0.0"), cmd.FinalizeCommit(TxnId(1), "0.0", Timestamp(120))])
def test_a_drop_goes_on_when_the_last_one_has_ended(end: cmd.Command) -> None:
    made = shard_service()
    wrote_and_prepared(made, 1, "w1", 100)
    request = _begin_drop(made)
    request.wait_millis = 60_000

    async def both() -> table_pb.DropTableResponse:
        waiting = asyncio.ensure_future(made.drop_table(request))
        for _ in range(100):
            await asyncio.sleep(0)
        assert made._tables._waiters
        await made._proposer.propose(end)
        return await waiting

    assert not asyncio.run(both()).waits_for
    assert not made._tables._waiters


def _dropped_and_not_heard_of() -> ShardService:
    """The drop was acknowledged at 130; the shard has only heard of its BEGIN_COMMIT."""
    made = shard_service(Status({DROPPER: 130}))
    asyncio.run(made.drop_table(_begin_drop(made)))
    made.shard.apply(cmd.BeginCommit(DROPPER, "0.0", Timestamp(120)))
    return made


@pytest.mark.parametrize(
    "call",
    [
        lambda made: answered(made.get_table, table_pb.GetTableRequest(name=SERVED)),
        lambda made: made.open_write(table_pb.OpenWriteRequest(txn_id=7, table=SERVED, write_id="write0001")),
        lambda made: made.add_files(table_pb.AddFilesRequest(txn_id=7, table=SERVED, write_id="write0001")),
        lambda made: made.write_rows(table_pb.WriteRowsRequest(txn_id=7, table=SERVED, write_id="write0001")),
        lambda made: made.lock(table_pb.LockRequest(txn_id=7, table=SERVED, mode=table_pb.LOCK_S)),
        lambda made: made.scan(table_pb.ScanRequest(table=SERVED, timestamp=130)),
    ],
    ids=["get", "open", "add", "rows", "lock", "scan"],
)
def test_whoever_comes_after_an_acknowledged_drop_sees_it(call: Callable[[ShardService], object]) -> None:
    made = _dropped_and_not_heard_of()
    with pytest.raises(NotFound, match="was dropped by transaction 5"):
        asyncio.run(call(made))  # type: ignore[arg-type]


def test_files_of_a_write_to_the_table_that_had_the_name_are_no_bad_argument() -> None:
    """Found by the simulator: the writer had expired on the old table, and its manifest lay in the wrong directory."""
    made, writer = shard_service(), TxnId(7)
    opened = cmd.OpenWrite(writer, "0.0", OWNER, "write0001")
    ok(made.shard, begin_txn(writer, "0.0", OWNER), opened, cmd.AbortTxn(writer, "0.0"))
    asyncio.run(made.drop_table(_begin_drop(made)))
    ok(made.shard, cmd.BeginCommit(DROPPER, "0.0", Timestamp(9)), cmd.FinalizeCommit(DROPPER, "0.0", Timestamp(9)))
    ok(made.shard, cmd.CreateTable(SERVED, SCHEMA, "file:///w/t.1", "second"))
    manifest = table_pb.ManifestRef(path="file:///w/t/_txn/7/write0001/m", bytes=1, crc32=1)
    request = table_pb.AddFilesRequest(
        txn_id=writer, owner=OWNER, table=SERVED, write_id="write0001", mode=table_pb.APPEND, manifest=manifest
    )
    with pytest.raises(NotFound, match=f"transaction 7 has not begun on {SERVED}"):
        asyncio.run(made.add_files(request))


def test_lists_leave_out_what_is_dropped_and_the_name_is_free() -> None:
    made = _dropped_and_not_heard_of()
    assert not asyncio.run(made.list_tables(table_pb.ListTablesRequest())).tables
    made = _dropped_and_not_heard_of()
    schema = Schema((Column("id", "bigint"),)).to_wire()
    request = table_pb.CreateTableRequest(name=SERVED, schema=schema, request_id="second")
    answer = asyncio.run(made.create_table(request))
    assert answer.table.table_id == "0.1"
    assert answer.table.location == "file:///w/air/flights"


def test_a_create_that_was_held_up_does_not_lie_where_another_table_came_and_went() -> None:
    """Found on a real cluster: a place was chosen, and then the status table was waited for."""
    schema, at = Schema((Column("id", "bigint"),)), Timestamp(9)

    class Slow(Status):
        async def snapshot(self, at_least: Timestamp = NO_TIMESTAMP) -> Timestamp:
            made.shard.apply(cmd.CreateTable("air.new", schema, "file:///w/air/new", "the other"))
            lock = structs.replace(locked(DROPPER, "air.new"), table_id="0.1")
            ok(made.shard, begin_txn(DROPPER, "0.1", OWNER), lock, cmd.DropTable(DROPPER, "0.1", OWNER, below(DROPPER)))
            ok(made.shard, cmd.BeginCommit(DROPPER, "0.1", at), cmd.FinalizeCommit(DROPPER, "0.1", at))
            return await super().snapshot()

    made = shard_service(Slow())
    request = table_pb.CreateTableRequest(name="air.new", schema=schema.to_wire(), request_id="held up")
    answer = asyncio.run(made.create_table(request))
    assert answer.table.location == "file:///w/air/new.1"


def test_a_reader_below_the_drop_does_not_see_it() -> None:
    made = _dropped_and_not_heard_of()
    made.shard.apply(begin_txn(TxnId(7), "0.0", OWNER))
    answer = asyncio.run(made.scan(table_pb.ScanRequest(table=SERVED, timestamp=129)))
    assert answer.table.table_id == "0.0"


def test_a_new_table_lies_beside_what_is_left_of_the_old_one() -> None:
    shard = new_shard()
    assert shard.free_location("file:///lake/other") == "file:///lake/other"
    assert shard.free_location(LOCATION) == f"{LOCATION}.1"
    drop(shard)
    assert shard.free_location(LOCATION) == f"{LOCATION}.1"
    ok(shard, cmd.CreateTable(NAME, SCHEMA, f"{LOCATION}.1", "second"))
    assert shard.free_location(LOCATION) == f"{LOCATION}.2"


@given(st.integers(0, 253_402_300_799_999_999))
def test_times_for_people(micros: int) -> None:
    ts = timestamp(micros)
    expected = datetime.fromtimestamp(micros_of(ts) // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert utc_of(ts) == expected.rjust(23, "0")
