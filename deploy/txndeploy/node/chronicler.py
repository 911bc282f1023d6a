"""Chronicler: writes down what has ended, on each node for the status ranges that it leads.

It only looks: nothing of it is in the replicated state, and no transaction waits for it. A minute of what has ended
makes a file, or less, where it is much; long before records are forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime

from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError
from txnstatus.foreign import foreign_name
from txnstatus.lake import timeline
from txnstatus.lake.timeline import Past, TableChange
from txnstatus.limits import MAX_LISTED
from txnstatus.proto import timeline_pb2 as pb
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import micros_at, time_of

log = logging.getLogger(__name__)

PASS_SECONDS = 1.0
FILE_SECONDS = 60.0
"""Time after which what has ended is written down; a quarter of the retention, where that is shorter."""
FILE_RECORDS = 5_000
"""Transactions that are written down before that time."""
TAKEN_OVER = 4 * FILE_RECORDS
"""The last ones, which a new leader writes down once more: more may have ended until the former one's next look."""
COUNT_SECONDS = 5.0
Counts = Mapping[tuple[str, int], pb.CommitCount]
"""Table id and transaction → what it did there."""


@dataclass(slots=True)
class _Place:
    """How far a range is written down."""

    ended: int
    """The number of its transactions that have ended, by then."""
    since: float
    """When that was."""


class Chronicler:
    """Implements the Timeline service, too."""

    def __init__(
        self,
        led: Callable[[], Iterable[TxnStatusTable]],
        client: TxnSystemClient,
        warehouse: str,
        blocking: Executor,
    ) -> None:
        """`led`: the ranges that this node leads, with a lease."""
        self._led, self._client = led, client
        self._warehouse, self._blocking = warehouse, blocking
        self._places: dict[int, _Place] = {}
        """First transaction of a range → how far."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PASS_SECONDS)
            await self.run_once()

    async def run_once(self) -> None:
        """One look at all ranges."""
        led = list(self._led())
        numbers = {table.first_txn_id for table in led}
        self._places = {number: place for number, place in self._places.items() if number in numbers}
        for table in led:
            await self._look(table)

    async def _look(self, table: TxnStatusTable) -> None:
        now, ended = asyncio.get_running_loop().time(), table.ended_count
        place = self._places.get(table.first_txn_id)
        if place is None or place.ended > ended:  # a former leader may not have come to the last ones
            place = self._places[table.first_txn_id] = _Place(max(0, ended - TAKEN_OVER), now)
        fresh = ended - place.ended
        retention = self._client.cluster.state.options.retention_ms / 1000
        if not fresh or (fresh < FILE_RECORDS and now - place.since < min(FILE_SECONDS, retention / 4)):
            if not fresh:
                place.since = now
            return
        records = table.latest_ended(fresh)
        number = table.first_txn_id // self._client.cluster.state.range_span
        try:
            if records:
                counts, loop = await self._counts(records), asyncio.get_running_loop()
                await loop.run_in_executor(self._blocking, _write, self._warehouse, number, records, counts)
        except OSError as error:
            log.warning("what has ended is written down later: %s", error)
            return
        place.ended, place.since = ended, now

    async def _counts(self, records: Sequence[TxnRecord]) -> Counts:
        """What the shards still know; of one that does not answer nothing."""
        by_shard: defaultdict[int, set[str]] = defaultdict(set)
        committed = [record for record in records if record.commit_ts]
        for record in committed:
            for participant_id, participant in record.participants.items():
                if foreign_name(participant_id) is None and "." in participant.name:
                    by_shard[shard_of_table_id(participant_id)].add(participant_id)
        since = min((record.commit_ts for record in committed), default=0)
        found: dict[tuple[str, int], pb.CommitCount] = {}
        for shard, ids in by_shard.items():
            names = sorted(ids)
            for start in range(0, len(names), MAX_LISTED):
                asked = pb.CountCommitsRequest(table_ids=names[start : start + MAX_LISTED], since=since)
                try:
                    answer = await self._client.call_leader(
                        shard_group(shard),
                        "txnstatus.CommitCounter/CountCommits",
                        asked,
                        pb.CountCommitsResponse,
                        COUNT_SECONDS,
                    )
                except TxnError as error:
                    log.info("what transactions did in shard %d is not counted: %s", shard, error.message)
                    break
                found.update(((each.table_id, each.txn_id), each) for each in answer.counts)
        return found

    async def list_timeline(self, request: pb.ListTimelineRequest) -> pb.ListTimelineResponse:
        """From a listing of the storage."""
        until = request.until_micros or 1 << 63
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._blocking, timeline.files, self._warehouse, min(request.since_micros, _LAST), until
        )
        later = [uri for uri in found if _name(uri) > _name(request.after)]
        page = later[:MAX_LISTED]
        return pb.ListTimelineResponse(files=page, more=len(later) > len(page))


_LAST = micros_at(datetime(9999, 1, 1, tzinfo=UTC))


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _write(warehouse: str, number: int, records: Sequence[TxnRecord], counts: Counts) -> None:
    """Raises OSError."""
    timeline.write(warehouse, number, [_past(record, counts) for record in records])


def _past(record: TxnRecord, counts: Counts) -> Past:
    tables = [
        _change(participant_id, participant.name, record, counts)
        for participant_id, participant in record.participants.items()
    ]
    return Past(
        record.txn_id,
        record.state.name,
        record.owner,
        record.label,
        time_of(record.begin_micros),
        time_of(record.last_transition_micros),
        record.commit_ts,
        tuple(sorted(tables, key=lambda each: each.table)),
        *timeline.why(record.cause),
    )


def _change(participant_id: str, name: str, record: TxnRecord, counts: Counts) -> TableChange:
    found = counts.get((participant_id, record.txn_id))
    if found is None:
        return TableChange(name)
    return TableChange(name, found.added_rows, found.added_files, found.deleted_rows, found.changed_rows)
