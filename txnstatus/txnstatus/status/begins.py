"""Begins: in which range of the status table transactions begin, and that the calls for it get there.

In each group nothing begins in a range before all before it are full, and a full one stays full. A request that comes
again may have begun in another group, where its table's shard was then: what it has begun is looked for in all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from txnstatus import features
from txnstatus.catalog.catalog import status_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotFound, TxnError
from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.proto.common_pb2 import ParticipantInfo
from txnstatus.proto.txn_manager_pb2 import BeginTransactionResponse
from txnstatus.rpc.calls import Answer, Call, PassedOn
from txnstatus.types import Timestamp

CALL_SECONDS = 15.0
Participants = Mapping[Call, Sequence[ParticipantInfo]]
"""Participants with which the transaction of each call begins."""
NOBODY: Participants = MappingProxyType({})


class Begins:
    def __init__(
        self,
        client: TxnSystemClient,
        add_range: Callable[[int], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`add_range` adds the range that follows one in its group, where there is none."""
        self._client = client
        self._catalog = CatalogClient(client)
        self._add_range = add_range
        self._spawn = spawn
        self._full: dict[int, Timestamp] = {}
        """Ranges that are known to be full, with their last commit when that was found out."""

    def begin(self, calls: Sequence[Call], participants: Participants, group: str) -> None:
        """In the ranges of a group."""
        # Passed by is only what was full when the request came: a retry that overtakes this one cannot be there.
        passed = max((each for each in self._begins_in(group) if each in self._full), default=-1)
        if begins := [call for call in calls if not call.request.is_retry]:
            self._begin_after(passed, group, begins, participants)
        state = self._client.cluster.state
        if (again := [call for call in calls if call.request.is_retry]) and (
            len(state.ranges_of) == 1 or state.level < features.PLACES
        ):
            self._begin_after(-1, group, again, participants)
        else:
            for call in again:
                self._spawn(self._begin_unless_begun(call, group, participants))

    async def _begin_unless_begun(self, call: Call, group: str, participants: Participants) -> None:
        """A begin that has come before: it begins in the group, unless it has begun something in another one."""
        try:
            state = await self._catalog.refresh()
            own = set(self._begins_in(group))
            found = await asyncio.gather(*(self._look(call, number) for number in state.ranges if number not in own))
        except TxnError as error:
            call.tell(error)
            return
        if begun := next(filter(None, found), None):
            call.tell(begun)
        elif not call.is_over:
            self._begin_after(-1, group, [call], participants)

    async def _look(self, call: Call, number: int) -> BeginTransactionResponse | None:
        """What the request has begun in a range."""
        request, method = pb.RangeBeginRequest(request=call.request, looks=True), "txnstatus.TxnStatus/BeginInRange"
        try:
            answer = await self._client.call_leader(
                status_group(number), method, request, pb.RangeBeginResponse, CALL_SECONDS
            )
        except NotFound:
            if not self._client.cluster.state.range_was_dropped(number):
                raise
            return None
        return answer.begun if answer.HasField("begun") else None

    def _begins_in(self, group: str) -> Sequence[int]:
        return self._client.cluster.state.begins_in(group)

    def _begin_after(self, passed: int, group: str, calls: Sequence[Call], participants: Participants) -> None:
        """In the first range that comes after one."""
        number = next((each for each in self._begins_in(group) if each > passed), None)
        if number is None:
            self._spawn(self._begin_in_new(passed, group, calls, participants))
            return
        floor = max([self._client.cluster.state.floor, *(self._full[full] for full in self._full if full < number)])
        begins = [_Begin(call, self, group, number, floor, participants.get(call, ())) for call in calls]
        method = "txnstatus.TxnStatus/BeginInRange"
        self._client.ask_leader(status_group(number), method, begins, pb.RangeBeginResponse, CALL_SECONDS)

    async def _begin_in_new(self, passed: int, group: str, calls: Sequence[Call], participants: Participants) -> None:
        try:
            await self._add_range(passed)
        except TxnError as error:
            for call in calls:
                call.tell(error)
        else:
            self._begin_after(passed, group, calls, participants)

    def answered(self, begin: _Begin, answer: Answer) -> None:
        """What a range says to a begin."""
        call, number = begin.origin, begin.number
        if isinstance(answer, NotFound) and self._client.cluster.state.range_was_dropped(number):
            self._begin_after(number, begin.group, [call], {call: begin.request.participants})
        elif isinstance(answer, TxnError):
            call.tell(answer)
        else:
            assert isinstance(answer, pb.RangeBeginResponse)
            if answer.HasField("begun"):
                call.tell(answer.begun)
                return
            self._full[number] = Timestamp(answer.last_commit_timestamp)
            self._begin_after(number, begin.group, [call], {call: begin.request.participants})


class _Begin(PassedOn):
    """A begin in one range."""

    __slots__ = ("_begins", "group", "number")

    def __init__(
        self,
        origin: Call,
        begins: Begins,
        group: str,
        number: int,
        floor: Timestamp,
        participants: Sequence[ParticipantInfo],
    ) -> None:
        wrapped = pb.RangeBeginRequest(request=origin.request, floor=floor, participants=participants)
        super().__init__(origin, wrapped)
        self._begins, self.group, self.number = begins, group, number

    def _hear(self, answer: Any) -> None:
        self.origin.on_end = None
        self.origin.led_at = self.led_at
        self._begins.answered(self, answer)
