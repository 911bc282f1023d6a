"""Counts of what transactions did to a shard's tables, on its leader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from txnparticipant.shard import counting
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.limits import MAX_LISTED, check_count
from txnstatus.proto import timeline_pb2 as pb
from txnstatus.types import Timestamp


@dataclass(slots=True)
class CommitCounter:
    """Implements the CommitCounter service for one shard."""

    shard: ParticipantShard
    check_lease: Callable[[], None]
    """Raises NotTheLeader where this replica does not lead, or cannot prove it."""

    async def count_commits(self, request: pb.CountCommitsRequest) -> pb.CountCommitsResponse:
        """Counts of the tables that are there: of those that are gone it tells nothing."""
        self.check_lease()
        check_count(len(request.table_ids), "tables", MAX_LISTED)
        wanted = set(request.table_ids)
        response = pb.CountCommitsResponse()
        for table in self.shard.tables():
            if table.table_id not in wanted:
                continue
            for txn_id, each in counting.counts(table, Timestamp(request.since)).items():
                response.counts.add(
                    table_id=table.table_id,
                    txn_id=txn_id,
                    added_rows=each.added_rows,
                    added_files=each.added_files,
                    deleted_rows=each.deleted_rows,
                    changed_rows=each.changed_rows,
                )
        return response
