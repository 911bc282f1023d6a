"""The locks that a write takes by itself, on a table that settles conflicts by locks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from txnstatus.limits import MAX_LOCK_PARTITIONS
from txnstatus.partitions import WHOLE_TABLE, above
from txnstatus.types import ConflictStrategy, Statement


class LockToWrite(Protocol):
    """Locks parts of a table for a statement; no names: the table. Returns whether that excludes everybody else."""

    def __call__(self, statement: Statement, table: str, names: Sequence[str], strategy: str) -> bool: ...


class WriteLocks:
    """Of one write. Nothing is asked for twice."""

    def __init__(self, lock: LockToWrite, statement: Statement, table: str, strategy: str) -> None:
        self._lock, self._statement, self._table, self._strategy = lock, statement, table, strategy
        self._held: dict[str, bool] = {}
        """What is locked, and whether that excludes everybody else."""

    def take(self, names: Collection[str]) -> None:
        """Locks these parts, unless the table takes none, or they are locked. Raises as `Transaction.lock`."""
        if self._strategy == ConflictStrategy.FIRST_COMMITTER_WINS:
            return
        wanted = sorted(name for name in set(names) if not self._has(name))
        for start in range(0, len(wanted), MAX_LOCK_PARTITIONS):
            part = wanted[start : start + MAX_LOCK_PARTITIONS]
            named = [] if part == [WHOLE_TABLE] else part
            excludes = self._lock(self._statement, self._table, named, self._strategy)
            self._held |= dict.fromkeys(part, excludes)

    def _has(self, name: str) -> bool:
        """A shared lock on what is above does not do: it keeps nobody off this part of it."""
        return name in self._held or any(self._held.get(each, False) for each in above(name))
