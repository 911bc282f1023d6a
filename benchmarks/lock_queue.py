"""How long the lock table holds up the event loop with a long queue: each step is one turn of a shard's leader.

python benchmarks/lock_queue.py --waiting 1000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from txnparticipant.locks.locks import Lock, LockTable, Mode, Otherwise
from txnstatus.types import Timestamp, TxnId

FIRST, OTHER = TxnId(0), TxnId(1_000_000)
AT = Timestamp(1)


def milliseconds(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=1_000)
    waiting = parser.parse_args().waiting
    table = LockTable()

    def ask(txn_id: int, mode: Mode) -> None:
        table.acquire(TxnId(txn_id), [Lock("t", mode)], Otherwise.WAITS, AT)

    ask(FIRST, Mode.S)
    ask(OTHER, Mode.S)
    asking = [milliseconds(partial(ask, txn_id, Mode.X)) for txn_id in range(1, waiting + 1)]
    print(f"{waiting} transactions wait for X on one object that two hold in S")
    print(f"  the last of them asks            {asking[-1]:8.2f} ms")
    print(f"  all locks are shown              {milliseconds(lambda: list(table.explained())):8.2f} ms")
    print(f"  a holder asks for X: any circle? {milliseconds(lambda: ask(FIRST, Mode.X)):8.2f} ms")
    print(f"  the other holder ends            {milliseconds(lambda: table.release(OTHER)):8.2f} ms")


if __name__ == "__main__":
    main()
