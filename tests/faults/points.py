"""Every failpoint there is, and what the matrix of faults must know of it."""

from __future__ import annotations

from dataclasses import dataclass

STATUS_COMMANDS = (
    "BeginTxns",
    "RegisterParticipants",
    "BeginCommit",
    "FinalizeCommit",
    "CompleteCommit",
    "BeginAbort",
    "FinalizeAbort",
    "Expire",
    "Forget",
    "RaiseFloor",
)
SHARD_COMMANDS = (
    "CreateTable",
    "AlterTable",
    "RenameTable",
    "OpenWrite",
    "AddFiles",
    "AcquireLocks",
    "BeginCommit",
    "FinalizeCommit",
    "AbortTxn",
    "MarkCleaned",
    "Retire",
    "ForgetTxns",
    "WriteRows",
    "OpenFlush",
    "FlushRows",
    "DropFlush",
    "Adopt",
    "DropTable",
    "ForgetTable",
    "Withdraw",
    "HoldSavepoint",
    "DropSavepoint",
    "SetSavepoint",
    "RollbackTo",
    "PlaceTable",
)
CATALOG_COMMANDS = (
    "AddRange",
    "AddGroup",
    "PlaceDatabase",
    "Grant",
    "Revoke",
    "ForgetGrants",
    "TurnTicketKey",
    "Distrust",
    "SetLimit",
    "RaiseLevel",
    "RegisterNode",
    "DropRange",
    "SetOption",
    "ReplaceNode",
    "MoveReplica",
    "FinishReplacement",
    "AddNode",
    "DrainNode",
    "RemoveNode",
    "Rebalance",
    "ReservePlace",
    "FreePlace",
    "MigrateShard",
    "SplitShard",
    "FinishMigration",
    "Found",
    "RegisterForeign",
    "RemoveForeign",
)
FOREIGN_OPS = ("BEGIN_COMMIT", "FINALIZE_COMMIT", "ABORT_TXN")
REPLACEMENT = {"ReplaceNode", "MoveReplica", "FinishReplacement"}
MEMBERSHIP = {"AddNode", "DrainNode", "RemoveNode", "Rebalance"}
ADDITION = {
    *("AddGroup", "PlaceDatabase", "PlaceTable", "ReservePlace", "FreePlace", "Grant", "Revoke", "ForgetGrants"),
    *("MigrateShard", "SplitShard", "FinishMigration", "Leaves", "Arrives", "Splits"),
}
FOUNDING = "Found"
NEEDS_RANGES = {
    "Forget",
    "RaiseFloor",
    "ForgetTxns",
    "ForgetTable",
    "AddRange",
    "DropRange",
    "before_rename",
    "after_rename",
}
"""Points that come with status ranges that fill up and are forgotten."""


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    replicas: bool = False
    """Every replica comes there; to the others only who leads."""
    ends_process: bool = False
    """An error there is one after which the process cannot trust itself: it must end."""
    late: bool = False
    """A node comes there that was away for long: the others have dropped what it lacks."""

    @property
    def kind(self) -> str:
        """The kind of the group whose leader comes there."""
        part = self.name.split(".")[0]
        if part in ("shard", "cleaner", "rows", "flush", "part"):
            return "shard"
        return "catalog" if part == "catalog" else "status"

    @property
    def after(self) -> str:
        """Another point, whose errors lead there."""
        if self.name.endswith(".Withdraw"):
            return "shard.before_register"
        return "flush.after_write" if self.name.endswith(".DropFlush") else ""

    @property
    def needs_replacement(self) -> bool:
        """Nobody comes there unless a node takes another one's place."""
        return self.name.rpartition(".")[2] in REPLACEMENT

    @property
    def needs_membership(self) -> bool:
        """Nobody comes there unless a node joins, and another one leaves."""
        return self.name.rpartition(".")[2] in MEMBERSHIP

    @property
    def needs_addition(self) -> bool:
        """Nobody comes there unless a group is added, a table placed in it, or in a place of its own, a role granted on
        one that goes, and a shard moved there."""
        return self.name.rpartition(".")[2] in ADDITION

    @property
    def founding(self) -> bool:
        """The first leader of a new cluster comes there, and nobody ever again."""
        return self.name.rpartition(".")[2] == FOUNDING

    @property
    def needs_ranges(self) -> bool:
        return self.name.rpartition(".")[2] in NEEDS_RANGES


POINTS = (
    *(Point(f"status.{when}.{command}") for command in STATUS_COMMANDS for when in ("before", "after")),
    *(Point(f"shard.{when}.{command}") for command in SHARD_COMMANDS for when in ("before", "after")),
    *(Point(f"catalog.{when}.{command}") for command in CATALOG_COMMANDS for when in ("before", "after")),
    *(Point(f"part.{when}.{what}") for what in ("Leaves", "Arrives", "Splits") for when in ("before", "after")),
    Point("status.before_participate"),
    Point("status.after_participate"),
    Point("shard.before_register"),
    Point("shard.after_register"),
    Point("rows.before_judging"),
    Point("flush.before_write"),
    Point("flush.after_write"),
    Point("cleaner.before_delete"),
    Point("cleaner.after_delete"),
    Point("raft.before_send", replicas=True, ends_process=True),
    Point("raft.before_sync", replicas=True, ends_process=True),
    Point("raft.after_sync", replicas=True, ends_process=True),
    Point("raft.before_release", replicas=True, ends_process=True),
    Point("raft.before_apply", replicas=True, ends_process=True),
    Point("raft.before_snapshot", replicas=True, ends_process=True),
    Point("raft.snapshot_part", replicas=True, ends_process=True),
    Point("raft.before_snapshot_rename", replicas=True, ends_process=True),
    Point("raft.after_snapshot_rename", replicas=True, ends_process=True),
    Point("raft.after_snapshot", replicas=True, ends_process=True),
    Point("raft.before_install", replicas=True, ends_process=True, late=True),
    Point("raft.after_install", replicas=True, ends_process=True, late=True),
    Point("journal.before_sync", replicas=True, ends_process=True),
    Point("journal.before_rename", replicas=True, ends_process=True),
    Point("journal.after_rename", replicas=True, ends_process=True),
    Point("journal.before_drop", replicas=True, ends_process=True),
    Point("journal.after_drop", replicas=True, ends_process=True),
)

FOREIGN_POINTS = tuple(f"foreign.{when}.{op}" for op in FOREIGN_OPS for when in ("before", "after"))
"""Points of a foreign participant's host, a process of its own; the tests of such a participant take each."""

COMPACTION_POINTS = (
    "compaction.before_switch",
    *(f"compactor.{step}" for step in ("leased", "reading", "written", "durable", "completed", "lineage")),
    *(
        f"shard.{when}.{command}"
        for command in ("OpenCompaction", "ClaimCompaction", "CommitCompaction", "DropCompaction", "TranslateWrites")
        for when in ("before", "after")
    ),
)
"""Points of workers, which are processes of their own and whose tests take each, and of what they ask for."""

BACKUP_POINTS = ("backup.between_groups", "backup.before_manifest", "backup.before_rename")
"""Points of `txnctl backup`, whose test takes each."""
