"""The status table as Raft sees it: bytes in, outcomes out; and how another table takes its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from txnstatus.raft.machine import Restoring
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.commit.together import Here, Together
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import HybridClock


class StatusMachine:
    """Implements raft.machine.StateMachine."""

    def __init__(self, table: TxnStatusTable, clock: HybridClock, here: Here) -> None:
        """`here`: the participants in the same log."""
        self.table = table
        self._together = Together(table, here)
        self._clock = clock

    def apply(self, commands: Sequence[bytes]) -> list[StatusApplied | Rejected]:
        outcomes = [self._together.apply(cmd.decode(command)) for command in commands]
        self._clock.update(self.table.last_commit_ts)
        return outcomes

    def snapshot(self) -> Iterator[bytes]:
        return self.table.snapshot()

    def restoring(self) -> Restoring:
        return _RestoringTable(self)

    def become(self, table: TxnStatusTable) -> None:
        self.table.become(table)
        self._clock.update(self.table.last_commit_ts)


class _RestoringTable:
    """Another table beside the one in force, which it replaces once it is whole."""

    def __init__(self, machine: StatusMachine) -> None:
        self._machine = machine
        self._table = TxnStatusTable(machine.table.first_txn_id, machine.table.end_txn_id)

    def add(self, chunk: bytes) -> None:
        self._table.add_chunk(chunk)

    def finish(self) -> None:
        self._machine.become(self._table)
