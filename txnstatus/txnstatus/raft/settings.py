"""The times and sizes of Raft groups."""

from __future__ import annotations

from dataclasses import dataclass

from txnstatus.raft.journal import SEGMENT_BYTES

SLICE_SECONDS = 0.005
"""What a cycle gives to long work (writing or restoring a snapshot, applying), and at least one step of it."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    heartbeat_seconds: float = 0.12
    election_min_seconds: float = 0.6
    election_max_seconds: float = 1.2
    snapshot_entries: int = 20_000
    """Entries in the journal that make a snapshot worth while."""
    snapshot_bytes: int = 64 << 20
    """Likewise, of their commands: they are in memory until a snapshot holds them."""
    max_clock_drift: float = 0.1
    """How much faster one node's monotonic clock may run than another's; shortens the leader's lease."""
    segment_bytes: int = SEGMENT_BYTES
    """A file of the journal that has them is sealed."""

    def __post_init__(self) -> None:
        if not self.heartbeat_seconds * 3 < self.election_min_seconds < self.election_max_seconds:
            raise ValueError(
                f"heartbeat_seconds {self.heartbeat_seconds} must be less than a third of election_min_seconds "
                f"{self.election_min_seconds}, and that less than election_max_seconds {self.election_max_seconds}"
            )
