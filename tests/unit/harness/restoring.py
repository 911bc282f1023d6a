"""How tests bring a table to the state of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock


def restore(table: TxnStatusTable, chunks: Iterable[bytes]) -> None:
    """As a replica does it."""
    state = StatusMachine(table, HybridClock(lambda: 0), lambda _txn_id, _id: None).restoring()
    for chunk in chunks:
        state.add(chunk)
    state.finish()
