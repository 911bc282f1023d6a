"""What transactions did to a table, counted from what there is still of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from txnparticipant.rows.memrowset import RowSet
from txnparticipant.shard.table import TableState
from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import DeleteSet, FileSet
from txnstatus.types import Timestamp, TxnId

Part = FileSet | DeleteSet | RowSet


@dataclass(slots=True)
class Count:
    added_rows: int = 0
    added_files: int = 0
    deleted_rows: int = 0
    changed_rows: int = 0


def parts(table: TableState, since: Timestamp) -> Sequence[Part]:
    """What committed at or above the timestamp: file sets are in the order in which they did, about."""
    return [
        *takewhile(lambda each: each.commit_ts >= since, reversed(table.file_sets.values())),
        *takewhile(lambda each: each.commit_ts >= since, reversed(table.deletes.all.values())),
        *(each for each in table.rows.unflushed.values() if each.commit_ts >= since),
    ]


class Tally:
    """The counts of one table's transactions, part by part."""

    def __init__(self) -> None:
        self.counts: defaultdict[TxnId, Count] = defaultdict(Count)
        self._seen = set[str]()
        """Manifests whose files are counted: one is of all partitions of a write."""

    def add(self, part: Part) -> None:
        match part:
            case FileSet(txn_id=txn_id, manifest=manifest):
                if txn_id != COMPACTIONS and manifest.path not in self._seen:
                    self._seen.add(manifest.path)
                    self.counts[txn_id].added_rows += manifest.row_count
                    self.counts[txn_id].added_files += manifest.file_count
            case DeleteSet():
                if not part.is_carried and not part.compaction_id:
                    self.counts[part.txn_id].deleted_rows += part.ref.row_count
            case RowSet():
                self.counts[part.txn_id].changed_rows += sum(len(batch.keys) for batch in part.batches)
