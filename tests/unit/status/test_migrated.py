"""Transactions whose participants go to another log, or come to that of their record, while they are open or commit."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.harness.logs import AWAY, MOVED, SPAN, STATES, STAYS, decided, logs, migrate, remote_write, steps
from tests.unit.harness.one_log import OWNER, commit, first_write
from tests.unit.harness.shards import added
from txndeploy.node.machines import group_machine
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.errors import Unavailable
from txnstatus.raft.parts import Parts
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.types import HybridClock, Timestamp, TxnState


def test_one_that_leaves_after_it_has_prepared_is_counted_once_it_was_asked_again() -> None:
    first, second = logs()
    txn_id = first.begin()
    first.write(MOVED, first_write(txn_id, MOVED))
    first.register(txn_id, AWAY)
    second.write(AWAY, remote_write(txn_id, AWAY))
    assert steps(first.ask(commit(txn_id))) == [MOVED]
    migrate(first, second)
    refused = first.ask(cmd.FinalizeCommit(txn_id, Timestamp(200), 5, 1))
    assert isinstance(refused, Rejected), "what has left does not count without its answer"
    assert first.elsewhere(txn_id) == [MOVED, AWAY]
    assert second.state(MOVED, txn_id) is STATES.COMMIT_IN_PROGRESS, "it is asked there, and says what it said"
    assert decided(first, txn_id, 2).state is TxnState.FINALIZE_IN_PROGRESS
    second.write(MOVED, shard_cmd.FinalizeCommit(txn_id, MOVED, Timestamp(200)))
    assert second.state(MOVED, txn_id) is STATES.COMMITTED


def test_one_that_leaves_while_the_transaction_is_open_is_asked_by_messages() -> None:
    first, second = logs()
    txn_id = first.begin()
    first.write(MOVED, first_write(txn_id, MOVED))
    first.write(STAYS, first_write(txn_id, STAYS))
    migrate(first, second)
    outcome = first.ask(commit(txn_id))
    assert steps(outcome) == [STAYS]
    assert first.elsewhere(txn_id) == [MOVED]
    assert first.table.get(txn_id).state is TxnState.COMMIT_IN_PROGRESS


def test_one_that_comes_is_elsewhere_for_all_that_have_begun_before() -> None:
    """What they have there may not be registered; or it was asked already, by a message."""
    first, second = logs()
    early = second.begin()
    second.register(early, MOVED)
    first.write(MOVED, remote_write(early, MOVED))
    migrate(first, second)
    assert second.elsewhere(early) == [MOVED]
    assert steps(second.ask(commit(early))) == []
    assert second.state(MOVED, early) is STATES.OPEN
    assert isinstance(second.ask(cmd.FinalizeCommit(early, Timestamp(200), 5, 0)), Rejected)
    assert second.write(MOVED, shard_cmd.BeginCommit(early, MOVED, Timestamp(150)))
    assert decided(second, early, 1).state is TxnState.FINALIZE_IN_PROGRESS


def test_one_that_comes_is_here_for_all_that_begin_then() -> None:
    first, second = logs()
    second.begin()
    migrate(first, second)
    late = second.begin()
    assert isinstance(second.write(MOVED, first_write(late, MOVED)), ShardApplied)
    assert second.elsewhere(late) == []
    assert steps(second.ask(commit(late))) == [MOVED, MOVED]
    assert second.table.get(late).state is TxnState.COMMITTED


def test_a_last_write_for_one_that_has_left_is_refused_for_now() -> None:
    first, second = logs()
    txn_id = first.begin()
    write = shard_cmd.encode(added(txn_id))
    migrate(first, second)
    outcome = first.ask(cmd.BeginCommit(txn_id, OWNER, 5, Timestamp(100), (cmd.LastWrite(MOVED, write),)))
    assert isinstance(outcome, Rejected)
    assert type(outcome.error) is Unavailable
    assert first.table.get(txn_id).state is TxnState.OPEN


def test_who_is_elsewhere_stays_so_after_a_restart() -> None:
    first, second = logs()
    early = second.begin()
    second.register(early, MOVED)
    migrate(first, second)
    chunks = list(second.parts.snapshot())
    second.parts = restored(group_machine(lambda: SPAN, HybridClock(lambda: 0)), chunks)
    assert list(second.parts.snapshot()) == chunks
    assert second.elsewhere(early) == [MOVED]


def test_one_that_comes_back_is_elsewhere_for_all_that_have_begun_meanwhile() -> None:
    first, second = logs()
    early = first.begin()
    first.write(MOVED, first_write(early, MOVED))
    migrate(first, second, 7)
    meanwhile = first.begin()
    first.register(meanwhile, MOVED)
    migrate(second, first, 9)
    assert first.elsewhere(early) == first.elsewhere(meanwhile) == [MOVED]
    assert first.state(MOVED, early) is STATES.OPEN


def restored(parts: Parts, chunks: Sequence[bytes]) -> Parts:
    restoring = parts.restoring()
    for chunk in chunks:
        restoring.add(chunk)
    restoring.finish()
    return parts
