"""Compactions on a shard's leader: what readers see, who wins, and what becomes of each that is begun."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from pyroaring import BitMap

from tests.unit.harness.calls import answered
from tests.unit.harness.leader.compactions import IN_PARTITIONS, MAJOR, MINOR, Compacted
from tests.unit.harness.leader.rows import OWNER, TABLE, TABLE_ID
from tests.unit.harness.leader.rows import SCHEMA as KEYED
from txnparticipant.leader import moving
from txnparticipant.leader.switching import FREE_TRIES
from txnparticipant.shard import audit
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.audit import Use
from txnparticipant.versions.compactions import KEPT_PER_STATE, Kind
from txnparticipant.versions.directories import COMPACTIONS
from txnstatus.errors import Conflict, IllegalState, InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.id_sets import below
from txnstatus.lake import dead_rows, manifest
from txnstatus.lake.lineage import Segment
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.proto import participant_pb2, table_pb2
from txnstatus.table_properties import Property
from txnstatus.types import ParticipantOpType, Timestamp, TxnId

ONE, TWO, THREE, FOUR, FIVE, SIX = range(1, 7)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Compacted]:
    with Compacted(tmp_path) as running:
        yield running


def filled(table: Compacted, files: int = 3, first: int = 100) -> list[int]:
    """Committed rows in so many writes."""
    ids: list[int] = []
    for txn_id in range(first, first + files):
        ids += table.append(txn_id)
        table.commit(txn_id)
    return ids


# ---- readers


def test_readers_below_the_switch_see_the_inputs_and_those_above_the_output(table: Compacted) -> None:
    ids, before = filled(table), table.status.last
    old = table.directories_seen(before)
    switched = table.compact()
    table.append(ONE)
    after = table.commit(ONE)
    assert before < switched <= after
    assert table.directories_seen(before) == old, "a reader's layout never changes"
    assert table.read_ids(before) == ids
    assert len(table.directories_seen(after)) == 2
    assert not table.directories_seen(after) & old
    assert table.read_ids(after)[: len(ids)] == ids


def test_inputs_are_compared_side_by_side(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest of each may be far away, and a worker waits for thousands. One by one they would never meet."""
    filled(table, 4)
    task = table.leased()
    request = table.work(task)
    together, real = threading.Barrier(4), manifest.read_file

    def read_file(uri: str) -> bytes:
        if uri in {ref.path for ref in task.inputs}:
            together.wait(timeout=10.0)
        return real(uri)

    monkeypatch.setattr(manifest, "read_file", read_file)
    assert table.complete(request)


def test_what_was_deleted_is_not_there_and_order_is_kept(table: Compacted) -> None:
    ids = filled(table)
    table.delete(ONE, [ids[1], ids[4]], table.status.last)
    table.commit(ONE)
    task = table.leased()
    request = table.work(task)
    table.complete(request)
    (written,) = [rows for path, rows in table.ids.items() if task.compaction_id in path]
    assert written == [id_ for id_ in ids if id_ not in (ids[1], ids[4])]
    table.append(TWO)
    at = table.commit(TWO)
    assert not table.scan(at).dead, "nobody reads what is said of inputs alone"


def test_nothing_is_left_of_a_partition_in_which_all_is_deleted(table: Compacted) -> None:
    ids = filled(table)
    table.delete(ONE, ids, table.status.last)
    before = table.commit(ONE)
    table.compact()
    table.append(TWO)
    after = table.commit(TWO)
    assert table.read_ids(before) == []
    assert len(table.directories_seen(after)) == 1


def test_scans_from_the_switch_on_wait_until_it_is_decided(table: Compacted) -> None:
    ids, before = filled(table), table.status.last
    request = table.work(table.leased())

    async def race() -> tuple[list[Any], Any]:
        proposed = asyncio.Event()
        before_commits(table, lambda _: proposed.set())
        table.log.stuck = True
        completing = asyncio.ensure_future(table.service.compactions.complete_compaction(request))
        await asyncio.wait_for(proposed.wait(), 5)
        table.status.commits[TxnId(99)] = Timestamp(before + 100_000)  # elsewhere: whoever has seen it reads above
        scans = [
            asyncio.ensure_future(table.service.scan(table_pb2.ScanRequest(table=TABLE, timestamp=at)))
            for at in (before, before + 100_000)
        ]
        below = await asyncio.wait_for(scans[0], 5)
        assert not scans[1].done(), "what it sees is not decided"
        table.log.unstick()
        return [below, await asyncio.wait_for(scans[1], 5)], await asyncio.wait_for(completing, 5)

    (below, above), done = table.run(race())
    assert before < done.switched <= before + 100_000
    assert len(below.manifests) == 3
    assert [ref.row_count for ref in above.manifests] == [len(ids)]


def test_scans_do_not_wait_for_ever(table: Compacted) -> None:
    filled(table)
    request = table.work(table.leased())

    async def race() -> None:
        proposed = asyncio.Event()
        before_commits(table, lambda _: proposed.set())
        table.log.stuck = True
        completing = asyncio.ensure_future(table.service.compactions.complete_compaction(request))
        await asyncio.wait_for(proposed.wait(), 5)
        table.status.commits[TxnId(99)] = at = Timestamp(table.status.last + 5000)
        with pytest.raises(Unavailable, match="being switched"):
            await table.service.scan(table_pb2.ScanRequest(table=TABLE, timestamp=at))
        table.log.unstick()
        await completing

    table.run(race())


# ---- deletes, at each moment


MOMENTS = ("before the lease", "while it works", "after the switch")
STATES = ("open", "prepared", "decided", "committed")


def reached(table: Compacted, txn_id: int, state: str, since: str = "") -> None:
    """Carries the transaction from one state on to another."""
    steps = STATES[STATES.index(since) + 1 if since else 1 : STATES.index(state) + 1]
    for step in steps:
        {
            "prepared": lambda: table.prepare(txn_id),
            "decided": lambda: table.decide(TxnId(txn_id)),
            "committed": lambda: table.finalize(TxnId(txn_id)),
        }[step]()


@pytest.mark.parametrize("restart", [False, True], ids=["", "restored"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_delete_is_there_whenever_it_came(table: Compacted, moment: str, state: str, restart: bool) -> None:
    """The transaction gets as far as the state says by the switch, and goes on after it."""
    ids, snapshot = filled(table), table.status.last
    task = None

    def delete() -> None:
        table.delete(ONE, [ids[2], ids[3]], snapshot)
        if moment != MOMENTS[2]:
            reached(table, ONE, state)

    if moment == MOMENTS[0]:
        delete()
    task = table.leased()
    if moment == MOMENTS[1]:
        delete()
    request = table.work(task)
    table.complete(request)
    if moment == MOMENTS[2]:
        delete()
        reached(table, ONE, state)
    if restart:
        table.restart()
        table.change_leader()
    if state == "open":
        assert table.read_ids(snapshot, ONE) == [id_ for id_ in ids if id_ not in ids[2:4]]
    reached(table, ONE, "committed", state)
    deleted = table.status.commits[TxnId(ONE)]
    table.append(TWO, 1)
    after = table.commit(TWO)
    assert table.read_ids(snapshot) == ids
    for at in (deleted, after):
        assert [id_ for id_ in table.read_ids(at) if id_ in ids] == [id_ for id_ in ids if id_ not in ids[2:4]]


@pytest.mark.parametrize("moment", ["switch", "prepare"])
def test_a_storage_that_fails_for_a_moment_refuses_nobody(
    table: Compacted, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    ids = filled(table)
    table.delete(ONE, ids[:1], table.status.last)
    request = table.work(table.leased())
    steps = [lambda: table.complete(request), lambda: table.prepare(ONE)]
    if moment == "switch":
        steps.reverse()

    def fail(*_: object) -> None:
        raise OSError("the storage is not there")

    steps[0]()
    with monkeypatch.context() as patched:
        patched.setattr(dead_rows, "write_file", fail)
        with pytest.raises(Unavailable, match="the storage is not there"):
            steps[1]()
    steps[1]()
    table.decide(TxnId(ONE))
    table.finalize(TxnId(ONE))
    assert table.read_ids(table.status.last) == ids[1:]
    assert [state for _, state in table.history()] == ["SUCCEEDED"]


def test_a_lineage_that_rotted_ends_who_needs_it_and_nobody_else(table: Compacted, tmp_path: Path) -> None:
    """It was asked for ever, and whoever was asked in one call with it was held up, too."""
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[0]], snapshot)
    table.compact()
    (path,) = tmp_path.rglob("_lineage.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    moving.read_lineage.cache_clear()
    table.append(TWO)
    request = begin_commit(ONE)
    request.ops.extend(begin_commit(TWO).ops)
    refused, prepared = table.run(table.service.participate(request)).results
    assert refused.error.code == "DATA_DAMAGED"
    assert refused.error.message.startswith(f"table {TABLE}: file://{path}")
    assert not prepared.HasField("error")
    table.abort(ONE)
    table.decide(TxnId(TWO))
    table.finalize(TxnId(TWO))
    table.delete(THREE, [ids[0]], at := table.status.last)
    assert table.read_ids(at) == [*ids, *range(ids[-1] + 1, ids[-1] + 4)]
    table.commit(THREE)  # as the error says: it was run again


@pytest.mark.parametrize("second_at", ["old", "new"])
@pytest.mark.parametrize("first_at", STATES[1:])
def test_who_deletes_the_same_row_loses_and_nobody_else(table: Compacted, first_at: str, second_at: str) -> None:
    """The first one has got as far as that by the switch; the others found their rows before it, or after."""
    ids, snapshot = filled(table), table.status.last
    task = table.leased()
    table.delete(ONE, [ids[2]], snapshot)
    if second_at == "old":
        table.delete(TWO, [ids[2]], snapshot)
        table.delete(THREE, [ids[3]], snapshot)
    reached(table, ONE, first_at)
    table.complete(table.work(task))
    if second_at == "new":
        table.append(SIX, 1)
        at = table.commit(SIX)
        if first_at != "prepared":
            assert ids[2] not in table.read_ids(at)
        else:
            table.delete(TWO, [ids[2]], at)
        table.delete(THREE, [ids[3]], at)
    if TxnId(TWO) in table.table.txns:
        with pytest.raises(Conflict, match="were changed by transaction 1"):
            table.prepare(TWO)
    table.commit(THREE)
    reached(table, ONE, "committed", first_at)
    assert [id_ for id_ in table.read_ids(table.status.last) if id_ in ids] == [i for i in ids if i not in ids[2:4]]


def test_two_compactions_in_a_row_are_followed_by_an_open_transaction(table: Compacted) -> None:
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[0], ids[7]], snapshot)
    table.delete(TWO, [ids[7]], snapshot)
    for txn_id in (THREE, FOUR):
        table.compact()
        table.append(txn_id, 2)
        table.commit(txn_id)
    table.compact()
    deleted = table.commit(ONE)
    with pytest.raises(Conflict):
        table.prepare(TWO)
    assert table.read_ids(snapshot) == ids
    assert [id_ for id_ in table.read_ids(deleted) if id_ in ids] == [*ids[1:7], ids[8]]


def test_a_prepared_transaction_is_carried_through_two_compactions(table: Compacted) -> None:
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[4]], snapshot)
    table.prepare(ONE)
    for txn_id in (THREE, FOUR):
        table.compact()
        table.append(txn_id, 2)
        table.commit(txn_id)
    table.restart()
    deleted = table.decide(TxnId(ONE))
    assert ids[4] not in table.read_ids(deleted), "its commit is read before it is heard of"
    table.finalize(TxnId(ONE))
    assert ids[4] not in table.read_ids(deleted)
    assert ids[4] in table.read_ids(snapshot)


# ---- overwrites


@pytest.mark.parametrize("switch", ["before it is added", "after"])
def test_an_overwrite_of_all_inputs_replaces_the_output(table: Compacted, switch: str) -> None:
    ids, base = filled(table), table.status.last
    if switch == "after":
        new = table.overwrite(ONE, base)
    table.compact()
    if switch != "after":
        new = table.overwrite(ONE, base)
    at = table.commit(ONE)
    assert table.read_ids(base) == ids
    assert table.read_ids(at) == new
    assert len(table.directories_seen(at)) == 1


def test_of_what_came_after_its_base_an_overwrite_leaves_the_rows_of_an_output(table: Compacted) -> None:
    ids, base = filled(table), table.status.last
    new = table.overwrite(ONE, base)
    late = filled(table, 2, first=200)
    table.compact()
    assert table.read_ids(table.status.last, ONE) == sorted([*new, *late]), "and so it sees itself"
    at = table.commit(ONE)
    assert table.read_ids(at) == sorted([*new, *late])
    assert table.read_ids(base) == ids
    table.compact()
    table.append(TWO, 1)
    assert table.read_ids(table.commit(TWO))[: len(new) + len(late)] == sorted([*new, *late])


def test_rows_that_a_partial_overwrite_replaces_are_nobody_elses_to_delete(table: Compacted) -> None:
    ids, base = filled(table), table.status.last
    table.overwrite(ONE, base)
    late = filled(table, 2, first=200)
    table.delete(TWO, [ids[1]], base)
    table.delete(THREE, [late[1]], table.status.last)
    table.compact()
    table.prepare(ONE)
    with pytest.raises(Conflict):
        table.prepare(TWO)
    table.commit(THREE)
    at = table.decide(TxnId(ONE))
    assert [id_ for id_ in table.read_ids(at) if id_ in late] == [id_ for id_ in late if id_ != late[1]]


def test_what_is_overwritten_while_it_is_compacted_is_given_up(table: Compacted) -> None:
    _, base = filled(table), table.status.last
    task = table.leased()
    request = table.work(task)
    new = table.overwrite(ONE, base)
    table.prepare(ONE)
    with pytest.raises(IllegalState, match="overwritten meanwhile"):
        table.complete(request)
    assert table.history() == [(task.compaction_id, "ATTEMPTED")]
    at = table.decide(TxnId(ONE))
    table.finalize(TxnId(ONE))
    assert table.read_ids(at) == new
    assert table.table.retired[COMPACTIONS] == [task.compaction_id]


# ---- races of the switch with those who prepare


def before_commits(table: Compacted, act: Callable[[int], None]) -> list[int]:
    """Has something happen in the log right before each CommitCompaction; returns the numbers of those."""
    submit, numbers = table.log.submit, list[int]()

    def submitting(commands: Sequence[bytes], ended: Any, *, linger: bool = False) -> None:
        if isinstance(cmd.decode(commands[0]), cmd.CommitCompaction):
            numbers.append(len(numbers))
            act(len(numbers))
        submit(commands, ended, linger=linger)

    table.log.submit = submitting  # type: ignore[method-assign]
    return numbers


def test_what_is_prepared_in_the_last_moment_is_moved_too(table: Compacted) -> None:
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[5]], snapshot)
    request = table.work(table.leased())

    def prepare(number: int) -> None:
        if number == 1:
            table.apply(cmd.BeginCommit(TxnId(ONE), TABLE_ID, Timestamp(snapshot + 1)))

    numbers = before_commits(table, prepare)
    table.complete(request)
    assert numbers == [0, 1]
    at = table.decide(TxnId(ONE))
    table.finalize(TxnId(ONE))
    assert table.read_ids(at) == [id_ for id_ in ids if id_ != ids[5]]


@pytest.mark.parametrize("outcome", ["committed", "aborted"])
def test_what_ends_in_the_last_moment_is_as_it_ended(table: Compacted, outcome: str) -> None:
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[5]], snapshot)
    table.prepare(ONE)
    request = table.work(table.leased())

    def end(number: int) -> None:
        if outcome == "committed":
            table.decide(TxnId(ONE))
            table.finalize(TxnId(ONE))
        else:
            table.abort(TxnId(ONE))

    assert before_commits(table, end) == []
    table.complete(request)
    table.append(TWO, 1)
    at = table.commit(TWO)
    assert (ids[5] in table.read_ids(at)) == (outcome == "aborted")


def test_what_commits_above_the_switch_is_seen_from_its_commit_on(table: Compacted) -> None:
    """Also where it was prepared after the output's rows were compared, and is finalised before the command applies."""
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[5]], snapshot)
    request = table.work(table.leased())
    commits = list[Timestamp]()

    def commit(number: int) -> None:
        if number == 1:
            table.apply(cmd.BeginCommit(TxnId(ONE), TABLE_ID, table.status.last))
            commits.append(table.decide(TxnId(ONE)))
            table.finalize(TxnId(ONE))

    assert before_commits(table, commit) == []
    switch = table.complete(request)
    (at,) = commits
    assert switch < at
    assert table.read_ids(at - 1) == ids
    assert table.read_ids(at) == [id_ for id_ in ids if id_ != ids[5]]


def test_no_crowd_of_deletes_starves_a_switch(table: Compacted) -> None:
    """One is prepared before each try. From some try on those who would prepare wait, and then they go on."""
    ids, snapshot = filled(table, 6), table.status.last
    for number in range(1, 11):
        table.delete(number, [ids[number]], snapshot)
    request, waited = table.work(table.leased()), list[asyncio.Future[Any]]()

    def prepare(number: int) -> None:
        if not table.service._switching.holds(TABLE_ID):
            table.apply(cmd.BeginCommit(TxnId(number), TABLE_ID, Timestamp(snapshot + number)))
        else:
            waited.append(asyncio.ensure_future(table.service.participate(begin_commit(number))))

    numbers = before_commits(table, prepare)

    async def race() -> None:
        await table.service.compactions.complete_compaction(request)
        for answer in await asyncio.gather(*waited):
            assert not answer.results[0].HasField("error")

    table.run(race())
    assert len(numbers) == FREE_TRIES + 1
    assert waited
    for number in range(1, FREE_TRIES + 2):
        table.decide(TxnId(number))
        table.finalize(TxnId(number))
    assert table.read_ids(table.status.last) == [ids[0], *ids[FREE_TRIES + 2 :]]


def begin_commit(txn_id: int) -> participant_pb2.ParticipateRequest:
    kind = ParticipantOpType.BEGIN_COMMIT.value
    op = participant_pb2.ParticipantOp(txn_id=txn_id, table_id=TABLE_ID, type=kind)
    return participant_pb2.ParticipateRequest(ops=[op])


def test_a_command_that_knows_too_little_is_refused(table: Compacted) -> None:
    ids, snapshot = filled(table), table.status.last
    task = table.leased()
    request = table.work(task)
    table.delete(ONE, [ids[1]], snapshot)
    table.prepare(ONE)
    command = cmd.CommitCompaction(
        TABLE_ID,
        task.compaction_id,
        "lease",
        cmd.manifest_from_wire(request.manifest),
        cmd.lineage_from_wire(request.lineage),
        Timestamp(snapshot + 1),
        cmd.CarriedDeletes(()),
        (),
        Timestamp(snapshot + 1),
    )
    before = table.shard.snapshot()
    with pytest.raises(Unavailable, match="deleted meanwhile"):
        table.apply(command)
    assert table.shard.snapshot() == before


# ---- workers


def test_a_task_is_one_workers(table: Compacted) -> None:
    filled(table)
    task = table.leased()
    assert table.lease("another") is None
    assert table.lease("lease") == task, "whoever asks again has it still"
    renew = pb.RenewCompactionRequest(table_id=TABLE_ID, compaction_id=task.compaction_id, lease_id="another")
    with pytest.raises(IllegalState, match="worker w's"):
        table.run(table.service.compactions.renew_compaction(renew))
    request = table.work(task)
    request.lease_id = "another"
    with pytest.raises(IllegalState):
        table.complete(request)
    request.lease_id = "lease"
    assert table.complete(request) == table.complete(request), "an answer that was lost is given again"


def test_a_worker_that_is_silent_has_no_task_any_more(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(table)
    task = table.leased()
    request, now = table.work(task), [0.0]

    async def passes(seconds: float) -> None:
        loop = asyncio.get_running_loop()
        real = loop.time
        now[0] += seconds
        monkeypatch.setattr(loop, "time", lambda: real() + now[0])
        await table.service._initiator.run_once()
        monkeypatch.setattr(loop, "time", real)

    table.run(passes(25))
    assert table.history() == [(task.compaction_id, "WORKING")]
    table.change_leader()
    table.run(passes(25))
    assert table.history() == [(task.compaction_id, "WORKING")], "a new leader gives it all the time"
    table.run(passes(40))
    assert table.history() == [(task.compaction_id, "FAILED")]
    with pytest.raises(IllegalState, match="is over, FAILED: worker w was not heard of"):
        table.complete(request)


@pytest.mark.parametrize("state", ["wanted", "leased", "switched", "given up"])
def test_every_directory_is_owned_in_every_state_and_a_snapshot_has_it_all(table: Compacted, state: str) -> None:
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[1]], snapshot)
    table.prepare(ONE)
    (wanted,) = table.request()
    if state != "wanted":
        task = table.lease()
        assert task is not None
        request = table.work(task)
    if state == "switched":
        table.complete(request)
    if state == "given up":
        fail = pb.FailCompactionRequest(table_id=TABLE_ID, compaction_id=wanted, lease_id="lease", reason="no room")
        table.run(table.service.compactions.fail_compaction(fail))
    uses = {"wanted": Use.CLAIMED, "leased": Use.CLAIMED, "switched": Use.IN_USE, "given up": Use.GOING}
    for _ in range(2):
        known = dict(audit.directories(table.table))
        assert known[f"base_{wanted}"].use is uses[state]
        assert len(known[f"base_{wanted}"].files) == (2 if state == "switched" else 0)
        before = table.shard.snapshot()
        table.restart()
        assert table.shard.snapshot() == before
        table.change_leader()
    refuses = cmd.Adopt(TABLE_ID, f"base_{wanted}")
    if state == "given up":
        table.apply(refuses)
    else:
        with pytest.raises(IllegalState, match="in use by a compaction"):
            table.apply(refuses)


def test_what_came_to_nothing_is_removed(table: Compacted) -> None:
    filled(table)
    task = table.leased()
    table.work(task)
    fail = pb.FailCompactionRequest(table_id=TABLE_ID, compaction_id=task.compaction_id, lease_id="lease", reason="x")
    directory = Path(task.directory.removeprefix("file://"))
    for late in (False, True):
        if late:  # it stood still while it was given up and cleaned, and then went on
            directory.mkdir()
            (directory / "part-00000.parquet").write_bytes(b"a part of it")
        for _ in range(2):  # who has not heard the answer asks again
            table.run(table.service.compactions.fail_compaction(fail))
        assert directory.exists()
        for _ in range(3):
            table.run(table.service._cleaner.run_once())
        assert not directory.exists()
        assert not table.table.retired


def test_what_came_to_nothing_long_ago_is_removed_too(tmp_path: Path) -> None:
    """Few of those that are over are kept, and a worker may stand still for longer than that."""
    with Compacted(tmp_path, IN_PARTITIONS) as table:
        names = [f"p={number}" for number in range(KEPT_PER_STATE + 1)]
        for number, name in enumerate(names * 2, 1):
            table.append(number, 1, partition=name)
            table.commit(number)
        table.request()
        failed = []
        for _ in names:
            task = table.lease()
            assert task is not None
            fail = pb.FailCompactionRequest(table_id=TABLE_ID, compaction_id=task.compaction_id, lease_id="lease")
            table.run(table.service.compactions.fail_compaction(fail))
            failed.append((task, fail))
        for _ in range(3):
            table.run(table.service._cleaner.run_once())
        task, fail = failed[0]
        directory = Path(task.directory.removeprefix("file://"))
        directory.mkdir()
        (directory / "part-00000.parquet").write_bytes(b"a part of it")
        table.run(table.service.compactions.fail_compaction(fail))
        for _ in range(3):
            table.run(table.service._cleaner.run_once())
        assert not directory.exists()


# ---- inputs that nobody needs any more


def test_inputs_retire_when_nobody_reads_below_the_switch(table: Compacted) -> None:
    filled(table)
    request = table.work(table.leased())
    switched = table.complete(request)
    table.append(TWO, 1)
    after = table.commit(TWO)
    table.apply(cmd.Retire(TABLE_ID, Timestamp(switched - 1)))
    assert len(table.table.file_sets) == 5
    table.apply(cmd.Retire(TABLE_ID, after))
    assert len(table.table.file_sets) == 2
    assert not table.table.compactions.switched
    assert sorted(table.table.retired) == [TxnId(100), TxnId(101), TxnId(102)], "the output's directory stays"
    assert len(table.read_ids(after)) == 10


def test_inputs_stay_for_transactions_that_speak_of_them(table: Compacted) -> None:
    ids, snapshot = filled(table), table.status.last
    table.delete(ONE, [ids[1]], snapshot)
    table.compact()
    table.append(TWO, 1)
    after = table.commit(TWO)
    table.apply(cmd.Retire(TABLE_ID, after))
    assert table.table.readable_from < after
    deleted = table.commit(ONE)
    assert ids[1] not in table.read_ids(deleted)
    table.apply(cmd.Retire(TABLE_ID, deleted))
    assert len(table.table.file_sets) == 2
    assert ids[1] not in table.read_ids(deleted)


def test_lineages_are_told_to_who_asks(table: Compacted) -> None:
    filled(table)
    before = table.status.last
    requests = []
    for txn_id in (ONE, TWO):
        requests.append(table.work(table.leased()))
        table.complete(requests[-1])
        table.append(txn_id, 1)
        table.commit(txn_id)
    asked = table_pb2.ScanRequest(table=TABLE, timestamp=table.status.last, lineages_above=before)
    answer = table.run(table.service.scan(asked))
    assert list(answer.lineages) == [each.lineage for each in requests]
    asked.lineages_above = table.status.last
    assert not table.run(table.service.scan(asked)).lineages
    assert not table.scan(table.status.last).lineages


# ---- what is no right output


def wrong_outputs(table: Compacted, task: pb.CompactionTask) -> Iterator[tuple[str, pb.CompleteCompactionRequest]]:
    right = table.work(task)
    path = Path(right.lineage.path.removeprefix("file://"))
    kept = path.read_bytes()
    path.write_bytes(kept[:-1])
    yield "is damaged", right
    path.unlink()
    yield "cannot be read", right
    path.write_bytes(kept)
    listed = Path(right.manifest.path.removeprefix("file://"))
    text = listed.read_text()
    listed.write_text(text.replace("part-", "tart-"))
    yield "is damaged", right


@pytest.mark.parametrize("number", range(3))
def test_a_damaged_output_is_refused_and_the_inputs_stay(table: Compacted, number: int) -> None:
    ids = filled(table)
    task = table.leased()
    for at, (story, request) in enumerate(wrong_outputs(table, task)):
        if at == number:
            with pytest.raises(InvalidArgument, match=story):
                table.complete(request)
            break
    assert table.history() == [(task.compaction_id, "FAILED")]
    assert table.read_ids(table.status.last) == ids


@pytest.mark.parametrize(
    ("story", "spoil"),
    [
        ("are not its 3 rows", lambda segments: [segments[0]._replace(end=2), *segments[1:]]),
        ("are not its 3 rows", lambda segments: [segments[0]._replace(end=99), *segments[1:]]),
        ("is not in it", lambda segments: segments[1:]),
        ("no input", lambda segments: [*segments, segments[0]._replace(input="file:///elsewhere")]),
        ("does not have row", lambda segments: [*segments[:-1], segments[-1]._replace(offset=1000)]),
        ("two segments have a row", lambda segments: [*segments[:-1], segments[-1]._replace(offset=0)]),
        ("are not those that were deleted", lambda segments: [segments[0]._replace(dead=BitMap([1])), *segments[1:]]),
    ],
)
def test_a_lineage_that_loses_rows_is_refused(
    table: Compacted, story: str, spoil: Callable[[list[Segment]], list[Segment]]
) -> None:
    ids = filled(table)
    task = table.leased()
    inputs = [file for _, file, _ in table.seen(table.scan(table.status.last))]
    output = table.file(task.directory, ids)
    segments = [Segment(file.path, 0, 3, output.path, 3 * at, BitMap()) for at, file in enumerate(inputs)]
    with pytest.raises(InvalidArgument, match=story):
        table.complete(table.completion(task, [output], spoil(segments)))
    assert table.history() == [(task.compaction_id, "FAILED")]
    assert table.read_ids(table.status.last) == ids


def test_an_output_elsewhere_is_refused(table: Compacted) -> None:
    filled(table)
    request = table.work(table.leased())
    request.manifest.path = request.manifest.path.replace("base_", "delta_")
    with pytest.raises(InvalidArgument, match="is not in the compaction's own"):
        table.complete(request)
    assert [state for _, state in table.history()] == ["WORKING"], "its worker may yet say it right"


# ---- dropping


def test_a_drop_ends_what_is_under_way(table: Compacted) -> None:
    filled(table)
    task = table.leased()
    request = table.work(task)
    asked = table_pb2.LockRequest(txn_id=ONE, owner=OWNER, table=TABLE, mode="LOCK_X")
    table.run(table.service.lock(asked))
    table.run(table.service.drop_table(table_pb2.DropTableRequest(txn_id=ONE, owner=OWNER, table=TABLE)))
    dropped = table.table
    table.prepare(ONE)
    with pytest.raises(TxnError):
        table.complete(request)
    table.decide(TxnId(ONE))
    table.finalize(TxnId(ONE))
    assert not dropped.compactions.open
    assert dropped.retired[COMPACTIONS] == [task.compaction_id]
    with pytest.raises(IllegalState, match="the table was dropped"):
        table.complete(request)
    with pytest.raises(NotFound, match="was dropped"):
        table.request()
    with pytest.raises(NotFound, match="was dropped"):
        alter(table, compact_delta_num="5")
    with pytest.raises(NotFound, match="was dropped"):  # one that was proposed before the drop was published
        table.apply(cmd.AlterTable(TABLE_ID, (Property("compact_delta_num", "5"),)))
    table.apply(cmd.Retire(TABLE_ID, table.status.last))
    for _ in range(3):
        table.run(table.service._cleaner.run_once())
    table.apply(cmd.ForgetTxns(below(1000)))
    table.run(table.service._cleaner.run_once())
    with pytest.raises(NotFound):
        table.complete(request)


# ---- who wants one


def initiate(table: Compacted) -> list[str]:
    table.run(table.service._initiator.run_once())
    return [state for _, state in table.history()]


def test_many_small_writes_are_merged_by_themselves(table: Compacted) -> None:
    filled(table, 9)
    assert initiate(table) == []
    filled(table, 1, first=200)
    assert initiate(table) == ["INITIATED"]
    assert initiate(table) == ["INITIATED"], "and once"
    task = table.lease()
    assert task is not None
    assert task.kind == MINOR
    table.complete(table.work(task))
    assert initiate(table) == ["SUCCEEDED"]


def test_a_table_may_have_its_own_way(tmp_path: Path) -> None:
    only_asked = [Property("NO_AUTO_COMPACTION", "true")]
    with Compacted(tmp_path / "asked", properties=only_asked) as table:
        filled(table, 12)
        table.restart()
        assert initiate(table) == []
        assert table.request(MINOR)
    with Compacted(tmp_path / "soon", properties=[Property("compact_delta_num", "3")]) as table:
        filled(table, 3)
        assert initiate(table) == ["INITIATED"]


def alter(table: Compacted, **properties: str) -> dict[str, str]:
    request = table_pb2.AlterTableRequest(table=TABLE)
    for name, text in properties.items():
        request.properties.add(name=name, value=text)
    answer = table.run(table.service.alter_table(request))
    return {each.name: each.value for each in answer.table.properties}


def test_a_table_gets_another_way_later(table: Compacted) -> None:
    assert alter(table, NO_AUTO_COMPACTION="true", compact_delta_num="3") == {
        "NO_AUTO_COMPACTION": "true",
        "compact_delta_num": "3",
    }
    filled(table, 4)
    assert initiate(table) == []
    assert alter(table, no_auto_compaction="FALSE")["NO_AUTO_COMPACTION"] == "false", "whatever the case, as in Hive"
    assert alter(table, Compact_Delta_Pct="20", NO_AUTO_COMPACTION="") == {
        "compact_delta_num": "3",
        "compact_delta_pct": "20",
    }, "what is not named stays, and what is empty goes"
    assert initiate(table) == ["INITIATED"]
    table.restart()
    assert alter(table) == {"compact_delta_num": "3", "compact_delta_pct": "20"}, "replicated, and in snapshots"
    request = table_pb2.GetTableRequest(name=TABLE)
    assert len(table.run(answered(table.service.get_table, request)).table.properties) == 2


def test_an_altered_table_is_altered_as_a_whole(table: Compacted) -> None:
    for properties, story in (
        ({"compact_delta_num": "5", "no_such": "1"}, "no table property 'no_such'"),
        ({"compact_delta_num": "5", "compact_delta_pct": "0"}, "compact_delta_pct = '0': whole numbers from 1"),
    ):
        with pytest.raises(InvalidArgument, match=story):
            alter(table, **properties)
        assert alter(table) == {}
    with pytest.raises(NotFound):
        table.run(table.service.alter_table(table_pb2.AlterTableRequest(table="air.none")))
    twice = table_pb2.AlterTableRequest(table=TABLE)
    for name, text in (("compact_delta_num", "2"), ("COMPACT_DELTA_NUM", "")):
        twice.properties.add(name=name, value=text)
    with pytest.raises(InvalidArgument, match="comes twice"):
        table.run(table.service.alter_table(twice))


@pytest.mark.parametrize(
    ("name", "value", "story"),
    [
        ("no_such", "1", "no table property 'no_such'"),
        ("NO_AUTO_COMPACTION", "yes", "true and false are possible"),
        ("compact_delta_num", "1", "from 2 to"),
        ("compact_delta_pct", "-1", "from 1 to"),
        ("compact_delta_pct", "٣", "from 1 to"),
        ("compact_delta_num", "9999999999", "from 2 to"),
    ],
)
def test_what_is_no_property_is_refused(table: Compacted, name: str, value: str, story: str) -> None:
    request = table_pb2.CreateTableRequest(name="air.other", request_id="r2", schema=IN_PARTITIONS.to_wire())
    request.properties.add(name=name, value=value)
    with pytest.raises(InvalidArgument, match=story):
        table.run(table.service.create_table(request))


def test_many_deleted_rows_are_left_out_by_themselves(table: Compacted) -> None:
    ids = filled(table, 2)
    assert initiate(table) == []
    table.delete(ONE, [ids[0]], table.status.last)
    table.commit(ONE)
    assert initiate(table) == ["INITIATED"]
    task = table.lease()
    assert task is not None
    assert task.kind == MAJOR
    table.complete(table.work(task))
    assert initiate(table) == ["SUCCEEDED"]


def test_after_failures_in_a_row_only_a_request_begins_another(table: Compacted) -> None:
    filled(table, 10)
    for number in range(2):
        assert initiate(table)[-1] == "INITIATED"
        task = table.lease()
        assert task is not None
        table.run(
            table.service.compactions.fail_compaction(
                pb.FailCompactionRequest(
                    table_id=TABLE_ID, compaction_id=task.compaction_id, lease_id="lease", reason=f"no room {number}"
                )
            )
        )
        filled(table, 1, first=200 + number)
    assert initiate(table).count("ATTEMPTED") == 1
    filled(table, 1, first=300)
    assert sorted(initiate(table)) == ["ATTEMPTED", "FAILED", "FAILED"], "it is said once"
    table.compact(MINOR)
    filled(table, 10, first=400)
    assert "INITIATED" in initiate(table)


def test_it_is_said_once_of_each_of_many_partitions(tmp_path: Path) -> None:
    """Few of those that are over are kept: which partitions were told off must not be forgotten with them."""
    names = [f"p={number}" for number in range(KEPT_PER_STATE + 2)]
    with Compacted(tmp_path, IN_PARTITIONS, [Property("compact_delta_num", "2")]) as table:
        for number, name in enumerate(names * 2, 1):
            table.append(number, 1, partition=name)
            table.commit(number)
        initiate(table)
        for _ in range(2 * len(names)):  # each fails twice
            task = table.lease()
            assert task is not None
            failed = pb.FailCompactionRequest(table_id=TABLE_ID, compaction_id=task.compaction_id, lease_id="lease")
            table.run(table.service.compactions.fail_compaction(failed))
            initiate(table)
        initiate(table)
        told = table.history()
        table.restart()
        initiate(table)
        assert table.history() == told


def test_history_is_bounded(table: Compacted) -> None:
    filled(table)
    for number in range(KEPT_PER_STATE + 3):
        table.append(500 + number, 1)
        table.commit(500 + number)
        table.compact()
    assert [state for _, state in table.history()] == ["SUCCEEDED"] * KEPT_PER_STATE


def test_a_request_counts_what_is_decided_and_not_yet_finalised(table: Compacted) -> None:
    """Whoever asks right after a commit means what was committed."""
    rows = table.append(1)
    first = table.commit(1)
    table.delete(2, rows[:1], first)
    table.prepare(2)
    table.decide(TxnId(2))
    request = pb.RequestCompactionRequest(table=TABLE, kind=pb.COMPACTION_MAJOR)
    assert len(table.run(table.service.compactions.request_compaction(request)).compaction_ids) == 1


def test_a_request_is_answered_with_what_is_under_way(table: Compacted) -> None:
    assert table.request() == [], "there is nothing to compact"
    filled(table)
    wanted = table.request()
    assert table.request(MINOR) == wanted
    request = pb.RequestCompactionRequest(table=TABLE, kind=0)
    with pytest.raises(InvalidArgument, match="no kind of compaction 0"):
        table.run(table.service.compactions.request_compaction(request))
    with pytest.raises(InvalidArgument):
        table.request(MAJOR, "p=1")
    missing = pb.RequestCompactionRequest(table="no.table", kind=MAJOR)
    with pytest.raises(NotFound):
        table.run(table.service.compactions.request_compaction(missing))


def test_a_request_is_answered_with_what_is_begun_meanwhile(table: Compacted) -> None:
    """The leader's own look, or another request, came first."""
    filled(table)
    compactions = table.service.compactions
    propose = compactions.propose

    async def after_another(command: Any) -> Any:
        if isinstance(command, cmd.OpenCompaction):
            await propose(structs.replace(command, compaction_id=f"{command.compaction_id}0", requested=False))
        return await propose(command)

    compactions.propose = after_another
    (found,) = table.request()
    assert found in table.table.compactions.open


def test_partitions_are_compacted_one_by_one(tmp_path: Path) -> None:
    with Compacted(tmp_path, IN_PARTITIONS) as table:
        ids = []
        for txn_id, partition in enumerate(["p=1", "p=2", "p=1", "p=2", "p=3"], 1):
            ids += table.append(txn_id, 2, partition=partition)
            table.commit(txn_id)
        assert len(table.request()) == 2, "one file is no reason"
        tasks = [table.lease("lease"), table.lease("another")]
        assert {task.partition for task in tasks if task} == {"p=1", "p=2"}
        assert tasks[0] is not None
        before = table.status.last
        table.complete(table.work(tasks[0]))
        table.append(9, 1, partition="p=1")
        table.commit(9)
        assert table.read_ids(before) == ids
        assert table.read_ids(table.status.last)[:-1] == ids
        assert len(table.directories_seen(table.status.last)) == 5


def test_pages_of_a_listing_follow_each_other(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(table)
    for number in range(4):
        table.append(500 + number, 1)
        table.commit(500 + number)
        table.compact()
    monkeypatch.setattr("txnstatus.pages.MAX_LISTED", 3)
    request = pb.ListCompactionsRequest()
    first = table.run(table.service.compactions.list_compactions(request))
    assert (len(first.compactions), first.more) == (3, True)
    last = first.compactions[-1]
    request.after.table_id, request.after.compaction_id = last.table_id, last.compaction_id
    second = table.run(table.service.compactions.list_compactions(request))
    assert (len(second.compactions), second.more) == (1, False)
    assert second.compactions[0].compaction_id > last.compaction_id


def test_no_partition_of_a_table_with_a_primary_key_is_compacted_by_itself(tmp_path: Path) -> None:
    command = cmd.OpenCompaction(TABLE_ID, "major1", Kind.MAJOR, "p=1", requested=True, at=Timestamp(1), input_bytes=0)
    with Compacted(tmp_path, KEYED) as table, pytest.raises(InvalidArgument, match="all of it"):
        table.apply(command)
