"""Statements: what SQL calls SELECT, INSERT ALL, DELETE, UPDATE, MERGE and TRUNCATE, as methods of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from txnclient.formats.partitions import Partition
from txnclient.handle import Handle
from txnclient.outcome import RowsAffected
from txnclient.read.table_files import TableFiles
from txnclient.transaction.ending import Ending
from txnclient.write.changing import Changes, Engine
from txnclient.write.files import Opened, is_spark
from txnclient.write.locks import Locks
from txnclient.write.overwriting import Mode
from txnstatus.errors import InvalidArgument
from txnstatus.lake.manifest import DataFile
from txnstatus.types import Statement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from txnclient.change.merge import Merge
    from txnclient.change.plan import MergePlan


class Statements:
    """Rows are changed where a predicate holds, or by what they match.

    Predicates and values are Spark SQL over the table's columns. Rows are found in the transaction's `snapshot` with
    what it wrote itself; none of their files is rewritten: the rows are marked as deleted, and new ones are added. In a
    table with a primary key few rows are changed by it, as by `upsert` and `delete`. A row for which a predicate is
    NULL stays as it is.

    Given `spark`, or a Spark DataFrame to merge, Spark does the work; else DuckDB does in this process, which needs
    `txnstatus[sql]`, and what it would answer otherwise than Spark is refused. A predicate may look into a table as the
    transaction sees it, `"id IN (SELECT id FROM shop.returns WHERE day > '2026-01-01')"`; Spark reads views for that.
    Spark evaluates each statement once: neither rand(), a clock nor a source that changes meanwhile tears what is
    deleted from what comes in its place.

    Two transactions that change different rows both commit, in one file, too. Of two that change the same row the first
    to commit wins, and the other is told Conflict, which names file and rows; so is an overwrite of what was changed
    since it was read, and a change of what was overwritten. Where a MERGE inserts rows that it did not find, rows that
    others have added meanwhile, and that may be those, are a conflict.

    All raise InvalidArgument, and nothing is changed, for SQL that does not parse or names no column of the table, and
    for values that do not fit; AlreadyExists where a row would get a key that another one has.
    """

    def __init__(self, handle: Handle, changes: Changes, ending: Ending, locks: Locks) -> None:
        self.handle, self._changes, self._ending, self._locks = handle, changes, ending, locks

    def read(
        self,
        spark: SparkSession,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        partition: Partition | None = None,
    ) -> DataFrame:
        """The table, or some of its columns, or one part of it, as this transaction sees it, as a Spark DataFrame.

        To be used before the transaction ends. `partition`: as for `write`; only its files are looked at.
        """
        return self.handle.snapshot.read(spark, table, columns, partition=partition)

    def to_arrow(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The table as this transaction sees it, or some of its columns, as a pyarrow Table."""
        return self.handle.snapshot.to_arrow(table, columns)

    def delete_where(
        self, table: str, predicate: str, *, spark: SparkSession | None = None, lock_timeout: float | None = None
    ) -> RowsAffected:
        """Deletes the rows for which the predicate holds: `"price > 100 AND code IN ('a', 'b')"`; "true" is all."""

        def engine() -> Engine:
            if spark is None:
                from txnclient.change import local

                return partial(local.delete, predicate=predicate, tables=self._tables)
            self._require_session(spark)
            from txnclient.spark import row_changes

            return partial(row_changes.delete, spark, predicate=predicate)

        return self._run(Statement.DELETE, table, engine, lock_timeout)

    def update_where(
        self,
        table: str,
        values: Mapping[str, str],
        predicate: str,
        *,
        spark: SparkSession | None = None,
        lock_timeout: float | None = None,
    ) -> RowsAffected:
        """Sets columns, `{"price": "price * 1.1"}`, of the rows for which the predicate holds.

        The values are computed from the rows as they were, whatever their order.
        """

        def engine() -> Engine:
            if spark is None:
                from txnclient.change import local

                return partial(local.update, values=values, predicate=predicate, tables=self._tables)
            self._require_session(spark)
            from txnclient.spark import row_changes

            return partial(row_changes.update, spark, values=values, predicate=predicate)

        return self._run(Statement.UPDATE, table, engine, lock_timeout)

    def merge(self, table: str, source: Any, on: str, *, lock_timeout: float | None = None) -> Merge[RowsAffected]:
        """A MERGE of rows into the table, to be completed with clauses and run by `execute()`.

        `source`: a Spark DataFrame, which Spark merges, unless it is small and nothing of it is computed; or pyarrow,
        pandas or polars data. `on`: which rows match, for example `"target.id = source.id"`; the table is `target` in
        all SQL of it. A target row that several source rows would change is refused with InvalidArgument, as in SQL.
        """
        from txnclient.change.merge import Merge

        writing = partial(self._ending.writing, f"merge of rows of {table}")
        with writing():
            schema = self.handle.session.table(table).schema
            return Merge(table, schema, on, lambda plan: self.run_merge(table, source, plan, lock_timeout), writing)

    def run_merge(self, table: str, source: Any, plan: MergePlan, lock_timeout: float | None = None) -> RowsAffected:
        """A MERGE that is complete."""

        def engine() -> Engine:
            if is_spark(source):
                from txnclient.spark import merging as by_spark

                return partial(by_spark.merge, source=source, plan=plan)
            from txnclient.change import merging

            return partial(merging.merge, source=source, plan=plan, tables=self._tables)

        return self._run(Statement.MERGE, table, engine, lock_timeout, plan.columns)

    def write_all(self, data: Mapping[str, Any], mode: Mode = "append", *, lock_timeout: float | None = None) -> None:
        """As `write` of each table's data, side by side where neither locks nor keys order them: what a write waits
        for, which is mostly its files to be durable and the service to know of them, it waits for beside the others.

        `data`: by table. Raises what `write` raises, and InvalidArgument for mode "upsert".
        """
        with self._ending.writing(f"a write to {', '.join(map(str, data))}"), self._locks.waiting(lock_timeout):
            self._changes.files.write_all(data, mode)

    def truncate(self, table: str, *, partition: Partition | None = None, lock_timeout: float | None = None) -> None:
        """Removes all rows of the table or of the partition, as an overwrite with nothing."""
        with self._ending.writing(f"a truncation of {table}"), self._locks.waiting(lock_timeout):
            self._changes.files.truncate(table, partition)

    # ---- for Spark's own SQL, whose tasks write the files

    def writing_to(self, table: str) -> AbstractContextManager[None]:
        """Work for the transaction. If it fails, the transaction can only be aborted, and is."""
        return self._ending.writing(f"a write to {table}")

    def working(self, what: str) -> AbstractContextManager[None]:
        """As `writing_to`, of something that is more than one write."""
        return self._ending.writing(what)

    def require_not_aborted(self) -> None:
        """Raises TxnAborted, which says by whom and why: then files of a write may be gone before they are added."""
        if (over := self._ending.over()) is not None:
            raise over

    def open_write(self, table: str) -> Opened:
        """Claims a directory. Files in it count once `add_written` has named them."""
        with self.writing_to(table):
            return self._changes.files.open(table)

    def open_change(self, statement: Statement, table: str) -> Opened:
        """As `open_write`, for `change_written`. What the statement locks it locks now."""
        with self._ending.writing(f"{statement.value} of rows of {table}"), self._locks.waiting(None):
            return self._changes.open(statement, table)

    def add_written(
        self,
        opened: Opened,
        files: Sequence[DataFile],
        mode: Mode,
        partition: Partition | None,
        spark: SparkSession | None,
    ) -> None:
        """As `Transaction.write`, of what is written already. `spark`: for keys of many rows."""
        with self.writing_to(opened.table), self._locks.waiting(None):
            self._changes.files.add_written(opened, files, mode, partition, spark)

    def change_written(self, opened: Opened, engine: Engine) -> RowsAffected:
        """Does what `engine` says, whose new rows are written already."""
        with self._ending.writing(f"a change of rows of {opened.table}"), self._locks.waiting(None):
            return self._changes.apply(opened, engine)

    def _tables(self, name: str) -> TableFiles:
        return self.handle.snapshot.table_files(name)

    @staticmethod
    def _require_session(spark: SparkSession) -> None:
        if type(spark).__module__.partition(".")[0] != "pyspark":
            raise InvalidArgument(f"spark is a SparkSession, not {type(spark).__name__}")

    def _run(
        self,
        statement: Statement,
        table: str,
        engine: Callable[[], Engine],
        lock_timeout: float | None,
        columns: Collection[str] = (),
    ) -> RowsAffected:
        """`engine`: called within, since what an engine needs may not be installed. `columns`: those that are set."""
        with self._ending.writing(f"{statement.value} of rows of {table}"), self._locks.waiting(lock_timeout):
            return self._changes.run(statement, table, engine(), columns)
