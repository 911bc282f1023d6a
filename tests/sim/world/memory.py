"""Little memory for rows, so that a small world comes to its limits, and whether a shard stays within them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from txnparticipant.leader import rows as row_service
from txnparticipant.rows import changed_keys
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.lake import dead_rows, kept_dead_rows
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.kept import Kept
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import timestamp

SOFT_LIMIT_BYTES = 4_000
HARD_LIMIT_BYTES = 5_000
TXN_LIMIT_BYTES = 1_800
KEPT_KEYS_BYTES = 5_000
KEPT_KEYS_SPAN = timestamp(1_000_000)
LATE_BYTES = 4_000
"""Bytes of requests on their way through a former leader, of which the next one does not know."""


def options(row_flush_bytes: int) -> dict[str, int]:
    """Options by which little is flushed, and compacted often."""
    compacts = {"compact_delta_num": 3, "compact_lease_ms": 1_000, "compact_file_bytes": 1 << 14}
    return {"row_flush_bytes": row_flush_bytes, **compacts}


def seams(*, writes_rows: bool, keeps_rolls: bool) -> list[tuple[str, Any]]:
    return [*(_of_row_writes() if writes_rows else ()), *(_of_positions() if keeps_rolls else ())]


def _of_row_writes() -> list[tuple[str, Any]]:
    return [
        ("txnparticipant.leader.rows:SOFT_LIMIT_BYTES", SOFT_LIMIT_BYTES),
        ("txnparticipant.leader.rows:HARD_LIMIT_BYTES", HARD_LIMIT_BYTES),
        ("txnparticipant.leader.rows:TXN_LIMIT_BYTES", TXN_LIMIT_BYTES),
        ("txnparticipant.rows.changed_keys:KEPT_BYTES", KEPT_KEYS_BYTES),
        ("txnparticipant.rows.changed_keys:KEPT_SPAN", KEPT_KEYS_SPAN),
    ]


def _of_positions() -> list[tuple[str, Any]]:
    nothing = Kept[pb.DeadRowsRef, DeadRows](dead_rows.read, kept_dead_rows.KEPT_BYTES)
    return [
        ("txnparticipant.versions.deletes:KEPT_BYTES", 8_000),
        ("txnparticipant.versions.additions:KEPT_BYTES", 12_000),
        ("txnparticipant.shard.delete_checks:MAX_PENDING_BYTES", 300),
        ("txnclient.write.deletes:MAX_DELETED_FILES", 2),
        ("txnstatus.lake.kept_dead_rows:_kept", nothing),
    ]


def check(shard: ParticipantShard, violated: Callable[[str, str], None]) -> None:
    """Checks every replica, after every command."""
    used = 0
    for table in shard.tables():
        used += table.rows.unflushed_bytes
        kept = sum(commit.cost for commit in table.rows.keys)
        for record in table.unfinished.values():
            own = sum(batch.cost for batch in record.rows.values())
            used += own
            if own > row_service.TXN_LIMIT_BYTES:
                violated("memory", f"{record.txn_id} holds {own} bytes of rows of {table.name}")
        if kept > changed_keys.KEPT_BYTES:
            violated("memory", f"{kept} bytes of keys of {table.name} are kept")
    if used > row_service.HARD_LIMIT_BYTES + row_service.TXN_LIMIT_BYTES + LATE_BYTES:
        violated("memory", f"{used} bytes of rows are in the memory of shard {shard.shard}")
