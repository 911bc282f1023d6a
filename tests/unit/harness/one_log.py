"""A group with a status range and two shards in its log, whose tables take part in transactions beside others'."""

from __future__ import annotations

from tests.unit.harness.shards import create
from txnparticipant.leader.machine import ShardMachine, shards_here
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.records import TableTxn
from txnstatus.catalog.catalog import range_number, shard_group, shard_number, status_group
from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.errors import TxnError
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import Parts, address, opening
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import HybridClock, Participant, ParticipantId, Timestamp, TxnId

OWNER = "ada"
ONE, TWO = ParticipantId("3.0"), ParticipantId("4.0")
"""Tables in the log."""
AWAY = ParticipantId("7.0")
"""A table of another group."""
SPAN = 100


class OneLog:
    def __init__(self) -> None:
        self.parts = Parts(self._make)
        self.parts.apply([opening(shard_group(3)), opening(shard_group(4)), opening(status_group(0))])
        for number, name in ((3, "air.flights"), (4, "air.weather")):
            outcome = self._apply(shard_group(number), shard_cmd.encode(create(name, f"create {name}")))
            assert isinstance(outcome, ShardApplied)
        self._begun = 0

    @property
    def table(self) -> TxnStatusTable:
        machine = self.parts.machines[status_group(0)]
        assert isinstance(machine, StatusMachine)
        return machine.table

    def begin(self) -> TxnId:
        self._begun += 1
        applied = self.applied(cmd.BeginTxns(f"begin {self._begun}", 1, OWNER, "", 1_000, 1))
        return applied.records[0].txn_id

    def begun(self, *participants: ParticipantId) -> TxnId:
        """A transaction that has written to these."""
        txn_id = self.begin()
        for each in participants:
            if each == AWAY:
                self.applied(cmd.RegisterParticipants(txn_id, OWNER, (Participant(AWAY, "far.away"),)))
            else:
                self.write(first_write(txn_id, each))
        return txn_id

    def ask(self, command: cmd.Command) -> StatusApplied | Rejected:
        outcome = self._apply(status_group(0), cmd.encode(command))
        self.check()
        assert isinstance(outcome, StatusApplied | Rejected)
        return outcome

    def applied(self, command: cmd.Command) -> StatusApplied:
        outcome = self.ask(command)
        assert isinstance(outcome, StatusApplied), outcome
        return outcome

    def refused(self, command: cmd.Command) -> TxnError:
        """The refusal; it must not have changed a byte."""
        before = list(self.parts.snapshot())
        outcome = self.ask(command)
        assert isinstance(outcome, Rejected), outcome
        assert list(self.parts.snapshot()) == before
        return outcome.error

    def write(self, command: shard_cmd.TxnCommand | shard_cmd.TableCommand) -> ShardApplied | Rejected:
        part = shard_group(shard_of_table_id(command.table_id))
        outcome = self._apply(part, shard_cmd.encode(command))
        self.check()
        assert isinstance(outcome, ShardApplied | Rejected)
        return outcome

    def on(self, participant_id: ParticipantId, txn_id: TxnId) -> TableTxn | None:
        machine = self.parts.machines[shard_group(shard_of_table_id(participant_id))]
        assert isinstance(machine, ShardMachine)
        return machine.shard.record(participant_id, txn_id)

    def files(self, participant_id: ParticipantId) -> list[TxnId]:
        """The transactions whose files are visible."""
        machine = self.parts.machines[shard_group(shard_of_table_id(participant_id))]
        assert isinstance(machine, ShardMachine)
        file_sets = machine.shard.table_by_id(participant_id).file_sets
        return [each.txn_id for each in file_sets.values() if not each.replaced_ts]

    def record(self, txn_id: TxnId) -> TxnRecord:
        return self.table.get(txn_id)

    def check(self) -> None:
        """Each part's own invariants."""
        self.table.check_invariants()
        for machine in self.parts.machines.values():
            if isinstance(machine, ShardMachine):
                machine.shard.check_invariants()

    def _apply(self, part: str, command: bytes) -> object:
        (outcome,) = self.parts.apply([address(part) + command])
        return outcome

    def _make(self, part: str) -> StateMachine:
        if range_number(part) is None:
            return ShardMachine(shard_number(part), lambda txn_id: self.table if txn_id < SPAN else None)
        return StatusMachine(TxnStatusTable(0, SPAN), HybridClock(lambda: 0), shards_here(lambda: self.parts.machines))


def first_write(txn_id: TxnId, table_id: ParticipantId, owner: str = OWNER) -> shard_cmd.OpenWrite:
    """It makes the table a participant, too."""
    return shard_cmd.OpenWrite(txn_id, table_id, owner, "write0001", begins=True, registers=True)


def commit(txn_id: TxnId, at: int = 100, owner: str = OWNER) -> cmd.BeginCommit:
    return cmd.BeginCommit(txn_id, owner, 5, Timestamp(at))
