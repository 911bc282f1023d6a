"""What programs changed in tables without a key, and read there, against a set of rows for each table.

No value comes twice in a world, so a value is a row, be it in whatever file at whatever position. What a statement
takes and gives follows from what its transaction saw, and that is judged as a read. So with every outcome known, all is
judged by replaying the transactions in the order of their commits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.judges.ledger import NEVER, Ledger, Txn
from txnstatus.proto import common_pb2
from txnstatus.types import Timestamp

PLAIN_ROLL, PARTED_ROLL = ROLLS = ("roll.plain", "roll.parted")
ROLL_SCHEMAS: Mapping[str, common_pb2.TableSchema] = {
    table: common_pb2.TableSchema(
        columns=[common_pb2.Column(name=name, type="bigint", nullable=False) for name in ("k", "p", "v")],
        partition_by=partition_by,
    )
    for table, partition_by in ((PLAIN_ROLL, ()), (PARTED_ROLL, ("p",)))
}
KEYS = range(6)
"""What statements look for: rows may share one, but no two MERGEs insert the same."""
PARTS = range(2)
APPEND, DELETE, UPDATE, MERGE, OVERWRITE = "append", "delete", "update", "merge", "overwrite"
TAKE_BACK = "take back"


class Row(NamedTuple):
    k: int
    p: int
    v: int


Rows = Mapping[int, Row]
"""Rows by their values."""


@dataclass(frozen=True, slots=True)
class Change:
    """One statement, which was acknowledged."""

    table: str
    kind: str
    gone: frozenset[int] = frozenset()
    """Values of the rows that it took out."""
    added: tuple[Row, ...] = ()
    missed: frozenset[int] = frozenset()
    """Keys that a MERGE found nowhere: it added one row for each."""


class Span(NamedTuple):
    """All that became of a table after one timestamp, and up to another."""

    above: Timestamp
    until: Timestamp


@dataclass(slots=True)
class Entry:
    """What one transaction changed, in order."""

    txn_id: int
    snapshot: Timestamp
    changes: list[Change] = field(default_factory=list)
    commits_at: float = float("inf")
    """When it was asked to commit for the first time."""
    refused: tuple[int | None, str] | None = None
    """The winner it was told, and the reason, where it was refused."""
    takes_back: Mapping[str, Span] = field(default_factory=dict)
    """Tables, where it is an undo or a restore: what it changes then follows from what was committed."""

    @property
    def tables(self) -> Sequence[str]:
        """Tables that it may have changed."""
        return list(self.takes_back or dict.fromkeys(change.table for change in self.changes))

    def seen(self, table: str, base: Rows, changes: int | None = None) -> Rows:
        """Inside the transaction, after so many of its changes, or all."""
        return _after(base, (change for change in self.changes[:changes] if change.table == table))

    def added(self, table: str, *, missed: bool = False) -> frozenset[int]:
        """Keys of the rows that it has added, and not taken out itself. `missed`: of those that a MERGE inserted."""
        changes = [change for change in self.changes if change.table == table]
        gone = {v for change in changes for v in change.gone}
        return frozenset(
            row.k
            for change in changes
            for row in change.added
            if row.v not in gone and (not missed or row.k in change.missed)
        )

    def __str__(self) -> str:
        return f"{self.txn_id} at {self.snapshot}"


@dataclass(frozen=True, slots=True)
class RollRead:
    table: str
    timestamp: Timestamp
    rows: tuple[Row, ...]
    """The rows, in no order."""
    within: Entry | None = None
    changes: int = 0
    """Changes, until then, of the transaction in which it was read."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a diff told of a table between two timestamps."""

    table: str
    since: Timestamp
    until: Timestamp
    went: tuple[Row, ...]
    came: tuple[Row, ...]


class _Commit(NamedTuple):
    commit_ts: int
    entry: Entry
    decided_at: float


class Rolls:
    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.reads: list[RollRead] = []
        self.differences: list[Difference] = []
        self.contents: dict[str, tuple[Row, ...]] = {}
        """Rows of data files, which never change, by their URIs."""
        self.tables: set[str] = set()
        """Tables whose creation was acknowledged."""
        self._values = 0
        self._shown: dict[tuple[str, int], frozenset[str]] = {}
        """The files that readers of a table at a timestamp were shown first."""

    def shown(self, table: str, at: int, manifests: Iterable[str]) -> str:
        """A scan was answered; gives in what it differs from the first one. What a reader sees is in the same files."""
        now = frozenset(manifests)
        first = self._shown.setdefault((table, at), now)
        return f"two scans of {table} at {at} differ in {sorted(first ^ now)}" if first != now else ""

    def new_row(self, k: int, p: int) -> Row:
        self._values += 1
        return Row(k, p, self._values)

    def judge(self, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """The rules that are broken, each with its story."""
        versions: dict[str, list[tuple[int, Rows]]] = {table: [(0, {})] for table in ROLLS}
        commits: dict[str, list[_Commit]] = {table: [] for table in ROLLS}

        def at(table: str, timestamp: int) -> Rows:
            found = versions[table]
            return found[bisect_right(found, timestamp, key=lambda version: version[0]) - 1][1]

        for commit_ts, decided_at, entry in self._committed(ledger):
            for table, span in entry.takes_back.items():
                undone = _inverse(table, at(table, span.above), at(table, span.until))
                yield from _in_the_way(entry, undone, span, commits[table], versions[table][-1][1])
                entry.changes.append(undone)
            for table in dict.fromkeys(change.table for change in entry.changes):
                latest = versions[table][-1][1]
                changes = [change for change in entry.changes if change.table == table]
                own = {row.v for change in changes for row in change.added}
                if lost := [v for change in changes for v in change.gone if v not in latest and v not in own]:
                    yield "7 rolls", f"{entry} changed rows {lost} of {table}, which others had changed before"
                commit = _Commit(commit_ts, entry, decided_at)
                for earlier in commits[table]:
                    if story := _inserted_twice(table, earlier, commit):
                        yield "7 rolls", story
                commits[table].append(commit)
                versions[table].append((commit_ts, _after(latest, changes)))
        yield from self._judge_reads(at, commits)
        yield from self._judge_refusals(ledger)

    def _judge_reads(
        self, at: Callable[[str, int], Rows], commits: Mapping[str, Sequence[_Commit]]
    ) -> Iterator[tuple[str, str]]:
        for read in self.reads:
            expected = at(read.table, read.timestamp)
            if read.within is not None:
                expected = read.within.seen(read.table, expected, read.changes)
            if story := _unlike(read.rows, expected.values()):
                where = f"in {read.within}, after {read.changes} changes" if read.within else "by a snapshot"
                yield "4 rolls", f"{read.table} at {read.timestamp}, {where}: {story}"
        for told in self.differences:
            before, after = at(told.table, told.since), at(told.table, told.until)
            copied = self._copied(told, commits[told.table])
            for what, rows, one, other in (("went", told.went, before, after), ("came", told.came, after, before)):
                shown = [row for row in rows if row.v not in copied]
                if story := _unlike(shown, [row for v, row in one.items() if v not in other]):
                    yield "4 diff", f"what {what} in {told.table} between {told.since} and {told.until}: {story}"

    @staticmethod
    def _copied(told: Difference, commits: Iterable[_Commit]) -> frozenset[int]:
        """Values of rows that went, and came in another file, where something was taken back."""
        if not any(told.since < commit.commit_ts <= told.until and commit.entry.takes_back for commit in commits):
            return frozenset()
        return frozenset(row.v for row in told.went) & frozenset(row.v for row in told.came)

    def _judge_refusals(self, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """A compaction is in nobody's way: whoever was first is another transaction, of the same time."""
        for entry in self.entries.values():
            if entry.refused is None:
                continue
            winner, why = entry.refused
            others = [winner] if winner is not None else [txn_id for txn_id in self.entries if txn_id != entry.txn_id]
            if not any(_is_of_its_time(ledger.txns.get(other), entry) for other in others):
                yield "14 compaction", f"{entry} was refused, and nobody was first: {why}"

    def _committed(self, ledger: Ledger) -> list[tuple[int, float, Entry]]:
        txns = [(ledger.txns[txn_id], entry) for txn_id, entry in self.entries.items()]
        found = [(txn.commit_ts, txn.decided_at, entry) for txn, entry in txns if txn.committed]
        return sorted(found, key=lambda commit: commit[0])


def _inverse(table: str, before: Rows, after: Rows) -> Change:
    """What makes of a table what it was: a row that comes back has the value that it had."""
    went = tuple(row for v, row in before.items() if v not in after)
    return Change(table, TAKE_BACK, frozenset(after.keys() - before.keys()), went)


def _in_the_way(
    entry: Entry, undone: Change, span: Span, commits: Iterable[_Commit], latest: Rows
) -> Iterator[tuple[str, str]]:
    """Why it ought to have been refused: a later commit has changed one of its rows, be it now as it was."""
    if there := [row.v for row in undone.added if row.v in latest]:
        yield "7 rolls", f"{entry} brought rows {there} of {undone.table} back, which are there"
    rows = _rows_of(undone)
    for commit in commits:
        if commit.commit_ts > span.until:
            changes = [change for change in commit.entry.changes if change.table == undone.table]
            if both := sorted(rows.intersection(v for change in changes for v in _rows_of(change))):
                yield "7 rolls", f"{entry} took {span} of {undone.table} back: {commit.entry} changed {both} since"


def _rows_of(change: Change) -> frozenset[int]:
    return change.gone.union(row.v for row in change.added)


def _is_of_its_time(other: Txn | None, entry: Entry) -> bool:
    return other is not None and other.prepared_at < NEVER and (not other.committed or other.commit_ts > entry.snapshot)


def _after(base: Rows, changes: Iterable[Change]) -> Rows:
    rows = dict(base)
    for change in changes:
        for v in change.gone:
            rows.pop(v, None)
        rows.update((row.v, row) for row in change.added)
    return rows


def _inserted_twice(table: str, earlier: _Commit, later: _Commit) -> str:
    """Why not both can be, given the order of their commits; empty: they can.

    A plain append asks nobody, so one that prepares after a MERGE may yet commit before it.
    """
    for one, other in ((earlier, later), (later, earlier)):
        if other.commit_ts <= one.entry.snapshot:
            continue
        missed = one.entry.added(table, missed=True)
        both = missed & other.entry.added(table, missed=True)
        if both and one.commit_ts > other.entry.snapshot:
            return f"{one.entry} and {other.entry} both inserted {sorted(both)} into {table}"
        if other.decided_at < one.entry.commits_at and (there := missed & other.entry.added(table)):
            return f"{one.entry} inserted {sorted(there)} into {table}, which {other.entry} had added"
    return ""


def _unlike(found: Iterable[Row], expected: Iterable[Row]) -> str:
    """In what they differ; empty: in nothing."""
    there, wanted = sorted(found), sorted(expected)
    if there == wanted:
        return ""
    twice = sorted({row for row in there if there.count(row) > 1})
    return f"too many {sorted({*there} - {*wanted})}, missing {sorted({*wanted} - {*there})}, twice {twice}"
