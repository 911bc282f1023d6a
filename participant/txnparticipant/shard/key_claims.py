"""What a write of files must say of its keys, in a table that has a primary key, and what it may not say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from txnparticipant.rows.changed_keys import ChangedKeys, Commit
from txnparticipant.rows.key_places import Changed
from txnparticipant.shard.key_conflicts import MAX_NAMED, range_name, row_name
from txnparticipant.shard.records import TableTxn, added_by
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import KeyClaim, PendingWrite
from txnstatus import limits
from txnstatus.errors import IllegalState, InvalidArgument, TxnError
from txnstatus.key_ranges import KeyOrder
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, Timestamp

MAX_PENDING_KEYS = 100_000
"""Keys of files of a shard's unfinished transactions: of more only the range is kept, which may meet more keys."""
CHANGES_FIRST = "upsert those rows instead, or add the files before rows are changed"


def check_claim(request: pb.AddFilesRequest, table: TableState) -> None:
    """Raises InvalidArgument for a claim that no file can have."""
    if not request.HasField("claim"):
        return
    claim, name = request.claim, table.name
    if not table.schema.primary_key:
        raise InvalidArgument(f"{name} has no primary key: its files claim no keys")
    if not request.manifest.file_count and not request.HasField("deletes"):
        raise InvalidArgument(f"{name}: keys are claimed of files, or of rows that are deleted, and there are none")
    if claim.HasField("range"):
        order = KeyOrder(table.schema)
        ends = [getattr(claim.range, end) if claim.range.HasField(end) else None for end in ("lowest", "highest")]
        for end in ends:
            if end is not None and (len(end) > limits.MAX_KEY_BOUND_BYTES or order.rank(end) is None):
                raise InvalidArgument(f"{end[:100]!r} bounds no range of keys of {name}")
        if claim.keys or claim.range.partitions:
            raise InvalidArgument(f"files of {name} claim their keys, or a range, in the manifest's partitions")
        return
    size = sum(map(len, claim.keys))
    limits.check_count(len(claim.keys), "keys of files", limits.MAX_CLAIMED_KEYS)
    limits.check_count(size, "bytes of keys of files", limits.MAX_CLAIMED_BYTES)
    distinct, rows = len(set(claim.keys)), request.manifest.row_count
    if distinct < rows or (distinct > rows and not request.HasField("deletes")):
        raise InvalidArgument(f"{distinct} keys for {rows} rows of {name}: each row has its own")


def within_memory(claim: KeyClaim, table: TableState, tables: Iterable[TableState]) -> KeyClaim:
    """The claim, or one of the range of its keys, where too many of unfinished transactions are in memory already."""
    pending = sum(
        len(write.claim.keys)
        for each in tables
        for txn in each.unfinished.values()
        for write in txn.all_writes
        if write.claim
    )
    if claim.range is not None or pending + len(claim.keys) <= MAX_PENDING_KEYS:
        return claim
    return replace(claim, keys=(), range=KeyOrder(table.schema).range_of(claim.keys))


def refusal(table: TableState, txn: TableTxn, write: PendingWrite) -> TxnError | None:
    """Why the files cannot be added, by what is known of their keys and of rows that were changed."""
    if not table.schema.primary_key:
        return None
    if write.claim is None and (write.manifest.file_count or write.deletes):
        return InvalidArgument(
            f"{table.name} has a primary key: files, and deleted rows of files, come with their keys, or the range of "
            "them",
            txn_id=txn.txn_id,
        )
    if WHOLE_TABLE in write.overwrites:
        return None
    if write.overwrites and (txn.row_keys or table.rows.changed_at(write.base_ts)):
        return IllegalState(
            f"partitions of {table.name} cannot be overwritten by themselves: rows of it were changed by key",
            txn_id=txn.txn_id,
            hint="compact the table before, overwrite all of it, or upsert and delete rows",
        )
    return _own_in_the_way(table, txn, write)


def _own_in_the_way(table: TableState, txn: TableTxn, write: PendingWrite) -> IllegalState | None:
    """What the transaction itself has written, and nobody has looked at for this write.

    At its commit's timestamp rows come after files, so a row that was changed before would hide the file's.
    """
    if write.claim is None or write.claim.own_writes == txn.position:
        return None
    vouched = write.claim.own_writes is None
    own = Changed(txn.row_keys) if vouched else txn.changed(table.schema)
    earlier, order = ChangedKeys(), KeyOrder(table.schema)
    earlier.add(Commit(Timestamp(1), txn.txn_id, own.keys, own.ranges), order)
    met = earlier.met(added_by(write, table.schema), NO_TIMESTAMP, order)
    if met is None:
        return None
    names = [row_name(table.name, key) for key in met.keys] + [range_name(table.name, each) for each in met.ranges]
    named = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    return IllegalState(
        f"transaction {txn.txn_id} has written keys itself that the files may have, too: {named}",
        txn_id=txn.txn_id,
        hint=CHANGES_FIRST,
    )
