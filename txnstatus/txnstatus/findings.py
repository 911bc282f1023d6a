"""What may be wrong with a cluster and its storage: the kinds of findings, how bad each is, and what to do."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class Severity(enum.StrEnum):
    ERROR = "error"
    """Data is lost or cannot be reached, or a promise is broken."""
    WARNING = "warning"
    """The cluster works, and somebody should do something."""
    NOTE = "note"
    """All is as it should be; this is good to know."""


class Kind(enum.Enum):
    """Its name for people, how bad it is, and what to do."""

    MISSING_MANIFEST = "missing manifest", Severity.ERROR, "restore it from a backup of the storage"
    DAMAGED_MANIFEST = "damaged manifest", Severity.ERROR, "restore it from a backup of the storage"
    MISSING_FILE = "missing file", Severity.ERROR, "restore it from a backup, or overwrite the partition or the table"
    WRONG_SIZE = "wrong size", Severity.ERROR, "restore it from a backup, or overwrite the partition or the table"
    DAMAGED_FILE = "damaged file", Severity.ERROR, "restore it from a backup, or overwrite the partition or the table"
    DEAD_TRANSACTION = "dead transaction", Severity.ERROR, "a fault of the service: keep the nodes' logs and report it"
    REPLICAS_DIFFER = "replicas differ", Severity.ERROR, "a fault of the service: stop writing, and report it"
    NO_LEADER = "no leader", Severity.ERROR, "start nodes, until a majority of its members runs"
    NODE_SILENT = "node silent", Severity.WARNING, "start it, or txnctl node replace"
    REPLICA_BEHIND = "replica behind", Severity.WARNING, "look at the node's log, disk and network"
    STUCK_TRANSACTION = "stuck transaction", Severity.WARNING, "bring back what it waits for"
    WAITING_COMPACTION = (
        "waiting compaction",
        Severity.WARNING,
        "start txnctl compactor; for large ones, txnctl compactor --spark",
    )
    COSTLY_SAVEPOINT = "costly savepoint", Severity.WARNING, "txnctl savepoint release NAME, once nobody needs it"
    UNFINISHED_SAVEPOINT = "unfinished savepoint", Severity.WARNING, "txnctl savepoint release NAME"
    ORPHAN = "orphan", Severity.WARNING, "txnctl doctor --fix removes it"
    WHOLE_WRITE = "whole write", Severity.WARNING, "look at it; txnctl doctor --fix --whole-writes removes it"
    STRAY = "stray", Severity.WARNING, "move it elsewhere by hand"
    SHARED_LOCATION = "shared location", Severity.WARNING, "give each table a location of its own"
    UNLISTED_FILES = "unlisted files", Severity.NOTE, "nothing: they go with their directory"

    def __init__(self, label: str, severity: Severity, advice: str) -> None:
        self.label = label
        self.severity = severity
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    where: str
    """The table, group or node."""
    what: str
    """The directory, file, transaction or replica: with the kind and the place, the same whenever it is looked for."""
    story: str


def confirmed(first: Iterable[Finding], second: Iterable[Finding]) -> Iterator[Finding]:
    """What was found at both looks, as it was at the second."""
    before = {(each.kind, each.where, each.what) for each in first}
    return (each for each in second if (each.kind, each.where, each.what) in before)
