"""Writing: `df.write.format("txn")`, whose tasks stage files in a transaction that is committed when all have.

Tasks show a token of the transaction, which lets them stage files for the one table. Who commits has credentials.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from txnclient.client.client import Client
from txnclient.datasource.clients import connected, joined_to
from txnclient.datasource.options import Options
from txnclient.formats.schemas import to_columns
from txnclient.transaction.beginning import begin
from txnclient.transaction.transaction import Transaction
from txnclient.write.growing import grow
from txnclient.write.staged_files import StagedFiles

if TYPE_CHECKING:
    import pyarrow as pa

KEEPALIVE_MILLIS = 600_000
"""Longest silence: Spark ends the process that has begun the transaction when it is idle, and tasks beat while they
write. It is what a job may wait for its first task.
"""


@dataclass
class Staged(WriterCommitMessage):
    """What one task has written; None: it had no row."""

    files: StagedFiles | None


@dataclass
class Writer(DataSourceArrowWriter):
    """One write to a table, which is a transaction. It goes to tasks, and from there to the process that commits."""

    asked: Options
    token: bytes = field(repr=False)
    overwrites: bool

    @classmethod
    def begun(cls, client: Client, asked: Options, schema: StructType, *, overwrites: bool) -> Self:
        client.table(asked.table)
        if asked.merge_schema:
            grow(client.session, asked.table, to_columns(schema))
        (txn,), _ = begin(client.session, 1, asked.label, KEEPALIVE_MILLIS, uuid.uuid4().hex, near=asked.table)
        return cls(asked, txn.token(tables=[asked.table], appends_only=True, may_commit=False), overwrites)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        import pyarrow as pa

        first = next(iterator, None)
        if first is None:
            return Staged(None)
        rows = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], iterator))
        txn = joined_to(self.asked.cluster, self.token).join(self.token, heartbeat=True)
        return Staged(txn.stage(rows, self.asked.table))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        txn = self._joined(heartbeat=True)
        staged = [each.files for each in messages if isinstance(each, Staged) and each.files is not None]
        txn.add(staged, self.asked.table, "overwrite" if self.overwrites else "append")
        txn.commit()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Harmless where it has committed: Spark asks for it, too, when the commit's answer was lost."""
        txn = self._joined(heartbeat=False)
        if txn.alive:
            txn.abort("Spark's job failed")

    def _joined(self, *, heartbeat: bool) -> Transaction:
        return connected(self.asked.cluster, self.asked.owner).join(self.token, heartbeat=heartbeat)
