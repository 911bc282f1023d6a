"""What Spark asks as it writes: a transaction for each statement, the directory for its files, and the end of both."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from txnclient.change.plan import RowsChanged
from txnclient.client.client import Client
from txnclient.formats import arrow
from txnclient.info import TableInfo
from txnclient.outcome import CommitReceipt, RowsAffected
from txnclient.read.table_files import TableFiles
from txnclient.sparksql import changes, reached
from txnclient.sparksql.bridge import Request
from txnclient.sparksql.seen import Seen
from txnclient.transaction.blocks import Block
from txnclient.transaction.reasons import reason
from txnclient.transaction.statements import Statements
from txnclient.transaction.transaction import Transaction
from txnclient.write.files import Opened
from txnclient.write.overwriting import Mode
from txnstatus.errors import Conflict, IllegalState
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import parquet_files
from txnstatus.schema import Schema
from txnstatus.types import Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LABEL = "Spark SQL"


@dataclass(frozen=True, slots=True)
class _Write:
    """A statement that is writing."""

    seen: Seen
    txn: Statements
    opened: Opened
    mode: str
    partition: str | None
    statement: Statement | None
    """The statement, where it is a DELETE, an UPDATE or a MERGE."""
    sought: Sequence[str]
    """Columns in which rows that it inserts have the values by which they were looked for."""


class Writes:
    """The answers to the calls of one catalog that change something."""

    def __init__(self, client: Client, spark: SparkSession | None) -> None:
        """`spark`: what finds keys that come twice where there are many."""
        self._client, self._spark = client, spark
        self._lock = threading.Lock()
        self._running: dict[str, _Write] = {}
        self.receipt: CommitReceipt | None = None
        """The receipt of the last statement that was a transaction of its own and has committed."""

    # ---- rows

    def open(self, request: Request, seen: Seen) -> Request:
        """Begins the statement, which sees what it has read. Raises as `Transaction.write`."""
        table: str = request["table"]
        statement = changes.statement_of(request)
        with seen.scope.opening(f"{LABEL}: {request['mode']} {table}", table) as txn, txn.writing_to(table):
            opened = txn.open_change(statement, table) if statement else txn.open_write(table)
            # The rows are written by the columns that the plan has seen, whatever these are called by now.
            opened = replace(opened, schema=_seen_by(seen, opened).schema)
            partition = _partition(request.get("partition"), opened.schema)
        running = uuid.uuid4().hex
        with self._lock:
            self._running[running] = _Write(seen, txn, opened, request["mode"], partition, statement, request["sought"])
        return {"statement": running, "directory": opened.directory}

    def commit(self, request: Request) -> None:
        """Adds what Spark's job has left in the directory, and commits what is a transaction of its own.

        Raises as `Transaction.commit`.
        """
        found = self._ended(request)
        if found is None:
            raise IllegalState("the statement's transaction is over", hint="run the statement again")
        opened = found.opened
        with found.seen.scope.ending(found.txn, opened):
            if "view" in request:
                files = reached.written(self._spark, request["view"], opened)
            else:
                left = parquet_files(opened.directory) if request["adds"] else ()
                files = arrow.described(left, opened.directory, opened.schema)
            rows = self._done(found, files, request.get("changes"))
        if isinstance(found.txn, Transaction) and found.txn.receipt is not None:
            self.receipt = replace(found.txn.receipt, rows=rows)

    def write(self, request: Request, seen: Seen) -> None:
        """A statement whose rows are those of a view, from its begin to its commit. Raises as these."""
        self.commit({**request, "statement": self.open(request, seen)["statement"]})

    def _done(self, found: _Write, files: Sequence[DataFile], told: Request | None) -> RowsAffected:
        opened = found.opened
        if found.statement is not None or found.mode != "append":
            found.seen.require_last(opened.table)
        if found.statement is None:
            found.txn.add_written(opened, files, cast(Mode, found.mode), found.partition, self._spark)
            return RowsAffected(inserted=sum(file.rows for file in files))
        # Places are those of the plan, whatever the transaction has written since.
        there = found.seen.files(opened.table)

        def engine(_: TableFiles) -> RowsChanged:
            changed = changes.changed(told, files, there, self._spark)
            return replace(changed, looked=changes.looked(files, found.sought, opened.schema))

        return found.txn.change_written(opened, engine)

    def abort(self, request: Request) -> None:
        """Harmless after `commit`, which Spark's abort follows where it failed."""
        if (found := self._ended(request)) is not None:
            found.seen.scope.give_up(found.txn, found.opened, reason(request.get("because") or ""))

    def _ended(self, request: Request) -> _Write | None:
        with self._lock:
            return self._running.pop(request["statement"], None)

    def truncate(self, request: Request, seen: Seen) -> None:
        """All rows go, or those of `partitions`, in one transaction."""
        table: str = request["table"]
        partitions: Sequence[str | None] = request.get("partitions", [None])

        def remove(txn: Statements) -> None:
            for each in partitions:
                with txn.writing_to(table):
                    _seen_by(seen, opened := txn.open_write(table))
                txn.add_written(opened, (), "overwrite", each, None)

        label = f"{LABEL}: truncate {table}"[:100]
        if isinstance(seen.scope, Block):
            with seen.scope.using() as txn:
                remove(txn)
        elif partitions:
            with self._client.transaction(label, tables=[table]) as alone:
                remove(alone)
            self.receipt = alone.receipt

    # ---- method → what answers it

    def answers(self) -> Mapping[str, Callable[[Request], Any]]:
        return {"commit": self.commit, "abort": self.abort, "far": _far}

    def statements(self) -> Mapping[str, Callable[[Request, Seen], Any]]:
        """Answers to calls that begin to write to a table that was seen."""
        return {"open": self.open, "write": self.write, "truncate": self.truncate}


def _far(request: Request) -> None:
    raise reached.no_changes(request["table"])


def _seen_by(seen: Seen, opened: Opened) -> TableInfo:
    """The table as the statement has seen it. Raises Conflict where it is another one of the same name by now."""
    found = seen.table(opened.table)
    if found.table_id != opened.table_id:
        raise Conflict(
            f"table {opened.table} was dropped, and made anew, since the statement has seen it",
            hint="run the statement again",
        )
    return found


def _partition(named: Mapping[str, str] | None, schema: Schema) -> str | None:
    """The partition of values of the first columns, by their names."""
    return "/".join(f"{column}={named[column]}" for column in schema.partition_by if column in named) if named else None
