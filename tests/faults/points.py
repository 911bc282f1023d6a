"""Every failpoint there is, and what the matrix of faults must know of it."""

from __future__ import annotations

from dataclasses import dataclass

STATUS_COMMANDS = (
    "BeginTxns",
    "RegisterParticipant",
    "BeginCommit",
    "FinalizeCommit",
    "CompleteCommit",
    "BeginAbort",
    "FinalizeAbort",
    "Expire",
)
SHARD_COMMANDS = (
    "CreateTable",
    "BeginTxn",
    "OpenWrite",
    "AddFiles",
    "BeginCommit",
    "FinalizeCommit",
    "AbortTxn",
    "MarkCleaned",
)


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    replicas: bool = False
    """Every replica comes there; to the others only who leads."""
    ends_process: bool = False
    """An error there is one after which the process cannot trust itself: it must end."""
    without_files: bool = False
    """A node comes there when it starts without its files, as after a disk was replaced."""


POINTS = (
    *(Point(f"status.{when}.{command}") for command in STATUS_COMMANDS for when in ("before", "after")),
    *(Point(f"shard.{when}.{command}") for command in SHARD_COMMANDS for when in ("before", "after")),
    Point("status.before_participate"),
    Point("status.after_participate"),
    Point("shard.before_register"),
    Point("shard.after_register"),
    Point("cleaner.before_delete"),
    Point("cleaner.after_delete"),
    Point("raft.before_send", replicas=True, ends_process=True),
    Point("raft.before_sync", replicas=True, ends_process=True),
    Point("raft.after_sync", replicas=True, ends_process=True),
    Point("raft.before_release", replicas=True, ends_process=True),
    Point("raft.before_apply", replicas=True, ends_process=True),
    Point("raft.before_snapshot", replicas=True, ends_process=True),
    Point("raft.after_snapshot", replicas=True, ends_process=True),
    Point("raft.snapshot_part", replicas=True, ends_process=True),
    Point("raft.before_snapshot_rename", replicas=True, ends_process=True),
    Point("raft.after_snapshot_rename", replicas=True, ends_process=True),
    Point("raft.before_install", replicas=True, ends_process=True, without_files=True),
    Point("raft.after_install", replicas=True, ends_process=True, without_files=True),
    Point("journal.before_sync", replicas=True, ends_process=True),
    Point("journal.before_rename", replicas=True, ends_process=True),
    Point("journal.after_rename", replicas=True, ends_process=True),
    Point("journal.before_drop", replicas=True, ends_process=True),
    Point("journal.after_drop", replicas=True, ends_process=True),
)
