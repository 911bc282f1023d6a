"""What transactions did to a table, counted from what there is still of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from txnparticipant.shard.table import TableState
from txnparticipant.versions.directories import COMPACTIONS
from txnstatus.types import Timestamp, TxnId


@dataclass(slots=True)
class Count:
    added_rows: int = 0
    added_files: int = 0
    deleted_rows: int = 0
    changed_rows: int = 0


def counts(table: TableState, since: Timestamp) -> Mapping[TxnId, Count]:
    """Transactions that committed at or above the timestamp: file sets are in the order in which they did, about."""
    found: defaultdict[TxnId, Count] = defaultdict(Count)
    seen = set[str]()
    for file_set in reversed(table.file_sets.values()):
        if file_set.commit_ts < since:
            break
        manifest = file_set.manifest
        if file_set.txn_id != COMPACTIONS and manifest.path not in seen:
            seen.add(manifest.path)
            found[file_set.txn_id].added_rows += manifest.row_count
            found[file_set.txn_id].added_files += manifest.file_count
    for deleted in reversed(table.deletes.all.values()):
        if deleted.commit_ts < since:
            break
        if not deleted.is_carried and not deleted.compaction_id:
            found[deleted.txn_id].deleted_rows += deleted.ref.row_count
    for changed in table.rows.unflushed.values():
        if changed.commit_ts >= since:
            found[changed.txn_id].changed_rows += sum(len(batch.keys) for batch in changed.batches)
    return found
