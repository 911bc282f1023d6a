"""The shell of a shard, with its Raft group and the status table played by a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.calls import answered
from tests.unit.harness.leader.shard_service import (
    MANIFEST,
    TABLE,
    TABLE_ID,
    Log,
    Status,
    shard_service,
    wrote_and_prepared,
)
from txnparticipant.leader.service import ShardService
from txnparticipant.shard import commands as cmd
from txnparticipant.upkeep.in_doubt import IN_DOUBT_SECONDS
from txnstatus.errors import Forgotten, InvalidArgument, NotTheLeader, Unavailable
from txnstatus.id_sets import below
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.schema import MAX_COLUMNS
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId, TxnState


def overwrite(made: ShardService, txn: int, write_id: str, read_at: int | None = None) -> None:
    made.shard.apply(begin_txn(TxnId(txn), "0.0", "me"))
    made.shard.apply(cmd.OpenWrite(TxnId(txn), "0.0", "me", write_id))
    directory = made.shard.table(TABLE).directory(TxnId(txn), write_id)
    request = table_pb.AddFilesRequest(
        txn_id=txn,
        owner="me",
        table=TABLE,
        write_id=write_id,
        mode=table_pb.OVERWRITE,
        manifest=cmd.manifest_to_wire(replace(MANIFEST, path=f"{directory}/_manifest.json")),
        read_timestamp=read_at,
    )
    asyncio.run(made.add_files(request))


def test_an_overwrite_replaces_what_is_committed_and_not_finalised_here_yet() -> None:
    """The commit was acknowledged; its FINALIZE_COMMIT is on its way. The overwrite came after the acknowledgement."""
    made = shard_service(Status({1: 110}))
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    overwrite(made, 2, "overwrit2")
    write = made.shard.table(TABLE).txns[TxnId(2)].writes["overwrit2"]
    assert write.replaces == ("1_appended1/",)
    made.shard.check_invariants()


@pytest.mark.parametrize(("read_at", "replaces"), [(None, ("1_appended1/",)), (110, ("1_appended1/",)), (0, ())])
def test_an_overwrite_replaces_what_its_transaction_has_read_also_before_the_first_commit(
    read_at: int | None, replaces: tuple[str, ...]
) -> None:
    """The first snapshot of all has timestamp 0: who has read nothing there must not replace what came since."""
    made = shard_service(Status({1: 110}))
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    overwrite(made, 2, "overwrit2", read_at)
    assert made.shard.table(TABLE).txns[TxnId(2)].writes["overwrit2"].replaces == replaces


def test_a_read_inside_a_transaction_that_is_forgotten_is_refused() -> None:
    """It was aborted while its program slept: without what it wrote, the answer would be wrong."""
    made = shard_service()
    request = table_pb.ScanRequest(table=TABLE, txn_id=1, owner="me")
    made.shard.apply(begin_txn(TxnId(1), "0.0", "me"))
    asyncio.run(made.scan(request))
    made.shard.apply(cmd.AbortTxn(TxnId(1), "0.0"))
    made.shard.apply(cmd.ForgetTxns(below(2)))
    assert TxnId(1) not in made.shard.table(TABLE).txns
    with pytest.raises(Forgotten):
        asyncio.run(made.scan(request))


def test_files_that_come_after_their_transaction_is_forgotten_are_refused_as_such() -> None:
    """A task that outlives its transaction for long was told that this had never begun."""
    made = shard_service()
    made.shard.apply(begin_txn(TxnId(1), "0.0", "me"))
    made.shard.apply(cmd.AbortTxn(TxnId(1), "0.0"))
    made.shard.apply(cmd.ForgetTxns(below(2)))
    with pytest.raises(Forgotten):
        asyncio.run(made.add_files(table_pb.AddFilesRequest(txn_id=1, owner="me", table=TABLE, write_id="appended1")))


def test_a_table_of_too_many_columns_is_refused_before_any_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mebibyte of tiny ones kept a thread so long that the request was sent again, and again, to other threads."""

    def read(column: object) -> object:
        raise AssertionError(f"{column} was read")

    monkeypatch.setattr("txnstatus.schema._from_wire", read)
    columns = [common.Column(name="id", type="bigint")] * (MAX_COLUMNS + 1)
    request = table_pb.CreateTableRequest(name="air.wide", request_id="r", schema=common.TableSchema(columns=columns))
    with pytest.raises(InvalidArgument, match=f"{MAX_COLUMNS + 1} columns in one call: {MAX_COLUMNS} are possible"):
        asyncio.run(shard_service().create_table(request))


@pytest.mark.parametrize("level", [1, 2])
def test_a_table_has_the_time_of_its_creation_where_all_nodes_read_it(level: int) -> None:
    columns = [common.Column(name="id", type="bigint")]
    request = table_pb.CreateTableRequest(name="air.new", request_id="r", schema=common.TableSchema(columns=columns))
    made = shard_service(level=level)
    info = asyncio.run(made.create_table(request)).table
    assert bool(info.made) == (level > 1)
    assert made.shard.table("air.new").made == info.made


async def test_a_leadership_begins_without_what_an_earlier_one_was_told() -> None:
    """Also of what was registered for this replica when it did not lead."""
    made = shard_service()
    made.on_leadership(False)
    await made._registering._register(TABLE_ID, TxnId(1), "me", TABLE)
    assert made._registering._sure
    made.on_leadership(True)
    assert not made._registering._sure


def test_an_overwrite_leaves_what_is_undecided() -> None:
    made = shard_service(Status({9: 500}))
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    overwrite(made, 2, "overwrit2")
    assert made.shard.table(TABLE).txns[TxnId(2)].writes["overwrit2"].replaces == ()


def test_a_scan_shows_what_is_committed_and_not_finalised_here_yet() -> None:
    made = shard_service(status := Status())
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    for at, seen in ((109, 0), (110, 1)):
        status.commits = {TxnId(1): Timestamp(110)} if at >= 110 else {TxnId(7): Timestamp(109)}
        answer = asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=at)))
        assert len(answer.manifests) == seen


class Forgetful(Status):
    """Forgets while it is asked: what happens meanwhile is what `meanwhile` does."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__({7: 120})
        self._meanwhile = meanwhile

    async def outcomes(self, txn_ids: Iterable[TxnId], at: Timestamp) -> dict[TxnId, Timestamp]:
        self._meanwhile()
        return await super().outcomes(txn_ids, at)


@pytest.mark.parametrize(("commit_ts", "seen"), [(110, 1), (120, 0)])
def test_a_scan_shows_what_has_ended_and_is_forgotten_by_the_time_it_hears_of_it(commit_ts: int, seen: int) -> None:
    """The status table tells nothing of what it has forgotten: the reader would miss what it had committed."""
    ends = cmd.FinalizeCommit(TxnId(1), TABLE_ID, Timestamp(commit_ts))
    made = shard_service(Forgetful(lambda: made.shard.apply(ends)))
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    answer = asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=115)))
    assert len(answer.manifests) == seen


def test_a_scan_of_what_the_table_has_forgotten_too_is_to_be_asked_again() -> None:
    def end_and_forget() -> None:
        made.shard.apply(cmd.FinalizeCommit(TxnId(1), TABLE_ID, Timestamp(110)))
        made.shard.apply(cmd.ForgetTxns(below(2)))

    made = shard_service(Forgetful(end_and_forget))
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    scan = table_pb.ScanRequest(table=TABLE, timestamp=115)
    with pytest.raises(Unavailable, match="transaction 1 has ended"):
        asyncio.run(made.scan(scan))
    assert len(asyncio.run(made.scan(scan)).manifests) == 1


def test_a_scan_is_not_answered_where_another_may_lead_by_the_time_it_hears_of_outcomes() -> None:
    """Under the next leader a transaction may have ended, and the status table have forgotten it."""
    log = Log()
    made = shard_service(Forgetful(lambda: setattr(log.group, "has_lease", False)), log)
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    with pytest.raises(NotTheLeader):
        asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=115)))


def test_a_leadership_that_changes_while_the_cleaner_reports_does_not_end_it() -> None:
    """Found by the simulator: the cleaner was gone for good, and nobody heard of it."""
    made, txn_id = shard_service(), TxnId(1)
    made.shard.apply(begin_txn(txn_id, "0.0", "me"))
    made.shard.apply(cmd.OpenWrite(txn_id, "0.0", "me", "neverused"))
    made.shard.apply(cmd.AbortTxn(txn_id, "0.0"))
    cleaner = made._cleaner
    cleaner.zombie_grace_seconds = 0.0

    async def report(commands: Sequence[cmd.MarkCleaned | cmd.ForgetTable]) -> Sequence[object]:
        cleaner.forget()
        return list(map(made.shard.apply, commands))

    cleaner.propose_all = report

    async def two_passes() -> None:
        await cleaner.run_once()
        await cleaner.run_once()

    asyncio.run(two_passes())
    assert not list(made.shard.to_clean())


def test_a_cleaner_that_fails_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    made = shard_service()
    stopped: list[tuple[str, BaseException]] = []
    ended = asyncio.Event()

    def stop(story: str, error: BaseException) -> None:
        stopped.append((story, error))
        ended.set()

    monkeypatch.setattr("txnstatus.process.background.stop_process", stop)
    monkeypatch.setattr("txnparticipant.leader.service.PASS_SECONDS", 0.0)
    fault = KeyError("a fault in the program")

    async def fail() -> None:
        raise fault

    monkeypatch.setattr(made, "_cleaner", SimpleNamespace(run_once=fail))

    async def serve() -> None:
        made.start()
        async with asyncio.timeout(10):
            await ended.wait()

    asyncio.run(serve())
    assert stopped == [("the cleaner of shard 0 failed", fault)]


def test_a_replica_that_may_be_behind_says_so_and_not_that_a_table_does_not_exist() -> None:
    """A node that has just started knows nothing yet; NOT_FOUND would end what another replica can go on with."""
    made = shard_service(log=(log := Log()))
    log.group.has_lease = False
    for call in (
        made.add_files(table_pb.AddFilesRequest(table="air.new", write_id="writewrite", manifest={})),
        made.open_write(table_pb.OpenWriteRequest(table="air.new", write_id="writewrite")),
        answered(made.get_table, table_pb.GetTableRequest(name="air.new")),
        made.scan(table_pb.ScanRequest(table="air.new")),
    ):
        with pytest.raises(NotTheLeader):
            asyncio.run(call)


def test_a_scan_at_a_timestamp_below_which_something_may_yet_commit_is_refused() -> None:
    """Also where nothing is prepared: what commits a moment later could be below it, and would be seen next time."""
    made = shard_service(status := Status({7: 109}))
    for at in (110, 1 << 60, (1 << 64) - 1):
        with pytest.raises(InvalidArgument, match="take a snapshot first"):
            asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=at)))
    assert len(asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=109))).manifests) == 0
    wrote_and_prepared(made, 1, "appended1", prepare_ts=100)
    made.shard.apply(cmd.FinalizeCommit(TxnId(1), "0.0", Timestamp(110)))
    assert len(asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=109))).manifests) == 0
    status.commits[TxnId(1)] = Timestamp(110)
    assert len(asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=110))).manifests) == 1


def test_what_one_snapshot_has_settled_is_not_asked_again() -> None:
    made = shard_service(status := Status({7: 109}))
    for at in (0, 105, 109, 105, 0):
        asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=at)))
    assert status.snapshots == 1


def test_a_replica_that_lost_its_lease_while_it_asked_shows_nothing() -> None:
    """The next leader may know of a commit at or below the timestamp, of which this one has not even heard."""
    log = Log()

    class Asked(Status):
        async def snapshot(self, at_least: Timestamp = NO_TIMESTAMP) -> Timestamp:
            log.group.has_lease = False
            return await super().snapshot()

    made = shard_service(Asked({7: 109}), log)
    with pytest.raises(NotTheLeader):
        asyncio.run(made.scan(table_pb.ScanRequest(table=TABLE, timestamp=109)))


# ---- what nobody tells the outcome of


def told_by_the_status_table(state: TxnState, commit_ts: int, participant: str = TABLE_ID) -> ShardService:
    """A shard with transaction 1 prepared."""
    status = Status()
    status.state, status.commit_ts, status.participants = state, commit_ts, {participant}
    made = shard_service(status)
    wrote_and_prepared(made, 1, "w", 50)
    return made


async def resolve_when_in_doubt(made: ShardService) -> None:
    loop = asyncio.get_running_loop()
    undecided = list(made.shard.undecided())
    await made._in_doubt.resolve(undecided, loop.time() - IN_DOUBT_SECONDS)
    await made.resolve()


@pytest.mark.parametrize(
    ("state", "becomes"),
    [
        (TxnState.OPEN, ParticipantState.COMMIT_IN_PROGRESS),
        (TxnState.COMMIT_IN_PROGRESS, ParticipantState.COMMIT_IN_PROGRESS),
        (TxnState.FINALIZE_IN_PROGRESS, ParticipantState.COMMITTED),
        (TxnState.COMMITTED, ParticipantState.COMMITTED),
        (TxnState.ABORT_IN_PROGRESS, ParticipantState.ABORTED),
        (TxnState.ABORTED, ParticipantState.ABORTED),
    ],
)
def test_a_prepared_table_asks_for_the_outcome_that_nobody_tells(state: TxnState, becomes: ParticipantState) -> None:
    made = told_by_the_status_table(state, commit_ts=60)
    asyncio.run(resolve_when_in_doubt(made))
    record = made.shard.table(TABLE).txns[TxnId(1)]
    assert record.state is becomes
    assert record.commit_ts == (60 if becomes is ParticipantState.COMMITTED else 0)


@pytest.mark.parametrize("takes_part", [True, False])
def test_a_commit_that_was_lost_with_its_leader_goes_on_when_a_prepared_table_asks(takes_part: bool) -> None:
    """The transaction was OPEN by the status table, and its tables refused writes, until somebody ended it."""
    status = Status()
    status.owner, status.participants = "ada", {TABLE_ID} if takes_part else {"0.9"}
    made = shard_service(status)
    wrote_and_prepared(made, 1, "w", 50)
    asyncio.run(resolve_when_in_doubt(made))
    assert status.asked_to_commit == ([(1, "ada")] if takes_part else [])
    assert made.shard.table(TABLE).txns[TxnId(1)].state is ParticipantState.COMMIT_IN_PROGRESS


def test_a_table_that_is_no_part_of_what_committed_discards_its_work() -> None:
    """A BEGIN_COMMIT from nowhere has prepared it; its locks must not stay for ever."""
    made = told_by_the_status_table(TxnState.COMMITTED, commit_ts=60, participant="0.9")
    asyncio.run(resolve_when_in_doubt(made))
    assert made.shard.table(TABLE).txns[TxnId(1)].state is ParticipantState.ABORTED


def test_a_replica_that_does_not_lead_asks_nobody_about_a_registration() -> None:
    """It asked the status table's leader of before, which was paused, and used up the time to find its own leader."""
    status, log = Status(), Log()
    made = shard_service(status, log)
    made.shard.apply(begin_txn(TxnId(1), TABLE_ID, "me"))
    log.group.has_lease = False
    op = pb.ParticipantOp(txn_id=1, table_id=TABLE_ID, type=pb.BEGIN_COMMIT)
    with pytest.raises(NotTheLeader):
        asyncio.run(made.participate(pb.ParticipateRequest(ops=[op])))
    assert not status.registrations
