"""Reads: what readers of a shard's tables see, at one timestamp; on the shard's leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from txnparticipant import commands as cmd
from txnparticipant.mvcc import Prepared, undecided_at, visible
from txnparticipant.records import TableState
from txnparticipant.row_scan import add_row_changes, commit_times
from txnparticipant.table_store import ParticipantShard
from txnstatus.errors import InvalidArgument
from txnstatus.proto import table_pb2 as pb
from txnstatus.status_ranges import StatusRanges
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId


class Reads:
    def __init__(self, shard: ParticipantShard, ranges: StatusRanges, check_lease: Callable[[], None]) -> None:
        """`check_lease` raises NotTheLeader."""
        self._shard = shard
        self._ranges = ranges
        self._check_lease = check_lease
        self._settled = NO_TIMESTAMP
        """All commits to come, of any transaction, are above it."""

    async def scan(self, request: pb.ScanRequest) -> pb.ScanResponse:
        """What a reader at the timestamp sees. It never waits for a writer: see TxnStatusTable.commit_ts_at."""
        at = Timestamp(request.timestamp)
        await self._check_settled(at)
        self._check_lease()
        table = self._shard.table(request.table)
        prepared = self._shard.prepared(table)
        file_sets = list(table.file_sets.values())
        rows = table.rows_view()
        outcomes = await self._outcomes(prepared, at)
        manifests = [cmd.manifest_to_wire(m) for m in visible(file_sets, prepared, outcomes, at)]
        response = pb.ScanResponse(table=table.info(), manifests=manifests)
        add_row_changes(response, rows.at(at, outcomes), commit_times(file_sets, prepared, outcomes))
        return response

    async def base(self, read_timestamp: Timestamp | None) -> Timestamp:
        """On what an overwrite is based: what its transaction has read, or else all that is committed by now."""
        if read_timestamp is None:
            self._settled = max(self._settled, await self._ranges.snapshot())
            return self._settled
        await self._check_settled(read_timestamp)
        return read_timestamp

    async def decided(self, table: TableState, at: Timestamp) -> list[tuple[TxnId, Timestamp]]:
        """What is committed at or below a snapshot's timestamp and not yet finalised here, and when it was."""
        outcomes = await self._outcomes(self._shard.prepared(table), at)
        return [(txn_id, commit_ts) for txn_id, commit_ts in outcomes.items() if commit_ts]

    async def _check_settled(self, at: Timestamp) -> None:
        """Raises InvalidArgument where something may yet commit at or below the timestamp.

        Whoever read there again would see more. What is prepared here does not tell: the next to prepare may get a
        lower timestamp, from a clock that is behind.
        """
        if at > self._settled:
            self._settled = max(self._settled, await self._ranges.snapshot())
        if at > self._settled:
            raise InvalidArgument(
                f"timestamp {at} is ahead of the last commit's, {self._settled}: take a snapshot first"
            )

    async def _outcomes(self, prepared: Sequence[Prepared], at: Timestamp) -> dict[TxnId, Timestamp]:
        """The commit timestamps, at or below `at`, of those whose outcome this shard does not know."""
        return await self._ranges.outcomes(undecided_at(prepared, at), at)
