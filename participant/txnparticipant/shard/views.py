"""What is prepared on a table, for those who ask how its transactions end."""

from __future__ import annotations

from txnparticipant.rows.memrowset import PreparedRows, RowsView
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import Prepared
from txnstatus.types import ParticipantState


def prepared(table: TableState) -> list[Prepared]:
    return [
        Prepared(txn.txn_id, txn.prepare_ts, tuple(txn.writes.values()))
        for txn in table.unfinished.values()
        if txn.state is ParticipantState.COMMIT_IN_PROGRESS
    ]


def rows_view(table: TableState) -> RowsView:
    """The row changes of the table, as they are now."""
    return table.rows.view(
        PreparedRows(txn.txn_id, tuple(txn.rows.values()), txn.clears_table)
        for txn in table.unfinished.values()
        if txn.state is ParticipantState.COMMIT_IN_PROGRESS
    )
