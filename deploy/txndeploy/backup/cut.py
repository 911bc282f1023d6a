"""A cut: the states of all groups, and whether they can be those of one moment. Decides, performs nothing.

Of one moment means: nothing is here whose cause is missing. Then a cluster that begins so does what it does when all
nodes have lost power at that moment, and nothing else is asked of commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from txnparticipant.leader.machine import ShardMachine, keeper_among
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.catalog.catalog import (
    CATALOG,
    CatalogState,
    range_number,
    status_group,
)
from txnstatus.foreign import foreign_name
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import Parts
from txnstatus.status.machine import StatusMachine
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import DECIDED_COMMIT, TERMINAL, ParticipantId, ParticipantState, TxnId, TxnState

PREPARED, COMMITTED = ParticipantState.COMMIT_IN_PROGRESS, ParticipantState.COMMITTED


@dataclass(frozen=True, slots=True)
class Cut:
    catalog: CatalogState
    groups: Mapping[str, Parts]
    """All but the catalog's."""

    def shards(self) -> Iterator[ParticipantShard]:
        for machine in self._machines().values():
            if isinstance(machine, ShardMachine):
                yield machine.shard

    def ranges(self) -> Iterator[TxnStatusTable]:
        for machine in self._machines().values():
            if isinstance(machine, StatusMachine):
                yield machine.table

    def keeper(self, participant_id: ParticipantId) -> ParticipantShard | None:
        """The shard that keeps a participant."""
        machines = self._machines()
        found = machines.get(keeper_among(machines, participant_id) or "")
        return found.shard if isinstance(found, ShardMachine) else None

    def range_of(self, txn_id: TxnId) -> TxnStatusTable | None:
        found = self._machines().get(status_group(self.catalog.range_of(txn_id)))
        return found.table if isinstance(found, StatusMachine) else None

    def unknown_ids(self) -> dict[str, TxnId]:
        """Ranges of which shards have ids that the range has not given out, by name → the id behind the last of them:
        none, where all is of one moment. No other transaction is to have one of them."""
        ends: dict[int, int] = {}
        for shard in self.shards():
            known = [*(id_ + 1 for table in shard.tables() for id_ in table.txns), *shard.forgotten.bounds[1::2]]
            for end in known:
                number = self.catalog.range_of(TxnId(end - 1))
                ends[number] = max(end, ends.get(number, 0))
        found = {}
        for table in self.ranges():
            number = self.catalog.range_of(table.first_txn_id)
            if (end := ends.get(number, 0)) > table.next_txn_id:
                found[status_group(number)] = TxnId(end)
        return found

    def _machines(self) -> dict[str, StateMachine]:
        return {part: machine for group in self.groups.values() for part, machine in group.machines.items()}


def contradictions(cut: Cut) -> Iterator[str]:
    """What cannot be so at any one moment, in sentences; nothing where all is well."""
    yield from _of_parts(cut)
    for table in cut.ranges():
        for record in table.records():
            if record.state in DECIDED_COMMIT:
                yield from _of_committed(cut, record)
    for shard in cut.shards():
        for participant in shard.tables():
            for txn in participant.txns.values():
                found = _of_work(cut, txn.txn_id, participant.table_id, txn.state, txn.commit_ts)
                if found:
                    yield f"transaction {txn.txn_id} is {txn.state.name} on {participant.name}: {found}"


def _of_parts(cut: Cut) -> Iterator[str]:
    state = cut.catalog
    for group in sorted(state.groups.keys() - {CATALOG} ^ cut.groups.keys()):
        yield f"{group} is in {'the catalog, and not in the cut' if group in state.groups else 'the cut alone'}"
    for group, machine in cut.groups.items():
        for part in machine.machines:
            number = range_number(part)
            dropped = number is not None and state.range_was_dropped(number)
            if state.parts.get(part) != group and not dropped:
                yield f"{part} is in {group}, and by the catalog in {state.parts.get(part, 'none')}"


def _of_committed(cut: Cut, record: TxnRecord) -> Iterator[str]:
    """All participants of what has committed have prepared it, and published it where it is complete."""
    is_over = record.state in TERMINAL
    for participant in record.participants.values():
        if foreign_name(participant.participant_id) is not None:
            continue
        shard = cut.keeper(participant.participant_id)
        if shard is None:
            yield f"transaction {record.txn_id} has committed on {participant.name}, whose shard is not in the cut"
            continue
        if record.txn_id in shard.forgotten or shard.find(participant.participant_id) is None:
            continue
        found = shard.record(participant.participant_id, record.txn_id)
        if found is None or found.state not in ((COMMITTED,) if is_over else (PREPARED, COMMITTED)):
            there = found.state.name if found else "unknown"
            yield f"transaction {record.txn_id} is {record.state.name}, and {there} on {participant.name}"


def _of_work(cut: Cut, txn_id: TxnId, participant: str, state: ParticipantState, commit_ts: int) -> str:
    """What is wrong with a transaction's work on a participant, by the record that the status table has of it."""
    table = cut.range_of(txn_id)
    if table is None:
        number = cut.catalog.range_of(txn_id)
        return (
            ""
            if cut.catalog.range_was_dropped(number) and state in (COMMITTED, ParticipantState.ABORTED)
            else (f"its range, {number}, is not in the cut")
        )
    record = table.find(txn_id)
    if record is None:
        if txn_id >= table.next_txn_id:
            return "it has not begun"
        return "its record is forgotten" if state is PREPARED else ""
    if state is COMMITTED and (record.state not in DECIDED_COMMIT or record.commit_ts != commit_ts):
        return f"its record is {record.state.name}, at {record.commit_ts}, and it was published at {commit_ts}"
    if state is PREPARED and (record.state in TERMINAL or record.state is TxnState.OPEN):
        return f"its record is {record.state.name}"
    return ""
