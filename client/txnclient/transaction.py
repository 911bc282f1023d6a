"""Transaction: the handle a program holds. Made by `Client.begin`, `Client.transaction` and `Client.join`."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from txnclient import manifest
from txnclient.heartbeat import HEARTBEATS
from txnclient.manifest import StagedFiles
from txnclient.token import Token
from txnstatus.commands import cause_from_wire
from txnstatus.errors import (
    CommitUnknown,
    IllegalState,
    InvalidArgument,
    TxnAborted,
    TxnError,
    Unavailable,
    aborted,
)
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import (
    DECIDED,
    DECIDED_ABORT,
    DECIDED_COMMIT,
    Timestamp,
    TxnId,
    TxnState,
)

if TYPE_CHECKING:
    from txnclient.client import Client

log = logging.getLogger(__name__)

Mode = Literal["append", "overwrite"]
DEFAULT_COMMIT_SECONDS = 30.0
TURN_SECONDS = 5.0
"""A commit waits on the server in turns, each shorter than one attempt of a call."""


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """What a commit returns: it happened, durably, and every reader from now on sees all of it."""

    txn_id: TxnId
    commit_timestamp: Timestamp
    """0 for a transaction that wrote nothing."""
    tables: tuple[str, ...]


class Transaction:
    """A transaction over any number of tables. Use from one thread at a time.

    While a handle that began a transaction exists, a background thread keeps it alive; when every such handle is gone
    without a commit, the service aborts it.
    """

    def __init__(self, client: Client, txn_id: TxnId, keepalive_millis: int, *, heartbeat: bool) -> None:
        self.client = client
        self.id = txn_id
        self.receipt: CommitReceipt | None = None
        self._keepalive_millis = keepalive_millis
        self._commit_started = False
        self._lost: TxnError | None = None
        self._heard_at = time.monotonic()
        self._tables: dict[str, tuple[str, Schema]] = {}
        if heartbeat:
            HEARTBEATS.add(self)

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
            HEARTBEATS.remove(self)
            log.warning("transaction %s could not be aborted, it will expire: %s", self.id, abort_error.message)

    # ---- writing

    def write(self, data: Any, table: str, mode: Mode = "append") -> None:
        """Writes a Spark DataFrame (its executors write the files) or a pyarrow Table into the table.

        Nothing is visible before the commit. "overwrite" replaces what the table holds when this call ends, and what
        this transaction wrote to it before; rows appended by others meanwhile stay.

        Raises InvalidArgument, naming the column, for data of another schema.
        """
        if mode not in ("append", "overwrite"):
            raise InvalidArgument(f"mode {mode!r}: 'append' and 'overwrite' are possible")
        write_id, directory = self._open_write(table)
        files = self._write_files(data, directory, table)
        self._add(table, write_id, directory, files, mode, from_writes=())

    def stage(self, data: Any, table: str) -> StagedFiles:
        """Writes a pyarrow Table or RecordBatchReader to files of the transaction, and makes nothing of them yet.

        For tasks that joined by token: each attempt stages under a name of its own, and only what reaches the driver
        and is given to `add` becomes part of the transaction. So a task may fail, be retried or run twice.
        """
        write_id, directory = self._open_write(table)
        return StagedFiles(table, write_id, tuple(self._write_files(data, directory, table)))

    def add(self, staged: Iterable[StagedFiles], table: str, mode: Mode = "append") -> None:
        """Adds staged files to the transaction, all of them at once."""
        parts = list(staged)
        for part in parts:
            if part.table != table:
                raise InvalidArgument(f"files staged for {part.table} cannot be added to {table}")
        write_id, directory = self._open_write(table)
        files = [file for part in parts for file in part.files]
        self._add(table, write_id, directory, files, mode, from_writes=[part.write_id for part in parts])

    def _write_files(self, data: Any, directory: str, table: str) -> list[manifest.DataFile]:
        schema = self._tables[table][1]
        if type(data).__module__.startswith("pyspark."):
            from txnclient.spark import writer

            return writer.write_files(data, directory, schema, table)
        from txnclient import arrow

        return arrow.write_files(data, directory, schema, table)

    def _open_write(self, table: str) -> tuple[str, str]:
        """Claims a directory. The first write on a table makes it a participant."""
        self._require_writable()
        write_id = uuid.uuid4().hex
        response = self.client.call(
            "txnstatus.Table/OpenWrite",
            table_pb.OpenWriteRequest(txn_id=self.id, owner=self.client.owner, table=table, write_id=write_id),
            table_pb.OpenWriteResponse,
        )
        info = response.table
        self._tables[table] = info.table_id, Schema.from_wire(info.schema)
        return write_id, response.directory

    def _add(
        self,
        table: str,
        write_id: str,
        directory: str,
        files: Sequence[manifest.DataFile],
        mode: Mode,
        from_writes: Sequence[str],
    ) -> None:
        self._require_writable()
        table_id, _ = self._tables[table]
        ref = manifest.write(directory, files, table_id=table_id, txn_id=self.id, write_id=write_id)
        self.client.call(
            "txnstatus.Table/AddFiles",
            table_pb.AddFilesRequest(
                txn_id=self.id,
                owner=self.client.owner,
                table=table,
                write_id=write_id,
                mode=table_pb.OVERWRITE if mode == "overwrite" else table_pb.APPEND,
                manifest=ref,
                from_writes=from_writes,
            ),
            table_pb.AddFilesResponse,
        )

    def _require_writable(self) -> None:
        if self._lost is not None:
            raise self._lost
        if self._commit_started:
            raise IllegalState(f"transaction {self.id} is being committed: nothing can be written", txn_id=self.id)

    # ---- ending

    def commit(self, timeout: float = DEFAULT_COMMIT_SECONDS) -> CommitReceipt:
        """Commits, and returns once the outcome is durable and visible.

        Raises Conflict or TxnAborted (run the transaction again), or CommitUnknown when the outcome did not arrive
        in time: then call `commit` again on this handle; it asks for the outcome and commits nothing twice.
        """
        if self.receipt is not None:
            return self.receipt
        deadline = time.monotonic() + timeout
        self._commit_started = True
        while True:
            left = max(0.001, deadline - time.monotonic())
            info = self._request_commit(wait_seconds=min(left, TURN_SECONDS), timeout=left)
            if TxnState(info.state) in DECIDED:
                return self._concluded(info)
            if time.monotonic() >= deadline:
                raise self._unknown(f"its state after {timeout:g} s is {TxnState(info.state).name}")

    def start_commit(self) -> None:
        """Asks for the commit, and does not wait: see `is_commit_complete`. Nothing can be written after it."""
        self._commit_started = True
        self._request_commit(wait_seconds=0, timeout=DEFAULT_COMMIT_SECONDS)

    def is_commit_complete(self) -> bool:
        """Whether the commit that was started is durable and visible.

        Raises Conflict or TxnAborted when it was aborted instead, IllegalState when it was not started.
        """
        info = self._info()
        state = TxnState(info.state)
        if state is TxnState.OPEN:
            raise IllegalState(f"no commit of transaction {self.id} was started", txn_id=self.id)
        if state in DECIDED:
            self._concluded(info)
        return state in DECIDED_COMMIT

    def abort(self, reason: str = "") -> None:
        """Ends the transaction; nothing of it will ever be visible. Repeating it is harmless.

        Raises IllegalState when it is committed already.
        """
        self.client.call(
            "txnstatus.TxnManager/AbortTransaction",
            pb.AbortTransactionRequest(txn_id=self.id, owner=self.client.owner, reason=reason),
            pb.AbortTransactionResponse,
        )
        HEARTBEATS.remove(self)
        self._lost = TxnAborted(
            f"transaction {self.id} was aborted by this handle", txn_id=self.id, hint="begin another one"
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
            )
        except Unavailable as error:
            raise self._unknown(error.message) from error
        except TxnAborted as error:
            HEARTBEATS.remove(self)
            self._lost = error
            raise
        except TxnError:
            self._commit_started = False  # refused for good: no commit is under way
            raise
        return response.txn

    def _concluded(self, info: common.TxnInfo) -> CommitReceipt:
        HEARTBEATS.remove(self)
        if TxnState(info.state) in DECIDED_ABORT:
            raise aborted(TxnId(info.txn_id), cause_from_wire(info.cause))
        self.receipt = CommitReceipt(
            TxnId(info.txn_id),
            Timestamp(info.commit_timestamp),
            tuple(sorted(participant.name for participant in info.participants)),
        )
        return self.receipt

    def _unknown(self, why: str) -> CommitUnknown:
        return CommitUnknown(
            f"the outcome of committing transaction {self.id} is not known: {why}",
            txn_id=self.id,
            hint="call commit() again on this handle; it commits nothing twice",
        )

    # ---- looking

    def state(self) -> TxnState:
        return TxnState(self._info().state)

    @property
    def alive(self) -> bool:
        """Whether the service, when last heard, still had this transaction open for this handle."""
        return self._lost is None and self.receipt is None

    @property
    def last_heartbeat_age(self) -> float:
        """Seconds since the service last answered a heartbeat of this handle, or since the handle was made."""
        return time.monotonic() - self._heard_at

    @property
    def keepalive_seconds(self) -> float:
        return self._keepalive_millis / 1000

    def token(self, *, enable_keepalive: bool = False) -> bytes:
        """The serialised handle, for `Client.join` in another process.

        By default the joined handle does not beat: whoever began the transaction goes on keeping it alive.
        """
        return Token(self.id, self._keepalive_millis, enable_keepalive, self.client.cluster_id).to_bytes()

    def _info(self) -> common.TxnInfo:
        return self.client.call(
            "txnstatus.TxnManager/GetTransactionState",
            pb.GetTransactionStateRequest(txn_id=self.id),
            pb.GetTransactionStateResponse,
        ).txn

    # ---- for the heartbeat thread

    def mark_heard(self, at: float) -> None:
        self._heard_at = at

    def mark_lost(self, error: TxnError) -> None:
        """The service refused a heartbeat for good: writes fail at once with what it said."""
        if not self._commit_started:
            self._lost = error
            log.warning("transaction %s is lost: %s", self.id, error.message)
