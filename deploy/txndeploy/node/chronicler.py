"""Chronicler: writes down what has ended, on each node for the status ranges that it leads.

It only looks: nothing of it is in the replicated state, and no transaction waits for it. A minute of what has ended
makes a file, or less, where it is much; long before records are forgotten. Where the storage does not take files, the
leader forgets nothing that is not written down, up to a number.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.cluster_map import asked_by_id
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError, Unavailable
from txnstatus.foreign import foreign_name
from txnstatus.lake import timeline
from txnstatus.lake.timeline import Chapter
from txnstatus.limits import MAX_LISTED
from txnstatus.proto import timeline_pb2 as pb
from txnstatus.status.finished import Finished
from txnstatus.status.manager import FOREVER
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import TxnId, micros_at
from txnstatus.undoes import undone_by

log = logging.getLogger(__name__)

PASS_SECONDS = 1.0
FILE_SECONDS = 60.0
"""Time after which what has ended is written down; a quarter of the retention, where that is shorter."""
FILE_RECORDS = 5_000
"""Transactions that are written down before that time, and the most that one file has."""
TAKEN_OVER = 4 * FILE_RECORDS
"""The last ones, which a new leader writes down once more: more may have ended until the former one's next look."""
HELD_BACK = 100_000
"""The last ones of a range, which are not forgotten before they are written down: of more, memory would fill."""
COUNT_SECONDS = 5.0
SLICE = 250
"""Transactions that one turn of the loop looks at: others wait for less than a millisecond."""
Counts = dict[tuple[str, int], pb.CommitCount]
"""Table id and transaction → what it did there."""
T = TypeVar("T")


@dataclass(slots=True)
class _Place:
    """How far a range is written down."""

    of: Finished
    """What was counted: after a restored snapshot numbers are others."""
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

    @property
    def unwritten(self) -> int:
        """Transactions of the ranges that this node leads that have ended, and are not written down yet."""
        places = ((table, self._known(table)) for table in self._led())
        return sum(table.finished.count - place.ended for table, place in places if place is not None)

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

    def kept_from(self, table: TxnStatusTable) -> int:
        """Microseconds: what of a range ended then or later is not to be forgotten yet."""
        ended, place = table.finished.count, self._known(table)
        written = place.ended if place is not None else 0
        first = max(written, ended - HELD_BACK, table.finished.gone)
        return table.finished.at(first).last_transition_micros if first < ended else FOREVER

    def _known(self, table: TxnStatusTable) -> _Place | None:
        place = self._places.get(table.first_txn_id)
        return place if place is not None and place.of is table.finished else None

    async def _look(self, table: TxnStatusTable) -> None:
        place = await self._place(table)
        if place is None or place.of is not table.finished:
            return
        now, ended = asyncio.get_running_loop().time(), table.finished.count
        if (lost := table.finished.gone - place.ended) > 0:
            log.warning("%d transactions were forgotten before they could be written down", lost)
            place.ended += lost
        fresh = ended - place.ended
        retention = self._client.cluster.state.options.retention_ms / 1000
        if not fresh or (fresh < FILE_RECORDS and now - place.since < min(FILE_SECONDS, retention / 4)):
            if not fresh:
                place.since = now
            return
        ids = table.finished.latest(fresh)[::-1]
        try:
            while ids:
                await self._write_down(table, ids[:FILE_RECORDS])
                ids = ids[FILE_RECORDS:]
        except OSError as error:
            log.warning("what has ended is written down later: %s", error)
        place.ended = ended - len(ids)
        if not ids:
            place.since = now

    async def _place(self, table: TxnStatusTable) -> _Place | None:
        """How far a range is written down, by this leader or one before it; None: the storage does not say.

        The times of the last file tell how far a former leader has come, and clocks go apart: so the last ones are
        written down once more.
        """
        if (known := self._known(table)) is not None:
            return known
        finished = table.finished
        ended, oldest = finished.count, finished.gone
        since = finished.at(oldest).last_transition_micros if oldest < ended else 0
        number = table.first_txn_id // self._client.cluster.state.range_span
        loop = asyncio.get_running_loop()
        try:
            last = await loop.run_in_executor(
                self._blocking, timeline.last_written, self._warehouse, number, min(since, _LAST)
            )
        except OSError as error:
            log.warning("how far what has ended is written down is not known yet: %s", error)
            return None
        written = ended
        async for number in _in_turns(range(ended - 1, oldest - 1, -1)):
            if number < finished.gone or finished.at(number).last_transition_micros <= last:
                break
            written = number
        written = max(finished.gone, min(written, ended - TAKEN_OVER))
        place = self._places[table.first_txn_id] = _Place(finished, written, loop.time())
        return place

    async def _write_down(self, table: TxnStatusTable, ids: Sequence[TxnId]) -> None:
        """One file of those that are not forgotten by now. Raises OSError."""
        records = deque([record async for txn_id in _in_turns(ids) if (record := table.find(txn_id))])
        if not records:
            return
        chapter = await _chapter(records, await self._counts(records))
        number = table.first_txn_id // self._client.cluster.state.range_span
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._blocking, timeline.write, self._warehouse, number, chapter)

    async def _counts(self, records: Iterable[TxnRecord]) -> Counts:
        """What the shards still know; of one that does not answer nothing."""
        ids, txn_ids, since = set[str](), set[int](), 0
        async for record in _in_turns(records):
            if record.commit_ts:
                txn_ids.add(record.txn_id)
                since = min(since or record.commit_ts, record.commit_ts)
                ids.update(each for each, (_, name, _) in record.participants.items() if "." in name)
        by_shard: defaultdict[int, list[str]] = defaultdict(list)
        for table_id in sorted(ids):
            if foreign_name(table_id) is None:
                by_shard[self._client.cluster.shard_of(table_id)].append(table_id)
        found: Counts = {}

        async def count(shard: int, table_ids: Sequence[str]) -> None:
            asked = pb.CountCommitsRequest(table_ids=table_ids, since=since)
            method, response = "txnstatus.CommitCounter/CountCommits", pb.CountCommitsResponse
            answer = await self._client.call_leader(shard_group(shard), method, asked, response, COUNT_SECONDS)
            async for each in _in_turns(answer.counts):
                if each.txn_id in txn_ids:
                    found[each.table_id, each.txn_id] = each

        for shard, names in by_shard.items():
            for start in range(0, len(names), MAX_LISTED):
                try:
                    await asked_by_id(self._client.cluster, shard, names[start : start + MAX_LISTED], count)
                except TxnError as error:
                    log.info("what transactions did in shard %d is not counted: %s", shard, error.message)
                    break
        return found

    async def list_timeline(self, request: pb.ListTimelineRequest) -> pb.ListTimelineResponse:
        """From a listing of the storage. Raises Unavailable where that does not answer."""
        until = request.until_micros or 1 << 63
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._blocking, timeline.files, self._warehouse, min(request.since_micros, _LAST), until
            )
        except OSError as error:
            raise Unavailable(f"the timeline's files cannot be listed: {error}") from error
        later = [uri for uri in found if _name(uri) > _name(request.after)]
        page = later[:MAX_LISTED]
        return pb.ListTimelineResponse(files=page, more=len(later) > len(page))


_LAST = micros_at(datetime(9999, 1, 1, tzinfo=UTC))


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


async def _in_turns(many: Iterable[T]) -> AsyncIterator[T]:
    """All of them, between which others have their turns."""
    for number, each in enumerate(many, 1):
        yield each
        if number % SLICE == 0:
            await asyncio.sleep(0)


def _taken(records: deque[TxnRecord]) -> Iterator[TxnRecord]:
    while records:
        yield records.popleft()


async def _chapter(records: deque[TxnRecord], counts: Counts) -> Chapter:
    """Uses both up, one after the other: to let go of thousands at once takes as long as to look at them."""
    chapter = Chapter()
    async for record in _in_turns(_taken(records)):
        for table_id, participant in sorted(record.participants.items(), key=lambda each: each[1].name):
            found = counts.pop((table_id, record.txn_id), None)
            if found is None:
                chapter.tables.add(participant.name)
            else:
                chapter.tables.add(
                    participant.name, found.added_rows, found.added_files, found.deleted_rows, found.changed_rows
                )
        chapter.add(
            record.txn_id,
            record.state.name,
            record.owner,
            record.label,
            record.begin_micros,
            record.last_transition_micros,
            record.commit_ts,
            record.cause,
            undone_by(record.request.request_id),
        )
    return chapter
