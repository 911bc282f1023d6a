"""A client process that moves amounts between accounts, reads them, and tells what it saw as lines of JSON.

An account is a partition of a table of files, or a row of a table with a key. It holds a balance, and a list: a
transfer reads two accounts, writes both with new balances, whose sum is the old one, and appends elements of its own
to both lists. So the sum over all accounts is 0 in every snapshot, and who saw what is in the lists.

A list that is full is followed by a new one, and stays beside it until that is full too; so reading stays cheap, and
whoever reads the new one has read all of the old one.

    python -m tests.faults.teller ADDRESSES SEED NUMBER TILL [STALE]

ends when its standard input does. TILL is the program of a foreign participant that takes part in some transfers (see
till.py), whose directory is beside it; - is none. With a number of seconds, STALE, its transactions read from snapshots
that may be so old: a client that breaks its promise on purpose.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

import txnclient
from tests.faults import till
from tests.sim.judges.isolation import Observed
from txnclient import (
    AlreadyExists,
    Client,
    CommitUnknown,
    NotFound,
    SnapshotTooOld,
    Transaction,
    TxnAborted,
    Unavailable,
)
from txnclient.read import diff
from txnclient.snapshot import Snapshot

FILES = ("bank.north", "bank.south")
ROWS = ("bank.east", "bank.west")
ACCOUNTS = {"bank.north": 3, "bank.south": 2, "bank.east": 3, "bank.west": 2}
SCHEMA = "account bigint, balance bigint, number bigint, previous array<bigint>, elements array<bigint>"
COLUMNS = pa.schema(
    [(name, pa.int64()) for name in ("account", "balance", "number")]
    + [(name, pa.list_(pa.int64())) for name in ("previous", "elements")]
)
FULL = 40
"""Elements of a list, after which another one is begun."""
THREADS = 3
"""Threads that make transfers; one more reads."""
SPAN = 1_000_000
"""Elements of one thread."""
CALL_SECONDS = 10.0
COMMIT_SECONDS = (0.1, 5.0, 5.0, 5.0)
"""What is waited for a commit; the impatient ones get to know the unknown outcome."""
KEPT = 30
"""Snapshots that a reader comes back to."""
RETENTION_SECONDS, LEASE_SECONDS, HELD_SECONDS = 3, 10.0, (4.0, 7.0)
"""What the cluster keeps, and how long readers hold a snapshot: longer than that, and no longer than one lease."""
Key = tuple[str, int]
"""A table, and the number of an account."""


class Account(NamedTuple):
    balance: int = 0
    number: int = 0
    """The number of the list."""
    previous: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()

    def changed(self, amount: int, element: int) -> Account:
        if len(self.elements) < FULL:
            return Account(self.balance + amount, self.number, self.previous, (*self.elements, element))
        return Account(self.balance + amount, self.number + 1, self.elements, (element,))

    def beside(self, other: Account) -> Account:
        """Both at once, which cannot be: whoever judges the list sees it."""
        if self == Account():
            return other
        return Account(self.balance + other.balance, self.number, self.previous, self.elements + other.elements)


Accounts = dict[Key, Account]


def lists(accounts: Accounts) -> dict[str, tuple[int, ...]]:
    """What was read: the next list of each is not begun."""
    found: dict[str, tuple[int, ...]] = {}
    for (table, account), held in accounts.items():
        name = f"{table}/{account}#"
        found[f"{name}{held.number}"] = held.elements
        found[f"{name}{held.number + 1}"] = ()
        if held.number:
            found[f"{name}{held.number - 1}"] = held.previous
    return found


@dataclass(frozen=True, slots=True)
class Told:
    """A line: what one transaction saw and became, or what cannot be."""

    seen: Observed | None = None
    txn_id: int = 0
    why: str = ""
    """Why it is not committed."""
    problem: str = ""
    till: tuple[int, ...] = ()
    """Elements that it also wrote to the foreign participant."""


def read_accounts(snapshot: Snapshot, *tables: str) -> Accounts:
    found: Accounts = {(table, account): Account() for table in tables for account in range(ACCOUNTS[table])}
    for table in tables:
        for row in snapshot.to_arrow(table).to_pylist():
            account = Account(row["balance"], row["number"], tuple(row["previous"]), tuple(row["elements"]))
            found[table, row["account"]] = found[table, row["account"]].beside(account)
    return found


def as_rows(accounts: dict[int, Account]) -> pa.Table:
    """One for each account that somebody has changed: the others are in no table, whoever overwrites all of it."""
    changed = ((number, account) for number, account in accounts.items() if account != Account())
    return pa.Table.from_pylist([{"account": number, **account._asdict()} for number, account in changed], COLUMNS)


def _rows(accounts: Accounts, table: str) -> list[tuple[int, int, int]]:
    """The rows of a table, as far as they are compared."""
    there = ((account, held) for (of, account), held in accounts.items() if of == table and held != Account())
    return [(account, held.balance, held.number) for account, held in there]


class Teller:
    """One thread's work."""

    def __init__(
        self,
        client: Client,
        seed: str,
        name: str,
        first_element: int,
        tell: Callable[[Told], None],
        is_over: threading.Event,
        till: str,
    ) -> None:
        self._client, self._name, self._tell, self._is_over, self._till = client, name, tell, is_over, till
        self._dice = random.Random(seed)
        self._elements = itertools.count(first_element)
        self._names = itertools.count(1)
        self._kept: list[tuple[int, Accounts]] = []
        """Timestamps, and what was read at them."""

    def work(self, act: Callable[[], None]) -> None:
        while not self._is_over.is_set():
            try:
                act()
            except (Unavailable, SnapshotTooOld):
                continue  # of a call that changes nothing, or came too late to begin to read
            except Exception as error:  # noqa: BLE001
                self._tell(Told(problem=f"{self._name} ended:\n" + "".join(traceback.format_exception(error))))
                return

    # ---- transfers

    def transfer(self) -> None:
        began_at = time.monotonic()
        txn = self._client.begin()
        try:
            appends, reads = self._move(txn)
            till = self._enlist(txn, [element for added in appends.values() for element in added])
        except (Unavailable, TxnAborted, SnapshotTooOld) as error:
            # No commit was asked for, so there is none, whether or not the abort arrives.
            self._give_up(txn)
            self._tell(Told(txn_id=txn.id, why=type(error).__name__))
            return
        name = f"{self._name} transfer {txn.id}"
        seen = Observed(name, None, reads, appends, began_at)
        self._tell(Told(seen, txn.id, "not told", till=till))  # should this process be killed, so much is known
        committed, why = self._end(txn)
        ended_at = time.monotonic() if committed else float("inf")
        self._tell(Told(Observed(name, committed, reads, appends, began_at, ended_at), txn.id, why, till=till))

    def _move(self, txn: Transaction) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        """Returns what it appends, and what it read."""
        tables = self._dice.sample(sorted(ACCOUNTS), self._dice.choice([1, 2, 2, 3]))
        before = read_accounts(self.source(txn), *tables)
        debited, credited = self._dice.sample(sorted(before), 2)
        amount = self._dice.randint(1, 100)
        after = {
            debited: before[debited].changed(-amount, next(self._elements)),
            credited: before[credited].changed(amount, next(self._elements)),
        }
        for table in dict.fromkeys(table for table, _ in after):
            changed = {account: held for (of, account), held in after.items() if of == table}
            whole = {account: held for (of, account), held in {**before, **after}.items() if of == table}
            self._write(txn, table, changed, whole)
        if self._dice.random() < 0.3 and (found := read_accounts(txn.snapshot, *tables)) != {**before, **after}:
            self._tell(Told(problem=f"internal: {self._name} in {txn.id} wrote {after} over {before}: reads {found}"))
        appends = {f"{table}/{account}#{held.number}": held.elements[-1:] for (table, account), held in after.items()}
        return appends, lists(before)

    def _enlist(self, txn: Transaction, elements: list[int]) -> tuple[int, ...]:
        """Some transfers write their elements to the foreign participant, too."""
        if not self._till or self._dice.random() < 0.5:
            return ()
        directory = Path(self._till).parent / till.NAME
        part = till.part_class(self._till)(self._client.cluster_id, directory, txn.id)
        try:
            txn.enlist(till.NAME, part)
        except NotFound:
            return ()  # its host has not begun
        for element in elements:
            part.add(element)
        return tuple(elements)

    def source(self, txn: Transaction) -> Snapshot:
        """What a transfer reads from."""
        return txn.snapshot

    def _write(self, txn: Transaction, table: str, changed: dict[int, Account], whole: dict[int, Account]) -> None:
        if self._dice.random() < 0.1:
            txn.write(as_rows(whole), table, "overwrite")
        elif table in ROWS:
            txn.upsert(table, as_rows(changed))
        elif self._dice.random() < 0.5:
            txn.write(as_rows(changed), table, "overwrite_partitions")
        else:
            for account, held in changed.items():
                txn.write(as_rows({account: held}), table, "overwrite", partition={"account": account})

    def _give_up(self, txn: Transaction) -> bool:
        """Whether it is surely aborted."""
        try:
            txn.abort(reason="of a teller")
        except (TxnAborted, Unavailable) as error:
            return isinstance(error, TxnAborted)
        return True

    def _end(self, txn: Transaction) -> tuple[bool | None, str]:
        """Whether it is committed, as far as it is known, and why not."""
        if self._dice.random() < 0.1:
            self._give_up(txn)
            return False, "given up"
        for seconds in (self._dice.choice(COMMIT_SECONDS), *([30.0] if self._dice.random() < 0.5 else [])):
            try:
                txn.commit(timeout=seconds)
            except CommitUnknown:
                continue
            except TxnAborted as error:  # also Conflict
                return False, type(error).__name__
            return True, ""
        return None, "CommitUnknown"

    # ---- reading

    def audit(self) -> None:
        """Reads all accounts as they are now, and once more as they were at some time before."""
        began_at = time.monotonic()
        with self._client.snapshot() as snapshot:
            found = read_accounts(snapshot, *ACCOUNTS)
        name = f"{self._name} audit {next(self._names)}"
        self._tell(Told(Observed(name, True, lists(found), {}, began_at, time.monotonic())))
        if total := sum(account.balance for account in found.values()):
            self._tell(Told(problem=f"the sum at {snapshot.timestamp} is {total}: {found}"))
        self._kept = [*self._kept[-KEPT:], (snapshot.timestamp, found)]
        kept = at, then = self._dice.choice(self._kept)
        try:
            with self._client.snapshot(at) as snapshot:
                again = read_accounts(snapshot, *ACCOUNTS)
            self._compare(self._dice.choice(self._kept), kept)
        except SnapshotTooOld:
            self._kept.remove(kept)  # nobody holds it
            return
        if again != then:
            self._tell(Told(problem=f"at {at} was read {then}, and later {again}"))

    def _compare(self, one: tuple[int, Accounts], other: tuple[int, Accounts]) -> None:
        """What a difference says leads from the one to the other."""
        (since, before), (until, after) = sorted([one, other], key=lambda kept: kept[0])
        table = self._dice.choice(ROWS)
        rows = Counter(_rows(before, table))
        for change in self._client.diff(table, since, until).to_pylist():
            row = change["account"], change["balance"], change["number"]
            rows[row] += 1 if change["_change_kind"] in (diff.INSERT, diff.UPDATE_AFTER) else -1
        if {row: count for row, count in rows.items() if count} != Counter(_rows(after, table)):
            story = f"{table} was {before} at {since}, {after} at {until}: their difference leads to {rows}"
            self._tell(Told(problem=f"diff: {story}"))

    def hold(self) -> None:
        """Reads under one lease now and after the retention: what was overwritten meanwhile is there."""
        with self._client.snapshot() as snapshot:
            found = read_accounts(snapshot, *ACCOUNTS)
            self._is_over.wait(self._dice.uniform(*HELD_SECONDS))
            try:
                again = read_accounts(snapshot, *ACCOUNTS)
            except SnapshotTooOld as error:
                self._tell(Told(problem=f"lease: {snapshot} was lost: {error.message}"))
                return
        if again != found:
            self._tell(Told(problem=f"lease: at {snapshot.timestamp} was read {found}, and then {again}"))
        self._tell(Told(why="held"))

    def look(self) -> None:
        (self.hold if self._dice.random() < 0.3 else self.audit)()


class StaleTeller(Teller):
    """Its transfers read from snapshots that others made stale, and say nothing of it to the service."""

    def __init__(self, *rest: object, seconds: float) -> None:
        super().__init__(*rest)  # type: ignore[arg-type]
        self._seconds = seconds
        self._old = self._client.snapshot()
        self._taken_at = time.monotonic()

    def source(self, txn: Transaction) -> Snapshot:
        if time.monotonic() - self._taken_at > self._seconds:
            self._old, self._taken_at = self._client.snapshot(), time.monotonic()
        return self._old


def create_tables(client: Client) -> None:
    for table in ACCOUNTS:
        keyed = {"primary_key": ["account"]} if table in ROWS else {"partition_by": ["account"]}
        try:
            client.create_table(table, SCHEMA, **keyed)  # type: ignore[arg-type]
        except AlreadyExists:
            continue  # by a create whose answer was lost


def from_line(line: str) -> Told:
    document = json.loads(line)
    document["till"] = tuple(document["till"])
    if (seen := document["seen"]) is not None:
        document["seen"] = Observed(**seen)
    return Told(**document)


def main(addresses: str, seed: str, number: int, program: str, stale: float | None = None) -> None:
    over, lock = threading.Event(), threading.Lock()

    def tell(told: Told) -> None:
        with lock:
            print(json.dumps(asdict(told)), flush=True)

    def made(thread: int, client: Client) -> Teller:
        rest = (
            client,
            f"{seed}/{number}/{thread}",
            f"{number}.{thread}",
            (number * 10 + thread) * SPAN,
            tell,
            over,
            program.removeprefix("-"),
        )
        return Teller(*rest) if stale is None else StaleTeller(*rest, seconds=stale)

    def work(thread: int) -> None:
        with txnclient.connect(addresses, timeout=CALL_SECONDS) as client:
            teller = made(thread, client)
            teller.work(teller.transfer if thread < THREADS else teller.look)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS + 1)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], *map(float, sys.argv[5:]))
