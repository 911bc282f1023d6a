"""What the commands of row writes do to a table. Used by `changes` and `table_store` only."""

from __future__ import annotations

from txnparticipant.locks.locks import Mode
from txnparticipant.rows.memrowset import RowSet, changed_keys
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.records import LIVE, TableState, TxnRecord
from txnparticipant.shard.written_locks import must_lock
from txnstatus.errors import IllegalState, InvalidArgument, TxnError, Unavailable
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId


def write(table: TableState, record: TxnRecord, command: cmd.WriteRows) -> TxnError | None:
    """Appends to the transaction's MemRowSet. Returns the refusal, if there is one."""
    if command.batch.write_id in record.rows:
        return None
    if not table.schema.primary_key:
        return InvalidArgument(f"{table.name} has no primary key: rows are known by it", txn_id=record.txn_id)
    if record.writes:
        return mixed(table, record.txn_id)
    # Which partitions the rows are in, nobody here knows; a lock on any of them locks the table in S.
    if refusal := must_lock(table, record, Mode.S, [WHOLE_TABLE]):
        return refusal
    if command.position != len(record.rows) or (record.rows and command.snapshot != record.snapshot):
        # Judged while another write of the transaction was on its way: it has to be judged again.
        return Unavailable(f"transaction {record.txn_id} wrote other rows to {table.name} meanwhile")
    record.snapshot = command.snapshot
    record.rows[command.batch.write_id] = command.batch
    table.pending_row_bytes += command.batch.bytes
    return None


def mixed(table: TableState, txn_id: TxnId) -> IllegalState:
    return IllegalState(
        f"transaction {txn_id} writes both rows and files to {table.name}",
        txn_id=txn_id,
        hint="write the rows of one table in one of the two ways, or in two transactions",
    )


def stands_in_the_way(table: TableState, record: TxnRecord, command: cmd.AddFiles) -> TxnError | None:
    """Why row changes do not let files be added."""
    if record.rows:
        return mixed(table, record.txn_id)
    if command.overwrites and WHOLE_TABLE not in command.overwrites and table.rows.changed_at(command.base_ts):
        return IllegalState(
            f"partitions of {table.name} cannot be overwritten by themselves: rows of it were changed by key",
            txn_id=record.txn_id,
            hint="overwrite the whole table, or upsert and delete rows",
        )
    return None


def prepare(table: TableState, record: TxnRecord) -> None:
    table.rows.keys.prepare(record.txn_id, changed_keys(record.rows.values()))


def publish(table: TableState, record: TxnRecord, commit_ts: Timestamp) -> None:
    batches = tuple(batch for batch in record.rows.values() if batch.keys)
    if batches:
        table.rows.publish(RowSet(record.txn_id, commit_ts, batches))
    if record.clears_table and table.schema.primary_key:
        table.rows.clear(commit_ts)


def ended(table: TableState, record: TxnRecord) -> None:
    """To be called when the record's state says so."""
    if not record.rows:
        return
    table.rows.keys.end(record.txn_id, changed_keys(record.rows.values()))
    table.pending_row_bytes -= sum(batch.bytes for batch in record.rows.values())
    record.rows.clear()
    record.snapshot = NO_TIMESTAMP
    _drop_keys(table)


def flush(table: TableState, command: cmd.FlushCommand) -> TxnError | None:
    rows = table.rows
    match command:
        case cmd.OpenFlush(_, flush_id):
            if flush_id in rows.flushes or flush_id in rows.given_up:
                return IllegalState(f"flush {flush_id} of {table.name} is over already")
            if flush_id not in rows.flushing:
                rows.flushing.append(flush_id)
        case cmd.FlushRows(_, flush_id, manifest, txn_ids):
            if flush_id in rows.flushes:
                return None
            if flush_id not in rows.flushing or not txn_ids or not rows.unflushed.keys() >= set(txn_ids):
                return IllegalState(f"flush {flush_id} of {table.name} was overtaken by another one")
            rows.flush(flush_id, manifest, txn_ids)
        case cmd.DropFlush(_, flush_id, gone):
            if flush_id in rows.flushing:
                rows.flushing.remove(flush_id)
                rows.given_up.append(flush_id)
            if gone and flush_id in rows.given_up:
                rows.given_up.remove(flush_id)
    return None


def _drop_keys(table: TableState) -> None:
    keys, newest = table.rows.keys, table.rows.newest
    if keys.may_drop(newest):
        snapshots = [txn.snapshot for txn in table.unfinished.values() if txn.rows and txn.state in LIVE]
        keys.drop(newest, min(snapshots, default=None))
