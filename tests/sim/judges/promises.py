"""What must hold of a command that has just applied, and is not seen in what programs are told: judged at once.

It is written down again here, by what it is for, and not by how the service does it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from tests.sim.judges import exclusion
from tests.sim.judges.ledger import Ledger
from txnparticipant.leader.service import ShardMachine
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus.catalog import commands as catalog_cmd
from txnstatus.catalog.catalog import CATALOG, status_group
from txnstatus.foreign import foreign_name
from txnstatus.raft.machine import StateMachine
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import ParticipantState, TxnId, TxnState


class Promises:
    def __init__(self, ledger: Ledger, has_published: Callable[[TxnId], bool]) -> None:
        """`has_published`: whether the foreign participant has."""
        self._ledger = ledger
        self._has_published = has_published
        self._kept: dict[str, int] = {}
        """The records that each range keeps."""
        self._begun: dict[str, TxnId] = {}
        """Requests, and the first transaction that each began."""
        self._clears: defaultdict[str, list[int]] = defaultdict(list)
        """Commits of overwrites of whole tables, by table id."""

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

    # ---- ranges

    def _status(
        self, group: str, table: TxnStatusTable, command: cmd.Command, outcome: object
    ) -> Iterator[tuple[str, str]]:
        self._kept[group] = len(table.unfinished) + len(table._finished)
        if not isinstance(outcome, StatusApplied):
            return
        if isinstance(command, cmd.BeginTxns) and outcome.changed and outcome.records:
            first = self._begun.setdefault(command.request_id, outcome.records[0].txn_id)
            if first != outcome.records[0].txn_id and table.find(first) is not None:
                yield "12 once", f"{command.request_id} began {first}, which is kept, and {outcome.txn_ids}"
        for record in outcome.records:
            foreign = any(foreign_name(each) is not None for each in record.participants)
            if record.state is TxnState.COMMITTED and foreign and not self._has_published(record.txn_id):
                yield (
                    "ended means ended",
                    f"{record.txn_id} is COMMITTED, and the foreign one has not published",
                )

    # ---- tables

    def _shard(self, shard: ParticipantShard, command: shard_cmd.Command, outcome: object) -> Iterator[tuple[str, str]]:
        if not isinstance(outcome, ShardApplied):
            return
        if isinstance(command, shard_cmd.CreateTable):
            created = shard.table_by_id(outcome.table_id).created
            for gone, drop in shard.dropped(command.name):
                if gone.table_id == outcome.table_id:
                    break  # asked again; those that follow came later
                if created < drop.commit_ts:
                    yield "drops", f"{outcome.table_id} is there from {created}, {gone.table_id} to {drop.commit_ts}"
            return
        table = shard._tables.get(getattr(command, "table_id", ""))
        if table is None:
            return
        match command:
            case shard_cmd.AcquireLocks():
                yield from (("locks", story) for story in exclusion.held_together(table.locks))
            case shard_cmd.BeginCommit() if table.schema.primary_key:
                yield from (("7 rows", story) for story in _overwritten_under_rows(table))
            case shard_cmd.FinalizeCommit(_, table_id, commit_ts) if table.rows.cleared[-1:] == [commit_ts]:
                self._clears[table_id].append(commit_ts)
                yield from (("4 rows", story) for story in self._lost_clears(table))

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
