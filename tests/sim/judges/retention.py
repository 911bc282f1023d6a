"""A read within the retention is never refused: what was overwritten a moment ago is there, whatever a clock says.

Where nodes' clocks differ, what is overwritten may go earlier, by as much as they differ (docs/protocol.md). So a
refusal is judged where none of that is an excuse: by a leader that led when the overwrite was prepared, and whose wall
clock has been ahead of all others since.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping

from tests.sim.judges.ledger import Ledger
from tests.sim.judges.watch import Watch
from txnstatus.catalog.catalog import shard_group

FASTEST_CLOCK = 1.03
SLACK_SECONDS = 0.05
MARGIN_SECONDS = 1.0
"""Seconds by which a clock must be ahead, for a run's difference in rates."""


class Retention:
    def __init__(self, seconds: float, shards: int, ledger: Ledger, watch: Watch, now: Callable[[], float]) -> None:
        self._seconds, self._shards = seconds, shards
        self._ledger, self._watch, self._now = ledger, watch, now
        self._highest: dict[str, float] = {}
        """The most that each node's wall clock has been ahead of the truth."""
        self._ahead_since: dict[str, float] = {}

    def note_clocks(self, offsets: Mapping[str, float]) -> None:
        """Seconds by which the nodes' wall clocks are ahead of the truth, at the start and after every change."""
        for node, offset in offsets.items():
            self._highest[node] = max(offset, self._highest.get(node, offset))
        for node, offset in offsets.items():
            others = [highest for other, highest in self._highest.items() if other != node]
            if offset >= self._highest[node] and offset > max(others, default=offset - 1) + MARGIN_SECONDS:
                self._ahead_since.setdefault(node, self._now())
            else:
                self._ahead_since.pop(node, None)

    def refused(self, table: str, why: str) -> None:
        """A reader of the table was told SnapshotTooOld."""
        bound = re.search(r"up to (\d+)", why)
        history = self._watch.history_of(shard_group(zlib.crc32(table.encode()) % self._shards))
        if bound is None or history is None or not history.leaders:
            return
        leader = history.leaders[max(history.leaders)]
        since = max(history.led_since, self._ahead_since.get(leader, float("inf")))
        for txn in self._ledger.txns.values():
            if txn.commit_ts != int(bound[1]):
                continue
            age = self._now() - txn.prepared_at
            if since <= txn.prepared_at and age < self._seconds / FASTEST_CLOCK - SLACK_SECONDS:
                self._ledger.violation("retention", f"{table}, {age:.2f} s after {txn.txn_id} changed it: {why}")
