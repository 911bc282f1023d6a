"""Optimizing: a table's rows written anew in another order, by which readers leave more of its files out.

A compaction keeps the order of rows, so that nobody is in its way. This does not: it is an ordinary overwrite, and of
two who change the same rows one has to give way. It is this one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from txnclient.calls.requests import build, checked_seconds
from txnclient.formats import schemas
from txnclient.formats.arrow import BYTES_PER_FILE
from txnclient.formats.partitions import Partition, name_of
from txnclient.outcome import CommitReceipt
from txnclient.progress import hidden, shown
from txnclient.session import Session
from txnclient.transaction.beginning import begin
from txnclient.transaction.transaction import Transaction
from txnstatus.errors import Conflict, InvalidArgument, Unavailable
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import TxnState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

DEFAULT_TIMEOUT_SECONDS = 600.0
PAUSE_SECONDS = 0.5
"""Time between two looks at whether others are at work on the table."""
LABEL = "optimize"
KEY_BITS = 63
"""Bits of the number that rows are ordered by where several columns count alike."""
_UNDER_WAY = (TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS)


class Optimizing:
    """What a `Client` does to the order of rows."""

    session: Session

    def optimize(
        self,
        table: str,
        *,
        sort_by: Sequence[str] = (),
        zorder: Sequence[str] = (),
        partition: Partition | None = None,
        spark: SparkSession | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        progress: Callable[[str], None] | None = None,
    ) -> CommitReceipt:
        """Writes a table's rows anew, or those of one partition, sorted: readers with a filter leave more files out.

        `sort_by`: columns, the first counts most. `zorder`: columns that count alike, for filters on any of them. One
        partition after the other is held in memory; with `spark`, which takes `sort_by` alone, Spark does the work.

        It is a transaction that overwrites, and gives way: while others have written to the table and not ended, it
        waits, and when one of them commits first it begins anew, until `timeout` seconds are over. `progress` is told
        what it does, in words: by default that is shown, in a notebook and on a terminal.

        Raises NotFound; InvalidArgument, also for a table with a primary key; Unavailable when others wrote all the
        time: nothing has changed then.
        """
        if bool(sort_by) == bool(zorder):
            raise InvalidArgument("say what rows are to be ordered by: sort_by or zorder, and one of them")
        schema = self.session.table(table).schema
        if schema.primary_key:
            raise InvalidArgument(f"table {table} has a primary key: its rows are found by that, in any order")
        columns = _checked(sort_by or zorder, schema, table)
        if zorder and spark is not None:
            raise InvalidArgument("zorder: rows are ordered in this process, without spark")
        name = None if partition is None else name_of(partition, schema, table)
        deadline = time.monotonic() + checked_seconds(timeout)
        with _watched(table, progress) as tell:
            how = (
                partial(_sort, columns, bool(zorder), tell)
                if spark is None
                else partial(_sort_by_spark, spark, columns)
            )
            work = partial(how, table=table, schema=schema, partition=name)
            while True:
                receipt, others = self._attempt(table, work)
                if receipt is not None:
                    return receipt
                if time.monotonic() > deadline:
                    raise Unavailable(f"{table} was written to for {timeout:g} s, and is as it was: {others}")
                tell(others)
                time.sleep(PAUSE_SECONDS)

    def _attempt(self, table: str, work: Callable[[Transaction], None]) -> tuple[CommitReceipt | None, str]:
        """None: it gave way, and to whom."""
        (txn,), _ = begin(self.session, 1, LABEL, 0, uuid.uuid4().hex, near=table)
        try:
            with txn:
                self._give_way(table, txn)
                work(txn)
                self._give_way(table, txn)
                return txn.commit(), ""
        except _GaveWay as other:
            return None, str(other)
        except Conflict as error:
            return None, error.message

    def _give_way(self, table: str, txn: Transaction) -> None:
        """Raises _GaveWay where others have begun to write to the table."""
        request = build(
            pb.ListTransactionsRequest, states=[state.name for state in _UNDER_WAY], participant=table, limit=2
        )
        found = self.session.call("txnstatus.Admin/ListTransactions", request, pb.ListTransactionsResponse).txns
        if others := [f"transaction {each.txn_id} of {each.owner}" for each in found if each.txn_id != txn.id]:
            raise _GaveWay(f"it gives way to {', '.join(others)}")


@contextmanager
def _watched(table: str, tell: Callable[[str], None] | None) -> Iterator[Callable[[str], None]]:
    """What is told of the work in the block: `tell`, or else what shows it."""
    if tell is not None:
        with hidden():
            yield tell
        return
    with shown(f"{table} is put in order", "partitions") as bar:
        yield lambda said: bar.at(0, said=said)


class _GaveWay(Exception):
    """Others are at work."""


def _checked(columns: Sequence[str], schema: Schema, table: str) -> list[str]:
    """Raises InvalidArgument."""
    known = {column.name: column for column in schema.columns}
    names = list(schemas.named(columns, schema.columns))
    for name in names:
        if name not in known:
            raise InvalidArgument(f"column {name!r} is not a column of {table}: it has {', '.join(known)}")
        if known[name].type.startswith(("array", "map", "struct")):
            raise InvalidArgument(f"column {name!r} of {table} is {known[name].type}: rows have no order by it")
    return names


def _sort(
    columns: Sequence[str],
    is_zorder: bool,
    progress: Callable[[str], None],
    txn: Transaction,
    *,
    table: str,
    schema: Schema,
    partition: str | None,
) -> None:
    import pyarrow as pa

    found = txn.snapshot.table_files(table)
    parts = sorted({file.partition for file in found.within(partition or WHOLE_TABLE).files})
    for done, each in enumerate(parts):
        progress(f"{done} of {len(parts)} partitions are sorted" if each != WHOLE_TABLE else "the table is sorted")
        rows = found.within(each).to_arrow()
        order = zordered(rows, columns) if is_zorder else _sorted(rows, columns)
        ordered = rows.take(order)
        size = max(1, ordered.num_rows * BYTES_PER_FILE // max(1, 4 * ordered.nbytes))
        reader = pa.RecordBatchReader.from_batches(ordered.schema, ordered.to_batches(max_chunksize=size))
        txn.write(reader, table, "overwrite", partition=None if each == WHOLE_TABLE else each)


def _sorted(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    import pyarrow.compute as pc

    return pc.sort_indices(rows, [(name, "ascending") for name in columns])


def zordered(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The rows in an order in which those that are near by any of the columns are near each other.

    Of each row, the places that it has by the columns are one number, of which each column has every so many-th bit.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    bits = KEY_BITS // len(columns)
    keys = np.zeros(rows.num_rows, np.uint64)
    for position, name in enumerate(columns):
        ranks = pc.rank(rows[name], sort_keys="ascending", tiebreaker="dense").to_numpy()
        places = (ranks - 1).astype(np.uint64)
        used = max(1, int(places.max(initial=0)).bit_length())
        places = places >> np.uint64(used - bits) if used > bits else places << np.uint64(bits - used)
        for bit in range(bits):
            keys |= ((places >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * len(columns) + position)
    return pa.array(np.argsort(keys, kind="stable"))


def _sort_by_spark(
    spark: SparkSession, columns: Sequence[str], txn: Transaction, *, table: str, schema: Schema, partition: str | None
) -> None:
    by = [f"`{name.replace('`', '``')}`" for name in (*schema.partition_by, *columns)]
    frame = txn.read(spark, table, partition=partition)
    txn.write(frame.repartitionByRange(*by).sortWithinPartitions(*by), table, "overwrite", partition=partition)
