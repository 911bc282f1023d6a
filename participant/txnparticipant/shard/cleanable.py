"""What of a table's directories is to be cleaned, and of which the cleaner has not heard yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txnstatus.types import TxnId

if TYPE_CHECKING:
    from txnparticipant.shard.records import TableState


def writes_to_clean(table: TableState, txn_id: TxnId) -> tuple[str, ...]:
    """Of a transaction that has ended: their directories nobody will ever see, or see again."""
    ended = table.uncleaned.get(txn_id)
    return (*(ended.claimed if ended else ()), *table.retired.get(txn_id, ()))


def set_retired(table: TableState, txn_id: TxnId, write_ids: list[str]) -> None:
    """Those of the transaction's writes that are to be cleaned beside what it claims."""
    if write_ids:
        table.retired[txn_id] = write_ids
    else:
        table.retired.pop(txn_id, None)
    note(table, txn_id)


def note(table: TableState, txn_id: TxnId) -> None:
    """To be called after every change of what of the transaction is to be cleaned."""
    if txn_id in table.uncleaned or txn_id in table.retired:
        table.fresh[txn_id] = None
    else:
        table.fresh.pop(txn_id, None)
