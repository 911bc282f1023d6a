"""A shard drops what the status table has forgotten, and refuses what still comes for it."""

from __future__ import annotations

import pytest

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import (
    COMMIT,
    OWNER,
    PREPARE,
    TABLE,
    WRITE,
    added,
    claim_of,
    committed,
    manifest,
    new_shard,
    ok,
    refused,
)
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import Forgotten
from txnstatus.id_sets import NOBODYS, below
from txnstatus.types import TxnId

FIRST, SECOND = TxnId(1), TxnId(2)


def known(shard: ParticipantShard) -> list[TxnId]:
    (table,) = shard.tables()
    return list(table.txns)


def test_what_has_ended_below_the_id_is_dropped_and_its_files_stay() -> None:
    shard = new_shard()
    committed(shard, FIRST, WRITE, COMMIT)
    committed(shard, SECOND, "write0002", COMMIT)
    ok(shard, cmd.ForgetTxns(below(SECOND)))
    assert known(shard) == [SECOND]
    (table,) = shard.tables()
    assert len(table.file_sets) == 2


def test_what_has_not_ended_or_holds_directories_stays() -> None:
    shard = new_shard()
    ok(shard, begin_txn(FIRST, TABLE, OWNER))
    ok(shard, cmd.OpenWrite(FIRST, TABLE, OWNER, WRITE))
    ok(shard, cmd.ForgetTxns(below(10)))
    assert known(shard) == [FIRST]
    ok(shard, cmd.AbortTxn(FIRST, TABLE))
    ok(shard, cmd.ForgetTxns(below(11)))
    assert known(shard) == [FIRST], "its directory is still to be removed"
    ok(shard, cmd.MarkCleaned(FIRST, TABLE, (WRITE,)))
    assert known(shard) == []


@pytest.mark.parametrize(
    "late",
    [
        begin_txn(FIRST, TABLE, OWNER),
        cmd.OpenWrite(FIRST, TABLE, OWNER, WRITE),
        cmd.AddFiles(FIRST, TABLE, OWNER, WRITE, manifest(WRITE)),
        cmd.BeginCommit(FIRST, TABLE, PREPARE),
        cmd.FinalizeCommit(FIRST, TABLE, COMMIT),
        cmd.AbortTxn(FIRST, TABLE),
    ],
)
def test_what_still_comes_for_a_forgotten_transaction_is_refused(late: cmd.Command) -> None:
    shard = new_shard()
    committed(shard, FIRST, WRITE, COMMIT)
    ok(shard, cmd.ForgetTxns(below(SECOND)))
    assert isinstance(refused(shard, late), Forgotten)


def test_forgetting_never_goes_back_and_survives_a_snapshot() -> None:
    shard = new_shard()
    committed(shard, FIRST, WRITE, COMMIT)
    ok(shard, cmd.ForgetTxns(below(SECOND)))
    ok(shard, cmd.ForgetTxns(below(FIRST)))
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    assert restored.forgotten == shard.forgotten == NOBODYS | below(SECOND)
    assert isinstance(refused(restored, begin_txn(FIRST, TABLE, OWNER)), Forgotten)


def test_an_overwrite_by_a_forgotten_transaction_still_holds() -> None:
    shard = new_shard()
    committed(shard, FIRST, WRITE, COMMIT)
    ok(shard, begin_txn(SECOND, TABLE, OWNER))
    ok(shard, cmd.OpenWrite(SECOND, TABLE, OWNER, WRITE))
    ok(shard, added(SECOND, overwrite=True, base=COMMIT, claim=claim_of(WRITE, snapshot=COMMIT)))
    ok(shard, cmd.BeginCommit(SECOND, TABLE, PREPARE))
    ok(shard, cmd.FinalizeCommit(SECOND, TABLE, COMMIT))
    ok(shard, cmd.ForgetTxns(below(3)))
    assert known(shard) == []
    (table,) = shard.tables()
    assert [fs.txn_id for fs in table.file_sets.values() if fs.visible_at(COMMIT)] == [SECOND]
