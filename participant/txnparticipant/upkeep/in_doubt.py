"""InDoubt: a participant asks the status table itself about prepared work whose outcome nobody tells it.

A status leader repeats what it asks until it is answered, so this is seldom needed: for work that was prepared when the
transaction was over already, or that the transaction does not know of; and for a commit that was lost with the leader
that had begun it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from itertools import islice
from typing import Generic, TypeVar

from txnstatus.errors import Forgotten, TxnError
from txnstatus.foreign import Verdict, verdict
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import ParticipantId, Timestamp, TxnId, TxnState

log = logging.getLogger(__name__)

IN_DOUBT_SECONDS = 3.0
"""Time prepared after which the status table is asked. Until then, the outcome is probably on its way."""
MAX_ASKED = 100
"""Transactions that are asked about at once; the others come in the next passes."""

Prepared = tuple[ParticipantId, TxnId]
KeyT = TypeVar("KeyT", bound=Hashable)


class Overdue(Generic[KeyT]):
    """What has been so for long, a part at a time."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._since: dict[KeyT, float] = {}
        """When each was taken last; at first, when it was first seen."""

    def forget(self) -> None:
        self._since.clear()

    def take(self, seen: Iterable[KeyT], now: float) -> list[KeyT]:
        """What of the things seen now is due again; `now` is of a monotonic clock, in seconds."""
        self._since = {each: self._since.get(each, now) for each in seen}
        due = (each for each, since in self._since.items() if now - since >= self._seconds)
        taken = list(islice(due, self._most))
        self._since |= dict.fromkeys(taken, now)
        return taken


class InDoubt:
    def __init__(
        self,
        ranges: StatusRanges,
        publish: Callable[[ParticipantId, TxnId, Timestamp], Awaitable[object]],
        discard: Callable[[ParticipantId, TxnId], Awaitable[object]],
        seconds: float = IN_DOUBT_SECONDS,
        *,
        on_request: bool,
    ) -> None:
        """What they raise is logged, and tried again.

        `on_request`: nobody prepares here but by BEGIN_COMMIT, which is sent once the owner has asked for the commit.
        """
        self._ranges = ranges
        self._on_request = on_request
        self._publish = publish
        self._discard = discard
        self._overdue: Overdue[Prepared] = Overdue(seconds, MAX_ASKED)

    def forget(self) -> None:
        """For a new leadership."""
        self._overdue.forget()

    async def resolve(self, prepared: Collection[Prepared], now: float) -> None:
        """One pass over all that is prepared; `now` is of a monotonic clock, in seconds."""
        await asyncio.gather(*(self._resolve(*each) for each in self._overdue.take(prepared, now)))

    async def _resolve(self, participant_id: ParticipantId, txn_id: TxnId) -> None:
        try:
            said = await self._end(participant_id, txn_id)
        except TxnError as error:
            log.warning(
                "%s: transaction %s stays in doubt for now: %s",
                participant_id,
                txn_id,
                error.message,
                extra={"txn_id": txn_id},
            )
        else:
            log.info("%s: transaction %s was in doubt: %s", participant_id, txn_id, said, extra={"txn_id": txn_id})

    async def _end(self, participant_id: ParticipantId, txn_id: TxnId) -> Verdict:
        txn = await self._look(txn_id)
        if txn is None:
            # Every participant has acknowledged its end. So this was prepared too late, or is no part of it.
            await self._discard(participant_id, txn_id)
            return Verdict.DISCARD
        state = TxnState(txn.state)
        takes_part = any(participant.participant_id == participant_id for participant in txn.participants)
        said = verdict(state, takes_part=takes_part)
        if said is Verdict.PUBLISH:
            await self._publish(participant_id, txn_id, Timestamp(txn.commit_timestamp))
        elif said is Verdict.DISCARD:
            await self._discard(participant_id, txn_id)
        elif state is TxnState.OPEN and takes_part and self._on_request:
            # The leader that the owner had asked was lost before COMMIT_IN_PROGRESS was durable. What is prepared takes
            # no more writes, and a prepare is never taken back: the commit that was asked for goes on.
            request = pb.CommitTransactionRequest(txn_id=txn_id, owner=txn.owner)
            await self._ranges.call(txn_id, "CommitTransaction", request, pb.CommitTransactionResponse)
        return said

    async def _look(self, txn_id: TxnId) -> common.TxnInfo | None:
        """None: it is forgotten. Raises NotFound for one that was never given out: whoever lost the status table must
        say what to do.
        """
        request = pb.GetTransactionStateRequest(txn_id=txn_id)
        try:
            answer = await self._ranges.call(txn_id, "GetTransactionState", request, pb.GetTransactionStateResponse)
        except Forgotten:
            return None
        return answer.txn
