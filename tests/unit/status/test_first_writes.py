"""Participants, and writes of theirs, with which a transaction begins."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.unit.harness.status_leader import ABORT, BEGIN_COMMIT, OWNER, REQUESTED, A, B, Leader
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.events import CommandApplied, CommitRequested, LeadershipGained
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import NO_TIMESTAMP, Participant, TxnId

TXN = TxnId(0)
BEGINS = cmd.BeginTxns(
    "request-0",
    1,
    OWNER,
    "",
    1500,
    1,
    participants=(Participant(A, "air.flights", "write0001"), Participant(B, "air.t")),
)


def begun() -> Leader:
    leader = Leader()
    outcome = leader.table.apply(BEGINS)
    leader.handle(CommandApplied(BEGINS, outcome))
    return leader


def test_they_are_there_from_the_first_and_a_repeated_begin_finds_those_of_the_first() -> None:
    table = begun().table
    expected = {each.participant_id: each for each in BEGINS.participants}
    assert table.get(TXN).participants == expected
    again = table.apply(structs.replace(BEGINS, participants=(Participant(B, "air.t", "write0009"),)))
    assert isinstance(again, StatusApplied)
    assert not again.changed
    (record,) = again.records
    assert record.participants == expected
    restored = TxnStatusTable(table.first_txn_id, table.end_txn_id)
    for chunk in table.snapshot():
        restored.add_chunk(chunk)
    assert restored.get(TXN).participants == expected


def test_who_registers_again_keeps_the_write_that_it_began_with() -> None:
    leader = begun()
    leader.table.apply(cmd.RegisterParticipants(TXN, OWNER, (Participant(A, "air.flights"),)))
    assert leader.table.get(TXN).participants[A].first_write == "write0001"


@pytest.mark.parametrize("ends", [BEGIN_COMMIT, ABORT])
def test_the_end_tells_each_of_its_write(ends: object) -> None:
    leader = begun()
    told = (
        leader.handle(CommitRequested(TXN, OWNER))
        if ends is BEGIN_COMMIT
        else leader.apply(cmd.BeginAbort(TXN, OWNER, REQUESTED, 2))
    )
    assert [each for each in told if isinstance(each, SendOp)] == [
        SendOp(TXN, A, ends, NO_TIMESTAMP, "write0001"),  # type: ignore[arg-type]
        SendOp(TXN, B, ends, NO_TIMESTAMP, ""),  # type: ignore[arg-type]
    ]


def test_a_new_leader_tells_them_likewise() -> None:
    leader = begun()
    leader.apply(cmd.BeginAbort(TXN, OWNER, REQUESTED, 2))
    effects = Leader(leader.table, leads=False).handle(LeadershipGained())
    assert [each.first_write for each in effects if isinstance(each, SendOp)] == ["write0001", ""]
