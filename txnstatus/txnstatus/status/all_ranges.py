"""AllRanges: what concerns all ranges at once, such as snapshots and what is forgotten; and how ranges come and go.

Each group's ranges are a sequence of their own. What holds of all that may come is known once the last of each was
found not full: nothing has begun behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from txnstatus.catalog.catalog import FIRST_GROUP, CatalogState, status_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.commands import AddRange, DropRange
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotFound, forgotten
from txnstatus.id_sets import IdSet, below_without
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.status.begins import CALL_SECONDS
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId
from txnstatus.wire import checked_txn_id

ResponseT = TypeVar("ResponseT", bound=Message)


class AllRanges:
    def __init__(self, client: TxnSystemClient) -> None:
        self._client = client
        self._catalog = CatalogClient(client)

    async def snapshot(self, at_least: Timestamp = NO_TIMESTAMP) -> Timestamp:
        """One timestamp for all ranges: not below any commit acknowledged before, and below all that are to come.

        `at_least`: nothing commits at or below it any more, and every later snapshot is not below it.

        The highest of the ranges' last commits; the others raise their floor to it before it is given out. The last
        range of each group must be found not full by then: the floor of any range to come is then above it, too.
        """
        last_commits: dict[int, status_pb.RaiseFloorResponse] = {}
        timestamp = at_least
        while True:
            numbers, last = self._state.ranges, self._state.last_ranges
            unasked = [number for number in numbers if number not in last_commits]
            last_commits.update(await self._raise_floors(unasked, NO_TIMESTAMP))
            # Read after the answers: a range that was dropped meanwhile has left its last commit there.
            known = [Timestamp(answer.last_commit_timestamp) for answer in last_commits.values()]
            timestamp = max(timestamp, self._state.floor, *known)
            behind = [
                number
                for number, answer in last_commits.items()
                if answer.last_commit_timestamp < timestamp and (number in last.values() or not answer.settled)
            ]
            last_commits.update(await self._raise_floors(behind, timestamp))
            if await self._are_last(last, last_commits):
                return timestamp

    async def _are_last(self, last: Mapping[str, int], answers: Mapping[int, status_pb.RaiseFloorResponse]) -> bool:
        """Whether the last range of each group was found not full. A full one is followed by another then."""
        over = [group for group, number in last.items() if number not in answers or answers[number].full]
        for group in over:
            if self._state.last_ranges[group] == last[group]:
                await self.add_range(last[group])
        return not over

    async def forgotten(self) -> IdSet:
        """Transactions that are finished and forgotten: nothing will ever be asked about them."""
        oldest = [numbers[0] for numbers in self._state.ranges_of.values()]
        answers = await self._raise_floors(oldest, NO_TIMESTAMP)
        state, span = self._state, self._state.range_span
        kept = {number: answer.oldest_kept_txn_id for number, answer in answers.items()}
        live = ((kept.get(number, number * span), (number + 1) * span) for number in state.ranges)
        return below_without(state.next_range * span, live)

    async def older_than(self, txn_id: TxnId) -> IdSet:
        """Transactions that began before one, as ids tell; of other groups, those that have begun by now.

        Raises NotFound, Forgotten as `_range_of`, also where its range goes meanwhile.
        """
        part = status_group(await self._range_of(txn_id))
        answers: dict[int, status_pb.RaiseFloorResponse] = {}
        while True:
            state = self._state
            if part not in state.parts:
                raise forgotten(txn_id)
            group = state.group_of(part)
            # While its own group's last range is not full, no group has joined that this process has not heard of.
            last = {each: number for each, number in state.last_ranges.items() if each != group or state.may_be_joined}
            # Also those before the last: a range is followed before it is full, and goes on until it is.
            others = [number for each, numbers in state.ranges_of.items() if each != group for number in numbers]
            answers.update(await self._raise_floors([*dict.fromkeys([*others, *last.values()])], NO_TIMESTAMP))
            if await self._are_last(last, answers):
                break
        span, own = state.range_span, state.ranges_of.get(group, ())
        younger = [(answers[number].next_txn_id, (number + 1) * span) for number in others if number in answers]
        younger += [(max(txn_id, number * span), (number + 1) * span) for number in own]
        return below_without(state.next_range * span, younger)

    async def begun(self) -> IdSet:
        """Transactions that have begun by now, and ids that none will ever have."""
        while True:
            state = self._state
            answers = await self._raise_floors(list(state.ranges), NO_TIMESTAMP)
            if await self._are_last(state.last_ranges, answers):
                break
        span = state.range_span
        younger = [(answer.next_txn_id, (number + 1) * span) for number, answer in answers.items()]
        return below_without(state.next_range * span, younger)

    async def _raise_floors(
        self, numbers: Sequence[int], timestamp: Timestamp
    ) -> dict[int, status_pb.RaiseFloorResponse]:
        """Without those that are dropped meanwhile."""

        async def raise_floor(number: int) -> status_pb.RaiseFloorResponse | None:
            request = status_pb.RaiseFloorRequest(timestamp=timestamp)
            try:
                return await self._ask(number, "txnstatus.TxnStatus/RaiseFloor", request, status_pb.RaiseFloorResponse)
            except NotFound:
                if self._state.range_was_dropped(number):
                    return None
                raise

        answers = await asyncio.gather(*map(raise_floor, numbers))
        return {number: answer for number, answer in zip(numbers, answers, strict=True) if answer is not None}

    # ---- ranges come and go

    async def add_range(self, after: int) -> None:
        """Adds the range that follows one in its group, unless there is one. Raises Unavailable."""
        await self._catalog.change(AddRange(after))

    async def move_on(self) -> None:
        """Has the first group begin another range: groups without ranges get theirs with it. Raises Unavailable."""
        number = self._state.last_ranges[FIRST_GROUP]
        request = status_pb.RaiseFloorRequest(fills=True)
        try:
            await self._ask(number, "txnstatus.TxnStatus/RaiseFloor", request, status_pb.RaiseFloorResponse)
        except NotFound:  # it is followed already, if it was dropped
            if not self._state.range_was_dropped(number):
                raise
        await self.add_range(number)

    async def drop_range(self, number: int, last_commit: Timestamp) -> None:
        """For a range whose transactions are all forgotten. Raises Unavailable."""
        await self._catalog.change(DropRange(number, last_commit))

    # ---- inside

    @property
    def _state(self) -> CatalogState:
        return self._client.cluster.state

    async def _range_of(self, txn_id: TxnId) -> int:
        """Raises NotFound for an id that nobody can have given out, Forgotten for one of a range that is gone."""
        if self._is_unheard_of(txn_id):
            await self._catalog.refresh()  # another manager may have added the range a moment ago
        return self._known_range_of(txn_id)

    def _is_unheard_of(self, txn_id: TxnId) -> bool:
        return self._state.range_of(txn_id) >= self._state.next_range

    def _known_range_of(self, txn_id: TxnId) -> int:
        """As this map has it. Raises NotFound, Forgotten."""
        number = self._state.range_of(checked_txn_id(txn_id))
        if number >= self._state.next_range:
            highest = self._state.next_range * self._state.range_span - 1
            message = f"transaction {txn_id} is unknown: no id above {highest} can have been given out"
            raise NotFound(message, txn_id=txn_id)
        if self._state.range_was_dropped(number):
            raise forgotten(txn_id)
        return number

    def _ask(self, number: int, method: str, request: Message, response: type[ResponseT]) -> Awaitable[ResponseT]:
        return self._client.call_leader(status_group(number), method, request, response, CALL_SECONDS)
