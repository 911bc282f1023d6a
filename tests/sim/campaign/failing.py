"""Failpoints of simulated worlds: where nodes die, and where what they do fails."""

from __future__ import annotations

FAILPOINTS = (
    *(f"status.{when}.{name}" for when in ("before", "after") for name in
      ("BeginTxns", "RegisterParticipants", "BeginCommit", "FinalizeCommit", "CompleteCommit", "BeginAbort",
       "FinalizeAbort", "Expire")),
    *(f"shard.{when}.{name}" for when in ("before", "after") for name in
      ("OpenWrite", "AddFiles", "BeginCommit", "FinalizeCommit", "AbortTxn", "MarkCleaned")),
    *(f"raft.{point}" for point in ("before_send", "before_sync", "after_sync", "before_release", "before_apply",
      "before_snapshot", "after_snapshot", "snapshot_part", "before_snapshot_rename", "after_snapshot_rename",
      "before_install", "after_install")),
    *(f"journal.{point}" for point in ("before_sync", "before_rename", "after_rename", "before_drop", "after_drop")),
)  # fmt: skip

ROW_FAILPOINTS = (
    *(f"shard.{when}.{name}" for when in ("before", "after") for name in
      ("WriteRows", "OpenFlush", "FlushRows", "DropFlush")),
    "rows.before_judging", "flush.before_write", "flush.after_write",
)  # fmt: skip


FAILING = (
    *(f"status.{when}.{name}" for when in ("before", "before", "after") for name in
      ("BeginCommit", "FinalizeCommit", "CompleteCommit", "BeginAbort", "FinalizeAbort", "Expire", "Forget")),
    *(f"shard.{when}.{name}" for when in ("before", "before", "after") for name in
      ("OpenWrite", "AddFiles", "BeginCommit", "FinalizeCommit", "AbortTxn", "Withdraw")),
    *(f"status.{when}_participate" for when in ("before", "before", "after", "after")),
    *(f"shard.{when}_register" for when in ("before", "after")),
)  # fmt: skip
"""Failpoints at which a request or a proposal fails, and its process goes on."""
DEPARTURES = ("raft.before_send", "raft.before_sync", "raft.after_sync", "raft.before_release")
"""Failpoints at which a hand-over ends in the middle."""
