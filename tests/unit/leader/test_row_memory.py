"""Rows in a shard's memory: transactions that together need more than there is all come to their ends."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.unit.harness.leader.rows import SCHEMA, TABLE, Shard, table_of
from txnparticipant.leader import rows as row_service
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.errors import LimitReached, Overloaded
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import TxnId


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as running:
        yield running


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for five rows of 15,000 bytes; each transaction may have two of them."""
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(row_service, "SOFT_LIMIT_BYTES", 80_000)
    monkeypatch.setattr(row_service, "HARD_LIMIT_BYTES", 80_000)
    monkeypatch.setattr(row_service, "TXN_LIMIT_BYTES", 32_000)


OTHER, THIRD = "air.other", "air.third"


def create(shard: Shard, table: str) -> None:
    shard.apply(cmd.CreateTable(table, SCHEMA, f"{shard.table.location}_{table}", f"creates {table}"))


def large_row(shard: Shard, txn: int, key: int, table: str = TABLE) -> pb.WriteRowsRequest:
    request = shard.request(txn, "upsert", table_of({key: "x" * 15_000}), shard.status.last)
    request.table = table
    return request


@pytest.mark.parametrize("leaders", ["one", "many"])
@pytest.mark.parametrize("tables", [(TABLE, TABLE), (TABLE, OTHER)], ids=["one table", "two tables"])
def test_transactions_that_have_a_part_of_the_memory_each_come_to_their_ends(
    shard: Shard, little_memory: None, tables: tuple[str, str], leaders: str
) -> None:
    """Each needs more than is left: the oldest has room, and the others where that has ended."""
    create(shard, OTHER)
    left = [1, 2, 3, 4, 5]
    for txn in left:
        shard.send(large_row(shard, txn, txn, tables[0]))
    while left:
        if leaders == "many":
            shard.restart()
        before = tuple(left)
        for txn in reversed(before):
            with contextlib.suppress(Overloaded):
                shard.send(large_row(shard, txn, 10 * txn, tables[1]))
                left.remove(txn)
        assert len(left) < len(before), "each waits for the others"
        for txn in set(before).difference(left):
            for table in dict.fromkeys(tables):
                end(shard, txn, table)
        shard.flush()


def end(shard: Shard, txn: int, table: str) -> None:
    """Commits it in this table."""
    table_id, commit_ts = shard.shard.table(table).table_id, shard.service._clock.now()
    shard.apply(cmd.BeginCommit(TxnId(txn), table_id, commit_ts))
    shard.status.commits[TxnId(txn)] = commit_ts
    shard.apply(cmd.FinalizeCommit(TxnId(txn), table_id, commit_ts))


def test_who_comes_later_is_not_first_in_line_before_there_is_room_for_all(shard: Shard, little_memory: None) -> None:
    """However old it is: another one may have what is kept for the first already."""
    for txn in (2, 3, 4, 5, 6):
        shard.send(large_row(shard, txn, txn))
    shard.send(large_row(shard, 2, 20))
    with pytest.raises(Overloaded, match="in the memory of shard 0: 80000 are possible") as refused:
        shard.send(large_row(shard, 1, 1))
    assert "commit some, transaction 2 first, for which 32000 more are kept" in refused.value.hint
    shard.commit(TxnId(2))
    shard.flush()
    shard.send(large_row(shard, 1, 1))
    with pytest.raises(Overloaded, match="transaction 1 first"):
        shard.send(large_row(shard, 3, 30))
    shard.send(large_row(shard, 1, 10))


def test_who_has_nothing_more_to_write_is_not_first_in_line(shard: Shard, little_memory: None) -> None:
    for txn in (1, 2, 3, 4, 5):
        shard.send(large_row(shard, txn, txn))
    shard.prepare(TxnId(1))
    shard.send(large_row(shard, 2, 20))


def test_a_transaction_with_more_than_is_kept_for_each_waits_for_no_other(
    shard: Shard, little_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither does it keep others from their ends."""
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 600.0)
    create(shard, OTHER)
    create(shard, THIRD)
    for key, table in ((1, TABLE), (2, TABLE), (3, OTHER), (4, OTHER)):
        shard.send(large_row(shard, 1, key, table))
    shard.send(large_row(shard, 2, 5))
    with pytest.raises(LimitReached, match=r"shard 0: 80000 are possible, and transaction 1, .*over 32000") as refused:
        shard.run(asyncio.wait_for(shard.service.write_rows(large_row(shard, 1, 6, THIRD)), 30))
    assert "commit more often" in refused.value.hint
    shard.send(large_row(shard, 2, 7))
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 0.05)
    with pytest.raises(Overloaded, match="transaction 2 first"):
        shard.send(large_row(shard, 3, 8))


def test_rows_that_cannot_be_flushed_are_not_a_transactions_fault(shard: Shard, little_memory: None) -> None:
    for txn in (1, 2, 3):
        shard.send(large_row(shard, txn, txn))
        shard.commit(TxnId(txn))
    create(shard, OTHER)
    for table in (TABLE, OTHER):
        shard.send(large_row(shard, 4, 4, table))
    with pytest.raises(Overloaded, match="cannot be flushed"):
        shard.send(large_row(shard, 4, 5, OTHER))


def sent_meanwhile(shard: Shard, late: pb.WriteRowsRequest, request: pb.WriteRowsRequest, *, applied: bool) -> None:
    """Sends a request while the late one is on its way: `applied`, though that was not heard of, or not yet."""
    rows = shard.service._rows
    propose = rows._propose

    async def both() -> None:
        comes, goes_on = asyncio.Event(), asyncio.Event()

        async def held_up(command: cmd.Command) -> ShardApplied:
            rows._propose = propose
            done = await propose(command) if applied else None
            comes.set()
            await goes_on.wait()
            return done or await propose(command)

        rows._propose = held_up
        writing = asyncio.ensure_future(shard.service.write_rows(late))
        await comes.wait()
        try:
            await shard.service.write_rows(request)
        finally:
            goes_on.set()
            await writing

    shard.run(both())
    shard.shard.check_invariants()


def test_who_is_on_the_way_is_in_line(shard: Shard, little_memory: None) -> None:
    for txn in (2, 3, 4, 5):
        shard.send(large_row(shard, txn, txn))
    with pytest.raises(Overloaded, match="transaction 1 first"):
        sent_meanwhile(shard, large_row(shard, 1, 1), large_row(shard, 2, 20), applied=False)
    shard.send(large_row(shard, 1, 10))


def test_what_is_on_the_way_counts_for_its_transaction(shard: Shard, little_memory: None) -> None:
    create(shard, OTHER)
    create(shard, THIRD)
    for txn in (1, 2, 3, 4):
        shard.send(large_row(shard, txn, txn))
    with pytest.raises(LimitReached, match="over 32000"):
        sent_meanwhile(shard, large_row(shard, 1, 1, OTHER), large_row(shard, 1, 1, THIRD), applied=False)


def test_what_has_come_counts_once(shard: Shard, little_memory: None) -> None:
    """A transaction that writes to tables side by side is not told that it has more than it has."""
    create(shard, OTHER)
    for txn in (2, 3, 4):
        shard.send(large_row(shard, txn, txn))
    sent_meanwhile(shard, large_row(shard, 1, 1), large_row(shard, 1, 1, OTHER), applied=True)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_they_write_all_come_to_their_ends(
    shard: Shard, little_memory: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """In any order, in several tables, with leaders that follow each other, and with more or less flushed."""
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 0.001)
    dice, tables = random.Random(seed), (TABLE, OTHER, THIRD)
    for table in tables[1:]:
        create(shard, table)
    plans = {txn: plan(dice, tables) for txn in range(1, 16)}
    wrote: dict[int, set[str]] = {}
    refused: set[int] = set()
    while plans:
        txn = dice.choice(sorted(plans.keys() - refused))
        table, size = plans[txn][-1]
        request = shard.request(txn, "upsert", table_of({dice.getrandbits(60): "x" * size}), shard.status.last)
        request.table = table
        try:
            shard.send(request)
        except Overloaded:
            refused.add(txn)
            if any(shard.shard.table(each).rows.unflushed for each in tables):
                shard.flush()
                refused.clear()
        else:
            plans[txn].pop()
            wrote.setdefault(txn, set()).add(table)
            refused.clear()
        assert refused < plans.keys(), f"each of {sorted(refused)} waits for the others"
        assert shard.service._rows._used() <= row_service.HARD_LIMIT_BYTES + row_service.TXN_LIMIT_BYTES
        if not plans[txn]:
            del plans[txn]
            for each in sorted(wrote[txn]):
                end(shard, txn, each)
        if dice.random() < 0.1:
            shard.restart()


def plan(dice: random.Random, tables: Sequence[str]) -> list[tuple[str, int]]:
    """Writes that come to no more than a transaction may have; each takes some 700 bytes besides its value."""
    left, writes = dice.randint(5_000, 31_000), []
    while left > 1_500:
        size = dice.randint(1_000, min(left, 15_000))
        writes.append((dice.choice(tables), max(size - 800, 1)))
        left -= size
    return writes
