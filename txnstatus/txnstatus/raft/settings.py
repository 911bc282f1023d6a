"""The times and sizes of Raft groups."""

from __future__ import annotations

from dataclasses import dataclass

from txnstatus.raft.journal import SEGMENT_BYTES

SLICE_SECONDS = 0.005
"""Time that a cycle gives to long work (writing or restoring a snapshot, applying); at least one step is done."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    heartbeat_seconds: float = 0.12
    promise_seconds: float = 0.4
    """Time after it heard from a leader for which a replica votes for nobody else. Leases rest on it: it is the same on
    all nodes. A leader whose process has ended is replaced after it."""
    election_min_seconds: float = 1.0
    """Silence of a leader whose connection stands after which another one is looked for, at the earliest: it may have
    paused."""
    election_max_seconds: float = 1.5
    snapshot_entries: int = 20_000
    """Entries in the journal that make a snapshot worth while."""
    snapshot_bytes: int = 64 << 20
    """Bytes of their commands that do: they are in memory until a snapshot holds them."""
    max_clock_drift: float = 0.1
    """Share by which one node's monotonic clock may run faster than another's; shortens the leader's lease."""
    segment_bytes: int = SEGMENT_BYTES
    """Bytes at which a file of the journal is sealed."""

    def __post_init__(self) -> None:
        if not self.heartbeat_seconds * 3 < self.promise_seconds <= self.election_min_seconds:
            raise ValueError(
                f"heartbeat_seconds {self.heartbeat_seconds} must be less than a third of promise_seconds "
                f"{self.promise_seconds}, and that at most election_min_seconds {self.election_min_seconds}"
            )
        if not self.election_min_seconds < self.election_max_seconds:
            raise ValueError(
                f"election_min_seconds {self.election_min_seconds} must be less than election_max_seconds "
                f"{self.election_max_seconds}"
            )
