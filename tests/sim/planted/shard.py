"""Subtle faults in the state of a shard, put in on purpose, as in planted.py: slips that a reader may pass over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.sim.planted.faults import Seams
from txnparticipant.leader.registering import Key, Registering
from txnparticipant.leader.tables import TableService
from txnparticipant.locks.locks import COMPATIBLE, LockTable, Mode
from txnparticipant.rows.changed_keys import ChangedKeys
from txnparticipant.rows.memrowset import Flush, RowsView, SeenRows, TableRows
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import key_conflicts
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.shard.translation import removed_until
from txnparticipant.upkeep.cleaner import Cleaner
from txnparticipant.upkeep.retirement import Retirement
from txnparticipant.versions.conflicts import Overwrite, Overwrites
from txnparticipant.versions.mvcc import FileSet, PendingWrite
from txnstatus.errors import Conflict, NotFound
from txnstatus.proto import participant_pb2 as pb
from txnstatus.types import Timestamp, TxnId, timestamp

TABLE = "txnparticipant.shard.table:TableState"

# ---- what a snapshot brings back


def restored(change: Callable[[TableState], object]) -> Seams:
    """`change` is done to every table that a snapshot brings back."""
    become = ParticipantShard.become

    def changed(self: ParticipantShard, wire: pb.ShardSnapshot, tables: dict[str, TableState]) -> None:
        become(self, wire, tables)
        for table in tables.values():
            change(table)

    return [("txnparticipant.shard.shard:ParticipantShard.become", changed)]


def prepared_keys_are_not_restored() -> Seams:
    return restored(lambda table: table.rows.keys._prepared.clear())


def prepared_overwrites_are_not_restored() -> Seams:
    def clear(table: TableState) -> None:
        table.overwrites._prepared.clear()
        table.overwrites._prepared_below.clear()

    return restored(clear)


def who_follows_is_not_restored() -> Seams:
    return restored(lambda table: setattr(table, "before", None))


def what_is_to_be_cleaned_is_not_restored() -> Seams:
    return restored(lambda table: table.uncleaned.clear())


def the_last_row_change_is_not_restored() -> Seams:
    """What is flushed does not count."""

    def add(self: TableRows, flush: Flush) -> None:
        self.flushes[flush.flush_id] = flush

    return [("txnparticipant.rows.memrowset:TableRows.add", add)]


def who_drops_is_not_restored() -> Seams:
    return restored(lambda table: setattr(table, "dropping", None))


def table_numbers_are_used_again() -> Seams:
    become = ParticipantShard.become

    def counted(self: ParticipantShard, wire: pb.ShardSnapshot, tables: dict[str, TableState]) -> None:
        become(self, wire, tables)
        self._next_table_number = len([table for table in tables.values() if not table.is_database])

    return [("txnparticipant.shard.shard:ParticipantShard.become", counted)]


# ---- files


def directories_are_counted_once() -> Seams:
    add = TableState.add

    def once(self: TableState, file_sets: Sequence[FileSet]) -> None:
        add(self, file_sets)
        for write_id in file_sets[0].used_writes:
            self.used[file_sets[0].txn_id, write_id] = 1

    return [(f"{TABLE}.add", once)]


def replaced_at_its_timestamp_is_seen() -> Seams:
    def visible_at(self: FileSet, ts: Timestamp) -> bool:
        return self.commit_ts <= ts and not (self.replaced_ts and self.replaced_ts < ts)

    return [("txnparticipant.versions.mvcc:FileSet.visible_at", visible_at)]


def claims_outlive_an_abort() -> Seams:
    discard = TableState.discard

    def but_claims(self: TableState, txn: TableTxn) -> Any:
        claims = {file_set.id: file_set.replaced_by for file_set in self.file_sets.values()}
        let_in = discard(self, txn)
        for id_, claim in claims.items():
            self.file_sets[id_].replaced_by = claim
        return let_in

    return [(f"{TABLE}.discard", but_claims)]


def a_part_is_not_in_the_way_of_the_whole() -> Seams:
    restore = Overwrites.restore

    def flat(self: Overwrites, overwrite: Overwrite) -> None:
        restore(self, overwrite)
        self._latest_below.clear()

    return [("txnparticipant.versions.conflicts:Overwrites.restore", flat)]


def an_aborted_part_stays_in_the_way() -> Seams:
    def abort(self: Overwrites, _txn_id: TxnId, writes: Iterable[PendingWrite]) -> None:
        for name in dict.fromkeys(name for write in writes for name in write.overwrites):
            del self._prepared[name]

    return [("txnparticipant.versions.conflicts:Overwrites.abort", abort)]


def a_superseded_write_comes_back() -> Seams:
    add_write = TableState.add_write

    def forgetful(self: TableState, txn: TableTxn, write: PendingWrite) -> None:
        add_write(self, txn, write)
        txn.superseded.clear()

    return [(f"{TABLE}.add_write", forgetful)]


# ---- rows


def whoever_ends_takes_others_prepared_keys() -> Seams:
    def end(self: ChangedKeys, _txn_id: TxnId, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._prepared.pop(key, None)

    return [("txnparticipant.rows.changed_keys:ChangedKeys.end", end)]


def prepared_rows_are_not_in_an_overwrites_way() -> Seams:
    def committed_only(table: TableState, txn: TableTxn) -> Conflict | None:
        bases = [write.base_ts for write in txn.writes.values() if write.overwrites]
        if not bases or table.rows.newest <= min(bases):
            return None
        return key_conflicts._conflict(table, txn, None, "rows were changed", [table.name])

    return [("txnparticipant.shard.key_conflicts:_changed_under_an_overwrite", committed_only)]


def keys_that_are_gone_are_not_missed() -> Seams:
    return [("txnparticipant.shard.key_conflicts:_too_many", lambda *_: None)]


def only_the_last_clearing_counts() -> Seams:
    def clear(self: TableRows, commit_ts: Timestamp) -> None:
        self.cleared = [commit_ts]

    return [("txnparticipant.rows.memrowset:TableRows.clear", clear)]


def a_flush_begins_above_its_first_commit() -> Seams:
    at = RowsView.at

    def late(self: RowsView, ts: Timestamp, outcomes: Mapping[TxnId, Timestamp]) -> SeenRows:
        seen = at(self, ts, outcomes)
        return replace(seen, flushes=tuple(each for each in seen.flushes if each.first_ts < ts))

    return [("txnparticipant.rows.memrowset:RowsView.at", late)]


# ---- drops


def the_old_take_part_in_the_new_table() -> Seams:
    return [("txnparticipant.shard.dropping:too_old", lambda *_: None)]


def others_prepare_beside_a_drop() -> Seams:
    return [("txnparticipant.shard.dropping:prepare_refused", lambda *_: None)]


def a_drop_is_at_its_own_clocks_time() -> Seams:
    return [("txnparticipant.shard.dropping:prepare_ts", lambda _table, proposed: proposed)]


def a_new_table_reaches_below_the_drop() -> Seams:
    create = ParticipantShard._create

    def early(self: ParticipantShard, command: cmd.CreateTable) -> Any:
        known = set(self._tables)
        applied = create(self, command)
        table_id = getattr(applied, "table_id", "")
        table = self._tables.get(table_id)
        if table is not None and table_id not in known:
            table.created = command.created
        return applied

    return [("txnparticipant.shard.shard:ParticipantShard._create", early)]


def a_dropped_table_is_read_at_its_drop() -> Seams:
    table_at = ParticipantShard.table_at

    def late(self: ParticipantShard, name: str, at: Timestamp) -> TableState:
        try:
            return table_at(self, name, at)
        except NotFound:
            for gone, drop in self.dropped(name):
                if drop.commit_ts == at:
                    return gone
            raise

    return [("txnparticipant.shard.shard:ParticipantShard.table_at", late)]


def an_acknowledged_drop_is_not_settled() -> Seams:
    async def settled(self: TableService, name: str, txn_id: TxnId | None = None) -> TableState:
        return self._shard.table(name) if txn_id is None else self._shard.table_for(name, txn_id)

    return [("txnparticipant.leader.tables:TableService.settled", settled)]


def a_dropped_table_is_forgotten_while_it_is_read() -> Seams:
    def is_spent(table: TableState) -> bool:
        return table.dropped is not None and not (table.txns or table.file_sets or table.retired)

    return [("txnparticipant.shard.dropping:is_spent", is_spent)]


# ---- locks


def two_hold_shared_write() -> Seams:
    both = {**COMPATIBLE, (Mode.SHARED_WRITE, Mode.SHARED_WRITE): True}
    return [("txnparticipant.locks.locks:COMPATIBLE", both)]


def locks_go_with_the_prepare() -> Seams:
    return [("txnparticipant.locks.locks:LockTable.stop_waiting", LockTable.release)]


def nobody_is_let_in() -> Seams:
    return [("txnparticipant.locks.locks:LockTable._let_in", lambda _self: ())]


def the_queue_is_restored_backwards() -> Seams:
    def backwards(self: LockTable, queue: Iterable[Any]) -> None:
        self._queue = list(queue)[::-1]

    return [("txnparticipant.locks.locks:LockTable.restore_queue", backwards)]


# ---- registration


def what_an_earlier_leadership_asked_is_believed() -> Seams:
    def note(self: Registering, key: Key, _leadership: int) -> None:
        self._sure[key[0]].add(key[1])

    return [("txnparticipant.leader.registering:Registering._note", note)]


def a_prepare_passes_the_gate() -> Seams:
    def is_settled(_self: Registering, _table_id: str, _txn_id: TxnId) -> bool:
        return True

    return [("txnparticipant.leader.registering:Registering.is_settled", is_settled)]


def a_leader_knows_what_it_knew_before() -> Seams:
    return [("txnparticipant.leader.registering:Registering.forget", lambda _self: None)]


# ---- retirement and leases


def retirement_by_the_wall_clock() -> Seams:
    def horizon(self: Retirement, _now: float) -> Timestamp:
        micros = self._clock._wall_micros() - self._retention_seconds() * 1_000_000
        return timestamp(max(0, micros))

    return [("txnparticipant.upkeep.retirement:Retirement._horizon", horizon)]


def a_new_leader_waits_for_no_lease() -> Seams:
    return [("txnparticipant.shard.leases:Leases.complete", property(lambda _self: True))]


def the_newest_lease_counts() -> Seams:
    def retirable(self: Leases, table: TableState) -> Timestamp:
        held = self._held.get(table.table_id, {})
        newest = max((at for at, end in held.values() if end > self._healthy), default=self.horizon)
        return removed_until(table, min(self.horizon, newest))

    return [("txnparticipant.shard.leases:Leases.retirable", retirable)]


def a_lease_is_not_prolonged() -> Seams:
    take = Leases.take

    def once(self: Leases, table: TableState, lease_id: str, at: Timestamp, seconds: float) -> None:
        before = self._held.get(table.table_id, {}).get(lease_id)
        take(self, table, lease_id, at, seconds)
        if before is not None:
            self._held[table.table_id][lease_id] = before

    return [("txnparticipant.shard.leases:Leases.take", once)]


def retirement_is_not_announced() -> Seams:
    return [("txnparticipant.shard.leases:Leases.retires", lambda *_: None)]


# ---- cleaning and flushing


def a_cleaner_never_looks_at_all_again() -> Seams:
    def forget(self: Cleaner) -> None:
        self._due.clear()
        self._passes.clear()

    return [("txnparticipant.upkeep.cleaner:Cleaner.forget", forget)]


def forgotten_with_its_directories() -> Seams:
    def drop(self: ParticipantShard, table: TableState, txn_id: TxnId) -> None:
        if txn_id not in table.unfinished and txn_id in self.forgotten:
            table.forget(txn_id)
            table.uncleaned.pop(txn_id, None)
            table._note_cleanable(txn_id)
            if table.is_database and not table.txns:
                del self._tables[table.table_id]

    return [("txnparticipant.shard.shard:ParticipantShard._drop_if_forgotten", drop)]


SHARD: Mapping[str, Callable[[], Seams]] = {
    "prepared keys are not restored": prepared_keys_are_not_restored,
    "prepared overwrites are not restored": prepared_overwrites_are_not_restored,
    "who follows is not restored": who_follows_is_not_restored,
    "what is to be cleaned is not restored": what_is_to_be_cleaned_is_not_restored,
    "the last row change is not restored": the_last_row_change_is_not_restored,
    "who drops is not restored": who_drops_is_not_restored,
    "table numbers are used again": table_numbers_are_used_again,
    "directories are counted once": directories_are_counted_once,
    "replaced at its timestamp is seen": replaced_at_its_timestamp_is_seen,
    "claims outlive an abort": claims_outlive_an_abort,
    "a part is not in the way of the whole": a_part_is_not_in_the_way_of_the_whole,
    "an aborted part stays in the way": an_aborted_part_stays_in_the_way,
    "a superseded write comes back": a_superseded_write_comes_back,
    "whoever ends takes others' prepared keys": whoever_ends_takes_others_prepared_keys,
    "prepared rows are not in an overwrite's way": prepared_rows_are_not_in_an_overwrites_way,
    "keys that are gone are not missed": keys_that_are_gone_are_not_missed,
    "only the last clearing counts": only_the_last_clearing_counts,
    "a flush begins above its first commit": a_flush_begins_above_its_first_commit,
    "the old take part in the new table": the_old_take_part_in_the_new_table,
    "others prepare beside a drop": others_prepare_beside_a_drop,
    "a drop is at its own clock's time": a_drop_is_at_its_own_clocks_time,
    "a new table reaches below the drop": a_new_table_reaches_below_the_drop,
    "a dropped table is read at its drop": a_dropped_table_is_read_at_its_drop,
    "an acknowledged drop is not settled": an_acknowledged_drop_is_not_settled,
    "a dropped table is forgotten while it is read": a_dropped_table_is_forgotten_while_it_is_read,
    "two hold shared write": two_hold_shared_write,
    "locks go with the prepare": locks_go_with_the_prepare,
    "nobody is let in": nobody_is_let_in,
    "the queue is restored backwards": the_queue_is_restored_backwards,
    "what an earlier leadership asked is believed": what_an_earlier_leadership_asked_is_believed,
    "a prepare passes the gate": a_prepare_passes_the_gate,
    "a leader knows what it knew before": a_leader_knows_what_it_knew_before,
    "retirement by the wall clock": retirement_by_the_wall_clock,
    "a new leader waits for no lease": a_new_leader_waits_for_no_lease,
    "the newest lease counts": the_newest_lease_counts,
    "a lease is not prolonged": a_lease_is_not_prolonged,
    "retirement is not announced": retirement_is_not_announced,
    "a cleaner never looks at all again": a_cleaner_never_looks_at_all_again,
    "forgotten with its directories": forgotten_with_its_directories,
}
