"""The locks that writes take by themselves, and those of each statement, by the public API: as the table has them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support import rows, visible, wait_until
from tests.unit.harness.statements import OWN, ROWS
from txnclient import Client, InvalidArgument, Locked, Transaction
from txnparticipant.locks.locks import Mode
from txnstatus.types import Statement

NewTable = Callable[..., str]
NAMES = {Mode.S: "S", Mode.SHARED_WRITE: "shared-write", Mode.X: "X"}


def held(client: Client, txn: Transaction, table: str) -> dict[str, str]:
    """By partition; of the table itself under the empty name."""
    found = {lock.object: lock.mode for lock in client.locks(table) if lock.acquired and lock.txn_id == txn.id}
    return {name.removeprefix(table).removeprefix("/"): mode for name, mode in found.items()}


def days(*days: tuple[int, int]) -> pa.Table:
    return pa.table({
        "id": pa.array(range(len(days)), pa.int64()),
        "p": pa.array([p for p, _ in days], pa.int32()),
        "q": pa.array([q for _, q in days], pa.int32()),
    })  # fmt: skip


@pytest.fixture
def parted(new_table: NewTable) -> str:
    return new_table("id bigint, p int, q int", partition_by=["p", "q"], conflicts="wait")


# ---- every row of the table


@pytest.mark.parametrize(("statement", "target", "reads", "written"), ROWS, ids=lambda row: str(row)[:40])
def test_a_row_of_hives_table(
    client: Client, new_table: NewTable, statement: Statement, target: str, reads: tuple[str, ...], written: str
) -> None:
    """What an insert takes is Hive's where there are no transactions; within one it is S."""
    names = {"T1": new_table("id bigint, p1 int", partition_by=["p1"])}
    names["T2"] = names["T1"]
    if target.startswith("T2"):
        columns = target.lower().split(".")[1:]
        kinds = ", ".join(f"{column} int" for column in columns)
        names["T2"] = new_table(f"id bigint, {kinds}", partition_by=columns)
    txn = client.begin()

    def locked(what: Statement, name: str) -> None:
        table, *partition = name.split(".")
        named = "/".join(f"{part.lower()}=1" for part in partition)
        txn.lock_for(what, names[table], partition=named or None)

    locked(statement, target)
    for name in reads:
        locked(Statement.SELECT, name)
    expected = written.replace(" and X on T2", " and S on T2") if statement is Statement.INSERT else written
    modes: dict[tuple[str, str], str] = {}
    mode = ""
    for each in expected.replace(" and ", ", ").split(", "):
        *named, name = each.split(" on ")
        mode = named[0] if named else mode
        table, *partition = name.split(".")
        modes[names[table], "/".join(f"{part.lower()}=1" for part in partition)] = mode
    found = {(table, part): mode for table in set(names.values()) for part, mode in held(client, txn, table).items()}
    assert found == modes
    txn.abort()


@pytest.mark.parametrize("statement", OWN)
def test_a_row_of_our_own(client: Client, parted: str, statement: Statement) -> None:
    txn = client.begin()
    txn.lock_for(statement, parted, partition="p=1/q=2")
    assert held(client, txn, parted) == {"": "S", "p=1": "S", "p=1/q=2": NAMES[OWN[statement]]}
    txn.abort()


def test_what_is_no_statement(client: Client, parted: str) -> None:
    txn = client.begin()
    with pytest.raises(InvalidArgument, match="no statement 'drop everything'; there are select, insert into"):
        txn.lock_for("drop everything", parted)
    assert not held(client, txn, parted)


# ---- what each write takes


Write = Callable[[Transaction, str], Any]
FILES: dict[str, tuple[Write, dict[str, str]]] = {
    "append": (
        lambda txn, t: txn.write(days((1, 1), (1, 2)), t),
        {"": "S", "p=1": "S", "p=1/q=1": "S", "p=1/q=2": "S"},
    ),
    "append of nothing": (lambda txn, t: txn.write(days(), t), {"": "S"}),
    "append into a prefix": (
        lambda txn, t: txn.write(days((1, 1)), t, partition={"p": 1}),
        {"": "S", "p=1": "S", "p=1/q=1": "S"},
    ),
    "append into a partition": (
        lambda txn, t: txn.write(days((1, 1)), t, partition="p=1/q=1"),
        {"": "S", "p=1": "S", "p=1/q=1": "S"},
    ),
    "staged files": (lambda txn, t: txn.add([txn.stage(days((2, 1)), t)], t), {"": "S", "p=2": "S", "p=2/q=1": "S"}),
    "overwrite": (lambda txn, t: txn.write(days((1, 1)), t, "overwrite"), {"": "X"}),
    "overwrite of a prefix": (
        lambda txn, t: txn.write(days((1, 1)), t, "overwrite", partition={"p": 1}),
        {"": "S", "p=1": "X"},
    ),
    "overwrite of what there is": (
        lambda txn, t: txn.write(days((1, 1), (2, 2)), t, "overwrite_partitions"),
        {"": "S", "p=1": "S", "p=1/q=1": "X", "p=2": "S", "p=2/q=2": "X"},
    ),
    "truncate": (lambda txn, t: txn.truncate(t), {"": "X"}),
    "truncate of a partition": (
        lambda txn, t: txn.truncate(t, partition="p=1/q=1"),
        {"": "S", "p=1": "S", "p=1/q=1": "X"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_files(client: Client, parted: str, kind: str) -> None:
    write, expected = FILES[kind]
    txn = client.begin()
    write(txn, parted)
    assert held(client, txn, parted) == expected
    txn.commit()
    wait_until(lambda: not client.locks(parted), "the commit has reached the table")


def inserts(txn: Transaction, table: str) -> None:
    txn.insert(table, days((1, 1)))
    txn.insert_ignore(table, days((1, 1)))


ROW_WRITES: dict[str, tuple[list[str], list[str], Write, dict[str, str]]] = {
    "insert": ([], ["id"], inserts, {"": "S"}),
    "upsert": ([], ["id"], lambda txn, t: txn.upsert(t, days((1, 1))), {"": "shared-write"}),
    "insert into partitions": (["p"], ["id"], inserts, {"": "S", "p=1": "S"}),
    "upsert where the key tells": (
        ["p"], ["id", "p"], lambda txn, t: txn.upsert(t, days((1, 1))), {"": "S", "p=1": "shared-write"},
    ),
    "delete where the key tells": (
        ["p"], ["id", "p"],
        lambda txn, t: (txn.insert(t, days((1, 1))), txn.delete(t, days((1, 1)))),
        {"": "S", "p=1": "shared-write"},
    ),
    "upsert where it does not": (["p"], ["id"], lambda txn, t: txn.upsert(t, days((1, 1))), {"": "X"}),
    "update where it does not": (
        ["p"], ["id"], lambda txn, t: (txn.insert(t, days((1, 1))), txn.update(t, days((1, 1)))), {"": "X", "p=1": "S"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROW_WRITES)
def test_rows(client: Client, new_table: NewTable, kind: str) -> None:
    partition_by, key, write, expected = ROW_WRITES[kind]
    table = new_table("id bigint, p int, q int", partition_by=partition_by, primary_key=key, conflicts="wait")
    txn = client.begin()
    write(txn, table)
    assert held(client, txn, table) == expected
    txn.commit()
    assert visible(client, table) == [[] if "delete" in kind else [0]]


# ---- what that means


def test_appends_share_and_whoever_holds_x_excludes_them(client: Client, parted: str) -> None:
    one, other, owner = client.begin(), client.begin(), client.begin()
    one.write(days((1, 1)), parted)
    other.write(days((1, 1)), parted)
    with pytest.raises(Locked, match=f"holds S on {parted}/p=1/q=1"):
        owner.lock(parted, "X", partition="p=1/q=1", numretries=0)
    owner.lock(parted, "X", partition="p=2")
    one.write(days((1, 2)), parted)  # another part of the table
    late = threading.Thread(target=lambda: (other.write(days((2, 1)), parted), other.commit()), daemon=True)
    late.start()
    wait_until(lambda: any(lock.txn_id == other.id and not lock.acquired for lock in client.locks(parted)), "it waits")
    one.commit()
    owner.abort()
    late.join(20)
    assert not late.is_alive()
    assert visible(client, parted) == [[0, 0, 0, 0]]


def test_whoever_loses_learns_it_before_any_file_is_written(
    client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(conflicts="no-wait")
    owner, txn = client.begin(), client.begin()
    owner.lock(table, "X")
    written: list[object] = []
    monkeypatch.setattr("txnclient.formats.arrow.write_files", lambda *args: written.append(args))
    with pytest.raises(Locked, match="holds X"):
        txn.write(rows(1), table)
    assert not written
    owner.abort()
    txn.abort()


# ---- what it costs


def lock_calls(client: Client, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    called: list[str] = []
    call = client.session.call

    def noted(method: str, *args: Any, **options: Any) -> Any:
        called.append(method)
        return call(method, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(client.session, "call", noted)
        work()
    return called.count("txnstatus.Table/Lock")


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("append", 2),  # the table before the files, what is in it when they are written
        ("append into a partition", 1),
        ("staged files", 1),
        ("overwrite", 1),
        ("overwrite of a prefix", 1),
        ("overwrite of what there is", 1),
        ("truncate", 1),
    ],
)
def test_nothing_is_asked_for_twice(
    client: Client, parted: str, monkeypatch: pytest.MonkeyPatch, kind: str, count: int
) -> None:
    write, _ = FILES[kind]
    with client.transaction() as txn:
        assert lock_calls(client, monkeypatch, lambda: write(txn, parted)) == count


def test_tables_whose_first_committer_wins_are_not_locked(
    client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, keyed = new_table("id bigint, p int, q int", partition_by=["p", "q"]), new_table(primary_key=["id"])
    with client.transaction() as txn:
        for write, _ in FILES.values():
            assert lock_calls(client, monkeypatch, lambda write=write: write(txn, plain)) == 0
        for write_rows in (txn.insert, txn.upsert, txn.update):
            assert lock_calls(client, monkeypatch, lambda write=write_rows: write(keyed, rows(1))) == 0
        assert not client.locks(plain)
