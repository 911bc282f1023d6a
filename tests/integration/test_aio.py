"""The client's twin for asyncio: the same calls, awaited, and many at once from one loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from tests import blocks
from tests.support import wait_until
from txnclient import (
    Client,
    Conflict,
    IllegalState,
    NotFound,
    Snapshot,
    Transaction,
    TxnState,
    Unavailable,
    aio,
)
from txnclient.change.merge import Merge
from txndeploy.local.cluster import LocalCluster
from txnstatus.types import TERMINAL

MANY = 1000
CANCELLED = 100
IN_LOOP: Mapping[type, str] = {
    Client: "abort add_group alter_table attempt_seconds begin begin_many call change_columns close compactions "
    "create_table delete drop_table get grant grants insert insert_ignore join last_commit locks "
    "participants place_database placements release_savepoint rename_table revoke savepoint savepoints snapshot "
    "sql_session table tables transaction transactions update upsert",
    Transaction: "abort add_written change_written commit delete enlist insert insert_ignore is_commit_complete leave "
    "lock lock_for on_lost open_change open_write release require_not_aborted rollback_to savepoint spark start_commit "
    "state token update upsert working writing_to",
    Snapshot: "close later require scan",
    Merge: "when_matched_delete when_matched_update when_matched_update_all when_not_matched_by_source_delete "
    "when_not_matched_by_source_update when_not_matched_insert when_not_matched_insert_all",
}
"""Calls that wait for nothing but answers of the cluster."""


def test_a_transaction_commits_and_one_that_raises_aborts(cluster: LocalCluster, new_table: Callable[..., str]) -> None:
    name = new_table("id bigint, note string", primary_key=["id"])

    async def work() -> None:
        async with aio.connect(cluster.addresses) as client:
            async with client.transaction(label="awaited") as txn:
                await txn.upsert(name, pa.table({"id": [1, 2], "note": ["a", "b"]}))
                assert (await txn.snapshot).timestamp >= 0
            assert txn.receipt.tables == (name,)
            failed = client.transaction()
            with pytest.raises(ZeroDivisionError):
                await _writes_and_fails(failed, name)
            merge = await client.merge(name, pa.table({"id": [2], "note": ["B"]}), "target.id = source.id")
            await merge.when_matched_update_all().execute()
            async with client.snapshot() as snapshot:
                found = await snapshot.to_arrow(name)
            assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
                {"id": 1, "note": "a"},
                {"id": 2, "note": "B"},
            ]
            assert (await client.sql(f"SELECT count(*) AS n FROM {name}")).to_pylist() == [{"n": 2}]
            with pytest.raises(NotFound):
                await client.table("t.nobody")

    asyncio.run(asyncio.wait_for(work(), 60))


async def _writes_and_fails(transaction: Any, table: str) -> None:
    async with transaction as txn:
        await txn.write(pa.table({"id": [3], "note": ["c"]}), table)
        raise ZeroDivisionError


def test_of_two_that_change_a_row_the_first_to_commit_wins(
    cluster: LocalCluster, new_table: Callable[..., str]
) -> None:
    name = new_table("id bigint", primary_key=["id"])

    async def work() -> None:
        async with aio.connect(cluster.addresses) as client:
            one, other = await asyncio.gather(client.begin(), client.begin())
            for txn in (one, other):
                await txn.snapshot
                await txn.upsert(name, pa.table({"id": [1]}))
            await one.commit()
            with pytest.raises(Conflict):
                await other.commit()

    asyncio.run(asyncio.wait_for(work(), 60))


def test_a_thousand_transactions_are_in_flight_from_one_loop(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str]
) -> None:
    name = new_table("id bigint", primary_key=["id"])
    threads = threading.active_count()

    async def work() -> None:
        async with aio.connect(cluster.addresses, timeout=120) as twin:
            all_open = asyncio.Barrier(MANY)

            async def one(number: int) -> None:
                async with twin.transaction() as txn:
                    await all_open.wait()
                    if number % 10 == 0:
                        await txn.upsert(name, pa.table({"id": [number]}))

            await asyncio.gather(*map(one, range(MANY)))
            assert threading.active_count() <= threads + 4

    asyncio.run(asyncio.wait_for(work(), 200))
    assert client.snapshot().to_arrow(name).num_rows == MANY // 10


def test_a_cancelled_write_aborts_and_a_closed_client_refuses(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str]
) -> None:
    name = new_table("id bigint", primary_key=["id"], conflicts="wait")

    async def work() -> int:
        async with aio.connect(cluster.addresses) as twin:
            with held(client, name):
                txn = await twin.begin()
                writing = asyncio.ensure_future(awaited(txn.upsert(name, pa.table({"id": [1]}))))
                await asyncio.to_thread(wait_until, lambda: waits(client, name), "the write waits for the lock")
                writing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await writing
            with pytest.raises(IllegalState):
                await txn.commit()
        with pytest.raises((IllegalState, Unavailable)):
            await twin.table(name)
        return int(txn.id)

    txn_id = asyncio.run(asyncio.wait_for(work(), 60))
    assert client.get(txn_id).state in (TxnState.ABORTED, TxnState.ABORT_IN_PROGRESS)


@pytest.mark.parametrize("call", ["write", "update_where"])
def test_what_a_thread_writes_is_not_committed_where_its_call_was_cancelled(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str], call: str
) -> None:
    """What was written before would be committed without it."""
    before, name = new_table("id bigint"), new_table("id bigint", conflicts="wait")

    def written(txn: Any, table: str) -> Any:
        return (
            txn.write(pa.table({"id": [1]}), table) if call == "write" else txn.update_where(table, {"id": "2"}, "true")
        )

    async def work() -> int:
        async with aio.connect(cluster.addresses) as twin:
            with held(client, name):
                txn = await twin.begin()
                await txn.write(pa.table({"id": [0]}), before)
                await _cancelled_as_it_waits(client, name, written(txn, name))
            with pytest.raises(IllegalState, match="can only be aborted"):
                await txn.commit()
            return int(txn.id)

    txn_id = asyncio.run(asyncio.wait_for(work(), 60))
    assert client.get(txn_id).state in (TxnState.ABORTED, TxnState.ABORT_IN_PROGRESS)
    assert client.snapshot().to_arrow(before).num_rows == 0


def test_a_write_in_a_thread_that_was_cancelled_is_taken_back_by_a_rollback(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str]
) -> None:
    name = new_table("id bigint", conflicts="wait")

    async def work() -> None:
        async with aio.connect(cluster.addresses) as twin, twin.transaction() as txn:
            await txn.savepoint("before")
            with held(client, name):
                await _cancelled_as_it_waits(client, name, txn.write(pa.table({"id": [1]}), name))
                with pytest.raises(IllegalState, match="go back to savepoint 'before'"):
                    await txn.write(pa.table({"id": [2]}), name)
                await txn.rollback_to("before")
            await txn.write(pa.table({"id": [3]}), name)

    asyncio.run(asyncio.wait_for(work(), 60))
    assert client.snapshot().to_arrow(name)["id"].to_pylist() == [3]


def test_a_write_by_itself_that_is_cancelled_aborts(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str]
) -> None:
    name = new_table("id bigint", conflicts="wait")

    async def work() -> None:
        async with aio.connect(cluster.addresses) as twin:
            with held(client, name):
                await _cancelled_as_it_waits(client, name, twin.write(pa.table({"id": [1]}), name))
                assert [each.txn_id for each in client.locks(name) if not each.acquired] == []

    asyncio.run(asyncio.wait_for(work(), 60))
    assert client.snapshot().to_arrow(name).num_rows == 0


async def _cancelled_as_it_waits(client: Client, table: str, call: Any) -> None:
    """For its lock on the table."""
    writing = asyncio.ensure_future(awaited(call))
    await asyncio.to_thread(wait_until, lambda: waits(client, table), "the write waits for the lock")
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing


def test_a_cancelled_commit_is_asked_again_and_nothing_of_it_is_left(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str]
) -> None:
    """A hundred of them, each some turns of the loop later: as it is sent, on its way, and as the answer comes."""
    name = new_table("id bigint", primary_key=["id"])

    async def commit_cancelled(txn: Any, turns: int) -> None:
        committing = asyncio.ensure_future(awaited(txn.commit()))
        for _ in range(turns):
            await asyncio.sleep(0)
        committing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await committing

    async def work() -> set[int]:
        async with aio.connect(cluster.addresses) as twin:
            txns = await twin.begin_many(CANCELLED)
            for number, txn in enumerate(txns):
                await txn.upsert(name, pa.table({"id": [number]}))
            await asyncio.gather(*(commit_cancelled(txn, turns) for turns, txn in enumerate(txns, 1)))
            left = txns.pop(0)
            for txn in txns:
                receipt = await txn.commit()
                assert receipt.tables == (name,)
            assert len(asyncio.all_tasks()) <= 1 + len(cluster.configs), "this one, and one for each line that connects"
            return {left.id, *(each.id for each in txns)}

    ids = asyncio.run(asyncio.wait_for(work(), 60))
    wait_until(lambda: all(client.get(each).state in TERMINAL for each in ids), "nobody asks for the last one")
    committed = {each for each in ids if client.get(each).state is TxnState.COMMITTED}
    assert len(committed) >= CANCELLED - 1
    assert client.snapshot().to_arrow(name).num_rows == len(committed)


async def awaited(call: Any) -> Any:
    return await call


def waits(client: Client, table: str) -> bool:
    return any(not lock.acquired for lock in client.locks(table))


@contextlib.contextmanager
def held(client: Client, table: str) -> Iterator[None]:
    """By somebody else."""
    txn = client.begin()
    txn.lock(table, "X")
    yield
    txn.abort("done")


def test_the_example_works_as_it_is_pasted(cluster: LocalCluster, client: Client) -> None:
    client.create_table("shop.stock", "id bigint, note string", primary_key=["id"])
    pasted: dict[str, Any] = {}
    code = blocks.block("README.md", "from txnclient import aio").replace("127.0.0.1:7051", cluster.addresses)
    exec(code, pasted)
    asyncio.run(asyncio.wait_for(pasted["restock"](pa.table({"id": [7], "note": ["seven"]})), 60))
    assert client.snapshot().to_arrow("shop.stock").to_pylist() == [{"id": 7, "note": "seven"}]


@pytest.mark.parametrize("original", IN_LOOP)
def test_each_call_is_known_to_wait_for_answers_alone_or_is_made_in_a_thread(original: type) -> None:
    calls = {name for name in dir(original) if not name.startswith("_") and callable(getattr(original, name))}
    assert calls - aio.IN_THREADS == set(IN_LOOP[original].split())


def test_a_call_that_nobody_awaits_is_told_of(cluster: LocalCluster) -> None:
    async def work() -> None:
        async with aio.connect(cluster.addresses) as client:
            with pytest.warns(RuntimeWarning, match="'begin' was never awaited"):
                client.begin()

    asyncio.run(asyncio.wait_for(work(), 60))
