"""What a write and a commit come to: a receipt, or an error that says what is not known."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from txnclient.showing import facts
from txnstatus.errors import CommitUnknown, IllegalState, InvalidArgument, LimitReached, NotAuthorized, NotFound
from txnstatus.proto import common_pb2 as common
from txnstatus.types import Timestamp, TxnId

REFUSALS = (IllegalState, InvalidArgument, LimitReached, NotAuthorized, NotFound)
"""Answers to a commit that has not begun. Any other error says nothing about it."""


@dataclass(frozen=True, slots=True)
class RowsWritten:
    """What became of the rows of one call."""

    written: int
    ignored: int = 0
    """Rows that insert_ignore left out: one with the key is there already."""


@dataclass(frozen=True, slots=True)
class RowsAffected:
    """What a DELETE, an UPDATE or a MERGE did."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """What a commit returns: it happened, durably, and every reader from now on sees all of it."""

    txn_id: TxnId
    commit_timestamp: Timestamp
    """0 for a transaction that neither wrote nor locked anything."""
    tables: tuple[str, ...]
    rows: RowsWritten | RowsAffected | None = None
    """The rows of a row write or a statement that was a transaction of its own. None: no such write, or one that was
    repeated by its request id: it has committed, and what became of each row was told to the first call alone.
    """
    passed_over: tuple[str, ...] = ()
    """Files that an import in place has left out, since the table has rows of them."""

    def _repr_html_(self) -> str:
        """The receipt as a notebook shows it."""
        counts = {} if self.rows is None else asdict(self.rows)
        at = {"commit timestamp": self.commit_timestamp or None}
        return facts("Committed", {"transaction": self.txn_id, **at, "tables": self.tables} | counts)


def receipt(info: common.TxnInfo) -> CommitReceipt:
    return CommitReceipt(
        TxnId(info.txn_id),
        Timestamp(info.commit_timestamp),
        tuple(sorted(p.name for p in info.participants if "." in p.name)),  # a database takes part by its lock only
    )


def unknown(txn_id: TxnId, why: str) -> CommitUnknown:
    return CommitUnknown(
        f"the outcome of committing transaction {txn_id} is not known: {why}",
        txn_id=txn_id,
        hint="call commit() again on this handle; it commits nothing twice",
    )


def never_known(txn_id: TxnId, why: str) -> CommitUnknown:
    """An earlier answer was lost, and now the record of what happened is gone."""
    return CommitUnknown(
        f"the outcome of committing transaction {txn_id} is not known, and never will be: {why}",
        txn_id=txn_id,
        hint="its record was forgotten, so asking again cannot help: look for its rows in the tables it wrote",
    )
