"""StatusRanges: the status table as a whole, over its range partitions. Used by managers and participants.

A transaction's range follows from its id. Those of a group fill up one after the other: nothing begins in one before
all before it are full, and a full one stays full. On this rest the calls that concern several ranges.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from txnstatus.catalog.catalog import FIRST_GROUP, shard_group, status_group
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import IllegalState, NotFound, PlacedElsewhere, TxnError, forgotten
from txnstatus.limits import MAX_LISTED, MAX_OUTCOMES, check_count
from txnstatus.process.background import Tasks
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.rpc.calls import Call, PassedOn, asked
from txnstatus.rpc.errors import to_detail
from txnstatus.status.all_ranges import AllRanges
from txnstatus.status.begins import CALL_SECONDS, NOBODY, Begins, Participants
from txnstatus.status.registrations import Registrations
from txnstatus.tracing import spans
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId

ResponseT = TypeVar("ResponseT", bound=Message)

REGISTER_SECONDS = 2.5
"""Less than a manager waits for whoever registers: so that the manager's caller hears why it fails."""


class StatusRanges(AllRanges):
    def __init__(self, client: TxnSystemClient) -> None:
        super().__init__(client)
        self._tasks = Tasks("finding the range of a transaction failed")
        self._begins = Begins(client, self.add_range, self._tasks.spawn)
        self._registrations = Registrations(self._register)

    async def call(self, txn_id: int, method: str, request: Message, response: type[ResponseT]) -> ResponseT:
        """As `pass_on`, for one call that a task waits for: the request names the transaction.

        Raises what the call would hear.
        """
        answer: ResponseT = await asked(
            request,
            CALL_SECONDS,
            lambda calls: self.pass_on(
                method, [OfTransaction(call, request, self, txn_id) for call in calls], response
            ),
        )
        return answer

    def pass_on(self, method: str, calls: Sequence[OfTransaction], response: type[Message]) -> None:
        """Asks the leaders of the transactions' ranges a method of TxnManager's; those of one range together.

        Each call hears NotFound, Forgotten, Unavailable, or what it is answered.
        """
        by_range: defaultdict[int, list[OfTransaction]] = defaultdict(list)
        for call in calls:
            if self._is_unheard_of(call.txn_id):
                self._tasks.spawn(self._pass_on_unheard_of(method, call, response))
                continue
            try:
                by_range[self._known_range_of(call.txn_id)].append(call)
            except TxnError as error:
                call.tell(error)
        for number, asking in by_range.items():
            method_there = f"txnstatus.TxnManager/{method}"
            self._client.ask_leader(status_group(number), method_there, asking, response, CALL_SECONDS)

    async def _pass_on_unheard_of(self, method: str, call: OfTransaction, response: type[Message]) -> None:
        """Another manager may have added the range a moment ago."""
        try:
            await self._catalog.refresh()
            self._known_range_of(call.txn_id)
        except TxnError as error:
            call.tell(error)
        else:
            self.pass_on(method, [call], response)

    def range_was_dropped(self, txn_id: TxnId) -> bool:
        return txn_id >= 0 and self._state.range_was_dropped(self._state.range_of(txn_id))

    def register(self, txn_id: TxnId, owner: str, participant_id: str, name: str) -> asyncio.Future[TxnError | None]:
        """Makes somebody a participant, now or before: on its way when this returns.

        Gives the refusal: NotFound, Forgotten, Unavailable, or what the status table answers.
        """
        participant = common.ParticipantInfo(participant_id=participant_id, name=name)
        registration = status_pb.Registration(txn_id=txn_id, owner=owner, participant=participant)
        if spans.tracer is not None:
            registration.trace = spans.below(spans.current())
        number = self._known_range_of_all([txn_id])
        if number is None:
            return asyncio.ensure_future(self._register_unheard_of(registration))
        return self._registrations.register(number, registration)

    async def _register_unheard_of(self, registration: status_pb.Registration) -> TxnError | None:
        try:
            number = await self._range_of(TxnId(registration.txn_id))
        except TxnError as error:
            return error
        return await self._registrations.register(number, registration)

    async def _register(
        self, number: int, registrations: Sequence[status_pb.Registration]
    ) -> Sequence[status_pb.RegistrationResult]:
        request = status_pb.RegisterParticipantsRequest(registrations=registrations)
        method = "txnstatus.TxnStatus/RegisterParticipants"
        try:
            group = status_group(number)
            answer = await self._client.call_leader(
                group, method, request, status_pb.RegisterParticipantsResponse, REGISTER_SECONDS
            )
        except NotFound:
            if not self._state.range_was_dropped(number):
                raise
            gone = (to_detail(forgotten(TxnId(each.txn_id))) for each in registrations)
            return [status_pb.RegistrationResult(error=error) for error in gone]
        return answer.results

    def begin(self, calls: Sequence[Call], group: str = FIRST_GROUP, participants: Participants = NOBODY) -> None:
        """Begins in a group's first range that is not full, with the participants of each call; adds one where all are.

        A retried request may have begun in a range that has filled up since: a full range answers what it began. In
        another group it is looked for, too.
        """
        self._begins.begin(calls, participants, group)

    async def outcomes(self, txn_ids: Iterable[TxnId], at: Timestamp) -> dict[TxnId, Timestamp]:
        """The commit timestamps, at or below the snapshot `at`; NO_TIMESTAMP for those that have none, for ever."""
        merged: dict[TxnId, Timestamp] = {}
        by_range: defaultdict[int, list[TxnId]] = defaultdict(list)
        for txn_id in txn_ids:
            try:
                by_range[await self._range_of(txn_id)].append(txn_id)
            except NotFound:
                # Forgotten; or prepared by a message from nowhere: such an id was never given out. It must not stop
                # the readers.
                merged[txn_id] = NO_TIMESTAMP

        async def ask(number: int, ids: Sequence[TxnId]) -> dict[TxnId, Timestamp]:
            request = status_pb.GetOutcomesRequest(txn_ids=ids, timestamp=at)
            method = "txnstatus.TxnStatus/GetOutcomes"
            try:
                answer = await self._ask(number, method, request, status_pb.GetOutcomesResponse)
            except NotFound:
                if not self._state.range_was_dropped(number):
                    raise
                # Whoever took part in a commit had finished it before it was forgotten.
                return dict.fromkeys(ids, NO_TIMESTAMP)
            return dict(zip(ids, map(Timestamp, answer.commit_timestamps), strict=True))

        asked = [
            ask(number, ids[start : start + MAX_OUTCOMES])
            for number, ids in by_range.items()
            for start in range(0, len(ids), MAX_OUTCOMES)
        ]
        for part in await asyncio.gather(*asked):
            merged |= part
        return merged

    async def check_participant(self, participant_id: str) -> None:
        """Raises InvalidArgument or NotFound for what is no participant of this cluster, Unavailable."""
        cluster = self._client.cluster
        if not cluster.has_participant(participant_id):
            await self._catalog.refresh()  # its host may have registered it a moment ago, or its group was added
            cluster.check_participant_id(participant_id)

    def check_shard(self, name: str, shard: int) -> None:
        """Raises InvalidArgument where another shard has the database of this name."""
        self._client.cluster.check_shard(name, shard)

    async def check_keeper(self, name: str, shard: int) -> None:
        """Raises InvalidArgument unless the shard keeps the table of this name, by its hash or by its placement."""
        cluster = self._client.cluster
        if (by_hash := cluster.shard_by_hash(name)) == shard:
            return
        keeper = await self._placed_by(by_hash, name)
        while keeper is not None and keeper != shard:
            keeper = await self._placed_by(keeper, name)
        if keeper is None:
            cluster.check_shard(name, shard)

    async def _placed_by(self, shard: int, name: str) -> int | None:
        """The shard that keeps the table by the word of one that is to know; None: that one itself, or none does."""
        if shard not in self._state.shards:
            await self._catalog.refresh()
        request, method = table_pb.GetTableRequest(name=name), "txnstatus.Table/GetTable"
        try:
            await self._client.call_leader(shard_group(shard), method, request, table_pb.GetTableResponse, CALL_SECONDS)
        except PlacedElsewhere as placed:
            return placed.shard
        except NotFound:
            pass
        return None

    def is_by_hash(self, name: str, shard: int) -> bool:
        """Whether the shard has the table of this name unless it has placed it elsewhere."""
        return self._client.cluster.shard_by_hash(name) == shard

    def group_of_shard(self, shard: int) -> str:
        return self._state.group_of(shard_group(shard))

    async def placement(self, name: str, shard: int, wanted: str) -> int:
        """The shard that is to keep a new table which this one keeps by its hash.

        `wanted`: the group; empty: its database's, or the shard's own. Raises InvalidArgument where there is none,
        Unavailable.
        """
        group = wanted or self._state.placements.get(name.partition(".")[0], "")
        if not group or group == self.group_of_shard(shard):
            return self._client.cluster.shard_beside(shard, name, group)
        if group not in self._state.shards_of:
            await self._catalog.refresh()  # it was added a moment ago
        return self._client.cluster.shard_in(group, name)

    async def check_reserved(self, number: str) -> None:
        """Raises IllegalState where a place is not reserved by that any more, Unavailable."""
        state = await self._catalog.refresh()
        if all(each.number != number for each in state.reserved):
            raise IllegalState(
                "the table is not made: that took so long that nobody keeps the place for it any more",
                hint="ask again",
            )

    async def keep_alive(self, request: pb.KeepTransactionAliveRequest) -> pb.KeepTransactionAliveResponse:
        """Answers who is refused; a range that cannot answer refuses only its own."""
        number = self._known_range_of_all(request.txn_ids)
        if number is not None:  # nearly always; a million beat, so nothing is done for each of them here
            return await self._keep_alive_in(number, request)
        response = pb.KeepTransactionAliveResponse()

        async def ask(number: int, txn_ids: Sequence[TxnId]) -> None:
            part = pb.KeepTransactionAliveRequest(txn_ids=txn_ids, owner=request.owner)
            response.MergeFrom(await self._keep_alive_in(number, part))

        async def ask_known(txn_ids: Iterable[TxnId]) -> None:
            by_range: defaultdict[int, list[TxnId]] = defaultdict(list)
            for txn_id in txn_ids:
                try:
                    by_range[self._known_range_of(txn_id)].append(txn_id)
                except NotFound as error:
                    response.refused.append(_refused(txn_id, error))
            await asyncio.gather(*(ask(number, ids) for number, ids in by_range.items()))

        async def ask_unheard_of(txn_ids: Sequence[TxnId]) -> None:
            """One look at the catalog for all of them; those of known ranges do not wait for it."""
            try:
                await self._catalog.refresh()
            except TxnError as error:
                response.refused.extend(_refused(txn_id, error) for txn_id in txn_ids)
            else:
                await ask_known(txn_ids)

        known: list[TxnId] = []
        unheard_of: list[TxnId] = []
        for txn_id in dict.fromkeys(map(TxnId, request.txn_ids)):
            (unheard_of if self._is_unheard_of(txn_id) else known).append(txn_id)
        await asyncio.gather(ask_known(known), *([ask_unheard_of(unheard_of)] if unheard_of else []))
        return response

    async def _keep_alive_in(
        self, number: int, request: pb.KeepTransactionAliveRequest
    ) -> pb.KeepTransactionAliveResponse:
        """Keeps ids of one range alive."""
        method = "txnstatus.TxnManager/KeepTransactionAlive"
        try:
            return await self._ask(number, method, request, pb.KeepTransactionAliveResponse)
        except TxnError as error:
            dropped = self._state.range_was_dropped(number)
            txn_ids = map(TxnId, dict.fromkeys(request.txn_ids))
            return pb.KeepTransactionAliveResponse(
                refused=[_refused(txn_id, forgotten(txn_id) if dropped else error) for txn_id in txn_ids]
            )

    async def listed(self, request: status_pb.ListTransactionsRequest) -> status_pb.ListTransactionsResponse:
        """The newest first, MAX_LISTED at most; `more` says whether to ask again, with what `next` says.

        Whatever had begun by then is in it. Raises Unavailable, also where the catalog has no leader.

        Ids of two groups do not tell which transaction began first, so their lists are merged by the times of begins.
        """
        check_count(len(request.below), "groups of which ids are listed below one", MAX_LISTED)
        if not request.below and (not request.txn_ids or any(map(self._is_unheard_of, map(TxnId, request.txn_ids)))):
            await self._catalog.refresh()  # the newest are in the newest range, of which this node may not have heard
        limit = min(request.limit or MAX_LISTED, MAX_LISTED)
        below, groups = {each.group: each.txn_id for each in request.below}, list(self._state.ranges_of)
        pages = await asyncio.gather(*(self._listed_in(group, limit, request, below.get(group)) for group in groups))
        lists = [[(group, txn) for txn in page.txns] for group, page in zip(groups, pages, strict=True)]
        merged = list(heapq.merge(*lists, key=lambda each: -each[1].begin_micros))
        more = len(merged) > limit or any(page.more for page in pages)
        taken = merged[:limit]
        below |= {group: txn.txn_id for group, txn in taken}
        response = status_pb.ListTransactionsResponse(txns=(txn for _, txn in taken), more=more)
        for group in groups if more else ():
            if group in below:
                response.next.add(group=group, txn_id=below[group])
        return response

    async def _listed_in(
        self, group: str, limit: int, wanted: status_pb.ListTransactionsRequest, below: int | None
    ) -> status_pb.ListTransactionsResponse:
        """A group's own, the highest ids first. `below`: only ids below it; None: all."""
        response = status_pb.ListTransactionsResponse()
        if below == 0:  # which as a field of the request means all
            return response
        request = status_pb.ListTransactionsRequest()
        request.CopyFrom(wanted)
        request.ClearField("below")
        request.below_txn_id = min(filter(None, (wanted.below_txn_id, below)), default=0)
        for number in reversed(self._state.ranges_of.get(group, ())):
            if request.below_txn_id and number * self._state.range_span >= request.below_txn_id:
                continue
            request.limit = limit - len(response.txns)
            if not request.limit:
                response.more = True
                break
            method = "txnstatus.Admin/ListTransactions"
            try:
                answer = await self._ask(number, method, request, status_pb.ListTransactionsResponse)
            except NotFound:
                if self._state.range_was_dropped(number):
                    continue
                raise
            response.txns.extend(answer.txns)
            response.more = answer.more
            if response.more:
                break
        return response

    # ---- inside

    def _known_range_of_all(self, txn_ids: Sequence[int]) -> int | None:
        """None: they are of several, or of one that this map does not have."""
        if not txn_ids:
            return None
        ids = list(txn_ids)  # which is gone through in a fraction of a message's time
        first, last = TxnId(min(ids)), TxnId(max(ids))
        number = self._state.range_of(first)
        is_known = first >= 0 and number < self._state.next_range and not self._state.range_was_dropped(number)
        return number if is_known and self._state.range_of(last) == number else None


def _refused(txn_id: TxnId, error: TxnError) -> pb.KeepAliveRefusal:
    return pb.KeepAliveRefusal(txn_id=txn_id, error=to_detail(error))


class OfTransaction(PassedOn):
    """A call that the leader of a transaction's range is to answer."""

    __slots__ = ("_ranges", "txn_id")

    def __init__(self, origin: Call, request: Message, ranges: StatusRanges, txn_id: int) -> None:
        super().__init__(origin, request)
        self.txn_id = TxnId(txn_id)
        self._ranges = ranges

    def _hear(self, answer: Any) -> None:
        if isinstance(answer, NotFound) and self._ranges.range_was_dropped(self.txn_id):
            answer = forgotten(self.txn_id)
        super()._hear(answer)
