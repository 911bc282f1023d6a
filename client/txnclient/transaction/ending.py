"""Ending: how a handle commits or aborts its transaction, and what it knows of the outcome."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from functools import partial

from txnclient import interruption, outcome
from txnclient.calls.requests import build, checked_seconds
from txnclient.foreign.work import ForeignWork
from txnclient.handle import Handle
from txnclient.outcome import CommitReceipt
from txnclient.transaction.reasons import reason
from txnstatus.errors import DataDamaged, Forgotten, IllegalState, RowsRefused, TxnAborted, TxnError, aborted
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import DECIDED, DECIDED_ABORT, DECIDED_COMMIT, TxnId, TxnState
from txnstatus.wire import cause_from_wire

log = logging.getLogger(__name__)

DEFAULT_COMMIT_SECONDS = 30.0
FAILURE_SECONDS = 5.0
"""Longest time to tell the service of a write that failed: its program is waiting for the error."""


class Ending:
    """The end of one transaction. What the methods promise, `Transaction` says."""

    def __init__(self, handle: Handle, foreign: ForeignWork) -> None:
        self.receipt: CommitReceipt | None = None
        self._handle = handle
        self._foreign = foreign
        self._is_pending = False
        """A commit may have reached the service, and its outcome has not come."""
        self._seen = ""

    def commit(self, timeout: float) -> CommitReceipt:
        if self.receipt is not None:
            return self.receipt
        deadline = time.monotonic() + checked_seconds(timeout)
        with self._handle.step("commit"):
            return self._commit(timeout, deadline)

    def _commit(self, timeout: float, deadline: float) -> CommitReceipt:
        self._begin()
        while True:
            left = max(0.001, deadline - time.monotonic())
            info = self._request(wait_seconds=self._handle.session.turn_seconds(left), timeout=left)
            if TxnState(info.state) in DECIDED:
                return self._concluded(info)
            if time.monotonic() >= deadline:
                raise outcome.unknown(self._handle.id, f"after {timeout:g} s{self._seen}")

    def start_commit(self) -> None:
        self._begin()
        self._request(wait_seconds=0, timeout=DEFAULT_COMMIT_SECONDS)

    def is_commit_complete(self) -> bool:
        txn_id = self._handle.id
        try:
            info = self._handle.session.record(txn_id)
        except Forgotten as error:
            self._check_forgotten(error)
            raise
        state = TxnState(info.state)
        if state is TxnState.OPEN:
            raise IllegalState(f"no commit of transaction {txn_id} was started", txn_id=txn_id)
        if state in DECIDED:
            self._concluded(info)
        return state in DECIDED_COMMIT

    @contextlib.contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Work that is to be part of the transaction. If it fails, the transaction can only be aborted: and it is, at
        once, so that no other handle commits what is left of it; unless there is a savepoint to go back to. RowsRefused
        leaves that to the program.
        """
        try:
            interruption.begins(partial(self._failed, what))
            with self._handle.step("write", what):
                yield
        except RowsRefused:
            raise
        except BaseException as error:
            if interruption.happened():
                raise  # that has failed it, and the program may have gone back to a savepoint since
            over = self.over() if isinstance(error, OSError | DataDamaged) else None
            self._failed(what, error)
            if over is not None:
                raise over from error
            raise

    def over(self) -> TxnAborted | None:
        """Why the transaction is aborted, if it is: then files of the write may be gone before they are added."""
        try:
            info = self._handle.session.record(self._handle.id)
        except TxnError:
            return None
        if TxnState(info.state) not in DECIDED_ABORT:
            return None
        return aborted(self._handle.id, cause_from_wire(info.cause) if info.HasField("cause") else None)

    def _failed(self, what: str, error: BaseException) -> None:
        handle = self._handle
        if handle.failure or handle.is_committing or handle.liveness.lost:
            return  # what becomes of it is decided without this write
        said = error.message if isinstance(error, TxnError) else reason(str(error))
        handle.failure = f"{what} failed: {type(error).__name__}: {said}"[:500]
        if handle.savepoints:
            return  # its program may go back to one
        try:
            self.abort(handle.failure, min(FAILURE_SECONDS, handle.session.timeout))
        except TxnError as abort_error:
            if isinstance(error, outcome.REFUSALS) and type(error) is type(abort_error):
                handle.failure = ""  # there is no such transaction, or it is not ours, or over: the commit says so, too
                return
            log.warning(
                "transaction %s could not be aborted, it will expire: %s",
                handle.id,
                abort_error.message,
                extra={"txn_id": handle.id},
            )

    def abort(self, reason: str, timeout: float | None = None) -> None:
        handle = self._handle
        handle.is_aborting = True
        handle.release()
        self._foreign.discard(prepared=False)
        request = build(pb.AbortTransactionRequest, txn_id=handle.id, owner=handle.owner, reason=reason)
        method = "txnstatus.TxnManager/AbortTransaction"
        with handle.step("abort"):
            handle.session.call(method, request, pb.AbortTransactionResponse, timeout=timeout)
        handle.ended(TxnState.ABORTED)
        self._foreign.discard()
        said = f"transaction {handle.id} was aborted by this handle"
        handle.liveness.end(TxnAborted(said, txn_id=handle.id, hint="begin another one"))

    def _begin(self) -> None:
        self._handle.require_sound()
        self._foreign.prepare(self.abort)
        self._handle.is_committing = True

    def _request(self, wait_seconds: float, timeout: float) -> common.TxnInfo:
        handle = self._handle
        request = pb.CommitTransactionRequest(
            txn_id=handle.id,
            owner=handle.owner,
            wait_millis=int(wait_seconds * 1000),
            last_writes=handle.last_writes,
        )
        try:
            response = handle.session.call(
                "txnstatus.TxnManager/CommitTransaction",
                request,
                pb.CommitTransactionResponse,
                timeout=timeout,
                on_repeat=self._repeated,
            )
        except TxnAborted as error:
            self._foreign.discard()
            handle.lose(error)
            raise
        except outcome.REFUSALS as error:
            self._check_forgotten(error)
            if self._is_pending and handle.last_writes:  # they are judged anew: the first attempt may yet begin it
                raise outcome.unknown(handle.id, f"refused when asked again: {error.message}{self._seen}") from error
            handle.is_committing = self._is_pending  # refused for good: if none was under way, none is
            raise
        except TxnError as error:
            self._is_pending = True
            raise outcome.unknown(handle.id, f"{error.message}{self._seen}") from error
        except BaseException:
            self._is_pending = True  # interrupted, or its task was cancelled: it may have been sent
            raise
        self._is_pending = True
        waits_for = f", and waits for {response.waits_for}" if response.waits_for else ""
        self._seen = f"; its last known state is {TxnState(response.txn.state).name}{waits_for}"
        return response.txn

    def _repeated(self) -> None:
        self._is_pending = True

    def _check_forgotten(self, error: TxnError) -> None:
        """Raises CommitUnknown when the record is gone of a commit whose outcome has not come."""
        if isinstance(error, Forgotten) and self._is_pending:
            self._handle.release()
            raise outcome.never_known(self._handle.id, error.message) from error

    def _concluded(self, info: common.TxnInfo) -> CommitReceipt:
        self._handle.release()
        if TxnState(info.state) in DECIDED_ABORT:
            self._foreign.discard()
            error = aborted(TxnId(info.txn_id), cause_from_wire(info.cause))
            self._handle.lose(error)
            raise error
        self._foreign.publish()
        self._handle.ended(TxnState.COMMITTED)
        self.receipt = outcome.receipt(info)
        return self.receipt
