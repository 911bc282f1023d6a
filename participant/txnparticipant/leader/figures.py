"""How much a shard has of what makes work, for whoever watches its leader."""

from __future__ import annotations

from typing import NamedTuple

from txnparticipant.leader.locks import LockService
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.upkeep.cleaner import Cleaner


class ShardFigures(NamedTuple):
    tables: int
    """Tables, and dropped ones that are not forgotten yet."""
    unfinished: int
    """Transactions that have written or locked and have not ended, once for each table."""
    row_bytes: int
    """Bytes of committed rows in memory that wait to be flushed."""
    lock_waiters: int
    """Transactions that wait for a lock, once for each table."""
    to_clean: int
    """Ended transactions whose directories are to be removed, once for each table."""
    compactions: int
    """Compactions that are wanted or worked at."""


def figures(shard: ParticipantShard, locks: LockService, cleaner: Cleaner) -> ShardFigures:
    tables = list(shard.tables())
    return ShardFigures(
        len(tables),
        sum(len(table.unfinished) for table in tables),
        sum(table.rows.unflushed_bytes for table in tables),
        locks.waiting_count,
        cleaner.backlog,
        sum(len(table.compactions.open) for table in tables),
    )
