"""Handle: one program's hold on a transaction, shared by all that works for it."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from txnclient import interruption
from txnclient.alive.liveness import Liveness
from txnclient.calls.traces import TxnTrace
from txnclient.session import Session
from txnclient.snapshot import Snapshot
from txnstatus.errors import IllegalState, NotAuthorized, TxnAborted, TxnError, aborted
from txnstatus.proto.table_pb2 import AddFilesRequest, OpenWriteRequest, OpenWriteResponse, WriteRowsRequest
from txnstatus.types import DECIDED_ABORT, AbortCause, Timestamp, TxnId, TxnState
from txnstatus.wire import cause_from_wire

ResponseT = TypeVar("ResponseT", bound=Message)
WriteT = TypeVar("WriteT", OpenWriteRequest, AddFilesRequest, WriteRowsRequest)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint of the transaction, as this handle has set it."""

    name: str
    savepoint_id: str
    held_by: tuple[str, ...]
    """Ids of the participants that there were."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A write of which it is not known that the table has it."""

    table: str
    is_refused: bool = False


class Handle:
    """A transaction's id, the session it belongs to, whether it is alive, and what is read in it.

    What writes, locks and commits for a `Transaction` refers to this, and this to none of them: when the program drops
    the transaction, all of it is garbage at once, and the heartbeats end.
    """

    def __init__(
        self, session: Session, txn_id: TxnId, keepalive_millis: int, heard_at: float, *, heartbeat: bool
    ) -> None:
        """`heard_at`: the monotonic time from which on the service has known of this handle."""
        self.session = session
        self.id = txn_id
        self.keepalive_millis = keepalive_millis
        self.lock_timeout = session.lock_timeout
        """Seconds for which its writes wait for locks, where they do not say."""
        self.liveness = Liveness(txn_id, self.keepalive_seconds, heard_at)
        self.is_committing = False
        """A commit was asked for and not refused: nothing can be written any more."""
        self.is_aborting = False
        """An abort was asked for: the end of the transaction is no news then."""
        self.failure = ""
        """The first write that failed, and how; empty: none has. Such a transaction can be aborted, or go back to a
        savepoint, and nothing else."""
        self.savepoints: list[Savepoint] = []
        """Places to which it can go back, in the order in which they were set."""
        self.released: list[str] = []
        """Ids of savepoints that participants may have, and to which nobody goes back."""
        self.unanswered: dict[str, Unanswered] = {}
        """Writes that have begun or failed, by their ids: what was sent of them may still come."""
        self.failed_rollbacks: list[str] = []
        """Ids of rollbacks to savepoints that failed: they may still come, too."""
        self.first_writes: dict[str, tuple[str, OpenWriteResponse]] = {}
        """Writes that the begin has opened and nobody has used, by table: ids, with what opening them answers."""
        self.last_writes: list[AddFilesRequest] = []
        """What the commit is to add."""
        self.tickets: dict[bytes, bytes] = {}
        """Tickets that were issued, by the requests for them."""
        self.trace: TxnTrace | None = None
        """None: nobody traces it."""
        self._snapshot: Snapshot | None = None
        self._heartbeat = session.heartbeats.add(self, heard_at) if heartbeat else None

    def __repr__(self) -> str:
        return f"transaction {self.id}"

    @property
    def owner(self) -> str:
        return self.session.owner

    @property
    def keepalive_seconds(self) -> float:
        return self.keepalive_millis / 1000

    def step(self, name: str, what: str = "") -> AbstractContextManager[None]:
        """Work for the transaction, in its trace."""
        if self.trace is None:
            return nullcontext()
        return self.trace.step(name, {"txn.what": what} if what else {})

    def ended(self, state: TxnState) -> None:
        """It is known what has become of it."""
        if self.trace is not None:
            self.trace.end(state.name)

    def ask(
        self, method: str, request: Message, response: type[ResponseT], *, timeout: float | None = None
    ) -> ResponseT:
        """A call on behalf of the transaction. An answer that ends the transaction ends the handle too."""
        try:
            return self.session.call(method, request, response, timeout=timeout)
        except TxnAborted as error:
            told = self._with_cause(error)
            self.lose(told)
            raise told from None
        except NotAuthorized as error:
            if error.txn_id is not None:  # else it is a role that is lacking
                self.lose(error)
            raise

    def ask_to_write(self, method: str, request: WriteT, response: type[ResponseT]) -> ResponseT:
        """As `ask`, for what writes to a table."""
        self.unanswered[request.write_id] = Unanswered(request.table)
        if (interrupted := interruption.happened()) is not None:  # who goes back to a savepoint names what came before
            self.unanswered.pop(request.write_id, None)
            raise interrupted
        try:
            answer = self.ask(method, request, response)
        except TxnError as error:
            self.unanswered[request.write_id] = Unanswered(request.table, is_refused=not error.retriable)
            raise
        self.unanswered.pop(request.write_id, None)
        return answer

    def _with_cause(self, error: TxnAborted) -> TxnAborted:
        """The error with who aborted the transaction and why: a table knows only that it is."""
        if error.cause is not None:
            return error
        try:
            info = self.session.record(self.id)
        except TxnError:
            return error  # forgotten, or nobody answers: what is known is told
        return aborted(self.id, cause_from_wire(info.cause)) if info.HasField("cause") else error

    def require_writable(self) -> None:
        self.require_open("nothing can be written")

    def require_open(self, otherwise: str) -> None:
        """Raises why the transaction is over; `otherwise` says what can be done or not while it is being committed."""
        self.require_sound()
        self.liveness.require()
        if self.is_committing:
            raise IllegalState(f"transaction {self.id} is being committed: {otherwise}", txn_id=self.id)

    def require_sound(self) -> None:
        """Raises IllegalState after a write that failed: what the program meant to commit is not all there."""
        if self.failure:
            back = [each.name for each in self.savepoints]
            raise IllegalState(
                f"transaction {self.id} can only be aborted{' or go back' * bool(back)}: {self.failure}",
                txn_id=self.id,
                hint=f"go back to savepoint {back[-1]!r}, or abort it"
                if back
                else "abort it, and run it again; none of it will be visible",
            )

    @property
    def snapshot(self) -> Snapshot:
        """What this handle reads from, and over it what the transaction wrote. Fixed when it is first asked for."""
        self.require_open("read a snapshot of the client instead")
        if self._snapshot is None:
            self._snapshot = Snapshot(self.session, self.session.last_commit(), self.id)
        return self._snapshot

    def read_as_of(self, at: Timestamp) -> None:
        """Reads from a snapshot of then, which the caller keeps, and not from one of now. Nothing was read yet."""
        self.require_open("read a snapshot of the client instead")
        self._snapshot = Snapshot(self.session, at, self.id)

    @property
    def read_at(self) -> Timestamp | None:
        """What its overwrites are based on; None: it has read nothing, and overwrites what there is."""
        return self._snapshot.timestamp if self._snapshot else None

    def lose(self, error: TxnError) -> None:
        """The transaction is over, or not ours."""
        self.release()
        if not self.is_aborting:
            self.liveness.lose(error)
            if isinstance(error, TxnAborted):
                self.ended(TxnState.ABORTED)

    def is_over(self, state: TxnState, cause: AbortCause | None) -> None:
        """The handle was made for a transaction that is not open any more: there is nothing to do but to ask."""
        if state in DECIDED_ABORT:
            self.lose(aborted(self.id, cause))
            return
        message = f"transaction {self.id} is {state.name}: nothing can be written in it any more"
        hint = "state(), is_commit_complete() and commit() tell what becomes of it"
        self.liveness.end(IllegalState(message, txn_id=self.id, hint=hint))

    def release(self) -> None:
        """Ends its heartbeats, and the leases of what it reads."""
        if self._snapshot is not None:
            self._snapshot.close()
        if self._heartbeat is not None:
            self.session.heartbeats.remove(self._heartbeat)

    # ---- for the heartbeat thread

    def heartbeat_answered(self, sent_at: float) -> None:
        self.liveness.heard(sent_at)

    def heartbeat_silent(self, seconds: float, last: TxnError) -> None:
        """Nobody answered for longer than the keep-alive interval."""
        if not self.is_committing:
            log.warning(
                "no heartbeat of transaction %s was answered for %.1f s: %s",
                self.id,
                seconds,
                last.message,
                extra={"txn_id": self.id},
            )
            self.liveness.silent(seconds, last)

    def heartbeat_refused(self, error: TxnError) -> None:
        """A final refusal. A commit under way refuses heartbeats too; what came of it, its answer says."""
        if self.is_committing and isinstance(error, IllegalState):
            return
        log.warning("transaction %s is lost: %s", self.id, error.message, extra={"txn_id": self.id})
        self.lose(error)
