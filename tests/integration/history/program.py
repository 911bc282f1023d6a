"""A program that writes to five tables, takes back what was written, or reads, and writes down what it is about to do.

    python -m tests.integration.history.program ADDRESSES write|take|read SEED NOTES CALLS

It kills itself with the CALLS-th call from its first statement on; 0: it does not. It ends when its standard input
does.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import txnclient
from tests.integration.history.five import OVERWRITTEN, TABLES, Row, arrow, seen
from txnclient import Client, CommitReceipt, Transaction, TxnError
from txnclient.session import Session
from txnstatus.types import TxnState

IDS = 1_000_000
"""Ids of one program's rows."""
DAYS = 3
RECENT = 8
"""Transactions among which one is undone, and commits to which tables are restored."""
CALL_SECONDS = 20.0


class Program:
    def __init__(self, client: Client, seed: int, notes: Path) -> None:
        self._client, self._dice, self._number = client, random.Random(seed), 0
        self._seed = seed
        self._notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._ids: list[int] = []
        self._past: list[int] = []
        """Timestamps of snapshots, the newest last."""

    def _tell(self, what: Mapping[str, Any]) -> None:
        """By one write to the file: it outlives the program."""
        os.write(self._notes, json.dumps(what).encode() + b"\n")

    def _begins(self, does: str, **what: Any) -> str:
        self._number += 1
        label = f"{does} {self._seed}.{self._number}"
        self._tell({"begins": label, "does": does, **what})
        return label

    # ---- what it does

    def read(self) -> None:
        snapshot = self._client.snapshot()
        at = snapshot.timestamp
        self._tell({"reads": at, "rows": {table: list(rows.elements()) for table, rows in seen(snapshot).items()}})

    def take(self) -> None:
        """An undo of what somebody has committed a while ago, or a restore to then."""
        since = self._client.last_commit()
        self._past = [*self._past, since][-RECENT:]
        done = self._client.transactions([TxnState.COMMITTED], participant="five.plain", limit=RECENT)
        if done and self._dice.random() < 0.5:
            txn_id = self._dice.choice(done).txn_id
            label = self._begins("undo", of=txn_id)
            self._ends(label, lambda: self._client.undo(txn_id, label=label))
        else:
            to = self._dice.choice(self._past)
            label = self._begins("restore", to=to, since=since)
            self._ends(label, lambda: self._client.restore(to, list(TABLES), label=label))

    def write(self) -> None:
        does = self._dice.choice(["load", "load", "load", "update", "delete", "overwrite"])
        some = self._dice.sample(self._ids, min(len(self._ids), 3))
        self._number += 1
        label = f"{does} {self._seed}.{self._number}"
        with self._client.transaction(label) as txn:
            what: dict[str, Any] = {"at": txn.snapshot.timestamp}
            match does:
                case "load":
                    what["rows"] = self._new_rows()
                case "overwrite":
                    day = self._dice.randrange(DAYS)
                    what |= {"day": day, "rows": [(id_, day, note) for id_, _, note in self._new_rows()]}
                case _:
                    what |= {"ids": some, "note": label}
            self._tell({"begins": label, "does": does, **what})
            for table in self._dice.sample(list(TABLES), len(TABLES)):
                _write(txn, table, does, what)
        assert txn.receipt is not None
        self._tell({"ends": label, "at": txn.receipt.commit_timestamp})

    def _new_rows(self) -> list[Row]:
        first = self._seed * IDS + len(self._ids)
        new = [first + number for number in range(3)]
        self._ids += new
        return [(id_, id_ % DAYS, "new") for id_ in new]

    def _ends(self, label: str, work: Any) -> None:
        try:
            receipt: CommitReceipt = work()
        except TxnError as error:
            self._tell({"ends": label, "refused": str(error.code)})
        else:
            self._tell({"ends": label, "at": receipt.commit_timestamp})


def _write(txn: Transaction, table: str, does: str, what: Mapping[str, Any]) -> None:
    where = f"id IN ({', '.join(map(str, what.get('ids') or [-1]))})"
    match does:
        case "update":
            txn.update_where(table, {"note": f"'{what['note']}'"}, where)
        case "delete":
            txn.delete_where(table, where)
        case "overwrite" if table == OVERWRITTEN:
            txn.write(arrow(what["rows"]), table, mode="overwrite", partition={"day": what["day"]})
        case _:
            txn.write(arrow(what["rows"]), table)


def dies(after: int) -> None:
    """The process kills itself with so many calls more."""
    call, left = Session.call, [after]

    def counted(self: Session, *args: Any, **options: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(self, *args, **options)

    Session.call = counted  # type: ignore[method-assign]


def main(addresses: str, role: str, seed: str, notes: str, calls: str) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with txnclient.connect(addresses, owner=f"{role} {seed}", timeout=CALL_SECONDS) as client:
        program = Program(client, int(seed), Path(notes))
        step = {"write": program.write, "take": program.take, "read": program.read}[role]
        dies(int(calls))
        while not over.is_set():
            try:
                step()
            except TxnError:
                continue  # it lost, or nobody answered: what became of it is asked in the end


if __name__ == "__main__":
    main(*sys.argv[1:])
