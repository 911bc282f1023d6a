"""Outcomes: who waits on a status leader for how a transaction is decided.

What they are given is the record as it was then: with a short retention the table may have forgotten it since.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator

from txnstatus.errors import TxnError
from txnstatus.limits import MAX_WAIT_SECONDS
from txnstatus.rpc.deadlines import Deadlines, time_left
from txnstatus.status.records import TxnRecord
from txnstatus.types import TxnId

_Answer = asyncio.Future[TxnRecord | None]
"""None: the time is over."""


class Outcome:
    """The outcome of one transaction, for one who waits: heard also by one that begins to wait later."""

    def __init__(self, waits: Deadlines[_Answer]) -> None:
        self._waits = waits
        self.answer: _Answer = asyncio.get_running_loop().create_future()

    async def wait(self, seconds: float) -> TxnRecord | None:
        """None: it is not decided by then, or after MAX_WAIT_SECONDS. Raises what `fail` is given."""
        self._waits.add(self.answer, time_left(min(seconds, MAX_WAIT_SECONDS)))
        try:
            return await self.answer
        finally:
            self._waits.remove(self.answer)


class Outcomes:
    def __init__(self) -> None:
        self._waiting: defaultdict[TxnId, list[_Answer]] = defaultdict(list)
        self._waits: Deadlines[_Answer] = Deadlines(_tell)

    @contextlib.contextmanager
    def of(self, txn_id: TxnId) -> Iterator[Outcome]:
        """Hears of what is decided from now on, until the block ends."""
        outcome = Outcome(self._waits)
        self._waiting[txn_id].append(outcome.answer)
        try:
            yield outcome
        finally:
            outcome.answer.cancel()
            waiting = self._waiting.get(txn_id, [])
            if outcome.answer in waiting:
                waiting.remove(outcome.answer)
                if not waiting:
                    del self._waiting[txn_id]

    def tell(self, record: TxnRecord) -> None:
        for answer in self._waiting.pop(record.txn_id, ()):
            _tell(answer, record)

    def fail(self, error: Callable[[], TxnError]) -> None:
        """For a replica that does not lead any more."""
        failed, self._waiting = self._waiting, defaultdict(list)
        for answers in failed.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error())
                    answer.exception()  # seen, should nobody wait for it yet


def _tell(answer: _Answer, record: TxnRecord | None = None) -> None:
    if not answer.done():
        answer.set_result(record)
