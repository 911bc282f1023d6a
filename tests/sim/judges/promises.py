"""What must hold of a command that has just applied, and is not seen in what programs are told: judged at once.

It is written down again here, by what it is for, and not by how the service does it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from tests.sim.judges import exclusion
from tests.sim.judges.floors import Floors
from tests.sim.judges.ledger import Ledger
from tests.sim.judges.tables import Tables
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus.catalog import commands as catalog_cmd
from txnstatus.catalog.catalog import CATALOG, status_group
from txnstatus.catalog.service import CatalogMachine
from txnstatus.foreign import foreign_name
from txnstatus.raft.machine import StateMachine
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId, TxnState


class Promises:
    def __init__(
        self,
        ledger: Ledger,
        has_published: Callable[[TxnId], bool],
        made: Callable[[str, str], object],
        range_span: int,
        *,
        retires: bool,
    ) -> None:
        """`has_published`: whether the foreign participant has. `made` hears of the ids and names of new tables.

        `retires`: what was dropped may be so old that it goes.
        """
        self._retires = retires
        self._dropped: defaultdict[int, dict[str, str]] = defaultdict(dict)
        """Shard → the tables that were dropped there: their ids, and names."""
        self._ledger = ledger
        self._has_published = has_published
        self._made = made
        self._kept: dict[str, int] = {}
        """The records that each range keeps."""
        self._begun: dict[str, TxnId] = {}
        """Requests, and the first transaction that each began."""
        self._clears: defaultdict[str, list[int]] = defaultdict(list)
        """Commits of overwrites of whole tables, by table id."""
        self._tables = Tables(range_span)
        self._floors = Floors(ledger.violation)
        ledger.on_snapshot = self._floors.given
        self._prepared: set[tuple[TxnId, str]] = set()
        """Transactions, and the participants that have prepared for them."""
        self._decided: dict[str, Timestamp] = {}
        """The last commit of each range."""
        self._floor = NO_TIMESTAMP

    def applied(self, group: str, machine: StateMachine, data: bytes, outcome: object) -> None:
        if isinstance(machine, StatusMachine):
            for rule, story in self._status(group, machine.table, cmd.decode(data), outcome):
                self._ledger.violation(rule, f"{group}: {story}")
        elif isinstance(machine, ShardMachine):
            for rule, story in self._shard(machine.shard, shard_cmd.decode(data), outcome):
                self._ledger.violation(rule, f"{group}: {story}")
        elif group == CATALOG and not isinstance(outcome, Rejected):
            command = catalog_cmd.decode(data)
            if isinstance(command, catalog_cmd.DropRange) and self._kept.get(status_group(command.number)):
                kept = self._kept[status_group(command.number)]
                self._ledger.violation("2 ids", f"range {command.number} is dropped with {kept} records")
            if isinstance(machine, CatalogMachine):
                floor = machine.catalog.state.floor
                if floor < self._floor:
                    self._ledger.violation("6 snapshots", f"the floor falls from {self._floor} to {floor}")
                self._floor = floor

    # ---- ranges

    def _status(
        self, group: str, table: TxnStatusTable, command: cmd.Command, outcome: object
    ) -> Iterator[tuple[str, str]]:
        self._kept[group] = len(table.unfinished) + len(table._finished)
        if not isinstance(outcome, StatusApplied):
            return
        self._floors.applied(group, table, command, outcome)
        if isinstance(command, cmd.BeginTxns) and outcome.changed and outcome.records:
            first = self._begun.setdefault(command.request_id, outcome.records[0].txn_id)
            if first != outcome.records[0].txn_id and table.find(first) is not None:
                yield "12 once", f"{command.request_id} began {first}, which is kept, and {outcome.txn_ids}"
        if (
            isinstance(command, cmd.BeginCommit | cmd.FinalizeCommit)
            and outcome.changed
            and outcome.records[0].commit_ts
        ):
            yield from self._decision(group, outcome.records[0])
        for record in outcome.records:
            foreign = any(foreign_name(each) is not None for each in record.participants)
            if record.state is TxnState.COMMITTED and foreign and not self._has_published(record.txn_id):
                yield (
                    "ended means ended",
                    f"{record.txn_id} is COMMITTED, and the foreign one has not published",
                )

    def _decision(self, group: str, record: TxnRecord) -> Iterator[tuple[str, str]]:
        """All have prepared, and commits rise in the order of their decisions."""
        tables = [each for each in record.participants if foreign_name(each) is None]
        if missing := [each for each in tables if (record.txn_id, each) not in self._prepared]:
            yield "committed only if all prepared", f"{record.txn_id} is decided, and {missing} had not prepared"
        last = self._decided.get(group, NO_TIMESTAMP)
        if record.commit_ts <= last:
            yield "6 snapshots", f"{record.txn_id} commits at {record.commit_ts}, decided after one at {last}"
        self._decided[group] = record.commit_ts

    # ---- tables

    def _shard(self, shard: ParticipantShard, command: shard_cmd.Command, outcome: object) -> Iterator[tuple[str, str]]:
        if not isinstance(outcome, ShardApplied):
            return
        if isinstance(command, shard_cmd.CreateTable):
            created = shard.table_by_id(outcome.table_id).created
            self._made(outcome.table_id, command.name)
            for gone, drop in shard.dropped(command.name):
                if gone.table_id == outcome.table_id:
                    break  # asked again; those that follow came later
                if created < drop.commit_ts:
                    yield "drops", f"{outcome.table_id} is there from {created}, {gone.table_id} to {drop.commit_ts}"
            return
        yield from self._gone(shard)
        table = shard._tables.get(getattr(command, "table_id", ""))
        if table is None:
            return
        if table.dropped is not None:
            self._dropped[shard.shard][table.table_id] = table.name
        yield from self._tables.after(table)
        if isinstance(command, shard_cmd.BeginCommit):
            self._prepared.add((command.txn_id, command.table_id))
        match command:
            case shard_cmd.AcquireLocks():
                yield from (("locks", story) for story in exclusion.held_together(table.locks))
            case shard_cmd.BeginCommit() if table.schema.primary_key:
                yield from (("7 rows", story) for story in _overwritten_under_rows(table))
                yield from (("7 rows", story) for story in _older_than_the_keys(table, command.txn_id))
            case shard_cmd.FinalizeCommit(_, table_id, commit_ts) if table.rows.cleared[-1:] == [commit_ts]:
                self._clears[table_id].append(commit_ts)
                yield from (("4 rows", story) for story in self._lost_clears(table))

    def _gone(self, shard: ParticipantShard) -> Iterator[tuple[str, str]]:
        """Whoever reads below a drop finds the table, as long as what was dropped is kept."""
        dropped = self._dropped[shard.shard]
        for table_id in [each for each in dropped if each not in shard._tables]:
            name = dropped.pop(table_id)
            if (elsewhere := shard.gone.get(table_id)) is not None:
                self._dropped[elsewhere.shard][table_id] = name
            elif not self._retires:
                yield "drops", f"{name} was dropped, and {table_id} is gone: nothing is so old yet"

    def _lost_clears(self, table: TableState) -> Iterable[str]:
        """Whoever reads between two overwrites must not see what the first of them replaced."""
        changes = [each.commit_ts for each in table.rows.unflushed.values()]
        changes += [each.first_ts for each in table.rows.flushes.values()]
        for commit_ts in self._clears[table.table_id]:
            if any(change < commit_ts for change in changes) and commit_ts not in table.rows.cleared:
                yield f"{table.name} forgot the overwrite at {commit_ts}: it has {table.rows.cleared}"


def _overwritten_under_rows(table: TableState) -> Iterator[str]:
    """An overwrite replaces the rows that it saw: nobody else's may be about to come, nor the other way round."""
    prepared = [txn for txn in table.unfinished.values() if txn.state is ParticipantState.COMMIT_IN_PROGRESS]
    for txn in prepared:
        if any(write.overwrites for write in txn.writes.values()):
            for other in prepared:
                if other is not txn and other.row_keys:
                    yield f"{txn.txn_id} overwrites {table.name}, of which {other.txn_id} changes rows, both prepared"


def _older_than_the_keys(table: TableState, txn_id: TxnId) -> Iterator[str]:
    """Whoever has not seen commits of which the keys are gone cannot be compared with them."""
    txn = table.txns[txn_id]
    if txn.state is ParticipantState.COMMIT_IN_PROGRESS and txn.row_keys and txn.snapshot < table.rows.keys.above:
        yield f"{txn_id} read {table.name} at {txn.snapshot}; what was changed up to {table.rows.keys.above} is gone"
