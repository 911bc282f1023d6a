"""Transaction: the handle a program holds. Made by `Client.begin`, `Client.transaction` and `Client.join`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from google.protobuf.message import Message

from txnclient import outcome
from txnclient.alive.liveness import Liveness, OnLost
from txnclient.calls.requests import build
from txnclient.foreign.parts import ForeignWork
from txnclient.formats.manifest import StagedFiles
from txnclient.outcome import CommitReceipt
from txnclient.token import Token
from txnclient.write.files import FileWrites
from txnclient.write.locking import TURN_SECONDS, Locking
from txnclient.write.overwriting import Mode
from txnclient.write.rows import RowWrites
from txnstatus.errors import Forgotten, IllegalState, NotAuthorized, TxnAborted, TxnError, aborted
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import DECIDED, DECIDED_ABORT, DECIDED_COMMIT, TxnId, TxnState
from txnstatus.wire import cause_from_wire

if TYPE_CHECKING:
    from txnclient.client import Client

ResponseT = TypeVar("ResponseT", bound=Message)

log = logging.getLogger(__name__)

DEFAULT_COMMIT_SECONDS = 30.0


class Transaction(Locking, RowWrites, ForeignWork):
    """A transaction over any number of tables. Use from one thread at a time.

    While a handle that began a transaction exists, a background thread keeps it alive; when every such handle is gone
    without a commit, the service aborts it.
    """

    def __init__(
        self,
        client: Client,
        txn_id: TxnId,
        keepalive_millis: int,
        *,
        heartbeat: bool,
        heard_at: float | None = None,
        alone: bool = False,
    ) -> None:
        """`heard_at`: the monotonic time from which on the service has known of this handle; by default now.

        `alone`: it is one write and nothing else.
        """
        super().__init__()
        self.client = client
        self.id = txn_id
        self.receipt: CommitReceipt | None = None
        self._alone = alone
        self._keepalive_millis = keepalive_millis
        self._commit_started = False
        self._commit_pending = False  # True: it may have reached the service, and its outcome has not come
        self._commit_seen = ""
        self._abort_asked = False
        heard_at = time.monotonic() if heard_at is None else heard_at
        self._liveness = Liveness(txn_id, self.keepalive_seconds, heard_at)
        self._heartbeat = client.heartbeats.add(self, heard_at) if heartbeat else None

    def __repr__(self) -> str:
        return f"<Transaction {self.id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            if self.receipt is None:
                self.commit()
            return
        if self._commit_started:
            return  # its outcome is what it is; an abort now could only blur it
        try:
            self.abort(reason=f"{type(error).__name__}: {error}"[:500])
        except TxnError as abort_error:
            # The program's own error is the one to raise. The transaction expires without its heartbeats.
            log.warning("transaction %s could not be aborted, it will expire: %s", self.id, abort_error.message)

    # ---- writing

    def write(
        self, data: Any, table: str, mode: Mode = "append", *, partition: str | Mapping[str, Any] | None = None
    ) -> None:
        """Writes a Spark DataFrame (its executors write the files) or a pyarrow Table into the table.

        Nothing is visible before the commit. "overwrite" replaces the table, or with `partition` that part of it:
        {"month": 1}, or "month=1/day=2" with values as txnstatus.partitions names them. All rows must be in it; so must
        those of an append with `partition`. "overwrite_partitions" replaces those partitions that have rows in the
        data. What is replaced is what this transaction wrote there before, and what is there when this call ends; rows
        that others append meanwhile stay.

        Of two transactions that overwrite the same part without seeing each other the first to commit wins; the other
        is told Conflict. Appends are never in conflict. A table that settles conflicts by locks (see `create_table`) is
        locked before any file is written; appends share their locks with each other.

        Raises InvalidArgument, naming the column, for data of another schema.
        """
        self._writes.write(data, table, mode, partition)

    def truncate(self, table: str, *, partition: str | Mapping[str, Any] | None = None) -> None:
        """Removes all rows of the table or of the partition, as an overwrite with nothing."""
        self._writes.truncate(table, partition)

    def stage(self, data: Any, table: str) -> StagedFiles:
        """Writes a pyarrow Table or RecordBatchReader to files of the transaction, and makes nothing of them yet.

        For tasks that joined by token: each attempt stages under a name of its own, and only what reaches the driver
        and is given to `add` becomes part of the transaction. So a task may fail, be retried or run twice.
        """
        return self._writes.stage(data, table)

    def add(
        self,
        staged: Iterable[StagedFiles],
        table: str,
        mode: Mode = "append",
        *,
        partition: str | Mapping[str, Any] | None = None,
    ) -> None:
        """Adds staged files to the transaction, all of them at once; `mode` and `partition` as of `write`.

        Raises InvalidArgument, naming the file, for one that is not there as it was staged; then nothing is added.
        """
        self._writes.add(staged, table, mode, partition)

    @property
    def _writes(self) -> FileWrites:
        """Made for each write: kept, it would refer back to the handle, which must end when its last user drops it."""
        return FileWrites(
            self.id, self.client.owner, self._ask, self._require_writable, self._lock_to_write, self._read_at
        )

    def _ask(self, method: str, request: Message, response: type[ResponseT]) -> ResponseT:
        """A call on behalf of a write. An answer that ends the transaction ends the handle too."""
        try:
            return self.client.call(method, request, response)
        except (TxnAborted, NotAuthorized) as error:
            self._lose(error)
            raise

    def _require_writable(self) -> None:
        self._require_open("nothing can be written")

    def _require_open(self, otherwise: str) -> None:
        self._liveness.require()
        if self._commit_started:
            raise IllegalState(f"transaction {self.id} is being committed: {otherwise}", txn_id=self.id)

    # ---- ending

    def commit(self, timeout: float = DEFAULT_COMMIT_SECONDS) -> CommitReceipt:
        """Commits, and returns once the outcome is durable and visible.

        Also on a handle that is not alive: the service knows better. Raises Conflict or TxnAborted (run the
        transaction again), or CommitUnknown when the outcome did not arrive in time: then call `commit` again on this
        handle; it asks for the outcome and commits nothing twice.
        """
        if self.receipt is not None:
            return self.receipt
        deadline = time.monotonic() + timeout
        self._prepare_parts()
        self._commit_started = True
        while True:
            left = max(0.001, deadline - time.monotonic())
            # A manager answers well before it would be taken for one that hangs.
            wait = min(TURN_SECONDS, self.client.attempt_seconds(left) / 2)
            info = self._request_commit(wait_seconds=wait, timeout=left)
            if TxnState(info.state) in DECIDED:
                return self._concluded(info)
            if time.monotonic() >= deadline:
                raise outcome.unknown(self.id, f"its state after {timeout:g} s is {TxnState(info.state).name}")

    def start_commit(self) -> None:
        """Asks for the commit, and does not wait: see `is_commit_complete`. Nothing can be written after it."""
        self._prepare_parts()
        self._commit_started = True
        self._request_commit(wait_seconds=0, timeout=DEFAULT_COMMIT_SECONDS)

    def is_commit_complete(self) -> bool:
        """Whether the commit that was started is durable and visible.

        Raises Conflict or TxnAborted when it was aborted instead, IllegalState when it was not started.
        """
        try:
            info = self._info()
        except Forgotten as error:
            self._check_forgotten(error)
            raise
        state = TxnState(info.state)
        if state is TxnState.OPEN:
            raise IllegalState(f"no commit of transaction {self.id} was started", txn_id=self.id)
        if state in DECIDED:
            self._concluded(info)
        return state in DECIDED_COMMIT

    def abort(self, reason: str = "") -> None:
        """Ends the transaction; nothing of it will ever be visible. Repeating it is harmless.

        From here on the handle does not beat: should this call fail, the transaction expires by itself. A table may
        take another handle's writes until it hears of the abort, a moment later; they go the way of the others.

        Raises IllegalState when it is committed already; Unavailable when it is not known whether the abort arrived.
        """
        self._abort_asked = True
        self._stop_heartbeats()
        self._discard_parts(prepared=False)
        request = build(pb.AbortTransactionRequest, txn_id=self.id, owner=self.client.owner, reason=reason)
        self.client.call("txnstatus.TxnManager/AbortTransaction", request, pb.AbortTransactionResponse)
        self._discard_parts()
        self._liveness.end(
            TxnAborted(f"transaction {self.id} was aborted by this handle", txn_id=self.id, hint="begin another one")
        )

    def _request_commit(self, wait_seconds: float, timeout: float) -> common.TxnInfo:
        request = pb.CommitTransactionRequest(
            txn_id=self.id, owner=self.client.owner, wait_millis=int(wait_seconds * 1000)
        )
        try:
            response = self.client.call(
                "txnstatus.TxnManager/CommitTransaction",
                request,
                pb.CommitTransactionResponse,
                timeout=timeout,
                on_repeat=self._commit_repeated,
            )
        except TxnAborted as error:
            self._discard_parts()
            self._lose(error)
            raise
        except outcome.REFUSALS as error:
            self._check_forgotten(error)
            self._commit_started = self._commit_pending  # refused for good: if none was under way, none is
            raise
        except TxnError as error:
            self._commit_pending = True
            raise outcome.unknown(self.id, f"{error.message}{self._commit_seen}") from error
        self._commit_pending = True
        self._commit_seen = f"; its last known state is {TxnState(response.txn.state).name}"
        return response.txn

    def _commit_repeated(self) -> None:
        self._commit_pending = True

    def _check_forgotten(self, error: TxnError) -> None:
        """Raises CommitUnknown when the record is gone of a commit whose outcome has not come."""
        if isinstance(error, Forgotten) and self._commit_pending:
            self._stop_heartbeats()
            raise outcome.never_known(self.id, error.message) from error

    def _concluded(self, info: common.TxnInfo) -> CommitReceipt:
        self._stop_heartbeats()
        if TxnState(info.state) in DECIDED_ABORT:
            self._discard_parts()
            error = aborted(TxnId(info.txn_id), cause_from_wire(info.cause))
            self._lose(error)
            raise error
        self._publish_parts()
        self.receipt = outcome.receipt(info)
        return self.receipt

    # ---- looking

    def state(self) -> TxnState:
        return TxnState(self._info().state)

    @property
    def alive(self) -> bool:
        """Whether the service, when last heard, still had this transaction open, and that was not too long ago."""
        return self._liveness.alive and self.receipt is None

    @property
    def last_heartbeat_age(self) -> float:
        """Seconds since the last heartbeat that was answered left, or since the begin did."""
        return time.monotonic() - self._liveness.heard_at

    def on_lost(self, callback: OnLost) -> None:
        """Calls `callback(error)` once, when this handle learns that its transaction is lost.

        TxnAborted: aborted by somebody, or expired; `error.by` and `error.reason` say who and why. NotFound,
        NotAuthorized, IllegalState: gone, not ours, or ended by another handle. Unavailable: no heartbeat was answered
        for longer than the keep-alive interval, so what became of it is not known; should one be answered later, the
        handle is `alive` again.

        It runs on the heartbeat thread, so it must return soon; on the caller's when a call of this handle brought the
        news, or when the handle is lost already. An abort by this handle is no news. What it raises is logged.
        """
        self._liveness.on_lost(callback)

    @property
    def keepalive_seconds(self) -> float:
        return self._keepalive_millis / 1000

    def token(self, *, enable_keepalive: bool = False) -> bytes:
        """The serialised handle, for `Client.join` in another process. The same bytes every time, whatever happened.

        By default the joined handle does not beat: whoever began the transaction goes on keeping it alive.
        """
        return Token(self.id, self._keepalive_millis, enable_keepalive, self.client.cluster_id).to_bytes()

    def _info(self) -> common.TxnInfo:
        return self.client.call(
            "txnstatus.TxnManager/GetTransactionState",
            pb.GetTransactionStateRequest(txn_id=self.id),
            pb.GetTransactionStateResponse,
        ).txn

    def _lose(self, error: TxnError) -> None:
        self._stop_heartbeats()
        if not self._abort_asked:
            self._liveness.lose(error)

    def _stop_heartbeats(self) -> None:
        self._end_reading()
        if self._heartbeat is not None:
            self.client.heartbeats.remove(self._heartbeat)

    # ---- for the heartbeat thread

    def heartbeat_answered(self, sent_at: float) -> None:
        self._liveness.heard(sent_at)

    def heartbeat_silent(self, seconds: float, last: TxnError) -> None:
        """Nobody answered for longer than the keep-alive interval."""
        if not self._commit_started:
            log.warning("no heartbeat of transaction %s was answered for %.1f s: %s", self.id, seconds, last.message)
            self._liveness.silent(seconds, last)

    def heartbeat_refused(self, error: TxnError) -> None:
        """For good. A commit under way refuses heartbeats too; what came of it, its answer says."""
        if self._commit_started and isinstance(error, IllegalState):
            return
        log.warning("transaction %s is lost: %s", self.id, error.message)
        self._lose(error)
