"""Auto-commit: writes that are a transaction each, begun and committed by the call."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from txnclient.calls.requests import checked_seconds
from txnclient.formats.partitions import Partition
from txnclient.outcome import CommitReceipt, RowsAffected, RowsWritten
from txnclient.session import Session
from txnclient.transaction.beginning import begin
from txnclient.transaction.transaction import Transaction
from txnclient.write import growing
from txnclient.write.locks import checked_timeout
from txnclient.write.overwriting import Mode
from txnstatus.errors import CommitUnknown, IllegalState, InvalidArgument, RowsRefused, TxnAborted
from txnstatus.limits import MAX_FIRST_WRITES
from txnstatus.types import TxnState
from txnstatus.undoes import require_no_undo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from txnclient.change.merge import Merge
    from txnclient.change.plan import MergePlan

LABEL = "auto-commit"
DEFAULT_TIMEOUT_SECONDS = 30.0

Rows = RowsWritten | RowsAffected | None


class WriteOptions(TypedDict, total=False):
    """Options that every write takes, see `AutoCommit`."""

    label: str
    request_id: str | None
    timeout: float
    lock_timeout: float | None


class AutoCommit:
    """The writes of a `Client`: each is one transaction, of which all is visible when the call returns.

    What goes wrong aborts it, and nothing of the write is ever visible. An error is what a transaction's own write or
    commit raises; CommitUnknown alone leaves open what became of it.

    `request_id` names the write: of all calls with the same one, by whichever process, one at most takes effect, as
    long as the service keeps records (retention_ms). A repeated call answers with the receipt of the first that has
    committed, without `rows`: how many of them were written and left out is told once, and kept nowhere; it raises
    InvalidArgument if that was a write to another table. If the first has not asked for its commit it is aborted, and
    the repeated call raises TxnAborted: run it again with another id. By default each call has an id of its own, which
    CommitUnknown tells: the same call with that id finds out.

    `timeout`: seconds, by default 30, that all calls to the service may take together, up to the outcome of the commit;
    what it takes to write files comes on top, and waits for locks do. `label`: what listings show. `lock_timeout`: as
    of `Transaction.write`.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def write(
        self,
        data: Any,
        table: str,
        mode: Mode = "append",
        *,
        partition: Partition | None = None,
        keys_are_new: bool = False,
        merge_schema: bool = False,
        **options: Unpack[WriteOptions],
    ) -> CommitReceipt:
        """As `Transaction.write`: a Spark DataFrame or pyarrow data, appended, or in place of what is there."""
        if merge_schema:  # before it begins, which opens the write
            growing.grow(self.session, table, growing.columns_of(data))
        return self._run(
            [table],
            lambda txn: txn.write(data, table, mode, partition=partition, keys_are_new=keys_are_new),
            options,
            opens=mode != "upsert",
        )

    def write_all(
        self, data: Mapping[str, Any], mode: Mode = "append", **options: Unpack[WriteOptions]
    ) -> CommitReceipt:
        """As `Transaction.write_all`: data by table, in all of these tables or in none."""
        return self._run(list(data), lambda txn: txn.write_all(data, mode), options, opens=True)

    def truncate(
        self, table: str, *, partition: Partition | None = None, **options: Unpack[WriteOptions]
    ) -> CommitReceipt:
        """Removes all rows of the table or of the partition."""
        return self._run([table], lambda txn: txn.truncate(table, partition=partition), options, opens=True)

    def insert(self, table: str, rows: Any, **options: Unpack[WriteOptions]) -> CommitReceipt:
        """Rows, pyarrow data, by primary key. Raises RowsRefused if a key is there already: then none is written."""
        return self._run([table], lambda txn: txn.insert(table, rows), options)

    def insert_ignore(self, table: str, rows: Any, **options: Unpack[WriteOptions]) -> CommitReceipt:
        """Rows whose keys are there already are left out; `receipt.rows` counts them."""
        return self._run([table], lambda txn: txn.insert_ignore(table, rows), options)

    def upsert(self, table: str, rows: Any, **options: Unpack[WriteOptions]) -> CommitReceipt:
        """Inserts rows, or replaces those that have their keys."""
        return self._run([table], lambda txn: txn.upsert(table, rows), options)

    def update(self, table: str, rows: Any, **options: Unpack[WriteOptions]) -> CommitReceipt:
        """As `Transaction.update`. Raises RowsRefused if a key is not there: then none is written."""
        return self._run([table], lambda txn: txn.update(table, rows), options)

    def delete(self, table: str, rows: Any, **options: Unpack[WriteOptions]) -> CommitReceipt:
        """Only the primary key counts in `rows`. Raises RowsRefused if a key is not there: then none is deleted."""
        return self._run([table], lambda txn: txn.delete(table, rows), options)

    def delete_where(
        self, table: str, predicate: str, *, spark: SparkSession | None = None, **options: Unpack[WriteOptions]
    ) -> CommitReceipt:
        """As `Transaction.delete_where`; `receipt.rows` counts."""
        return self._run([table], lambda txn: txn.delete_where(table, predicate, spark=spark), options)

    def update_where(
        self,
        table: str,
        values: Mapping[str, str],
        predicate: str,
        *,
        spark: SparkSession | None = None,
        **options: Unpack[WriteOptions],
    ) -> CommitReceipt:
        """As `Transaction.update_where`; `receipt.rows` counts."""
        return self._run([table], lambda txn: txn.update_where(table, values, predicate, spark=spark), options)

    def merge(self, table: str, source: Any, on: str, **options: Unpack[WriteOptions]) -> Merge[CommitReceipt]:
        """As `Transaction.merge`: `execute()` is the transaction, and `receipt.rows` counts."""
        from txnclient.change.merge import Merge

        def execute(plan: MergePlan) -> CommitReceipt:
            return self._run([table], lambda txn: txn.run_merge(table, source, plan), options)

        return Merge(table, self.session.table(table).schema, on, execute)

    def _run(
        self, tables: Sequence[str], write: Callable[[Transaction], Rows], options: WriteOptions, *, opens: bool = False
    ) -> CommitReceipt:
        """`opens`: what it writes are files, whatever is in the tables."""
        if unknown := options.keys() - WriteOptions.__annotations__.keys():
            raise TypeError(f"a write has no option {min(unknown)!r}; it has {', '.join(WriteOptions.__annotations__)}")
        label = options.get("label", LABEL)
        session = self.session.within(checked_seconds(options.get("timeout", DEFAULT_TIMEOUT_SECONDS)))
        request_id, waits = options.get("request_id"), options.get("lock_timeout")
        lock_timeout = self.session.lock_timeout if waits is None else checked_timeout(waits)
        if request_id == "":
            raise InvalidArgument("request_id '': it names the write, so it cannot be empty; None makes one up")
        require_no_undo(str(request_id))
        used = request_id or uuid.uuid4().hex
        (txn,), begun_before = begin(
            session,
            1,
            label,
            0,
            used,
            is_retry=request_id is not None,
            alone=True,
            tables=tables[:MAX_FIRST_WRITES] if opens else (),
            near="" if request_id else "".join(tables[:1]),  # all calls with the id find it, whatever they write
        )
        txn.handle.lock_timeout = lock_timeout
        try:
            if begun_before and request_id is not None:
                return _of(tables, _settled(txn, used), used)
            with txn:
                rows = write(txn)
                return replace(txn.commit(session.timeout), rows=rows)
        except CommitUnknown as error:
            error.hint = f"the same call with request_id={used!r} finds out; it writes nothing twice"
            raise
        except RowsRefused as error:
            error.written = 0
            error.hint = "none of the rows is written; within a transaction of your own the others would be"
            raise


def _of(tables: Sequence[str], receipt: CommitReceipt, request_id: str) -> CommitReceipt:
    """The receipt, if it is of a write to the tables. Raises InvalidArgument."""
    if receipt.tables and not set(receipt.tables).issuperset(tables):
        raise InvalidArgument(
            f"request_id {request_id!r} names a write to {', '.join(receipt.tables)} that has committed, transaction "
            f"{receipt.txn_id}: this write to {', '.join(tables)} is another one",
            hint="nothing of this write is visible; give each write a request_id of its own",
        )
    return receipt


def _settled(txn: Transaction, request_id: str) -> CommitReceipt:
    """What became of an earlier attempt; one that still writes is ended, so that two never write in one transaction."""
    if txn.state() is TxnState.OPEN:
        try:
            txn.abort(f"another call with its request id, {request_id!r}, found it open")
        except IllegalState:
            pass  # it has committed in between
        else:
            raise TxnAborted(
                f"transaction {txn.id} began with request id {request_id!r} before, and was open: it is aborted now",
                txn_id=txn.id,
                hint="none of it is visible; run it again with another request_id",
            )
    return txn.commit(txn.handle.session.timeout)
