"""What was added lately, by the ranges of its columns: for whoever looked for rows, found none, and inserts them.

A MERGE that inserts what it did not find must not commit beside another that did the same. What it looked for is given
by ranges of columns; what others have added meanwhile is in the way unless one of those columns says that it was not
meant. Ranges say what cannot have met, never what has; a column of which nothing is known may hold anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from txnparticipant.versions.mvcc import ColumnRange, Looked, PendingWrite
from txnstatus.key_ranges import Rank, rank_by
from txnstatus.schema import Schema
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId, timestamp
from txnstatus.values import value

COST_BYTES = 200
"""What an addition, or a range of it, takes in memory besides its texts."""
KEPT_BYTES = 2 << 20
"""Bytes of one table's additions: beyond it the oldest go, and with them who looked for rows before."""
KEPT_SPAN = timestamp(600_000_000)
"""Hybrid time for which they are kept."""

Ends = tuple[Rank | None, Rank | None]


@value
class Addition:
    """What one write of a committed transaction added."""

    commit_ts: Timestamp
    txn_id: TxnId
    ranges: tuple[ColumnRange, ...]

    @property
    def cost(self) -> int:
        texts = sum(len(each.column) + len(each.lowest) + len(each.highest) for each in self.ranges)
        return COST_BYTES * (1 + len(self.ranges)) + texts


@dataclass(slots=True)
class Additions:
    """The additions to one table."""

    above: Timestamp = NO_TIMESTAMP
    """All that was committed above it is here."""
    _recent: deque[Addition] = field(default_factory=deque)
    """Additions in the order in which they were finalised here."""
    _bytes: int = 0

    def __iter__(self) -> Iterator[Addition]:
        return iter(self._recent)

    def add(self, added: Addition) -> None:
        self._recent.append(added)
        self._bytes += added.cost
        while self._bytes > KEPT_BYTES or self._recent[0].commit_ts + KEPT_SPAN <= added.commit_ts:
            oldest = self._recent.popleft()
            self._bytes -= oldest.cost
            self.above = max(self.above, oldest.commit_ts)

    def since(
        self, txn_id: TxnId, looked: Looked, schema: Schema, prepared: Iterable[tuple[TxnId, PendingWrite]]
    ) -> TxnId | None:
        """Another transaction that has added, or is about to, what may be among the rows that were looked for."""
        kinds = {column.in_files: column.type for column in schema.columns}
        wanted = {each.column: _ends(each, kinds) for each in looked.ranges}
        for added in reversed(self._recent):
            if added.commit_ts > looked.snapshot and added.txn_id != txn_id and _meet(wanted, added.ranges, kinds):
                return added.txn_id
        for other, write in prepared:
            if other != txn_id and write.partitions and _meet(wanted, write.holds, kinds):
                return other
        return None


def _meet(wanted: Mapping[str, Ends], added: Iterable[ColumnRange], kinds: Mapping[str, str]) -> bool:
    for each in added:
        if each.column in wanted:
            (low, high), (other_low, other_high) = wanted[each.column], _ends(each, kinds)
            if not (_reaches(low, other_high) and _reaches(other_low, high)):
                return False
    return True


def _ends(of: ColumnRange, kinds: Mapping[str, str]) -> Ends:
    rank = rank_by(kinds.get(of.column, ""))
    return rank(of.lowest), rank(of.highest)


def _reaches(low: Rank | None, high: Rank | None) -> bool:
    """Whether the second may be at the first or above. Both are of one column."""
    return low is None or high is None or low <= high  # type: ignore[operator]
