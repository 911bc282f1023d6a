"""The cleaner by itself: what a pass looks at, what it deletes when, and when it tells."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from tests.unit.harness.shards import TABLE, abort, begun, committed, new_shard, ok, opened, table_of
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.upkeep.cleaner import AT_ONCE, Cleaner
from txnstatus.errors import Unavailable
from txnstatus.types import Timestamp, TxnId

GRACE = 60.0


class Inline(Executor):
    """Does it at once, in the thread that asks."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except OSError as error:
            done.set_exception(error)
        return done


class Leader:
    def __init__(self, shard: ParticipantShard) -> None:
        self.shard = shard
        self.now = 0.0
        self.deleted: list[str] = []
        self.asked_for = 0
        self.store_fails = self.log_fails = False
        self.cannot_remove = ""
        self.proposals: list[int] = []
        """How many commands were in each."""
        self.cleaner = Cleaner(shard, self._propose_all, Inline(), GRACE)
        writes_to_clean = shard.writes_to_clean

        def counted(table_id: str, txn_id: TxnId) -> tuple[str, ...]:
            self.asked_for += 1
            return writes_to_clean(table_id, txn_id)

        shard.writes_to_clean = counted  # type: ignore[method-assign]
        self._loop = asyncio.new_event_loop()
        self._loop.time = lambda: self.now  # type: ignore[method-assign]

    def delete(self, uri: str) -> None:
        name = uri.rpartition("/")[2]
        if self.store_fails or name == self.cannot_remove:
            raise OSError("the store does not answer")
        self.deleted.append(name)

    async def _propose_all(self, commands: Sequence[cmd.MarkCleaned | cmd.ForgetTable]) -> Sequence[object]:
        self.proposals.append(len(commands))
        return [Unavailable("no quorum") if self.log_fails else ok(self.shard, command) for command in commands]

    def run(self, after: float = 1.0) -> list[str]:
        """One pass, so many seconds later. Returns what it deleted."""
        self.now += after
        self.deleted, self.asked_for = [], 0
        self._loop.run_until_complete(self.cleaner.run_once())
        self.shard.check_invariants()
        return self.deleted

    def close(self) -> None:
        self._loop.close()


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Leader]:
    leader = Leader(new_shard())
    monkeypatch.setattr("txnparticipant.upkeep.cleaner.delete_directory", leader.delete)
    yield leader
    leader.close()


def aborted(shard: ParticipantShard, txn: int, *more: str) -> None:
    txn_id = begun(shard, txn)
    for write_id in more:
        ok(shard, opened(txn_id, write_id))
    abort(shard, txn_id)


def left(shard: ParticipantShard) -> list[TxnId]:
    return [txn_id for _, txn_id, _ in shard.to_clean()]


def test_twice_with_a_grace_between_and_then_it_is_told(leader: Leader) -> None:
    aborted(leader.shard, 1, "write0001")
    first = leader.run()
    assert first == ["delta_1_write0001"]
    assert leader.run(GRACE - 1) == []
    assert left(leader.shard) == [1]
    assert leader.run() == first
    assert left(leader.shard) == []
    assert leader.run(10 * GRACE) == []


def test_what_a_committed_transaction_did_not_use_is_looked_at_after_the_grace_alone(leader: Leader) -> None:
    """It is nearly always empty: a look at each of them was a twelfth of what a leader did."""
    begun(leader.shard, 1)
    ok(leader.shard, opened(TxnId(1), "unused001"))
    committed(leader.shard, 1, "first0001", 100)
    assert leader.run() == leader.run(GRACE - 1) == []
    assert left(leader.shard) == [1]
    assert leader.run() == ["delta_1_unused001"]
    assert left(leader.shard) == []


def test_a_pass_does_not_touch_what_is_in_its_grace(leader: Leader) -> None:
    for txn in range(1, 100):
        aborted(leader.shard, txn, f"write{txn:04}")
    leader.run()
    assert leader.asked_for == 99
    leader.run()
    assert leader.asked_for == 0
    aborted(leader.shard, 100, "write0100")
    assert leader.run() == ["delta_100_write0100"]
    assert leader.asked_for == 1
    leader.proposals.clear()
    assert len(leader.run(GRACE)) == 100
    assert leader.proposals == [50, 50], "what is told goes together"
    assert left(leader.shard) == []


def test_a_new_leaders_pass_over_many_in_their_grace_lets_others_have_their_turns(leader: Leader) -> None:
    """All that had committed within the grace was looked at in one turn, 70 ms for 20,000: commits waited for it."""
    for txn in range(1, 4 * AT_ONCE):
        begun(leader.shard, txn)
        ok(leader.shard, opened(TxnId(txn), "unused001"))
        committed(leader.shard, txn, f"first{txn:04}", 100 * txn)
    looked = [0]

    async def count_turns() -> None:
        running = asyncio.ensure_future(leader.cleaner.run_once())
        while not running.done():
            await asyncio.sleep(0)
            looked.append(leader.asked_for)

    leader.asked_for = 0
    leader._loop.run_until_complete(count_turns())
    assert leader.asked_for == 4 * AT_ONCE - 1
    assert max(after - before for before, after in itertools.pairwise(looked)) == AT_ONCE
    assert leader.run(GRACE - 1) == []
    assert len(leader.run(2)) == 4 * AT_ONCE - 1


def test_what_fails_is_tried_again_in_the_next_pass(leader: Leader) -> None:
    aborted(leader.shard, 1, "write0001")
    leader.store_fails = True
    assert leader.run() == leader.run() == []
    leader.store_fails = False
    assert len(leader.run()) == 1
    leader.log_fails = True
    assert len(leader.run(GRACE)) == 1
    assert left(leader.shard) == [1]
    leader.log_fails = False
    assert len(leader.run()) == 1
    assert left(leader.shard) == []


def test_what_cannot_be_removed_holds_up_no_other(leader: Leader) -> None:
    for txn in (1, 2, 3):
        aborted(leader.shard, txn, f"write{txn:04}")
    leader.cannot_remove = "delta_2_write0002"
    assert leader.run() == ["delta_1_write0001", "delta_3_write0003"]
    assert leader.run() == []
    leader.cannot_remove = ""
    assert leader.run() == ["delta_2_write0002"]
    assert leader.run(GRACE - 1) == ["delta_1_write0001", "delta_3_write0003"]
    assert left(leader.shard) == [2]


def test_more_that_is_to_be_cleaned_begins_both_passes_anew(leader: Leader) -> None:
    """One transaction with two: a write that it did not use, and later the one that was overwritten."""
    shard = leader.shard
    begun(shard, 1)
    ok(shard, opened(TxnId(1), "unused001"))
    committed(shard, 1, "first0001", 100)
    leader.run()
    committed(shard, 2, "second001", 200, overwrite=True)
    ok(shard, cmd.Retire(TABLE, Timestamp(200)))
    both = ["delta_1_unused001", "delta_1_first0001"]
    assert leader.run(GRACE - 1) == both
    assert leader.run() == [], "the grace of the first is over, and not that of both"
    assert leader.run(GRACE) == both
    assert left(shard) == []


def test_a_new_leadership_goes_over_all_of_it_anew(leader: Leader) -> None:
    aborted(leader.shard, 1, "write0001")
    leader.run()
    leader.cleaner.forget()
    assert len(leader.run(2 * GRACE)) == 1
    assert left(leader.shard) == [1], "once"
    assert len(leader.run(GRACE)) == 1
    assert left(leader.shard) == []


def test_a_replica_that_does_not_lead_keeps_no_list_of_what_is_gone(leader: Leader) -> None:
    shard = leader.shard
    for txn in range(1, 10):
        aborted(shard, txn, "write0001")
        ok(shard, cmd.MarkCleaned(TxnId(txn), TABLE, ("write0001",)))
    assert table_of(shard).fresh == {}
    shard.check_invariants()
