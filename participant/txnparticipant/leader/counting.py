"""Counts of what transactions did to a shard's tables, on its leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from txnparticipant.shard import counting
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.limits import MAX_LISTED, check_count
from txnstatus.proto import timeline_pb2 as pb
from txnstatus.types import Timestamp

SLICE = 500
"""Commits that are counted, or told, in one turn of the loop: others wait for less than a millisecond."""


@dataclass(slots=True)
class CommitCounter:
    """Implements the CommitCounter service for one shard."""

    shard: ParticipantShard
    check_lease: Callable[[], None]
    """Raises NotTheLeader where this replica does not lead, or cannot prove it."""

    async def count_commits(self, request: pb.CountCommitsRequest) -> pb.CountCommitsResponse:
        """Counts of the tables that are there: of those that are dropped and forgotten it tells nothing.

        Raises PlacedElsewhere where another shard has got one.
        """
        self.check_lease()
        check_count(len(request.table_ids), "tables", MAX_LISTED)
        wanted = set(request.table_ids)
        if gone := next((each for each in request.table_ids if each in self.shard.gone), None):
            raise self.shard.no_table(gone)
        response = pb.CountCommitsResponse()
        for table in [each for each in self.shard.tables() if each.table_id in wanted]:
            tally = counting.Tally()
            for number, part in enumerate(counting.parts(table, Timestamp(request.since)), 1):
                tally.add(part)
                if number % SLICE == 0:
                    await asyncio.sleep(0)
            for number, (txn_id, each) in enumerate(tally.counts.items(), 1):
                response.counts.add(
                    table_id=table.table_id,
                    txn_id=txn_id,
                    added_rows=each.added_rows,
                    added_files=each.added_files,
                    deleted_rows=each.deleted_rows,
                    changed_rows=each.changed_rows,
                )
                if number % SLICE == 0:
                    await asyncio.sleep(0)
        return response
