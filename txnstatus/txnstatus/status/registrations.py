"""Registrations: participants make themselves known to the status table.

All that one loop turn of a process has for one range is one call. Under load many transactions begin to write in one
turn: what one call brings back sets many programs going.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from txnstatus.errors import TxnError, Unavailable
from txnstatus.limits import MAX_OPS_PER_CALL
from txnstatus.process.background import Tasks
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.rpc.errors import from_detail
from txnstatus.status import commands as cmd
from txnstatus.status.records import participant_from_wire
from txnstatus.types import TxnId

Results = Sequence[pb.RegistrationResult]
_Waiting = tuple[pb.Registration, asyncio.Future[TxnError | None]]


class Registrations:
    def __init__(self, ask: Callable[[int, Sequence[pb.Registration]], Awaitable[Results]]) -> None:
        """`ask` asks the leader of a range, by its number; the results are in the order of what was asked."""
        self._ask = ask
        self._outbox: defaultdict[int, list[_Waiting]] = defaultdict(list)
        self._calls = Tasks("registering participants failed")

    def register(self, number: int, registration: pb.Registration) -> asyncio.Future[TxnError | None]:
        """On its way when this returns; gives the status table's refusal, or why it was not asked."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[TxnError | None] = loop.create_future()
        if not self._outbox[number]:
            loop.call_soon(self._flush, number)
        self._outbox[number].append((registration, answer))
        return answer

    def _flush(self, number: int) -> None:
        waiting = self._outbox.pop(number)
        for start in range(0, len(waiting), MAX_OPS_PER_CALL):
            part = waiting[start : start + MAX_OPS_PER_CALL]
            self._calls.spawn(self._call(number, part))

    async def _call(self, number: int, waiting: Sequence[_Waiting]) -> None:
        refusals: Sequence[TxnError | None]
        try:
            failpoint("shard.before_register", Unavailable)
            results = await self._ask(number, [registration for registration, _ in waiting])
            failpoint("shard.after_register", Unavailable)
            refusals = [from_detail(result.error) if result.HasField("error") else None for result in results]
        except TxnError as error:
            refusals = [error] * len(waiting)
        for (_, answer), refusal in zip(waiting, refusals, strict=True):
            if not answer.done():
                answer.set_result(refusal)


def joining_by(registrations: Iterable[pb.Registration]) -> cmd.RegisterParticipants:
    """The command for registrations of one transaction, for one owner."""
    asked = list(registrations)
    participants = tuple(participant_from_wire(each.participant) for each in asked)
    return cmd.RegisterParticipants(TxnId(asked[0].txn_id), asked[0].owner, participants)
