"""Running: work of a program that is done again where it lost, and may have taken back what was first."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable

from txnclient.calls.channel import RETRIES
from txnclient.client.undoing import Undoing
from txnclient.outcome import CommitReceipt
from txnclient.transaction.beginning import begin
from txnclient.transaction.transaction import Transaction
from txnstatus.errors import Conflict, IllegalState, InvalidArgument, SnapshotTooOld, Unavailable
from txnstatus.lake.timeline import Past
from txnstatus.types import TERMINAL, TxnId, TxnState

log = logging.getLogger(__name__)

Rule = Callable[[Past, Past], bool]
"""Whether a transaction that has lost, the first argument, prevails over the one that was first, the second."""
MAX_ATTEMPTS = 1_000


class Running(Undoing):
    """What a `Client` does again, because the program asks for it."""

    def run(
        self,
        work: Callable[[Transaction], object],
        label: str = "",
        *,
        attempts: int = 3,
        compensating: Rule | None = None,
    ) -> CommitReceipt:
        """Does work in a transaction, and again in another one where somebody else was first: `attempts` times at most.

        `work`: what is done in it, from the beginning: each time it is given a transaction with a new snapshot.

        `compensating`: the conflict strategy of this name, a rule that is asked about both. Where it says that the
        loser prevails, the winner is undone, as by `undo`, in all its tables, before the work is done again: on the
        latest snapshot, which is without the winner's effects. The winner stays committed, as its program was told: who
        reads in between sees what it did. The rule has to say the same whoever asks: else two may undo each other.

        Raises Conflict after the last attempt, or where the winner cannot be undone, which says why; InvalidArgument;
        what `work` and the rule raise.
        """
        if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= MAX_ATTEMPTS:
            raise InvalidArgument(f"attempts = {attempts!r:.100}: 1 to {MAX_ATTEMPTS} are possible")
        while True:
            attempts -= 1
            (txn,), _ = begin(self.session, 1, label, 0, uuid.uuid4().hex)
            try:
                with txn:
                    work(txn)
            except Conflict as error:
                if not attempts or error.txn_id not in (None, txn.id):
                    raise
                if compensating is not None and error.winner is not None:
                    self._compensate(txn.id, error, error.winner, compensating)
            else:
                assert txn.receipt is not None
                return txn.receipt

    def _compensate(self, loser: TxnId, error: Conflict, winner: TxnId, rule: Rule) -> None:
        """Undoes the winner, if it has committed, and the loser prevails. Raises Conflict where that cannot be."""
        # What the loser has prepared would be in the way of the undo; what the winner has may yet be aborted.
        lost, first = self._over(loser), self._over(winner)
        if not first.commit_timestamp or not rule(lost, first):
            return
        try:
            undo = self.undo(winner, label=f"compensation for {loser} {lost.label}"[:100])
        except (Conflict, IllegalState, SnapshotTooOld) as refused:
            raise Conflict(
                f"{error.message}; and it cannot be compensated: {refused.message}",
                txn_id=loser,
                hint="run the transaction again, on what the other one has left",
                cause=error.cause,
            ) from refused
        names = winner, first.label, undo.txn_id, loser, lost.label
        log.warning("transaction %s %r is undone by %s: transaction %s %r prevails", *names, extra={"txn_id": winner})

    def _over(self, txn_id: TxnId) -> Past:
        """The transaction, once all of its participants know its end. Raises Unavailable."""
        deadline, asked = time.monotonic() + self.session.timeout, 0
        while True:
            found = self.past(txn_id)
            if TxnState[found.state] in TERMINAL:
                return found
            asked += 1
            if time.monotonic() > deadline:
                raise Unavailable(f"transaction {txn_id} is {found.state} for {self.session.timeout:g} s")
            self.session.channel.pause(RETRIES.pause(asked, 1.0))
