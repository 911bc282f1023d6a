"""What another system must do to take part in transactions. Implement `Participant`, and let `ForeignHost` serve it.

How a transaction goes:

1. The program enlists the participant in its transaction, and only then begins to work in the system.
2. Before it asks for the commit, it has the system prepare its work: durable, able to be published and able to be
   discarded, also after a crash of the program or the system. This is the program's, not the host's: only the program's
   session knows the work. (`txn.enlist` of the client library, see there.)
3. The status leader asks every participant whether it is prepared: `prepare`. One that refuses aborts the transaction.
4. Once all have agreed and the decision is durable, `publish`; or `discard`, at any time before the decision.

The rules:

- **All calls may come twice**, from two status leaders and from the host itself, after a restart, and late. What was
  done is done: the call returns.
- **`prepare` promises.** After it has returned, `publish` must be possible until `discard` or `publish` has happened,
  whatever crashes. If that cannot be promised, it raises: the transaction aborts, and nothing is lost.
- **`publish` never pretends.** It returns only if the work is published, now or before. If the system holds nothing of
  the transaction and cannot prove that it was published, it raises: half a transaction must not pass for a whole one.
- **`discard` of nothing is done.** Whatever was never prepared is discarded.
- **A program may be late.** Its work may be prepared after `discard` was called: `prepared` lists it, and the host asks
  the status table and calls `discard` again. So nothing stays locked for long.

The status table never orders one transaction published and discarded; a call that contradicts what was done before is
a fault, and raises IllegalState.

Errors are those of `txnstatus.errors`. One that is retriable (Unavailable) is no answer, and the call is repeated. Any
other from `prepare` is a refusal; from `publish` and `discard` it is logged, and the call is repeated until somebody
has mended its cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from txnstatus.types import Timestamp, TxnId


class Participant(Protocol):
    """Blocking calls, from several threads, but never two at a time for one transaction from one host."""

    def prepare(self, txn_id: TxnId) -> None:
        """Returns if the work is prepared. Raises a TxnError to refuse."""

    def publish(self, txn_id: TxnId, commit_ts: Timestamp) -> None:
        """Makes the work visible; `commit_ts` is the transaction's timestamp everywhere."""

    def discard(self, txn_id: TxnId) -> None:
        """Undoes the work."""

    def prepared(self) -> Iterable[TxnId]:
        """What is prepared, and neither published nor discarded."""

    def forget(self, first: TxnId, below: TxnId) -> None:
        """All transactions with ids from `first` on, below `below`, are over everywhere: nobody will ask about them, so
        no proof is needed."""
