"""Transaction: what a program holds. Made by `Client.begin`, `Client.transaction` and `Client.join`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from txnclient.alive.liveness import OnLost
from txnclient.foreign.work import ForeignWork, Part
from txnclient.formats.partitions import Partition
from txnclient.handle import Handle
from txnclient.outcome import CommitReceipt, RowsWritten
from txnclient.session import Session
from txnclient.showing import facts
from txnclient.snapshot import Snapshot
from txnclient.staying import Staying
from txnclient.termination import terminations
from txnclient.transaction.ending import DEFAULT_COMMIT_SECONDS, Ending
from txnclient.transaction.going_back import GoingBack
from txnclient.transaction.in_spark import InSpark
from txnclient.transaction.marking import Marking
from txnclient.transaction.serialised import Serialised
from txnclient.write import growing, locks
from txnclient.write.changing import Changes
from txnclient.write.files import FileWrites
from txnclient.write.keyed import KeyedWrites
from txnclient.write.locks import LockMode, Locks
from txnclient.write.overwriting import Mode
from txnclient.write.rows import RowWrites
from txnclient.write.staged_files import StagedFiles
from txnstatus.errors import TxnError
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.types import Statement, TxnId, TxnState

if TYPE_CHECKING:
    import psycopg

    from txnclient.foreign.postgres import PostgresPart

log = logging.getLogger(__name__)


class Transaction(InSpark, GoingBack, Marking, Serialised, Staying):
    """A transaction over any number of tables. Use from one thread at a time.

    While a handle that began a transaction exists, a background thread keeps it alive; when every such handle is gone
    without a commit, the service aborts it.

    A transaction in which a write failed can only be aborted, as in a database, or go back to a `savepoint`: whatever
    `write`, `truncate`, `add`, a row write, a statement, `enlist` or `postgres` raises aborts it, through whichever
    handle; `commit` and all further work then raise IllegalState, which names the first failure. RowsRefused alone
    leaves it open; so does a `lock` that was not granted, and a `stage` that failed, since a task may be tried again;
    and a call that Python itself refuses (TypeError: a misspelt keyword), which was never made: the `with` block that
    it ends aborts, as after any error.

    Row writes (`insert`, `insert_ignore`, `upsert`, `update`, `delete`) go by primary key. Their rows are a pyarrow
    Table, RecordBatch or RecordBatchReader of any size: they are sent in parts. Nothing of them is visible before the
    commit. What is there and what is not is judged at the transaction's `snapshot`, and after its own earlier row
    writes. All raise RowsRefused, naming the keys, when single rows cannot be written; the others are, and the
    transaction goes on. All raise InvalidArgument, and nothing is written, for rows of another schema, a null in the
    key, a key that comes twice, and for a table without a primary key; LimitReached for more rows than a transaction
    may hold in memory; SnapshotTooOld where what the snapshot shows of the table has been removed. Two transactions
    that change the same row conflict: the second to commit gets Conflict, which names rows.
    `lock_timeout`: as of `write`.
    """

    instead = "send the bytes of txn.token(), made outside of the function, and inside connect and join(token)"

    def __init__(
        self,
        session: Session,
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
        heard_at = time.monotonic() if heard_at is None else heard_at
        self.id = txn_id
        handle = Handle(session, txn_id, keepalive_millis, heard_at, heartbeat=heartbeat)
        self._locks = Locks(handle, alone=alone)
        self._files = FileWrites(handle, self._locks, alone=alone)
        self._rows = RowWrites(handle, self._locks)
        self._foreign = ForeignWork(handle)
        self._ending = Ending(handle, self._foreign)
        self._keyed = KeyedWrites(handle, self._files, self._rows)
        super().__init__(handle, Changes(handle, self._files, self._keyed), self._ending, self._locks)

    def __repr__(self) -> str:
        return f"<Transaction {self.id}>"

    def _repr_html_(self) -> str:
        """The transaction as a notebook shows it, by what this handle knows."""
        handle, receipt = self.handle, self.receipt
        over = "over" if handle.liveness.lost or handle.failure else ""
        state = "committed" if receipt else over or ("being committed" if handle.is_committing else "open")
        tables = receipt.tables if receipt else ()
        known = {"id": self.id, "owner": handle.owner, "state": state, "tables": tables, "failure": handle.failure}
        return facts("Transaction", known)

    def __enter__(self) -> Self:
        terminations.enter()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self.leave(error)
        finally:
            terminations.leave()

    def leave(self, error: BaseException | None) -> None:
        """Ends it as the end of a `with` block does: commits, or aborts for the error, which stays the one to raise."""
        if error is None:
            if self.receipt is None:
                self.commit()
            return
        if self.handle.is_committing or self.handle.is_aborting:
            return  # an abort now could only blur the outcome; or the write that failed has aborted it
        try:
            self.abort(reason=f"{type(error).__name__}: {error}"[:500])
        except TxnError as abort_error:
            # The program's own error is the one to raise. The transaction expires without its heartbeats.
            log.warning("transaction %s could not be aborted, it will expire: %s", self.id, abort_error.message)

    # ---- writing files

    def write(
        self,
        data: Any,
        table: str,
        mode: Mode = "append",
        *,
        partition: Partition | None = None,
        lock_timeout: float | None = None,
        keys_are_new: bool = False,
        merge_schema: bool = False,
    ) -> None:
        """Writes a Spark DataFrame (its executors write the files) or a pyarrow Table into the table.

        Nothing is visible before the commit. "overwrite" replaces the table, or with `partition` that part of it:
        {"month": 1}, or "month=1/day=2" with values as txnstatus.partitions names them. All rows must be in it; so must
        those of an append with `partition`. "overwrite_partitions" replaces those partitions that have rows in the
        data. What is replaced is what this transaction wrote there before, and what is there when this call ends; rows
        that others append meanwhile stay.

        Of two transactions that overwrite the same part without seeing each other the first to commit wins; the other
        is told Conflict. Appends overwrite nothing. A table that settles conflicts by locks (see `create_table`) is
        locked before any file is written; appends share their locks with each other. Such a write waits for its locks
        for `lock_timeout` seconds, by default as long as the client says (`connect`), which is a minute.

        In a table with a primary key a key is unique: what was written is searched for keys that come twice
        (InvalidArgument), and for those that are there already, or that this transaction changed by row before
        (AlreadyExists, naming up to ten). Of two transactions that add the same key the first to commit wins; keys of
        many rows are taken to be the same where one is in the others' range, by the key's first column. `keys_are_new`:
        the caller vouches for that, as for the bulk load of what is known to be clean, and nobody searches.

        "upsert" is for such tables: rows come in the place of those with their keys, as by `upsert`, and however many
        they are. Few go by key; of many the old versions are marked in their files, and the new ones are files. A key
        that comes twice is refused with InvalidArgument. Of two transactions that change the same key the first to
        commit wins, in whichever way they do.

        `merge_schema`: columns that the table has not are added to it before, as by `Client.alter_table`: at once, for
        everybody, and they stay if this aborts. If it has read the table it goes on to read it without them.
        Raises InvalidArgument, naming the column, for data of another schema, and for a null in a key; Locked, naming
        who is in the way, when the time for the locks is over.
        """
        with self._ending.writing(f"a write to {table}"), self._locks.waiting(lock_timeout):
            if merge_schema:
                growing.grow(self.handle.session, table, growing.columns_of(data))
            if mode == "upsert":
                self._keyed.upsert(data, table, partition, keys_are_new=keys_are_new)
            else:
                self._files.write(data, table, mode, partition, keys_are_new=keys_are_new)

    def stage(self, data: Any, table: str) -> StagedFiles:
        """Writes a pyarrow Table or RecordBatchReader to files of the transaction, and makes nothing of them yet.

        For tasks that joined by token: each attempt stages under a name of its own, and only what reaches the driver
        and is given to `add` becomes part of the transaction. So a task may fail, be retried or run twice.
        """
        with self.handle.step("write", f"staging for {table}"):
            return self._files.stage(data, table)

    def add(
        self,
        staged: Iterable[StagedFiles],
        table: str,
        mode: Mode = "append",
        *,
        partition: Partition | None = None,
        lock_timeout: float | None = None,
        keys_are_new: bool = False,
    ) -> None:
        """Adds staged files to the transaction, all of them at once; the other parameters are as of `write`.

        Raises InvalidArgument, naming the file, for one that is not there as it was staged, and for what was added
        before, by whichever handle; then nothing is added.
        """
        with self._ending.writing(f"an addition of staged files to {table}"), self._locks.waiting(lock_timeout):
            if mode == "upsert":
                self._keyed.add(staged, table, partition, keys_are_new=keys_are_new)
            else:
                self._files.add(staged, table, mode, partition, keys_are_new=keys_are_new)

    # ---- writing rows

    def insert(self, table: str, rows: Any, *, lock_timeout: float | None = None) -> RowsWritten:
        """Rows whose keys are there already are refused."""
        return self._write_rows(table_pb.ROW_INSERT, table, rows, lock_timeout)

    def insert_ignore(self, table: str, rows: Any, *, lock_timeout: float | None = None) -> RowsWritten:
        """Rows whose keys are there already are counted, and left out."""
        return self._write_rows(table_pb.ROW_INSERT_IGNORE, table, rows, lock_timeout)

    def upsert(self, table: str, rows: Any, *, lock_timeout: float | None = None) -> RowsWritten:
        """Inserts rows, or replaces those that have their keys."""
        return self._write_rows(table_pb.ROW_UPSERT, table, rows, lock_timeout)

    def update(self, table: str, rows: Any, *, lock_timeout: float | None = None) -> RowsWritten:
        """Changes rows; those whose keys are not there are refused.

        Columns that `rows` does not have stay as this transaction sees them: the rows are read first.
        """
        return self._write_rows(table_pb.ROW_UPDATE, table, rows, lock_timeout)

    def delete(self, table: str, rows: Any, *, lock_timeout: float | None = None) -> RowsWritten:
        """Only the columns of the primary key count in `rows`. Those whose keys are not there are refused."""
        return self._write_rows(table_pb.ROW_DELETE, table, rows, lock_timeout)

    def _write_rows(self, change: table_pb.RowChange, table: str, rows: Any, lock_timeout: float | None) -> RowsWritten:
        with self._ending.writing(f"a row write to {table}"), self._locks.waiting(lock_timeout):
            return self._rows.write(change, table, rows)

    # ---- locking

    def lock(
        self,
        table: str,
        mode: LockMode,
        *,
        partition: str | Sequence[str] | None = None,
        strategy: str = "wait",
        lock_timeout: float | None = None,
        numretries: int | None = None,
        sleep_between_retries: float = locks.SLEEP_BETWEEN_RETRIES,
    ) -> None:
        """Locks a table, partitions of it ("month=1/day=2") or a database, until the transaction ends.

        Parents are locked in S. A request that cannot be granted waits its turn for `lock_timeout` seconds (None: as
        the client says), or with `numretries` as long as Hive's options of the same names say (`hive.lock.*`). With
        "wait-die" it waits for younger transactions only, with "wound-wait" it has younger ones aborted and waits for
        older ones, with "no-wait" it does not wait. Operators can bring strategies of their own.

        Raises Locked, naming who is in the way, when the time is over or somebody would wait for himself: the
        transaction goes on. Raises TxnAborted when wait-die has ended it.
        """
        with self._locks.waiting(lock_timeout):
            patience = self._locks.patience(numretries, sleep_between_retries)
            self._locks.acquire(table, partition, strategy, patience, mode=locks.mode_of(mode))

    def lock_for(
        self,
        statement: Statement | str,
        table: str,
        *,
        partition: str | Sequence[str] | None = None,
        strategy: str = "wait",
        lock_timeout: float | None = None,
        numretries: int | None = None,
        sleep_between_retries: float = locks.SLEEP_BETWEEN_RETRIES,
    ) -> None:
        """Locks what a statement locks ("select", "alter table add partition", ...), otherwise as `lock`.

        Which locks that are is a table in docs/protocol.md. For programs that do by themselves what this service does
        not, and for reads that nobody may overwrite before the transaction ends.
        """
        with self._locks.waiting(lock_timeout):
            patience = self._locks.patience(numretries, sleep_between_retries)
            self._locks.acquire(table, partition, strategy, patience, statement=statement)

    # ---- reading

    @property
    def snapshot(self) -> Snapshot:
        """What this handle reads from: taken when it is first asked for, leased until the transaction ends.

        Each handle of a transaction, by token or not, has one of its own. What others commit after it is not seen, and
        an overwrite of what they have overwritten since is a conflict. What this transaction wrote is seen, from
        `write` or `add` on. Reading raises Conflict where others, before the snapshot, added keys that the transaction
        had written to files: they would be there twice, and it cannot commit.
        """
        return self.handle.snapshot

    # ---- work in foreign participants

    def enlist(self, name: str, part: Part) -> None:
        """Makes the foreign participant `name` part of the transaction. Nothing may be done there before.

        `commit` first prepares every part, in this order, and then asks for the commit; a part that refuses aborts the
        transaction. In each participant, a transaction has one part.

        Raises NotFound for a participant that the cluster does not know, IllegalState for a second part.
        """
        with self._ending.writing(f"work in {name}"):
            self._foreign.enlist(name, part)

    def postgres(self, name: str, target: str | psycopg.Connection) -> PostgresPart:
        """One PostgreSQL transaction as part of this one: `with txn.postgres("billing", conninfo) as connection:`.

        `name`: the participant as which the database was registered (`txnctl participant list`). `target`: what psycopg
        connects to, or an idle connection of the program's own. All that the connection does from here on is committed
        with this transaction, or rolled back; do not commit or roll it back yourself. Needs `txnstatus[postgres]`.

        Raises InvalidArgument for another database, or a server that prepares no transactions; what `enlist` raises.
        """
        with self._ending.writing(f"work in {name}"):
            return self._foreign.postgres(name, target)

    # ---- ending

    @property
    def receipt(self) -> CommitReceipt | None:
        """What the commit came to, once this handle knows of it."""
        return self._ending.receipt

    def commit(self, timeout: float = DEFAULT_COMMIT_SECONDS) -> CommitReceipt:
        """Commits, and returns once the outcome is durable and visible.

        Also on a handle that is not alive: the service knows better. Raises Conflict or TxnAborted (run the
        transaction again), or CommitUnknown when the outcome did not arrive in time: then call `commit` again on this
        handle; it asks for the outcome and commits nothing twice.
        """
        return self._ending.commit(timeout)

    def start_commit(self) -> None:
        """Asks for the commit, and does not wait: see `is_commit_complete`. Nothing can be written after it."""
        self._ending.start_commit()

    def is_commit_complete(self) -> bool:
        """Whether the commit that was started is durable and visible.

        Raises Conflict or TxnAborted when it was aborted instead, IllegalState when it was not started.
        """
        return self._ending.is_commit_complete()

    def abort(self, reason: str = "") -> None:
        """Ends the transaction; nothing of it will ever be visible. Repeating it is harmless.

        From here on the handle does not beat: should this call fail, the transaction expires by itself. A table may
        take another handle's writes until it hears of the abort, a moment later; they go the way of the others.

        Raises IllegalState when it is committed already; Unavailable when it is not known whether the abort arrived.
        """
        self._ending.abort(reason)

    # ---- looking

    def state(self) -> TxnState:
        return TxnState(self.handle.session.record(self.id).state)

    @property
    def alive(self) -> bool:
        """Whether the service, when last heard, still had this transaction open, and that was not too long ago."""
        return self.handle.liveness.alive and self.receipt is None

    @property
    def last_heartbeat_age(self) -> float:
        """Seconds since the last heartbeat that was answered left, or since the begin did."""
        return time.monotonic() - self.handle.liveness.heard_at

    def on_lost(self, callback: OnLost) -> None:
        """Calls `callback(error)` once, when this handle learns that its transaction is lost.

        TxnAborted: aborted by somebody, or expired; `error.by` and `error.reason` say who and why. NotFound,
        NotAuthorized, IllegalState: gone, not ours, or ended by another handle. Unavailable: no heartbeat was answered
        for longer than the keep-alive interval, so what became of it is not known; should one be answered later, the
        handle is `alive` again.

        It runs on the heartbeat thread, so it must return soon; on the caller's when a call of this handle brought the
        news, or when the handle is lost already. An abort by this handle is no news. What it raises is logged.
        """
        self.handle.liveness.on_lost(callback)

    @property
    def keepalive_seconds(self) -> float:
        return self.handle.keepalive_seconds
