"""Savepoints of a transaction on a real cluster: in Python, and through changes of leaders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support import rows, wait_until
from txnclient import (
    AlreadyExists,
    Client,
    IllegalState,
    InvalidArgument,
    LimitReached,
    NotFound,
    Transaction,
    Unavailable,
)
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import FIRST_GROUP

pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]
Call = Callable[[], Any]
"""A call of the handle's, to be made."""


def ids(source: Any, table: str) -> list[int]:
    return sorted(source.to_arrow(table)["id"].to_pylist())


def noted(**notes: str) -> pa.Table:
    return pa.table({"id": [int(key[1:]) for key in notes], "note": list(notes.values())})


def directories(client: Client, table: str) -> int:
    return len(list(Path(client.table(table).location.removeprefix("file://")).glob("delta_*")))


def ask_by(monkeypatch: pytest.MonkeyPatch, txn: Transaction, name: str, act: Callable[[Call], Any]) -> None:
    """From now on calls of that name are `act`'s to make, or not."""
    ask = txn.handle.ask

    def asked(method: str, *rest: Any, **more: Any) -> Any:
        call = partial(ask, method, *rest, **more)
        return act(call) if method.endswith(name) else call()

    monkeypatch.setattr(txn.handle, "ask", asked)


def test_what_was_written_since_is_taken_back_in_all_tables(client: Client, new_table: NewTable) -> None:
    one, two = new_table(), new_table()
    client.write(rows(1, 2), two)
    with client.transaction() as txn:
        txn.write(rows(1), one)
        txn.savepoint("a")
        txn.write(rows(2), one)
        txn.write(rows(9), two, mode="overwrite")
        assert (ids(txn, one), ids(txn, two)) == ([1, 2], [9])
        txn.rollback_to("a")
        assert (ids(txn, one), ids(txn, two)) == ([1], [1, 2])
        txn.delete_where(two, "id = 1")
        txn.write(rows(3), one)
    assert (ids(client.snapshot(), one), ids(client.snapshot(), two)) == ([1, 3], [2])
    wait_until(lambda: directories(client, one) == 2, "what was taken back is cleaned")


def test_rows_by_key_come_back_and_go(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=["id"])
    client.write(noted(_1="old", _2="old"), table)
    with client.transaction() as txn:
        txn.upsert(table, noted(_2="mine"))
        txn.savepoint("a")
        txn.insert(table, noted(_3="gone"))
        txn.delete(table, noted(_1=""))
        txn.write(noted(_7="gone"), table, mode="overwrite")
        txn.rollback_to("a")
        txn.insert(table, noted(_3="new"))
        with pytest.raises(AlreadyExists):
            txn.write(noted(_3="twice"), table)
        txn.rollback_to("a")
        txn.write(noted(_3="file"), table)
    found = client.snapshot().to_arrow(table).sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3], "note": ["old", "mine", "file"]}


def test_a_statement_that_fails_leaves_what_can_go_back(client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    txn.savepoint("a")
    with pytest.raises(NotFound):
        txn.write(rows(1), "t.nowhere")
    for work in (lambda: txn.write(rows(2), table), txn.commit, lambda: txn.savepoint("b")):
        with pytest.raises(IllegalState, match="can only be aborted or go back: a write to ") as error:
            work()
        assert "go back to savepoint 'a'" in error.value.hint
    txn.rollback_to("a")
    txn.write(rows(3), table)
    txn.commit()
    assert ids(client.snapshot(), table) == [1, 3]


def test_a_block_that_ends_after_a_failure_aborts(client: Client, new_table: NewTable) -> None:
    table, txn = new_table(), client.begin()

    def block() -> None:
        with txn:
            txn.savepoint("a")
            txn.write(rows(1), table)
            txn.write(rows(1), "t.nowhere")

    with pytest.raises(NotFound):
        block()
    assert txn.state().name.startswith("ABORT")


def test_names_shadow_each_other_and_are_released(client: Client, new_table: NewTable) -> None:
    table = new_table()
    with client.transaction() as txn:
        for number in range(3):
            txn.savepoint("a")
            txn.write(rows(number), table)
        txn.rollback_to("a")
        assert ids(txn, table) == [0, 1]
        txn.release("a")
        txn.rollback_to("a")
        assert ids(txn, table) == [0]
        txn.release("a")
        txn.savepoint("b")
        txn.rollback_to("a")
        assert ids(txn, table) == []
        with pytest.raises(NotFound, match="no savepoint 'b'") as error:
            txn.rollback_to("b")
        assert error.value.hint == "there are: a"
        for _ in range(150):
            txn.savepoint("again")
            txn.release("again")
        txn.write(rows(7), table)
    assert ids(client.snapshot(), table) == [7]


def test_what_is_wrong_is_named(client: Client, new_table: NewTable) -> None:
    txn, other = client.begin(), client.begin()
    txn.savepoint("a")
    with pytest.raises(NotFound, match=f"transaction {other.id} has no savepoint 'a'"):
        other.rollback_to("a")
    with pytest.raises(NotFound):
        other.release("a")
    with pytest.raises(InvalidArgument):
        txn.savepoint("")
    for _ in range(99):
        txn.savepoint("a")
    with pytest.raises(LimitReached, match="has 100 savepoints"):
        txn.savepoint("a")
    txn.commit()
    for late in (txn.savepoint, txn.rollback_to, txn.release):
        with pytest.raises(IllegalState):
            late("a")
    other.abort()
    with pytest.raises(Exception, match="was aborted by this handle"):
        other.savepoint("a")


def test_a_write_that_may_still_come_to_a_new_table_ends_the_transaction(
    client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table()
    txn = client.begin()
    txn.savepoint("a")

    def lost(_call: Call) -> Any:
        raise Unavailable("nobody answers")

    ask_by(monkeypatch, txn, "OpenWrite", lost)
    with pytest.raises(Unavailable):
        txn.write(rows(1), table)
    with pytest.raises(IllegalState, match=f"a write to {table} has failed, and may still come"):
        txn.rollback_to("a")
    txn.abort()


def test_a_rollback_that_comes_late_takes_nothing_back_that_was_written_since(
    client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer did not come, and so it was asked for again, as the error says."""
    table = new_table()
    txn = client.begin()
    txn.savepoint("a")
    txn.write(rows(1), table)
    late = list[Call]()

    def slow(call: Call) -> Any:
        if late:
            return call()
        late.append(call)
        raise Unavailable("nobody answers")

    ask_by(monkeypatch, txn, "RollbackTo", slow)
    with pytest.raises(Unavailable):
        txn.rollback_to("a")
    txn.rollback_to("a")
    txn.write(rows(2), table)
    late[0]()
    txn.commit()
    assert ids(client.snapshot(), table) == [2]


def test_a_rollback_that_is_interrupted_leaves_nothing_but_to_go_back_or_to_abort(
    client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have reached one table, and not another one: what the program would commit is half taken back."""
    table = new_table()
    txn = client.begin()
    txn.savepoint("a")
    txn.write(rows(1), table)

    def interrupted(_call: Call) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        ask_by(patched, txn, "RollbackTo", interrupted)
        with pytest.raises(KeyboardInterrupt):
            txn.rollback_to("a")
    for not_now in (lambda: txn.write(rows(2), table), txn.commit):
        with pytest.raises(IllegalState, match="the rollback to savepoint 'a' failed: KeyboardInterrupt"):
            not_now()
    txn.rollback_to("a")
    txn.write(rows(2), table)
    txn.commit()
    assert ids(client.snapshot(), table) == [2]


def test_savepoints_outlive_leaders(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=["id"])
    with client.transaction() as txn:
        txn.insert(table, noted(_1="kept"))
        txn.savepoint("a")
        txn.write(noted(_5="gone"), table, mode="overwrite")
        for _ in range(2):
            leader = cluster.leader(FIRST_GROUP)
            cluster.kill(leader)
            cluster.start_node(leader)
            txn.rollback_to("a")
            txn.insert(table, noted(_2="new"))
            assert ids(txn, table) == [1, 2]
    assert ids(client.snapshot(), table) == [1, 2]
