"""The part of a scan's answer that tells of row changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from txnparticipant.rows.memrowset import SeenRows
from txnparticipant.shard import commands as cmd
from txnparticipant.versions.mvcc import FileSet, Prepared
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId


def commit_times(
    file_sets: Iterable[FileSet], prepared: Iterable[Prepared], outcomes: Mapping[TxnId, Timestamp]
) -> dict[str, Timestamp]:
    """When the files of each manifest, by its path, were committed."""
    times = {file_set.manifest.path: file_set.commit_ts for file_set in file_sets}
    for txn in prepared:
        commit_ts = outcomes.get(txn.txn_id, NO_TIMESTAMP)
        times.update((write.manifest.path, commit_ts) for write in txn.writes if commit_ts)
    return times


def add_row_changes(response: pb.ScanResponse, seen: SeenRows, times: Mapping[str, Timestamp]) -> None:
    """Nothing, where a reader sees no row changes: then files are all that it has to read."""
    if not seen.row_sets and not seen.flushes:
        return
    response.commit_timestamps.extend(times[manifest.path] for manifest in response.manifests)
    response.changes.above = seen.above
    response.changes.flushed.extend(cmd.manifest_to_wire(flush.manifest) for flush in seen.flushes)
    for row_set in seen.row_sets:
        for batch in row_set.batches:
            if batch.keys:
                response.changes.batches.add(commit_timestamp=row_set.commit_ts, deletes=batch.deletes, rows=batch.rows)
