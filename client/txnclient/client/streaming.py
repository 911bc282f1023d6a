"""Streaming: marks of sources, and queries of Structured Streaming whose batches are transactions."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from txnclient.calls.requests import names_of
from txnclient.session import Session
from txnclient.showing import Shown
from txnclient.snapshot import Snapshot
from txnclient.streams import marks
from txnclient.streams.batches import Batch, Last, is_next
from txnclient.streams.marks import Mark
from txnclient.transaction.beginning import begin
from txnclient.transaction.transaction import Transaction
from txnstatus.errors import IllegalState, InvalidArgument, NotFound, RowsRefused, TxnAborted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    Write = Callable[[Transaction, DataFrame, int], object]

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a batch is run whose transaction others abort, by a conflict as a rule."""
QUERY_ID = "sql.streaming.queryId"
"""The property of Spark's own that tells, in a batch, of which query it is: as long as there is its checkpoint."""


class Streaming:
    """What a `Client` does with sources."""

    session: Session

    def mark(self, source: str) -> Mark | None:
        """How far the source has been taken, by the last commit that moved its mark; None: nobody has taken from it.

        Raises InvalidArgument for what cannot be a source's name.
        """
        marks.check_source(source)
        with Snapshot(self.session, self.session.last_commit()) as snapshot:
            return marks.find(snapshot, source)

    def marks(self) -> list[Mark]:
        """The marks of all sources, by source, as one snapshot sees them."""
        with Snapshot(self.session, self.session.last_commit()) as snapshot:
            return Shown("Marks", "source position txn_id owner written", marks.all_of(snapshot))

    def remove_mark(self, source: str) -> None:
        """Forgets how far the source has been taken, for one that is gone for good, or is to be taken anew.

        Whoever takes from it from its beginning writes all again. Raises NotFound, naming the sources that there are;
        Conflict where somebody moves the mark meanwhile.
        """
        marks.check_source(source)
        (txn,), _ = begin(self.session, 1, f"remove the mark of {source}"[:100], 0, uuid.uuid4().hex)
        try:
            with txn:
                txn.delete(marks.MARKS, marks.key_of(source))
        except (RowsRefused, NotFound):
            raise marks.not_found(source, self.marks()) from None

    def stream(
        self,
        df: DataFrame,
        fn: Write,
        *,
        source: str,
        tables: Iterable[str] = (),
        label: str = "",
        take_over: str = "",
    ) -> DataStreamWriter:
        """A writer of the streaming DataFrame, each batch of which is one transaction: `fn(txn, batch, batch_id)`.

        What `fn` writes in `txn`, to any number of tables, is visible once, whatever dies when: the transaction also
        moves the mark of `source` to the batch, and a batch whose mark has committed is not run again. So it is after
        days, too, when the transactions are forgotten. Give the writer a checkpointLocation and start it:
        `client.stream(df, fn, source="orders").option("checkpointLocation", path).start()`. The client stays open as
        long as the query runs, and in its process: `fn` is called there.

        `fn` neither commits nor aborts. It is called again, in another transaction, when others abort the first one, as
        by a conflict: three times at most. `source`: a name of the query's own, by which its mark is found; the same
        over restarts. `tables`: as of `begin`, to save calls. `label`: what listings show.

        A query that must not go on ends with IllegalState, and nothing of the batch is written: one that runs twice,
        whether with one checkpoint or with two; one whose checkpoint was lost, or is behind or ahead of the mark. The
        error says what to give as `take_over` so that the query goes on all the same; left in the program it does
        nothing any more.

        Raises InvalidArgument for a DataFrame that is no stream, and under Spark Connect, whose server would call `fn`.
        """
        marks.check_source(source)
        if type(df).__module__.startswith("pyspark.sql.connect"):
            raise InvalidArgument(
                "a client of Spark Connect has the server call `fn`, and there is no transaction there",
                hint="run the stream in a driver of its own, as spark-submit does",
            )
        if not getattr(df, "isStreaming", False):
            raise InvalidArgument(f"df is no stream: spark.readStream makes one, not {type(df).__name__}")
        run = _Run(self.session, fn, source, tuple(names_of(tables)), label or f"stream {source}"[:100], take_over)
        return df.writeStream.foreachBatch(run.batch)


class _Run:
    """One start of a query: batches come one after the other."""

    def __init__(
        self, session: Session, fn: Write, source: str, tables: tuple[str, ...], label: str, take_over: str
    ) -> None:
        self._session, self._fn, self._source, self._tables = session, fn, source, tables
        self._label, self._take_over = label, take_over
        self._id = uuid.uuid4().hex
        self._last: Last | None = None

    def batch(self, rows: DataFrame, number: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if not query:
            raise IllegalState(f"batch {number} of source {self._source!r} does not say of which query it is")
        batch = Batch(query, number, self._id)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._attempt(batch, rows)
                return
            except TxnAborted as error:
                if attempt == ATTEMPTS:
                    raise
                log.warning("batch %s of source %s runs again: %s", number, self._source, error.message)

    def _attempt(self, batch: Batch, rows: DataFrame) -> None:
        """Raises IllegalState where the query must not go on, TxnAborted, and what the function raises."""
        (txn,), _ = begin(self._session, 1, self._label, 0, uuid.uuid4().hex, tables=self._tables)
        with txn:
            mark = txn.marked(self._source)
            position = None if mark is None else mark.position
            wanted = is_next(mark, batch, self._last, self._take_over)
            self._last = Last(position)
            if not wanted:
                return
            # First, so that there is no commit without it, whatever the function does.
            txn.move_mark(self._source, batch.position)
            self._fn(txn, rows, batch.number)
            if txn.receipt is None:
                txn.commit()
        self._last = Last(batch.position)
