"""The conflict strategy `compensating`: who was first is undone where a rule of the loser's says so, and only there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import Event, Semaphore, Thread
from typing import Any

import pyarrow as pa
import pytest

from tests import blocks
from tests.support import wait_until
from txnclient import (
    Client,
    CommitUnknown,
    Conflict,
    InvalidArgument,
    Past,
    Transaction,
    TxnAborted,
    Unavailable,
)
from txndeploy.local.cluster import LocalCluster
from txnstatus.types import TERMINAL, TxnState

NewTable = Callable[..., str]


def prices(client: Client, table: str) -> dict[int, int]:
    found = client.snapshot().to_arrow(table)
    return dict(zip(found["id"].to_pylist(), found["price"].to_pylist(), strict=True))


def always(_lost: Past, _first: Past) -> bool:
    return True


@pytest.fixture(params=[(), ("id",)], ids=["without a key", "with a key"])
def tables(request: pytest.FixtureRequest, client: Client, new_table: NewTable) -> tuple[str, str]:
    """Two tables, each with the rows 1 and 2."""
    made = [new_table("id bigint NOT NULL, price int", primary_key=request.param) for _ in range(2)]
    start = pa.table({"id": pa.array([1, 2], pa.int64()), "price": pa.array([1, 2], pa.int32())})
    client.write_all(dict.fromkeys(made, start))
    return made[0], made[1]


class Load:
    """Work on two tables, beside which others commit first as it is done for the first time."""

    def __init__(self, tables: tuple[str, str], *others: Callable[[], Any]) -> None:
        self._tables, self._others = tables, others
        self.ids: list[int] = []
        """Transactions in which it was done."""

    def __call__(self, txn: Transaction) -> None:
        self.ids.append(txn.id)
        for table in self._tables:
            txn.update_where(table, {"price": "price + 10"}, "id = 1")
        if len(self.ids) == 1:
            for other in self._others:
                other()


def hourly(client: Client, *tables: str, price: str = "100", label: str = "hourly") -> int:
    with client.transaction(label) as txn:
        for table in tables:
            txn.update_where(table, {"price": price}, "id = 1")
    return txn.id


def test_who_was_first_is_undone_in_all_its_tables_and_the_work_done_again(
    client: Client, tables: tuple[str, str]
) -> None:
    asked = list[tuple[Past, Past]]()

    def nightly_prevails(lost: Past, first: Past) -> bool:
        asked.append((lost, first))
        return lost.label == "nightly"

    load = Load(tables, lambda: hourly(client, *tables))
    receipt = client.run(load, "nightly", compensating=nightly_prevails)
    assert [prices(client, table) for table in tables] == [{1: 11, 2: 2}] * 2
    assert load.ids[-1] == receipt.txn_id
    ((lost, first),) = asked
    assert (lost.txn_id, lost.state, lost.abort_code) == (load.ids[0], "ABORTED", "CONFLICT")
    assert (first.label, first.state) == ("hourly", "COMMITTED")
    (undo,) = client.transactions(label=f"compensation for {lost.txn_id} nightly")
    assert undo.participants == tuple(sorted(tables))


def test_where_no_rule_says_so_the_work_goes_on_from_what_is_there(client: Client, tables: tuple[str, str]) -> None:
    for rule in (None, lambda _lost, first: first.label != "hourly"):
        before = prices(client, tables[0])
        load = Load(tables, lambda: hourly(client, tables[0], price="price + 100"))
        client.run(load, "nightly", compensating=rule)
        assert len(load.ids) == 2
        assert prices(client, tables[0]) == {1: before[1] + 110, 2: 2}


def test_what_cannot_be_undone_is_not_compensated(client: Client, tables: tuple[str, str]) -> None:
    load = Load(tables, lambda: hourly(client, *tables), lambda: hourly(client, tables[1], price="7", label="third"))
    with pytest.raises(Conflict, match=r"and it cannot be compensated: transaction \d+ cannot be undone") as refused:
        client.run(load, "nightly", compensating=lambda _lost, first: first.label == "hourly")
    assert refused.value.txn_id == load.ids[0]
    assert len(load.ids) == 1
    assert [prices(client, table) for table in tables] == [{1: 100, 2: 2}, {1: 7, 2: 2}]


def test_after_the_last_attempt_nobody_is_undone(client: Client, tables: tuple[str, str]) -> None:
    load = Load(tables, lambda: hourly(client, *tables))
    with pytest.raises(Conflict):
        client.run(load, "nightly", attempts=1, compensating=always)
    assert [prices(client, table) for table in tables] == [{1: 100, 2: 2}] * 2
    for attempts in (0, -1, True, 1.5, 10**9):
        with pytest.raises(InvalidArgument, match="attempts = "):
            client.run(load, attempts=attempts, compensating=always)  # type: ignore[arg-type]


def test_what_the_work_raises_is_raised_and_nothing_is_done_again(client: Client, tables: tuple[str, str]) -> None:
    ids = list[int]()

    def fails(txn: Transaction) -> None:
        ids.append(txn.id)
        txn.update_where(tables[0], {"price": "0"}, "id = 1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.run(fails, compensating=always)
    assert len(ids) == 1
    assert prices(client, tables[0]) == {1: 1, 2: 2}


def test_no_table_has_it(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="no conflict strategy 'compensating'") as refused:
        client.create_table("shop.none", "id bigint", conflicts="compensating")
    assert "client.run(work, compensating=rule)" in refused.value.hint


def test_the_example_works_as_it_is_pasted(client: Client) -> None:
    client.create_table("shop.prices", "id bigint, price int")
    client.write(pa.table({"id": [1], "price": pa.array([3], pa.int32())}), "shop.prices")
    pasted: dict[str, Any] = {"client": client}
    exec(blocks.block("docs/history.md", "client.run("), pasted)
    assert prices(client, "shop.prices") == {1: 6}
    done = list[int]()

    def beside(txn: Transaction) -> None:
        pasted["raise_prices"](txn)
        if not done:
            done.append(hourly(client, "shop.prices", label="hourly 7"))

    client.run(beside, "nightly", compensating=pasted["nightly_first"])
    assert prices(client, "shop.prices") == {1: 12}


def test_what_was_compensated_counts_once_whatever_dies(
    client: Client, cluster: LocalCluster, new_table: NewTable
) -> None:
    """A row to which both add: it is the sum of what has committed, less what was undone."""
    table, stop, wanted = new_table("id bigint NOT NULL, price bigint", primary_key=["id"]), Event(), Semaphore(0)
    client.write(pa.table({"id": [1], "price": [0]}), table)
    acknowledged, turns = dict[str, list[int]](hourly=[], nightly=[]), count()

    def add(txn: Transaction, amount: int) -> None:
        txn.update_where(table, {"price": f"price + {amount}"}, "id = 1")

    def nightly(txn: Transaction) -> None:
        add(txn, 1_000)
        seen = len(acknowledged["hourly"])
        if next(turns) % 2 == 0:
            wanted.release()
            wait_until(lambda: stop.is_set() or len(acknowledged["hourly"]) > seen, "the other was first", timeout=60)

    def keeps_on(label: str, work: Callable[[Transaction], None], before: Callable[[], object]) -> None:
        while before() and not stop.is_set():
            while True:
                with suppress(Conflict, CommitUnknown, TxnAborted, Unavailable):
                    rule = None if label == "hourly" else always
                    acknowledged[label].append(client.run(work, label, attempts=2, compensating=rule).txn_id)
                    break
                if label == "nightly":
                    break

    threads = [
        Thread(target=keeps_on, args=("hourly", lambda txn: add(txn, 1), wanted.acquire)),
        Thread(target=keeps_on, args=("nightly", nightly, lambda: True)),
    ]
    for thread in threads:
        thread.start()
    try:
        for node in cluster.configs:
            for act in (cluster.kill, cluster.start_node):
                enough = len(acknowledged["hourly"]) + 4
                wait_until(lambda: len(acknowledged["hourly"]) >= enough, "work goes on", timeout=60)  # noqa: B023
                act(node)
    finally:
        stop.set()
        threads[1].join(60)
        wanted.release()
        threads[0].join(60)
    wait_until(lambda: all(each.state in TERMINAL for each in client.transactions(participant=table)), "all is over")
    done = [each for each in client.transactions(participant=table) if each.state is TxnState.COMMITTED]
    undone = [each for each in done if each.label.startswith("compensation for")]
    assert undone, "nobody was undone"
    assert acknowledged["nightly"]
    worth = {"hourly": 1, "nightly": 1_000}
    assert prices(client, table) == {1: sum(worth.get(each.label, 0) for each in done) - len(undone)}
    assert {*acknowledged["hourly"], *acknowledged["nightly"]} <= {each.txn_id for each in done}
