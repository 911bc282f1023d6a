"""Whose the directories of the warehouse are."""

from __future__ import annotations

from txnparticipant.shard.shard import ParticipantShard


def is_flush(directory: str) -> bool:
    return "/delta_rows" in directory


def flush_directory(shard: ParticipantShard, table_id: str, flush_id: str) -> str:
    (table,) = (table for table in shard.tables() if table.table_id == table_id)
    return table.flush_directory(flush_id)


def txn_of(directory: str) -> int:
    """The transaction whose write the directory belongs to."""
    return int(directory.rpartition("/delta_")[2].partition("_")[0])
