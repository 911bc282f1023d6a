"""What was overwritten goes when it is old and no lease needs it, and takes from no reader that may still come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.unit.harness.shards import (
    NAME,
    TABLE,
    abort,
    added,
    begun,
    committed,
    finalize,
    new_shard,
    ok,
    opened,
    prepare,
    refused,
    seen,
    table_of,
    to_clean,
    wrote,
)
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.leases import MAX_GAP_SECONDS, MAX_LEASES, SLACK, Leases
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.upkeep.retirement import Retirement
from txnstatus.errors import Conflict, IllegalState, Overloaded, SnapshotTooOld
from txnstatus.id_sets import below
from txnstatus.schema import Column, Schema
from txnstatus.types import NO_TIMESTAMP, HybridClock, Timestamp, TxnId, micros_of, timestamp

LEASE = 10.0


def retire(shard: ParticipantShard, up_to: int) -> None:
    ok(shard, cmd.Retire(TABLE, Timestamp(up_to)))


def overwritten_twice() -> ParticipantShard:
    """The table as of 100, 200 and 300."""
    shard = new_shard()
    committed(shard, 1, "first001", 100)
    committed(shard, 2, "second01", 200, overwrite=True)
    committed(shard, 3, "third001", 300, overwrite=True)
    return shard


# ---- what the replicated command does


def test_what_was_removed_up_to_the_timestamp_goes_and_the_rest_is_as_before() -> None:
    shard = overwritten_twice()
    retire(shard, 250)
    assert table_of(shard).readable_from == 200
    assert [seen(shard, ts) for ts in (200, 299, 300)] == [["second01"], ["second01"], ["third001"]]
    assert to_clean(shard) == {1: ["first001"]}


def test_the_bound_rises_only_as_far_as_something_goes() -> None:
    """A snapshot is the last commit, which may be older than any retention: it must stay readable."""
    shard = overwritten_twice()
    retire(shard, 10_000)
    assert table_of(shard).readable_from == 300
    retire(shard, 20_000)
    assert table_of(shard).readable_from == 300


def test_a_table_without_overwrites_stays_readable_at_any_time() -> None:
    shard = new_shard()
    committed(shard, 1, "first001", 100)
    retire(shard, 10_000)
    assert table_of(shard).readable_from == NO_TIMESTAMP
    assert seen(shard, 100) == ["first001"]


def test_a_retirement_carried_out_again_changes_nothing() -> None:
    shard = overwritten_twice()
    retire(shard, 250)
    before = shard.snapshot()
    retire(shard, 250)
    retire(shard, 100)
    assert shard.snapshot() == before


def test_what_is_retired_survives_a_snapshot_until_it_is_cleaned() -> None:
    shard = overwritten_twice()
    retire(shard, 250)
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    restored.check_invariants()
    assert restored.snapshot() == shard.snapshot()
    retire(restored, 300)
    assert to_clean(restored) == {1: ["first001"], 2: ["second01"]}
    ok(restored, cmd.MarkCleaned(TxnId(1), TABLE, ("first001",)))
    assert to_clean(restored) == {2: ["second01"]}


def test_what_is_retired_outlives_the_record_of_its_transaction() -> None:
    shard = overwritten_twice()
    ok(shard, cmd.ForgetTxns(below(9)))
    retire(shard, 250)
    assert to_clean(shard) == {1: ["first001"]}
    ok(shard, cmd.MarkCleaned(TxnId(1), TABLE, ("first001",)))
    assert to_clean(shard) == {}
    assert type(refused(shard, cmd.MarkCleaned(TxnId(1), TABLE, ("first001",)))) is IllegalState


def test_a_directory_goes_with_the_last_file_set_that_has_files_in_it() -> None:
    """Files staged by tasks lie in directories of their own; those of several partitions in one."""
    schema, location = Schema((Column("month", "int"),), partition_by=("month",)), "file:///lake/air/flights"
    shard = ParticipantShard(3)
    ok(shard, cmd.CreateTable(NAME, schema, location, "request-1"))
    both = "month=1", "month=2"
    txn = begun(shard, 1)
    for write_id in ("staged01", "write001"):
        ok(shard, opened(txn, write_id))
    write = added(txn, "write001", from_writes=("staged01",))
    ok(shard, structs.replace(write, manifest=replace(write.manifest, partitions=both), claim=None))
    prepare(shard, txn, 100)
    finalize(shard, txn, 100)
    assert table_of(shard).used[txn, "staged01"] == 2
    for number, part in enumerate(both, 2):
        ok(shard, opened(begun(shard, number), f"second0{number}"))
        write = added(TxnId(number), f"second0{number}", overwrite=True, base=100 * number - 50)
        listed = replace(write.manifest, partitions=(part,))
        ok(shard, structs.replace(write, manifest=listed, overwrites=(part,), claim=None))
        prepare(shard, TxnId(number), 100 * number)
        finalize(shard, TxnId(number), 100 * number)
        retire(shard, 100 * number)
        gone = {txn_id: sorted(writes) for txn_id, writes in to_clean(shard).items()}
        assert gone == ({} if part == both[0] else {1: ["staged01", "write001"]})


def test_an_overwrite_that_finds_what_it_replaces_retired_is_in_conflict() -> None:
    shard = overwritten_twice()
    late = begun(shard, 4)
    wrote(shard, late, "fourth01", overwrite=True)
    committed(shard, 5, "fifth001", 400, overwrite=True)
    retire(shard, 400)
    error = refused(shard, cmd.BeginCommit(late, TABLE, Timestamp(500)))
    assert type(error) is Conflict
    assert error.winner == 5
    abort(shard, late)


def test_what_two_writes_of_a_transaction_replace_goes_once() -> None:
    shard = new_shard()
    committed(shard, 1, "first001", 100)
    txn = begun(shard, 2)
    for write_id in ("second01", "second02"):
        wrote(shard, txn, write_id, overwrite=True)
    prepare(shard, txn, 200)
    finalize(shard, txn, 200)
    assert table_of(shard).replaced == [(200, "1_first001/")]
    retire(shard, 200)
    assert to_clean(shard) == {1: ["first001"], 2: ["second01"]}


def test_what_is_prepared_and_not_decided_is_not_retired() -> None:
    shard = new_shard()
    committed(shard, 1, "first001", 100)
    txn = begun(shard, 2)
    wrote(shard, txn, "second01", overwrite=True)
    prepare(shard, txn, 150)
    retire(shard, 10_000)
    assert seen(shard, 10_000) == ["first001"]
    finalize(shard, txn, 160)
    assert seen(shard, 159) == ["first001"]
    assert seen(shard, 160) == ["second01"]


# ---- property: against a history that forgets nothing


@dataclass
class Model:
    """Every write that was ever committed, with its commit and its removal."""

    writes: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def seen(self, ts: int) -> set[str]:
        return {name for name, (_, added_at, gone) in self.writes.items() if added_at <= ts and not (0 < gone <= ts)}

    def needed_from(self, ts: int) -> set[tuple[int, str]]:
        """The directories of all that a reader at or above `ts` may see."""
        return {(txn, name) for name, (txn, _, gone) in self.writes.items() if not 0 < gone <= ts}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["append", "overwrite", "retire", "restart", "clean"]), st.integers(0, 3))))
def test_readers_at_or_above_the_bound_see_what_they_would_if_nothing_ever_went(steps: list[tuple[str, int]]) -> None:
    shard, model, now, txn = new_shard(), Model(), 100, 0
    for step, number in steps:
        match step:
            case "append" | "overwrite":
                now, txn = now + 10, txn + 1
                name = f"write{txn:03}"
                if step == "overwrite":
                    model.writes = {n: (t, a, gone or now) for n, (t, a, gone) in model.writes.items()}
                committed(shard, txn, name, now, overwrite=step == "overwrite")
                model.writes[name] = (txn, now, 0)
            case "retire":
                retire(shard, now - 10 * number)
            case "restart":
                restored = ParticipantShard(3)
                restored.restore(shard.snapshot())
                shard = restored
            case _:
                for _, txn_id, write_ids in list(shard.to_clean())[:number]:
                    ok(shard, cmd.MarkCleaned(txn_id, TABLE, write_ids))
        bound = table_of(shard).readable_from
        for ts in range(bound, now + 10, 5):
            assert set(seen(shard, ts)) == model.seen(ts)
        going = {(txn_id, write_id) for _, txn_id, write_ids in shard.to_clean() for write_id in write_ids}
        assert not going & model.needed_from(bound)


# ---- leases


LATE = Timestamp(5_000)


def leases_of(shard: ParticipantShard, horizon: int = LATE) -> Leases:
    """A leader that has led for long."""
    leases = Leases(LEASE)
    leases.begin(0.0)
    for second in range(1, 20):
        leases.advance(float(second), NO_TIMESTAMP)
    assert leases.complete
    assert leases.retirable(table_of(shard)) == NO_TIMESTAMP
    leases.advance(19.0, Timestamp(horizon))
    return leases


def test_nothing_is_retirable_while_all_is_kept_and_then_it_is() -> None:
    shard = overwritten_twice()
    leases, table = leases_of(shard), table_of(shard)
    assert leases.retirable(table) == 300
    leases.keep_all()
    for second in range(20, 20 + int(LEASE)):
        assert leases.retirable(table) == NO_TIMESTAMP
        leases.advance(float(second), LATE)
    leases.keep_all()
    for second in range(30, 30 + int(LEASE)):
        leases.advance(float(second), LATE)
        assert leases.retirable(table) == NO_TIMESTAMP
    for second in range(40, 45):
        leases.advance(float(second), LATE)
    assert leases.retirable(table) == 300


def test_what_is_older_than_the_horizon_is_retirable() -> None:
    shard = overwritten_twice()
    retirable = [leases_of(shard, ts).retirable(table_of(shard)) for ts in (199, 200, 299, 5_000)]
    assert retirable == [0, 200, 200, 300]


def test_a_lease_keeps_what_its_snapshot_sees() -> None:
    shard = overwritten_twice()
    leases, table = leases_of(shard), table_of(shard)
    leases.take(table, "a", Timestamp(250), LEASE)
    assert leases.retirable(table) == 200
    leases.take(table, "b", Timestamp(150), LEASE)
    assert leases.retirable(table) == 0


def test_a_lease_that_is_not_renewed_ends_and_one_that_is_does_not() -> None:
    shard = overwritten_twice()
    leases, table = leases_of(shard), table_of(shard)
    leases.take(table, "renewed", Timestamp(250), LEASE)
    leases.take(table, "left", Timestamp(100), LEASE)
    for second in range(20, 20 + int(LEASE * SLACK + MAX_GAP_SECONDS)):
        assert leases.retirable(table) == 0
        leases.take(table, "renewed", Timestamp(250), LEASE)
        leases.advance(float(second), LATE)
    assert leases.retirable(table) == 200
    assert len(leases) == 1


def test_a_leader_that_was_paused_takes_nobody_for_dead() -> None:
    shard = overwritten_twice()
    leases, table = leases_of(shard), table_of(shard)
    leases.take(table, "a", Timestamp(100), LEASE)
    for pause in (1e6, 2e6, 3e6):
        leases.advance(pause, LATE)
        assert leases.retirable(table) == 0, "it has looked too few times to have heard of it"
    assert MAX_GAP_SECONDS < LEASE


def test_a_short_lease_outlives_a_pause_too() -> None:
    """Seen in the simulator: a leader that was paused for a second let go of leases of one second."""
    leases, shard = Leases(1.0), overwritten_twice()
    leases.begin(0.0)
    leases.take(table_of(shard), "a", Timestamp(100), 1.0)
    leases.advance(1.9, LATE)
    assert leases.retirable(table_of(shard)) == 0


def test_a_lease_that_is_taken_just_before_a_look_lasts_as_long_as_one_just_after() -> None:
    """Seen in the simulator: what had passed before it was taken counted as the lease's own time."""
    leases, shard = Leases(5.0), overwritten_twice()
    leases.begin(0.0)
    leases.advance(1.0, LATE)
    leases.take(table_of(shard), "a", Timestamp(100), 5.0)  # at 1.99
    for second in range(2, 7):
        leases.advance(float(second), LATE)
        assert leases.retirable(table_of(shard)) == 0
    leases.advance(6.9, LATE)
    assert leases.retirable(table_of(shard)) == 0, "its holder counts on it until 6.99"


def test_a_new_leader_waits_until_every_lease_has_been_renewed() -> None:
    leases = Leases(LEASE)
    leases.begin(100.0)
    for second in range(101, 112):
        assert not leases.complete
        leases.advance(second + 0.5, LATE)
    assert leases.complete
    leases.begin(200.0)
    assert not leases.complete


def test_no_lease_is_given_below_what_is_gone_or_about_to_go() -> None:
    shard = overwritten_twice()
    leases, table = leases_of(shard), table_of(shard)
    retire(shard, 200)
    with pytest.raises(
        SnapshotTooOld, match=r"air\.flights .* at 199: .* up to 200, .*snapshot_retention_seconds"
    ) as caught:
        leases.take(table, "a", Timestamp(199), LEASE)
    assert "snapshot_retention_seconds" in caught.value.hint
    leases.retires(table, Timestamp(300))
    with pytest.raises(SnapshotTooOld):
        leases.take(table, "a", Timestamp(299), LEASE)
    leases.take(table, "a", Timestamp(300), LEASE)


def test_a_new_reader_is_refused_what_is_kept_for_others_only() -> None:
    """Else one reader after the other could keep it for ever; who holds a lease may go on."""
    shard = overwritten_twice()
    leases, table = leases_of(shard, horizon=299), table_of(shard)
    leases.take(table, "a", Timestamp(150), LEASE)
    with pytest.raises(SnapshotTooOld, match=r"at 199: .* 200"):
        leases.check_new_reader(table, Timestamp(199))
    leases.check_new_reader(table, Timestamp(200))
    leases.take(table, "a", Timestamp(150), LEASE)


def test_the_number_of_leases_is_bounded_and_renewing_is_always_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnparticipant.shard.leases.MAX_LEASES", 2)
    assert MAX_LEASES > 2
    shard = overwritten_twice()
    leases, table = leases_of(shard), table_of(shard)
    for lease_id in ("a", "b", "a"):
        leases.take(table, lease_id, Timestamp(300), LEASE)
    with pytest.raises(Overloaded):
        leases.take(table, "c", Timestamp(300), LEASE)


def test_one_command_retires_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnparticipant.shard.leases.MAX_RETIRED", 1)
    shard = overwritten_twice()
    assert leases_of(shard).retirable(table_of(shard)) == 200


@pytest.mark.virtual_time
async def test_a_wall_clock_that_jumps_makes_nothing_old() -> None:
    """By the wall clock, a jump by an hour had retired what was overwritten a moment ago, under a reader of then."""
    shard, wall = new_shard(), timestamp(1_000_000_000)
    clock = HybridClock(lambda: micros_of(wall))
    retired: list[cmd.Retire] = []

    async def propose(command: cmd.Retire) -> None:
        retired.append(command)
        ok(shard, command)

    leases = Leases(LEASE)
    retirement = Retirement(shard, leases, propose, clock, lambda: 60)
    retirement.on_leadership(True)
    committed(shard, 1, "first001", clock.now())
    committed(shard, 2, "second01", clock.now(), overwrite=True)
    at, wall = clock.now(), timestamp(1_000_000_000 + 3_600_000_000)
    began = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < began + 55:
        await asyncio.sleep(1)
        await retirement.run_once()
        leases.check_new_reader(table_of(shard), Timestamp(1))
    assert not retired
    while not retired:
        assert asyncio.get_running_loop().time() < began + 65
        await asyncio.sleep(1)
        await retirement.run_once()
    leases.check_new_reader(table_of(shard), at)


@pytest.mark.virtual_time
async def test_a_clock_elsewhere_that_is_ahead_makes_nothing_old() -> None:
    """Timestamps of now look old, while hybrid time stands still where another's clock has taken it."""
    shard, loop = new_shard(), asyncio.get_running_loop()
    clock = HybridClock(lambda: 1_000_000_000 + int(loop.time() * 1e6))
    retired: list[tuple[float, cmd.Retire]] = []

    async def propose(command: cmd.Retire) -> None:
        retired.append((loop.time(), command))
        ok(shard, command)

    clock.update(timestamp(micros_of(clock.now()) + 300_000_000))
    leases = Leases(LEASE)
    retirement = Retirement(shard, leases, propose, clock, lambda: 60)
    retirement.on_leadership(True)
    committed(shard, 1, "first001", clock.now())
    overwritten: dict[Timestamp, float] = {}
    for number in range(2, 12):
        at = clock.now()
        committed(shard, number, f"write{number:03}", at, overwrite=True)
        overwritten[at] = loop.time()
        for _ in range(20):
            await asyncio.sleep(1)
            await retirement.run_once()
    assert len(retired) > 5
    for when, command in retired:
        for at, began in overwritten.items():
            assert at > command.up_to or when - began >= 60, f"{at} was retired after {when - began} s"
    last, command = retired[-1]
    assert max(began for at, began in overwritten.items() if at <= command.up_to) > last - 60 - 25, "none is kept long"
