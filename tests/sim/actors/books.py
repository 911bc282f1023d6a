"""What programs wrote to tables row by row, and read there, against a dictionary for each table.

A write's answer, and all that is read, follows from what is committed at the transaction's snapshot and from its own
earlier writes. So with every outcome known, all of it is judged by replaying the transactions in the order of their
commits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.sim.judges.ledger import Ledger
from txnstatus.proto import common_pb2
from txnstatus.types import Timestamp

BOOKS = ("rows.one", "rows.two")
BOOK_SCHEMA = common_pb2.TableSchema(
    columns=[
        common_pb2.Column(name="k", type="bigint", nullable=False),
        common_pb2.Column(name="v", type="string", nullable=True),
    ],
    primary_key=["k"],
)
KEYS = range(8)
"""Keys that programs contend for; files that are appended have others."""
INSERT, INSERT_IGNORE, UPSERT, UPDATE, DELETE = BY_ROW = ("INSERT", "INSERT_IGNORE", "UPSERT", "UPDATE", "DELETE")
APPEND, OVERWRITE = "append", "overwrite"
"""Writes with files: of keys that are nowhere; of the whole table."""

Rows = Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Answer:
    written: int
    ignored: int = 0
    refused: tuple[int, ...] = ()
    """Keys."""


@dataclass(frozen=True, slots=True)
class Change:
    """One write, which was acknowledged."""

    table: str
    kind: str
    rows: Rows
    """The rows as written; the values of a delete mean nothing."""
    answer: Answer | None = None
    """None: of files there is none."""

    def apply(self, before: Rows) -> tuple[Rows, Answer]:
        """What a reader inside the transaction sees after it, and what the writer is to be answered."""
        if self.kind == OVERWRITE:
            return dict(self.rows), Answer(len(self.rows))
        wants_absent, wants_there = self.kind in (INSERT, INSERT_IGNORE), self.kind in (UPDATE, DELETE)
        passed = [
            key for key in self.rows if not (wants_absent and key in before) and not (wants_there and key not in before)
        ]
        others = tuple(key for key in self.rows if key not in passed)
        after = dict(before)
        for key in passed:
            if self.kind == DELETE:
                del after[key]
            else:
                after[key] = self.rows[key]
        ignores = self.kind == INSERT_IGNORE
        return after, Answer(len(passed), len(others) if ignores else 0, () if ignores else others)


@dataclass(slots=True)
class Entry:
    """What one transaction wrote, in order."""

    txn_id: int
    snapshot: Timestamp
    changes: list[Change] = field(default_factory=list)

    def seen(self, table: str, base: Rows, changes: int | None = None) -> Rows:
        """Inside the transaction, after so many of its changes, or all."""
        for change in self.changes[:changes]:
            if change.table == table:
                base, _ = change.apply(base)
        return base


@dataclass(frozen=True, slots=True)
class RowsRead:
    table: str
    timestamp: Timestamp
    rows: Rows
    within: Entry | None = None
    changes: int = 0
    """Changes, until then, of the transaction in which it was read."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction's, of one table."""

    commit_ts: int
    txn_id: int
    snapshot: Timestamp
    keys: frozenset[int]
    """Keys that were changed by row."""
    overwrites: bool

    def forbids(self, earlier: Commit) -> bool:
        """Whether both cannot be: this one did not see the other, and one changed what the other did."""
        if earlier.commit_ts <= self.snapshot:
            return False
        if self.overwrites:
            return earlier.overwrites or bool(earlier.keys)
        return bool(self.keys & earlier.keys) or (earlier.overwrites and bool(self.keys))


class Books:
    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.reads: list[RowsRead] = []
        self.appended: list[tuple[int, int]] = []
        """Keys of files whose commit was acknowledged, each after the commit's timestamp."""
        self.tables: set[str] = set()
        """Tables whose creation was acknowledged."""
        self._next_key = len(KEYS)

    def new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def judge(self, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """The rules that are broken, each with its story."""
        versions: dict[str, list[tuple[int, Rows]]] = {table: [(0, {})] for table in BOOKS}

        def at(table: str, timestamp: int) -> Rows:
            found = versions[table]
            return found[bisect_right(found, timestamp, key=lambda version: version[0]) - 1][1]

        commits: dict[str, list[Commit]] = {table: [] for table in BOOKS}
        for commit_ts, entry in self._committed(ledger):
            for table in dict.fromkeys(change.table for change in entry.changes):
                commit = _commit(commit_ts, entry, table, at(table, entry.snapshot))
                for earlier in commits[table]:
                    if commit.forbids(earlier):
                        yield "7 rows", f"{commit} and {earlier} changed the same rows of {table}"
                commits[table].append(commit)
                after = _after(entry, table, at(table, entry.snapshot), versions[table][-1][1])
                versions[table].append((commit_ts, after))
        for entry in self.entries.values():
            yield from _answers(entry, {table: at(table, entry.snapshot) for table in BOOKS})
        for read in self.reads:
            expected = at(read.table, read.timestamp)
            if read.within is not None:
                expected = read.within.seen(read.table, expected, read.changes)
            if read.rows != expected:
                where = f"in {read.within}, after {read.changes} changes" if read.within else "by a snapshot"
                yield "4 rows", f"{read.table} at {read.timestamp}, {where}: read {read.rows}, expected {expected}"

    def _committed(self, ledger: Ledger) -> list[tuple[int, Entry]]:
        txns = [(ledger.txns[txn_id], entry) for txn_id, entry in self.entries.items()]
        return sorted(((txn.commit_ts, entry) for txn, entry in txns if txn.committed), key=lambda commit: commit[0])


def _commit(commit_ts: int, entry: Entry, table: str, base: Rows) -> Commit:
    own = [change for change in entry.changes if change.table == table]
    after = entry.seen(table, base)
    touched = {key for change in own if change.kind in BY_ROW for key in change.rows if _touches(change, key, base)}
    changed = touched | {key for key in base.keys() | after.keys() if base.get(key) != after.get(key)}
    overwrites = any(change.kind == OVERWRITE for change in own)
    by_files = overwrites or any(change.kind == APPEND for change in own)
    return Commit(commit_ts, entry.txn_id, entry.snapshot, frozenset() if by_files else frozenset(changed), overwrites)


def _touches(change: Change, key: int, base: Rows) -> bool:
    """Whether a write surely changes the row, though it may be as before: an upsert always does."""
    return change.kind == UPSERT or (change.kind == UPDATE and key in base)


def _after(entry: Entry, table: str, base: Rows, latest: Rows) -> Rows:
    """The newest version, with what the transaction changed of what it saw."""
    own = entry.seen(table, base)
    gone = base.keys() - own.keys()
    changed = {key: value for key, value in own.items() if base.get(key) != value}
    return {**{key: value for key, value in latest.items() if key not in gone}, **changed}


def _answers(entry: Entry, seen: dict[str, Rows]) -> Iterator[tuple[str, str]]:
    for change in entry.changes:
        seen[change.table], expected = change.apply(seen[change.table])
        if change.answer not in (None, expected):
            yield "4 rows", f"{change} in {entry.txn_id} at {entry.snapshot}: the answer ought to be {expected}"
