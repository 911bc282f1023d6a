"""How long the lock table holds up the event loop with a long queue: each step is one turn of a shard's leader."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from rich.table import Table

from benchmarks.suite.drive import milliseconds
from benchmarks.suite.options import at_least
from benchmarks.suite.report import table_of
from txnparticipant.locks.locks import Lock, LockTable, Mode, Otherwise
from txnstatus.types import Timestamp, TxnId

AT = Timestamp(1)


def measure(waiting: Annotated[int, at_least(1, "Transactions that wait.")] = 1_000) -> Iterator[Table]:
    table, first, other = LockTable(), 0, waiting + 1

    def ask(txn_id: int, mode: Mode) -> None:
        table.acquire(TxnId(txn_id), [Lock("t", mode)], Otherwise.WAITS, AT)

    ask(first, Mode.S)
    ask(other, Mode.S)
    asking = [milliseconds(partial(ask, txn_id, Mode.X)) for txn_id in range(1, other)]
    steps = {
        "the last of them asks": asking[-1],
        "all locks are shown": milliseconds(lambda: list(table.explained())),
        "a holder asks for X: any circle?": milliseconds(lambda: ask(first, Mode.X)),
        "the other holder ends": milliseconds(lambda: table.release(TxnId(other))),
    }
    title = f"{waiting:,} transactions wait for X on one object that two hold in S"
    yield table_of(title, ("step", "ms"), [(step, f"{taken:.2f}") for step, taken in steps.items()])
