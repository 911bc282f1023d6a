"""Whose the directories of the warehouse are."""

from __future__ import annotations

from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.versions.directories import COMPACTIONS


def is_flush(directory: str) -> bool:
    return "/delta_rows" in directory


def is_compaction(directory: str) -> bool:
    return "/delta_minor" in directory or "/base_major" in directory


def compaction_directory(shard: ParticipantShard, table_id: str, compaction_id: str) -> str:
    return shard.table_by_id(table_id).directory(COMPACTIONS, compaction_id)


def flush_directory(shard: ParticipantShard, table_id: str, flush_id: str) -> str:
    (table,) = (table for table in shard.tables() if table.table_id == table_id)
    return table.flush_directory(flush_id)


def txn_of(directory: str) -> int:
    """The transaction whose write the directory belongs to."""
    return int(directory.rpartition("/delta_")[2].partition("_")[0])
