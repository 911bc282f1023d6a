"""A shard that is split in its group's log, while transactions are open there, or commit."""

from __future__ import annotations

import pytest

from tests.unit.harness.logs import Log, decided, remote_write, steps
from tests.unit.harness.one_log import OWNER, commit, first_write
from tests.unit.harness.shards import create
from txndeploy.node.machines import group_machine
from txnparticipant.leader.machine import ShardMachine, keeper_among
from txnparticipant.shard import commands as shard_cmd
from txnstatus.errors import IllegalState, PlacedElsewhere, Unavailable
from txnstatus.raft.migration import Splits
from txnstatus.raft.parts import Parts, address, releasing, splitting
from txnstatus.replicated import Rejected
from txnstatus.types import HybridClock, ParticipantId, ParticipantState, Timestamp, TxnId, TxnState

STAYS, GOES = ParticipantId("3.0"), ParticipantId("3.1")
NUMBER = 7
STATES = ParticipantState


def log() -> Log:
    found = Log(0, 3, 4)
    found.write(GOES, create("air.goes", "goes", "file:///lake/goes"))
    return found


def split(parts: Parts, *share: str, number: int = NUMBER) -> list[object]:
    return parts.apply([releasing("shard-3", number), splitting(Splits("shard-3", number, "shard-8", share))])


def state(log: Log, participant: ParticipantId, txn_id: TxnId) -> ParticipantState | None:
    part = keeper_among(log.parts.machines, participant)
    assert part is not None
    machine = log.parts.machines[part]
    assert isinstance(machine, ShardMachine)
    record = machine.shard.record(participant, txn_id)
    return record.state if record else None


def to(log: Log, part: str, command: shard_cmd.Command) -> object:
    (outcome,) = log.parts.apply([address(part) + shard_cmd.encode(command)])
    return outcome


def restored(parts: Parts) -> Parts:
    again = group_machine(lambda: 100, HybridClock(lambda: 0))
    restoring = again.restoring()
    for chunk in parts.snapshot():
        restoring.add(chunk)
    restoring.finish()
    assert [*again.snapshot()] == [*parts.snapshot()]
    return again


def test_who_began_before_asks_both_halves_by_messages() -> None:
    first = log()
    txn_id = first.begin()
    for each in (STAYS, GOES):
        to(first, "shard-3", first_write(txn_id, each))
    assert split(first.parts, GOES) == [None, None]
    assert first.elsewhere(txn_id) == [STAYS, GOES]
    assert steps(first.ask(commit(txn_id))) == []
    refused = to(first, "shard-3", shard_cmd.BeginCommit(txn_id, GOES, Timestamp(110)))
    assert isinstance(refused, Rejected)
    assert isinstance(refused.error, PlacedElsewhere)
    to(first, "shard-3", shard_cmd.BeginCommit(txn_id, STAYS, Timestamp(110)))
    assert isinstance(first.ask(commit(txn_id)), object)
    to(first, "shard-8", shard_cmd.BeginCommit(txn_id, GOES, Timestamp(110)))
    assert decided(first, txn_id, 2).state is TxnState.FINALIZE_IN_PROGRESS
    for part, each in (("shard-3", STAYS), ("shard-8", GOES)):
        to(first, part, shard_cmd.FinalizeCommit(txn_id, each, Timestamp(200)))
    assert [state(first, each, txn_id) for each in (STAYS, GOES)] == [STATES.COMMITTED] * 2


def test_who_begins_later_has_both_in_the_log_of_his_record() -> None:
    first = log()
    split(first.parts, GOES)
    txn_id = first.begin()
    to(first, "shard-3", first_write(txn_id, STAYS))
    to(first, "shard-8", first_write(txn_id, GOES))
    assert first.elsewhere(txn_id) == []
    assert steps(first.ask(commit(txn_id))) == [STAYS, GOES, STAYS, GOES], "in one entry"
    assert [state(first, each, txn_id) for each in (STAYS, GOES)] == [STATES.COMMITTED] * 2
    assert first.table.get(txn_id).state is TxnState.COMMITTED


def test_what_is_split_off_is_in_the_log_also_where_the_other_half_is_not() -> None:
    first = log()
    split(first.parts, GOES)
    first.parts.apply([releasing("shard-3", NUMBER + 2)])
    txn_id = first.begin()
    to(first, "shard-8", first_write(txn_id, GOES))
    assert first.elsewhere(txn_id) == []
    assert steps(first.ask(commit(txn_id))) == [GOES, GOES]


def test_what_is_on_its_way_meets_neither_half() -> None:
    """A command that an old leadership has proposed: those that follow have promised what it does not know of."""
    first = log()
    txn_id = first.begin()
    first.parts.apply([releasing("shard-3", NUMBER)])
    late = to(first, "shard-3", remote_write(txn_id, STAYS))
    assert isinstance(late, Rejected)
    assert isinstance(late.error, Unavailable)
    assert first.parts.apply([splitting(Splits("shard-3", NUMBER, "shard-8", (GOES,)))]) == [None]
    assert state(first, STAYS, txn_id) is None
    assert [first.parts.stay(part) for part in ("shard-3", "shard-8")] == [NUMBER, NUMBER], "others serve them"


@pytest.mark.parametrize("number", [NUMBER, NUMBER - 1])
def test_a_split_that_is_done_is_not_done_again(number: int) -> None:
    first = log()
    split(first.parts, GOES)
    before = [*first.parts.snapshot()]
    assert first.parts.apply([splitting(Splits("shard-3", number, "shard-8", (STAYS,)))]) == [None]
    assert [*first.parts.snapshot()] == before


def test_nothing_is_split_that_has_not_left_by_this_number() -> None:
    first = log()
    before = [*first.parts.snapshot()]
    for command in (Splits("shard-3", NUMBER, "shard-8", (GOES,)), Splits("shard-3", NUMBER, "shard-4", (GOES,))):
        (outcome,) = first.parts.apply([splitting(command)])
        assert isinstance(outcome, Rejected)
        assert isinstance(outcome.error, IllegalState)
    assert [*first.parts.snapshot()] == before


def test_both_halves_are_in_a_snapshot_and_so_is_what_is_to_be_split() -> None:
    first = log()
    txn_id = first.begin()
    to(first, "shard-3", first_write(txn_id, GOES))
    first.parts.apply([releasing("shard-3", NUMBER)])
    again = restored(first.parts)
    for parts in (first.parts, again):
        assert parts.apply([splitting(Splits("shard-3", NUMBER, "shard-8", (GOES,)))]) == [None]
    assert [*again.snapshot()] == [*first.parts.snapshot()] == [*restored(again).snapshot()]


def test_a_replica_that_restores_a_snapshot_meanwhile_has_what_that_says() -> None:
    ahead, behind = log(), log()
    split(ahead.parts, GOES)
    ahead.write(STAYS, create("air.later", "later", "file:///lake/later"))
    restoring = behind.parts.restoring()
    for chunk in ahead.parts.snapshot():
        restoring.add(chunk)
    split(behind.parts, GOES)
    there = dict(behind.parts.machines)
    restoring.finish()
    assert [*behind.parts.snapshot()] == [*ahead.parts.snapshot()]
    assert all(behind.parts.machines[part] is machine for part, machine in there.items()), "services go on with these"


def test_the_owner_of_a_transaction_is_told_alike_on_all_replicas() -> None:
    replicas = [log(), log()]
    for each in replicas:
        txn_id = each.begin()
        to(each, "shard-3", shard_cmd.OpenWrite(txn_id, GOES, OWNER, "write0001", begins=True))
        split(each.parts, GOES, STAYS)
    assert [*replicas[0].parts.snapshot()] == [*replicas[1].parts.snapshot()]
