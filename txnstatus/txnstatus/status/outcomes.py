"""Outcomes: who waits on a status leader for how a transaction is decided.

What they are given is the record as it was then: with a short retention the table may have forgotten it since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from txnstatus.errors import TxnError
from txnstatus.limits import MAX_WAIT_SECONDS
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.status.records import TxnRecord
from txnstatus.types import TxnId

Told = TxnRecord | TxnError | None
"""How a transaction was decided, why that is not known here, or None: the time is over."""


class Outcome:
    """The outcome of one transaction, for one who waits: heard also by one that begins to wait later."""

    __slots__ = ("_heard", "_outcomes", "_told", "txn_id")

    def __init__(self, txn_id: TxnId, outcomes: Outcomes) -> None:
        self.txn_id = txn_id
        self._outcomes = outcomes
        self._told: Told = None
        self._heard: Callable[[Told], None] | None = None

    def wait(self, seconds: float, heard: Callable[[Told], None]) -> None:
        """`heard` hears of it once, after that time or MAX_WAIT_SECONDS at the latest, unless it is closed before."""
        if self._told is not None:
            heard(self._told)
        else:
            self._heard = heard
            self._outcomes.waits.add(self, min(seconds, MAX_WAIT_SECONDS))

    def tell(self, told: Told = None) -> None:
        self._told = told
        if self._heard is not None:
            heard = self._heard
            self.close()
            heard(told)

    def close(self) -> None:
        """Nobody waits for it."""
        self._heard = None
        self._outcomes.forget(self)


class Outcomes:
    def __init__(self) -> None:
        self._waiting: defaultdict[TxnId, dict[Outcome, None]] = defaultdict(dict)
        self.waits: Deadlines[Outcome] = Deadlines(Outcome.tell)

    def of(self, txn_id: TxnId) -> Outcome:
        """Hears of what is decided from now on, until it is closed."""
        outcome = Outcome(txn_id, self)
        self._waiting[txn_id][outcome] = None
        return outcome

    def tell(self, record: TxnRecord) -> None:
        for outcome in self._waiting.pop(record.txn_id, ()):
            outcome.tell(record)

    def fail(self, error: Callable[[], TxnError]) -> None:
        """For a replica that does not lead any more."""
        failed, self._waiting = self._waiting, defaultdict(dict)
        for outcomes in failed.values():
            for outcome in outcomes:
                outcome.tell(error())

    def forget(self, outcome: Outcome) -> None:
        self.waits.remove(outcome)
        waiting = self._waiting.get(outcome.txn_id)
        if waiting is not None:
            waiting.pop(outcome, None)
            if not waiting:
                del self._waiting[outcome.txn_id]
