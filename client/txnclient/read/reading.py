"""Reading inside a transaction: one snapshot, fixed by the first read, and over it what the transaction wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txnclient.snapshot import Snapshot
from txnstatus.types import Timestamp, TxnId

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from txnclient.client import Client


class Reading(ABC):
    """What a transaction's handle reads. Each handle of a transaction, by token or not, fixes a snapshot of its own."""

    client: Client
    id: TxnId
    _snapshot: Snapshot | None = None

    @property
    def snapshot(self) -> Snapshot:
        """What this handle reads from: taken when it is first asked for, leased until the transaction ends.

        What others commit after it is not seen, and an overwrite of what they have overwritten since is a conflict.
        What this transaction wrote is seen, from `write` or `add` on.
        """
        self._require_open("read a snapshot of the client instead")
        if self._snapshot is None:
            self._snapshot = Snapshot(self.client, self.client.last_commit(), self.id)
        return self._snapshot

    def read(self, spark: SparkSession, table: str, *, partition: str | Mapping[str, Any] | None = None) -> DataFrame:
        """The table, or one part of it, as this transaction sees it, as a Spark DataFrame.

        To be used before the transaction ends. `partition`: as for `write`; only its files are looked at.
        """
        return self.snapshot.read(spark, table, partition=partition)

    def to_arrow(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The table as this transaction sees it, or some of its columns, as a pyarrow Table."""
        return self.snapshot.to_arrow(table, columns)

    @property
    def _read_at(self) -> Timestamp | None:
        """What its overwrites are based on; None: it has read nothing, and overwrites what there is."""
        return self._snapshot.timestamp if self._snapshot else None

    @abstractmethod
    def _require_open(self, otherwise: str) -> None:
        """Raises why the transaction is over; `otherwise` says what can be done or not while it is being committed."""

    def _end_reading(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
