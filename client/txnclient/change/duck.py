"""DuckDB as the engine runs it: in memory, over Arrow, by Spark's rules where it has a choice."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from txnstatus.errors import InternalError, InvalidArgument

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own to the engine of this process: what is registered with it, no other one sees.

    Raises InvalidArgument where the libraries are missing.
    """
    try:
        import duckdb  # noqa: F401
        import sqlglot  # noqa: F401
    except ImportError as error:
        raise InvalidArgument(
            f"rows are changed by SQL, without Spark, with DuckDB and sqlglot: {error}",
            hint="pip install 'txnstatus[sql]'",
        ) from None
    instance = _engine.instance()
    try:
        with instance.cursor() as connection:
            yield connection
    except BaseException:
        _engine.leave_if_failed(instance)
        raise


def run(connection: duckdb.DuckDBPyConnection, query: str, table: str, **relations: Any) -> pa.Table:
    """The rows of a query over Arrow tables and readers.

    Raises InvalidArgument for a value that is none, as a division by zero, and whatever reading the relations raises.
    """
    import duckdb

    watched = {name: _Watched(rows) for name, rows in relations.items()}
    try:
        for name, each in watched.items():
            connection.register(name, each.rows)
        with turns():
            return connection.execute(query).to_arrow_table()
    except duckdb.Error as error:
        for each in watched.values():
            if each.error is not None:
                raise each.error from None
        if isinstance(error, duckdb.DataError | duckdb.InvalidInputException | duckdb.SyntaxException):
            raise InvalidArgument(f"table {table}: {str(error).partition(chr(10))[0]}") from None
        raise InternalError(f"table {table}: DuckDB failed: {error}") from error
    finally:
        for name in relations:
            connection.unregister(name)


@cache
def turns() -> threading.BoundedSemaphore:
    """Turns of statements whose rows DuckDB takes as they are read.

    It takes each stream of them in one of Arrow's threads for files, which waits for files that are read in others.
    With all of them taken by as many statements, nobody read, and all waited for ever.
    """
    import pyarrow as pa

    return threading.BoundedSemaphore(max(1, pa.io_thread_count() // 4))


class _Engine:
    """The instance of DuckDB in this process. To make one for each statement took some 9 ms of CPU."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instance: duckdb.DuckDBPyConnection | None = None

    def instance(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        with self._lock:
            if self._instance is None:
                made = duckdb.connect()
                # A filter that is pushed down is one of pyarrow's, which does not see NaN and NULL as SQL does, and
                # passes by way of Python, which has no years beyond 9999.
                made.execute("SET disabled_optimizers = 'filter_pushdown,join_filter_pushdown'")
                made.execute("SET GLOBAL TimeZone = 'UTC'; SET enable_external_access = false")
                self._instance = made
            return self._instance

    def leave_if_failed(self, instance: duckdb.DuckDBPyConnection) -> None:
        """One in which DuckDB has found a fault of its own runs nothing any more: the next statement makes another."""
        import duckdb

        try:
            with instance.cursor() as connection:
                connection.execute("SELECT 1")
        except duckdb.Error:
            with self._lock:
                if self._instance is instance:
                    self._instance = None

    def after_fork(self) -> None:
        """A child has the memory of its parent's instance, and none of its threads, which would be waited for if it
        were ever closed: so it never is."""
        if self._instance is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._instance))
        self._lock, self._instance = threading.Lock(), None


_engine = _Engine()
os.register_at_fork(after_in_child=_engine.after_fork)
os.register_at_fork(after_in_child=turns.cache_clear)


class _Watched:
    """Rows for DuckDB, which would tell of an error in their reading as one of its own."""

    def __init__(self, rows: Any) -> None:
        import pyarrow as pa

        self.error: Exception | None = None
        """The error that reading them ended with."""
        self.rows = rows if isinstance(rows, pa.Table) else self._reader(rows)

    def _reader(self, tables: Iterator[pa.Table]) -> pa.RecordBatchReader:
        import pyarrow as pa

        first = next(tables)
        return pa.RecordBatchReader.from_batches(first.schema, self._batches(first, tables))

    def _batches(self, first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        try:
            yield from first.to_batches()
            for table in rest:
                yield from table.to_batches()
        except Exception as error:
            self.error = error
            raise
