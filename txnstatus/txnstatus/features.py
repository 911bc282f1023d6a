"""Feature levels: what may be in logs and snapshots, by the oldest version of the program that has to read it.

A cluster is at one level, which the catalog has, and which only goes up. Each version does some levels in a row. What
a level brought is proposed at that level and above: until then every node can still be of the version before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from txnstatus.errors import IllegalState
from txnstatus.values import value

FIRST = 1
"""The level of versions that say none, and of what they have left."""
REGISTERED = 2
"""The level from which on nodes say in the catalog which version they are of."""
PLACES = 3
"""The level from which on a place is reserved in the catalog for who makes a table there, shards go from one group
to another, and are split."""


@value
class Levels:
    """The levels that a version does: all from the oldest to the newest."""

    oldest: int
    newest: int

    def can(self, level: int) -> bool:
        return self.oldest <= level <= self.newest

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}" if self.oldest < self.newest else f"{self.oldest} alone"


OWN = Levels(FIRST, PLACES)
"""The levels that this version does."""

COMMANDS: Mapping[str, Mapping[int, Sequence[str]]] = {
    "catalog": {
        FIRST: (
            *("Found", "AddRange", "DropRange", "AddGroup", "PlaceDatabase", "SetOption"),
            *("ReplaceNode", "MoveReplica", "FinishReplacement", "RegisterForeign", "RemoveForeign"),
            *("Grant", "Revoke", "ForgetGrants", "TurnTicketKey", "Distrust"),
            "RaiseLevel",  # proposed once every node has said that it does the level above
        ),
        REGISTERED: ("RegisterNode", "SetLimit", "AddNode", "DrainNode", "RemoveNode", "Rebalance"),
        PLACES: ("ReservePlace", "FreePlace", "MigrateShard", "SplitShard", "FinishMigration"),
    },
    "status": {
        FIRST: (
            *("BeginTxns", "RegisterParticipants", "BeginCommit", "FinalizeCommit", "CompleteCommit"),
            *("BeginAbort", "Expire", "FinalizeAbort", "Forget", "RaiseFloor"),
        ),
    },
    "shard": {
        FIRST: (
            *("CreateTable", "PlaceTable", "AlterTable", "DropTable", "ForgetTable", "Adopt", "Retire"),
            *("OpenWrite", "AddFiles", "WriteRows", "AcquireLocks", "SetSavepoint", "RollbackTo", "Withdraw"),
            *("BeginCommit", "FinalizeCommit", "AbortTxn", "MarkCleaned", "ForgetTxns", "TranslateWrites"),
            *("OpenFlush", "FlushRows", "DropFlush", "HoldSavepoint", "DropSavepoint"),
            *("OpenCompaction", "ClaimCompaction", "CommitCompaction", "DropCompaction"),
        ),
        REGISTERED: ("RenameTable",),
    },
}
"""Log → level → the kinds of commands that it brought."""
FIELDS: Mapping[str, int] = {"status.BeginTxns.max_of_owner": 2, "shard.CreateTable.made": 2}
"""Fields that came after their command, as `catalog.SetOption.name` → the level that brought them. Below it they are
empty, 0, False or None, which is their default."""
OPTIONS: Mapping[str, int] = {"user_open_transactions": 2, "user_reads_per_second": 2}
"""Options of the cluster that came after the first level → the level that brought them."""

_LEVELS = {(log, kind): level for log, levels in COMMANDS.items() for level, kinds in levels.items() for kind in kinds}


class Gate:
    """What may be proposed to the logs of one kind, by the level that the cluster is at."""

    def __init__(self, log: str, level: Callable[[], int]) -> None:
        """`log`: one of COMMANDS. `level`: the cluster's, as far as this process has heard."""
        self._log, self._level = log, level

    def check(self, commands: Iterable[object]) -> None:
        """Raises IllegalState for a command that a cluster of this level does not have."""
        level = self._level()
        if level >= OWN.newest:
            return
        for command in commands:
            needed = level_of(self._log, command)
            if needed > level:
                raise IllegalState(
                    f"{type(command).__name__} needs feature level {needed}; the cluster is at {level}",
                    hint="once every node is of a version that does it: txnctl upgrade finish",
                )


def level_of(log: str, command: Any) -> int:
    """The level that a command needs, with what its fields say."""
    kind = type(command).__name__
    needed = [_LEVELS[log, kind]]
    for name, level in FIELDS.items():
        where, field = name.rsplit(".", 1)
        if where == f"{log}.{kind}" and getattr(command, field):
            needed.append(level)
    if (log, kind) == ("catalog", "SetOption"):
        needed.append(OPTIONS.get(command.name, FIRST))
    return max(needed)


def hindrances(nodes: Mapping[str, Levels | None], level: int) -> list[str]:
    """Why a cluster of these nodes cannot be at a level, in words. None: nobody knows what the node does."""
    return [
        f"nobody knows what {node} does" if levels is None else f"{node} does {levels}"
        for node, levels in sorted(nodes.items())
        if levels is None or not levels.can(level)
    ]


def refusal(who: str, levels: Levels, level: int) -> str | None:
    """Why one that does these levels cannot be in a cluster of this level, and what to do; None: it can."""
    if levels.can(level):
        return None
    which = "newer" if levels.newest < level else "older"
    return (
        f"{who} does feature levels {levels}, and the cluster is at {level}: it takes a version that does it, {which} "
        "than this one; install that, and the data is as it was"
    )
