"""What cannot be tells its story: the command, the state and the transaction's last steps, in both state machines."""

from __future__ import annotations

import traceback

import pytest
from msgspec import structs

from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard import shard as shards
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.transitions import TRANSITIONS, Op
from txnstatus.replicated import KEPT_STEPS, TOLD_CHARACTERS, TOLD_STEPS, Rejected, Story
from txnstatus.schema import Column, Schema
from txnstatus.status import commands as cmd
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import Participant, ParticipantId, ParticipantState, Timestamp, TxnId, TxnState

TXN, OTHER, TABLE = TxnId(1), TxnId(2), "0.0"


def status_table() -> TxnStatusTable:
    """Two transactions that began together. The second is committing."""
    table = TxnStatusTable(1, 100)
    table.apply(cmd.BeginTxns("request", 2, "ada", "", 1000, 5))
    table.apply(cmd.RegisterParticipants(OTHER, "ada", (Participant(ParticipantId(TABLE), "air.t"),)))
    table.apply(cmd.BeginCommit(OTHER, "ada", 6))
    assert isinstance(table.apply(cmd.CompleteCommit(OTHER, 7)), Rejected)
    return table


def shard() -> ParticipantShard:
    """The transaction has prepared."""
    made = ParticipantShard(0)
    made.apply(shard_cmd.CreateTable("air.t", Schema((Column("id", "bigint"),)), "file:///w/t", "request"))
    made.apply(shard_cmd.OpenWrite(TXN, TABLE, "ada", "write0001", begins=True))
    assert isinstance(made.apply(shard_cmd.OpenWrite(TXN, TABLE, "eve", "write0002")), Rejected)
    made.apply(shard_cmd.BeginCommit(TXN, TABLE, Timestamp(9)))
    return made


def test_an_exception_in_the_status_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = status_table()
    monkeypatch.setattr(TxnRecord, "moved", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError) as caught:
        table.apply(cmd.FinalizeCommit(OTHER, Timestamp(9), 8, 1))
    command, state, steps = caught.value.__notes__
    assert command == "command: FinalizeCommit(txn_id=2, commit_ts=9, now_micros=8, prepared=1)"
    assert state.startswith("transaction 2: TxnRecord(txn_id=2, owner='ada'")
    assert "COMMIT_IN_PROGRESS" in state
    assert steps == (
        "its last steps: BeginTxns -> OPEN, RegisterParticipants -> OPEN, BeginCommit -> COMMIT_IN_PROGRESS, "
        "CompleteCommit -> ILLEGAL_STATE"
    )
    assert steps in "".join(traceback.format_exception(caught.value)), "the log prints it"


def test_a_transition_that_the_table_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    made = shard()
    impossible = {(ParticipantState.COMMIT_IN_PROGRESS, Op.FINALIZE_COMMIT): ParticipantState.ABORTED}
    monkeypatch.setattr(shards, "TRANSITIONS", {**TRANSITIONS, **impossible})
    with pytest.raises(AssertionError, match="FINALIZE_COMMIT led to COMMITTED, and not to") as caught:
        made.apply(shard_cmd.FinalizeCommit(TXN, TABLE, Timestamp(9)))
    command, state, steps = caught.value.__notes__
    assert command == "command: FinalizeCommit(txn_id=1, table_id='0.0', commit_ts=9)"
    assert state.startswith("transaction 1: [TableTxn(txn_id=1, owner='ada'")
    assert steps == (
        "its last steps: OpenWrite on 0.0 -> OPEN, OpenWrite on 0.0 -> NOT_AUTHORIZED, "
        "BeginCommit on 0.0 -> COMMIT_IN_PROGRESS"
    )


def test_broken_invariants() -> None:
    table, made = status_table(), shard()
    structs.force_setattr(table._unfinished[OTHER], "state", TxnState.COMMITTED)
    with pytest.raises(AssertionError, match="misplaced") as caught:
        table.check_invariants()
    assert caught.value.__notes__[-1].endswith("CompleteCommit -> ILLEGAL_STATE")
    made.table_by_id(TABLE).txns[TXN].commit_ts = Timestamp(5)
    with pytest.raises(AssertionError, match="commit timestamp") as caught:
        made.check_invariants()
    assert caught.value.__notes__[-1].endswith("BeginCommit on 0.0 -> COMMIT_IN_PROGRESS")


def test_a_story_is_of_one_transaction_and_bounded() -> None:
    story = Story(lambda _: "x" * 10 * TOLD_CHARACTERS)
    for number in range(2 * KEPT_STEPS):
        story.note((TXN if number % 2 else OTHER, "", cmd.BeginCommit if number % 2 else cmd.BeginAbort, str(number)))
    assert len(story._steps) == KEPT_STEPS
    error = ValueError("no")
    story.tell(error, cmd.CompleteCommit(TXN, 5))
    _, state, steps = error.__notes__
    assert len(state) < TOLD_CHARACTERS + 50
    assert steps.count("BeginCommit") == TOLD_STEPS
    assert "BeginAbort" not in steps
    assert steps.endswith(f"BeginCommit -> {2 * KEPT_STEPS - 1}")


def test_a_restored_table_goes_on_with_its_story() -> None:
    table, fresh = status_table(), TxnStatusTable(1, 100)
    assert list(fresh.snapshot()) != list(table.snapshot())
    for chunk in table.snapshot():
        fresh.add_chunk(chunk)
    before = list(table._story._steps)
    table.become(fresh)
    assert list(table._story._steps) == before
    assert list(table.snapshot()) == list(fresh.snapshot()), "no part of what is replicated"
