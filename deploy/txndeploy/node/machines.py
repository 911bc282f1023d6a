"""What a group replicates: status ranges and shards in one log, which know of each other."""

from __future__ import annotations

from collections.abc import Callable

from txnparticipant.leader.machine import ShardMachine, shards_here
from txnstatus.catalog.catalog import range_number, shard_number, status_group
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import Parts
from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock, TxnId


def group_machine(range_span: Callable[[], int], clock: HybridClock) -> Parts:
    """The machine of a group, empty. `range_span`: transaction ids in one range."""

    def arrives(came: StateMachine) -> None:
        """A shard has come from another group: whoever begins from now on has it in the log of his record."""
        if isinstance(came, ShardMachine):
            begun = (each.table.next_txn_id for each in machine.machines.values() if isinstance(each, StatusMachine))
            came.arrives(TxnId(max(begun, default=0)))

    machine = Parts(lambda part: _part_machine(part, machine, range_span(), clock), arrives)
    return machine


def _part_machine(part: str, beside: Parts, span: int, clock: HybridClock) -> StateMachine:
    """What a part begins with, beside the others of its group."""
    number = range_number(part)

    def range_of(txn_id: TxnId) -> TxnStatusTable | None:
        found = beside.machines.get(status_group(txn_id // span))
        return found.table if isinstance(found, StatusMachine) else None

    if number is None:
        return ShardMachine(shard_number(part), range_of)
    table = TxnStatusTable(number * span, (number + 1) * span)
    return StatusMachine(table, clock, shards_here(lambda: beside.machines))
