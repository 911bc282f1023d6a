"""What must hold of a table from one command to the next: written down again, by what it is for."""

from __future__ import annotations

from collections.abc import Iterator

from txnparticipant.locks.locks import Mode
from txnparticipant.shard.records import Dropped, TableTxn
from txnparticipant.shard.table import TableState
from txnstatus.types import ParticipantState, TxnId

Broken = tuple[str, str]
"""A rule, and how it is broken."""


class Tables:
    def __init__(self, range_span: int) -> None:
        self._range_span = range_span
        self._held: dict[str, dict[TxnId, dict[str, Mode]]] = {}
        """Table id → transaction → locked object, and how, as of the last command."""
        self._writes: dict[tuple[str, TxnId], frozenset[str]] = {}
        self._gone: dict[tuple[str, TxnId], frozenset[str]] = {}
        """Writes that were replaced by later ones of their own transaction."""
        self._drops: dict[str, tuple[str, Dropped]] = {}
        """The last table of each name that was dropped, and how."""

    def after(self, table: TableState) -> Iterator[Broken]:
        """What the command that has just applied to the table broke."""
        yield from self._locks(table)
        yield from self._superseded(table)
        yield from self._newcomers(table)
        yield from _claims(table)
        yield from _dropping(table)

    def _locks(self, table: TableState) -> Iterator[Broken]:
        """Locks go only when their transaction ends."""
        before = self._held.get(table.table_id, {})
        held = {
            txn_id: {claim.lock.object: claim.lock.mode for claim in table.locks.held_by(txn_id)}
            for txn_id in table.unfinished
        }
        for txn_id in held.keys() & before.keys():
            for name, mode in before[txn_id].items():
                if held[txn_id].get(name, 0) < mode:
                    yield "locks", f"{txn_id} has not ended on {table.name}, and lost {mode.name} on {name}"
        self._held[table.table_id] = held

    def _superseded(self, table: TableState) -> Iterator[Broken]:
        """What a transaction replaced of its own does not come back."""
        for txn_id, txn in table.unfinished.items():
            key, writes = (table.table_id, txn_id), frozenset(txn.writes)
            gone = self._gone.get(key, frozenset()) | (self._writes.get(key, frozenset()) - writes)
            if back := gone & writes:
                yield "4 rows", f"{txn_id} replaced its writes {sorted(back)} on {table.name}, and they are back"
            self._writes[key], self._gone[key] = writes, gone

    def _newcomers(self, table: TableState) -> Iterator[Broken]:
        """Whoever is older than the drop of a table takes no part in the next one of its name.

        By their ids, where they are of one range; who of others is, was asked before the drop.
        """
        if table.dropped is not None:
            self._drops[table.name] = (table.table_id, table.dropped)
        gone, drop = self._drops.get(table.name, (table.table_id, None))
        if drop is None or gone == table.table_id:
            return
        for txn in table.unfinished.values():
            is_older = txn.txn_id in drop.older or (txn.txn_id < drop.txn_id and self._are_of_one_range(txn, drop))
            if is_older and (txn.claimed or txn.rows):
                yield "drops", f"{txn.txn_id} writes to {table.table_id}; {drop.txn_id} dropped {gone} of its name"

    def _are_of_one_range(self, txn: TableTxn, drop: Dropped) -> bool:
        return txn.txn_id // self._range_span == drop.txn_id // self._range_span


def _claims(table: TableState) -> Iterator[Broken]:
    """What is about to be replaced is so by somebody who is prepared."""
    for file_set in table.file_sets.values():
        if file_set.replaced_by is not None and not file_set.replaced_ts:
            txn = table.unfinished.get(file_set.replaced_by)
            if txn is None or txn.state is not ParticipantState.COMMIT_IN_PROGRESS:
                yield "10 claims", f"{file_set.id} of {table.name} is claimed by {file_set.replaced_by}"


def _dropping(table: TableState) -> Iterator[Broken]:
    """A drop is prepared alone, and above all that was committed."""
    prepared = [txn for txn in table.unfinished.values() if txn.state is ParticipantState.COMMIT_IN_PROGRESS]
    for txn in (each for each in prepared if each.drops):
        if len(prepared) > 1:
            yield "drops", f"{[each.txn_id for each in prepared]} are prepared on {table.name}; {txn.txn_id} drops it"
        above = [file_set.id for file_set in table.file_sets.values() if file_set.commit_ts >= txn.prepare_ts]
        if above:
            yield "drops", f"{txn.txn_id} drops {table.name} at {txn.prepare_ts}, below {above}"
