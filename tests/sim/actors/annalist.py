"""A simulated program that reads the timeline, as the library does; what it is told is judged by judges/annals.py."""

from __future__ import annotations

from collections.abc import Sequence

from tests.sim.actors.reader import Reader
from txnclient.history.timeline import END, of_record
from txnclient.info import txn_summary
from txnstatus.errors import Unavailable
from txnstatus.lake import timeline
from txnstatus.lake.timeline import Past
from txnstatus.proto import timeline_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.types import TERMINAL


class Annalist(Reader):
    async def _read_timeline(self) -> None:
        """As txnclient.history.timeline: records first. Raises Unavailable where a file cannot be read."""
        asked_at = self._shared.now()
        told = await self._kept_records()
        uris = await self._chapters()
        try:
            told |= {each.txn_id: each for each in timeline.read(uris)}
        except OSError as error:
            raise Unavailable(str(error)) from error
        self._log(f"the timeline tells of {len(told)}, by {len(uris)} files")
        self._shared.annals.shown(told, asked_at)

    async def _kept_records(self) -> dict[int, Past]:
        request = status_pb.ListTransactionsRequest(states=sorted(each.name for each in TERMINAL))
        kept: dict[int, Past] = {}
        while True:
            answer = await self._call("txnstatus.Admin/ListTransactions", request, status_pb.ListTransactionsResponse)
            kept |= {each.txn_id: of_record(txn_summary(each)) for each in answer.txns}
            if not answer.more:
                return kept
            request.ClearField("below")
            request.below.extend(answer.next)

    async def _chapters(self) -> Sequence[str]:
        request, method = pb.ListTimelineRequest(until_micros=END), "txnstatus.Timeline/ListTimeline"
        found = list[str]()
        while True:
            answer = await self._call(method, request, pb.ListTimelineResponse)
            found += answer.files
            if not answer.more:
                return found
            request.after = found[-1]

    async def read_everything(self) -> None:
        await super().read_everything()
        if self._shared.chronicles:
            await self._read_timeline()
