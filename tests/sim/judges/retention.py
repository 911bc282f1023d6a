"""A read within the retention is never refused: what was overwritten a moment ago is there, whatever a clock says.

Where nodes' clocks differ, what is overwritten may go earlier, by as much as they differ (docs/protocol.md). So a
refusal is judged where none of that is an excuse: by a leader that led when the overwrite was prepared, and whose wall
clock has been ahead of all others since. By as much as that clock was ahead of the overwrite's timestamp then, as where
the entry was proposed before the clock jumped, the overwrite is older for this leader.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.sim.judges.ledger import Ledger
from tests.sim.judges.watch import Watch
from tests.sim.world.clock import Clock
from txnstatus.catalog.catalog import shard_group
from txnstatus.types import Timestamp, micros_of

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
        self._clocks: dict[str, list[tuple[float, Clock]]] = defaultdict(list)
        """Each node's clock from a time on."""

    def note_clocks(self, clocks: Mapping[str, Clock]) -> None:
        """The nodes' clocks, at the start and after every change of a wall clock."""
        for node, clock in clocks.items():
            self._clocks[node].append((self._now(), replace(clock)))
        offsets = {node: clock.wall_offset for node, clock in clocks.items()}
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
            if txn.commit_ts != int(bound[1]) or txn.prepared_at < since:  # it may not even have been a node then
                continue
            ahead = self._wall_micros(leader, txn.prepared_at) - micros_of(Timestamp(txn.commit_ts))
            age = self._now() - txn.prepared_at + max(0, ahead) / 1e6
            if age < self._seconds / FASTEST_CLOCK - SLACK_SECONDS:
                self._ledger.violation("retention", f"{table}, {age:.2f} s after {txn.txn_id} changed it: {why}")

    def _wall_micros(self, node: str, at: float) -> int:
        """What the node's wall clock showed at a time."""
        return next(clock for since, clock in reversed(self._clocks[node]) if since <= at).wall_micros(at)
