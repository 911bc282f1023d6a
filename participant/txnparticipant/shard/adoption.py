"""Adoption: a directory on storage that is nobody's goes into its table's own queue for cleaning.

Decided when the command is applied, so no race with those who looked at the storage can take what is in use, or may
come to be: a directory is claimed in the log before anybody writes there, and the claims of a transaction that has
ended are all there will ever be.
"""

from __future__ import annotations

from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.records import LIVE
from txnparticipant.shard.table import TableState
from txnparticipant.versions.directories import (
    COMPACTIONS,
    CompactionDirectory,
    FlushDirectory,
    WriteDirectory,
    directory_named,
)
from txnstatus.errors import IllegalState, InvalidArgument, TxnError
from txnstatus.id_sets import IdSet
from txnstatus.replicated import Rejected
from txnstatus.types import TxnId


def refusal(table: TableState, name: str, forgotten: IdSet) -> TxnError | None:
    """Why the directory must stay."""
    if table.is_database:
        return InvalidArgument(f"{table.name} is a database: it has no directories")
    match directory_named(name):
        case WriteDirectory(txn_id, write_id):
            return _of_write(table, txn_id, write_id, forgotten)
        case FlushDirectory(flush_id):
            if flush_id in table.rows.flushes or flush_id in table.rows.flushing:
                return IllegalState(f"{name} of {table.name} is in use by its row changes")
            return None
        case CompactionDirectory(compaction_id):
            if (COMPACTIONS, compaction_id) in table.used or compaction_id in table.compactions.open:
                return IllegalState(f"{name} of {table.name} is in use by a compaction")
            return None
        case None:
            return InvalidArgument(f"{name[:300]!r} is no name that a directory of a table has")


def _of_write(table: TableState, txn_id: TxnId, write_id: str, forgotten: IdSet) -> TxnError | None:
    record = table.txns.get(txn_id)
    if (txn_id, write_id) in table.used:
        return IllegalState(f"write {write_id} of transaction {txn_id} is in use on {table.name}", txn_id=txn_id)
    if record is not None and record.state in LIVE:
        return IllegalState(f"transaction {txn_id} has not ended on {table.name}", txn_id=txn_id)
    if record is None and txn_id not in forgotten:
        message = f"{table.name} does not know whether transaction {txn_id} is over, or of this cluster at all"
        hint = "once the status table has forgotten it (retention_ms), it is known to be over"
        return IllegalState(message, txn_id=txn_id, hint=hint)
    return None


def adopt(table: TableState, name: str, forgotten: IdSet) -> ShardApplied | Rejected:
    refused = refusal(table, name, forgotten)
    if refused:
        return Rejected(refused)
    match directory_named(name):
        case FlushDirectory(flush_id):
            if flush_id not in table.rows.spent:
                table.rows.give_up(flush_id)
        case CompactionDirectory(compaction_id):
            table.leave_to_cleaner(COMPACTIONS, compaction_id)
        case WriteDirectory(txn_id, write_id):
            table.leave_to_cleaner(txn_id, write_id)
    return ShardApplied()
