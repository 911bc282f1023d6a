"""What programs wrote to tables row by row, and read there, against a dictionary for each table.

A write's answer, and all that is read, follows from what is committed at the transaction's snapshot and from its own
earlier writes. So with every outcome known, all of it is judged by replaying the transactions in the order of their
commits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.sim.judges.ledger import Ledger
from txnstatus.proto import common_pb2
from txnstatus.types import NO_TIMESTAMP, Timestamp

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
    answer: Answer
    at: Timestamp = NO_TIMESTAMP
    """When the keys of files were looked for."""

    @property
    def by_files(self) -> bool:
        return self.kind in (APPEND, OVERWRITE)

    def apply(self, before: Rows) -> tuple[Rows, Answer]:
        """What a reader inside the transaction sees after it, and what the writer is to be answered.

        What becomes of files is judged by what is there when their keys are looked for, and here as it was answered.
        """
        if self.by_files:
            if not self.answer.written:
                return before, self.answer
            return {**({} if self.kind == OVERWRITE else before), **self.rows}, self.answer
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
    files: tuple[tuple[frozenset[int], Timestamp], ...]
    """Keys of files, and when they were looked for."""
    overwrites: bool

    @property
    def all_keys(self) -> frozenset[int]:
        return self.keys.union(*(keys for keys, _ in self.files))

    def forbids(self, earlier: Commit) -> bool:
        """Whether both cannot be: this one did not see the other, and one changed what the other did."""
        if any(earlier.commit_ts > at and keys & earlier.all_keys for keys, at in self.files):
            return True
        if earlier.commit_ts <= self.snapshot:
            return False
        if self.overwrites and (earlier.overwrites or earlier.keys):
            return True
        return bool(self.keys & earlier.all_keys) or (earlier.overwrites and bool(self.keys))


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
            yield from _answers(entry, at)
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


def _commit(commit_ts: int, entry: Entry, table: str, seen: Rows) -> Commit:
    keys, files, overwrites = set[int](), list[tuple[frozenset[int], Timestamp]](), False
    for change in entry.changes:
        if change.table != table:
            continue
        before, (seen, answer) = seen, change.apply(seen)
        if change.kind == OVERWRITE and answer.written:
            keys, files, overwrites = set(), [], True  # it replaces what was before
        if not change.by_files:
            keys |= {key for key in change.rows if before.get(key) != seen.get(key)}  # no value comes twice
        elif answer.written:
            files.append((frozenset(change.rows), change.at))
    return Commit(commit_ts, entry.txn_id, entry.snapshot, frozenset(keys), tuple(files), overwrites)


def _after(entry: Entry, table: str, base: Rows, latest: Rows) -> Rows:
    """The newest version, with what the transaction changed of what it saw."""
    own = entry.seen(table, base)
    gone = base.keys() - own.keys()
    changed = {key: value for key, value in own.items() if base.get(key) != value}
    return {**{key: value for key, value in latest.items() if key not in gone}, **changed}


def _answers(entry: Entry, at: Callable[[str, int], Rows]) -> Iterator[tuple[str, str]]:
    seen = {table: at(table, entry.snapshot) for table in BOOKS}
    for number, change in enumerate(entry.changes):
        before = seen[change.table]
        seen[change.table], expected = change.apply(before)
        if change.by_files:
            expected = _answer_to_files(entry, number, before, at) or change.answer
        if change.answer != expected:
            yield "4 rows", f"{change} in {entry.txn_id} at {entry.snapshot}: the answer ought to be {expected}"


def _answer_to_files(entry: Entry, number: int, before: Rows, at: Callable[[str, int], Rows]) -> Answer | None:
    """None: it follows from more than is known here, because others wrote beside an overwrite."""
    change = entry.changes[number]
    base, now = at(change.table, entry.snapshot), at(change.table, change.at)
    own = [each for each in entry.changes[:number] if each.table == change.table]
    if any(each.kind == OVERWRITE for each in (*own, change)):
        return Answer(len(change.rows)) if change.kind == OVERWRITE and base == now else None
    by_row = {key for each in own if not each.by_files for key in each.rows if _passed(each, key)}
    taken = sorted(key for key in change.rows if key in before or key in by_row or key in now)
    gone = {key for key in now if key in base and key not in before}  # deleted by itself, so among `by_row`
    assert gone <= by_row, "what it deleted it changed"
    return Answer(0, refused=tuple(taken)) if taken else Answer(len(change.rows))


def _passed(change: Change, key: int) -> bool:
    """Whether the row was written; of those that were ignored nobody is told which."""
    return key not in change.answer.refused and change.kind != INSERT_IGNORE
