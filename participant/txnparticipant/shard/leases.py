"""Leases: at which timestamps live snapshots read a table; in the memory of the shard's leader.

What a reader at such a timestamp sees is not retired. A new leader knows of none at first: it retires nothing before
every holder of one has had the time to renew it.
"""

from __future__ import annotations

from txnparticipant.shard.table import TableState
from txnparticipant.shard.translation import removed_until, retirable_until
from txnstatus.errors import Overloaded, SnapshotTooOld
from txnstatus.types import NO_TIMESTAMP, Timestamp

SLACK = 1.1
"""Two clocks do not tick alike: here a lease lasts longer than its holder counts on."""
MAX_GAP_SECONDS = 2.0
"""Only healthy time counts: a leader that was paused does not take its readers for dead."""
MIN_LOOKS = 3
"""Looks of the leader while a lease lasts: what has piled up for it is done in between, renewals among it."""
MAX_LEASE_SECONDS = 3600.0
MAX_LEASES = 100_000
MAX_RETIRED = 1_000
"""File sets that one command retires, more or less: those that one commit removed go together."""


class Leases:
    def __init__(self, seconds: float) -> None:
        """`seconds`: how long a new one lasts."""
        self.seconds = seconds
        self._held: dict[str, dict[str, tuple[Timestamp, float]]] = {}
        """Table id → lease id → the timestamp, and the end in healthy seconds of this leadership."""
        self._under_way: dict[str, Timestamp] = {}
        """Table id → timestamp up to which a command that may be in the log retires."""
        self._healthy = self._looked = 0.0
        self._all_until = 0.0
        """The end of the time for which nothing is retired, whoever reads, in healthy seconds of this leadership."""
        self.horizon = NO_TIMESTAMP

    def begin(self, now: float) -> None:
        """A leadership begins. Times are seconds of one monotonic clock."""
        self._held.clear()
        self._under_way.clear()
        self._healthy, self._looked, self._all_until = 0.0, now, 0.0
        self.horizon = NO_TIMESTAMP

    def advance(self, now: float, horizon: Timestamp) -> None:
        """`horizon`: what was overwritten up to it has been kept for long enough."""
        self.horizon = horizon
        self._healthy += min(now - self._looked, self._most_gap)
        self._looked = now

    @property
    def _most_gap(self) -> float:
        """Seconds that count between two looks, at most."""
        return min(MAX_GAP_SECONDS, self.seconds / MIN_LOOKS)

    @property
    def complete(self) -> bool:
        """Whether whoever holds a lease has renewed it since this leadership began."""
        return self._healthy >= self.seconds * SLACK

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def check_new_reader(self, table: TableState, at: Timestamp) -> None:
        """Raises SnapshotTooOld also where what is needed is there still, for the sake of others who hold leases.

        Else one reader after the other could keep it for ever. From a savepoint on all is kept, and anybody may read.
        """
        is_held = bool(table.held_at) and at >= min(table.held_at)
        self._check(table, at, NO_TIMESTAMP if is_held else removed_until(table, self.horizon))

    def check_readable(self, table: TableState, at: Timestamp) -> None:
        """Raises SnapshotTooOld where what a reader needs is gone, or about to go."""
        self._check(table, at)

    def take(self, table: TableState, lease_id: str, at: Timestamp, seconds: float) -> None:
        """A lease from now on for so long; one that is held is prolonged. Raises SnapshotTooOld, Overloaded."""
        self._check(table, at)
        held = self._held.setdefault(table.table_id, {})
        if lease_id not in held and len(self) >= MAX_LEASES:
            raise Overloaded(f"{MAX_LEASES} snapshots are being read from the shard of {table.name}")
        # What has passed since the last look counts only at the next one: it is not the lease's.
        held[lease_id] = at, self._healthy + self._most_gap + min(seconds, MAX_LEASE_SECONDS) * SLACK

    def keep_all(self) -> None:
        """Nothing is retired from now on, for as long as a new lease lasts: somebody copies files."""
        self._all_until = max(self._all_until, self._healthy + self._most_gap + self.seconds * SLACK)

    def _check(self, table: TableState, at: Timestamp, bound: Timestamp = NO_TIMESTAMP) -> None:
        """Raises SnapshotTooOld below the bound, and where what a reader would need is gone, or just about to go."""
        bound = max(bound, table.readable_from, self._under_way.get(table.table_id, NO_TIMESTAMP))
        if at < bound:
            raise SnapshotTooOld(
                f"{table.name} cannot be read at {at}: what was visible then was overwritten or dropped, "
                f"up to {bound}, longer than snapshot_retention_seconds ago",
                hint="take a newer one; a savepoint keeps what is to stay, or a longer snapshot_retention_seconds",
            )

    def retirable(self, table: TableState) -> Timestamp:
        """The timestamp up to which to retire now: not above the horizon, nor what a lease needs. 0 = nothing."""
        if self._healthy < self._all_until or not removed_until(table, self.horizon):
            return NO_TIMESTAMP
        held = self._held.get(table.table_id, {})
        for lease_id in [lease_id for lease_id, (_, end) in held.items() if end <= self._healthy]:
            del held[lease_id]
        oldest = min((at for at, _ in held.values()), default=self.horizon)
        return removed_until(table, retirable_until(table, min(self.horizon, oldest)), MAX_RETIRED)

    def retires(self, table: TableState, up_to: Timestamp) -> None:
        """The command is about to be proposed. Whatever becomes of it, nobody begins to read below it any more."""
        self._under_way[table.table_id] = max(up_to, self._under_way.get(table.table_id, NO_TIMESTAMP))
