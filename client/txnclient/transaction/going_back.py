"""Savepoints of a transaction, set and gone back to through one handle."""

from __future__ import annotations

import uuid

from txnclient.calls.requests import build
from txnclient.handle import Handle, Savepoint
from txnstatus.errors import IllegalState, LimitReached, NotFound, TxnError
from txnstatus.foreign import foreign_name
from txnstatus.limits import MAX_TXN_SAVEPOINTS, MAX_VOID
from txnstatus.proto import txn_savepoint_pb2 as pb
from txnstatus.savepoints import check_name


class GoingBack:
    """A transaction that can go back to places in itself.

    Each participant keeps what the transaction had written there. Who takes part is asked for here, once, and sent
    along: a request that comes late must not reach a table that was not there yet.
    """

    handle: Handle

    def savepoint(self, name: str) -> None:
        """Marks this place in the transaction: `rollback_to(name)` takes back what is written from here on.

        A name may come again: the last one of that name counts. The savepoints are this handle's own. While there is
        one, a write that fails does not abort the transaction: it leaves one that can go back to a savepoint, or be
        aborted. Nothing else may write in the transaction while this call and `rollback_to` run, through other handles
        neither. Raises LimitReached for more than 100, IllegalState with work in foreign participants, and after a
        write that failed.
        """
        handle = self.handle
        handle.require_open("it has no savepoints any more")
        check_name(name)
        if len(handle.savepoints) >= MAX_TXN_SAVEPOINTS:
            raise LimitReached(
                f"transaction {handle.id} has {MAX_TXN_SAVEPOINTS} savepoints: more are not possible",
                txn_id=handle.id,
                hint="release those to which nobody goes back",
            )
        made = Savepoint(name, uuid.uuid4().hex, tuple(self._participants()))
        if made.held_by:
            request = build(
                pb.SetSavepointRequest,
                txn_id=handle.id,
                owner=handle.owner,
                savepoint_id=made.savepoint_id,
                table_ids=made.held_by,
                released=handle.released,
            )
            handle.released = [*handle.released, made.savepoint_id][-MAX_TXN_SAVEPOINTS:]
            handle.ask("txnstatus.TxnSavepoints/SetSavepoint", request, pb.SetSavepointResponse)
            handle.released = []
        handle.savepoints.append(made)

    def rollback_to(self, name: str) -> None:
        """Makes the transaction what it was at the savepoint, which stays; those that were set after it are gone.

        What was written since is never visible, and its files are cleaned. Locks stay held, the snapshot that is read
        stays the same, and a write that had failed since is forgotten. Raises NotFound for a name that is no savepoint;
        IllegalState once a commit was asked for, and where a write that failed may still come to a table that takes no
        part yet. Raises Unavailable where it is not known what has become of it: call it again, or abort.
        """
        handle = self.handle
        handle.liveness.require()
        if handle.is_committing:
            raise IllegalState(f"transaction {handle.id} is being committed: it cannot go back", txn_id=handle.id)
        at = self._place(name)
        there = self._participants()
        self._require_known(there)
        found, rollback_id = handle.savepoints[at], uuid.uuid4().hex
        request = build(
            pb.RollbackToRequest,
            txn_id=handle.id,
            owner=handle.owner,
            savepoint_id=found.savepoint_id,
            rollback_id=rollback_id,
            table_ids=there,
            held_by=found.held_by,
            void=[*handle.unanswered, *handle.failed_rollbacks][-MAX_VOID:],
        )
        try:
            if there:
                handle.ask("txnstatus.TxnSavepoints/RollbackTo", request, pb.RollbackToResponse)
        except BaseException as error:  # an interruption as well: some tables may have gone back, and others not
            handle.failed_rollbacks.append(rollback_id)
            said = error.message if isinstance(error, TxnError) else type(error).__name__
            handle.failure = handle.failure or f"the rollback to savepoint {name!r} failed: {said}"[:500]
            raise
        del handle.savepoints[at + 1 :]
        handle.unanswered.clear()
        handle.failed_rollbacks.clear()
        handle.failure = ""

    def release(self, name: str) -> None:
        """Forgets the savepoint, and those that were set after it: what was written stays. Raises NotFound."""
        handle = self.handle
        handle.require_open("it has no savepoints any more")
        at = self._place(name)
        gone = [each.savepoint_id for each in handle.savepoints[at:] if each.held_by]
        handle.released = [*handle.released, *gone][-MAX_TXN_SAVEPOINTS:]
        del handle.savepoints[at:]

    def _place(self, name: str) -> int:
        """The place of the last savepoint of this name. Raises NotFound."""
        handle = self.handle
        for at in reversed(range(len(handle.savepoints))):
            if handle.savepoints[at].name == name:
                return at
        known = ", ".join(dict.fromkeys(each.name for each in handle.savepoints)) or "none"
        raise NotFound(
            f"transaction {handle.id} has no savepoint {name!r:.200}",
            txn_id=handle.id,
            hint=f"there are: {known}",
        )

    def _participants(self) -> dict[str, str]:
        """Names of the tables and databases that take part, by their ids. Raises IllegalState for foreign ones."""
        handle = self.handle
        found = {each.participant_id: each.name for each in handle.session.record(handle.id).participants}
        foreign = [name for participant_id, name in found.items() if foreign_name(participant_id) is not None]
        if foreign:
            raise IllegalState(
                f"transaction {handle.id} has work in {', '.join(foreign)}: it commits or aborts as a whole",
                txn_id=handle.id,
                hint="savepoints are of tables",
            )
        return found

    def _require_known(self, there: dict[str, str]) -> None:
        """Raises IllegalState where a write may still come to a table that cannot be told to make nothing of it."""
        handle = self.handle
        lost = sorted({each.table for each in handle.unanswered.values() if not each.is_refused} - set(there.values()))
        if lost:
            raise IllegalState(
                f"transaction {handle.id}: a write to {', '.join(lost)} has failed, and may still come",
                txn_id=handle.id,
                hint="abort it, and run it again",
            )
