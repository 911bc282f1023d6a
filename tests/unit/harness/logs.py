"""Groups with a range and some shards each in their logs, and shards that go from one to another."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.harness.one_log import OWNER
from tests.unit.harness.shards import create
from txndeploy.node.machines import group_machine
from txnparticipant.leader.machine import ShardMachine, keeper_among
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.raft.migration import Arrives
from txnstatus.raft.parts import address, arriving, opening, releasing
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import HybridClock, Participant, ParticipantId, ParticipantState, Timestamp, TxnId

MOVED, STAYS, AWAY = ParticipantId("3.0"), ParticipantId("4.0"), ParticipantId("9.0")
SPAN = 100
STATES = ParticipantState


class Log:
    """A group with one range and some shards, each with a table."""

    def __init__(self, number: int, *shards: int) -> None:
        self.range = number
        self.parts = group_machine(lambda: SPAN, HybridClock(lambda: 0))
        self.parts.apply([opening(f"status-{number}"), *(opening(f"shard-{shard}") for shard in shards)])
        for shard in shards:
            self.write(f"{shard}.0", create(f"air.t{shard}", f"create {shard}"))
        self._begun = 0

    @property
    def table(self) -> TxnStatusTable:
        machine = self.parts.machines[f"status-{self.range}"]
        assert isinstance(machine, StatusMachine)
        return machine.table

    def ask(self, command: cmd.Command) -> StatusApplied | Rejected:
        (outcome,) = self.parts.apply([address(f"status-{self.range}") + cmd.encode(command)])
        assert isinstance(outcome, StatusApplied | Rejected)
        return outcome

    def record(self, command: cmd.Command) -> TxnRecord:
        outcome = self.ask(command)
        assert isinstance(outcome, StatusApplied), outcome
        return outcome.records[0]

    def begin(self) -> TxnId:
        self._begun += 1
        return self.record(cmd.BeginTxns(f"begin {self._begun}", 1, OWNER, "", 1_000, 1)).txn_id

    def register(self, txn_id: TxnId, *participants: ParticipantId) -> None:
        named = tuple(Participant(each, f"air.{each}") for each in participants)
        self.ask(cmd.RegisterParticipants(txn_id, OWNER, named))

    def write(self, table_id: str, command: shard_cmd.Command) -> ShardApplied | Rejected:
        part = f"shard-{table_id.partition('.')[0]}"
        (outcome,) = self.parts.apply([address(part) + shard_cmd.encode(command)])
        assert isinstance(outcome, ShardApplied | Rejected)
        return outcome

    def state(self, table_id: ParticipantId, txn_id: TxnId) -> ParticipantState | None:
        machine = self.parts.machines[f"shard-{table_id.partition('.')[0]}"]
        assert isinstance(machine, ShardMachine)
        record = machine.shard.record(table_id, txn_id)
        return record.state if record is not None else None

    def elsewhere(self, txn_id: TxnId) -> list[ParticipantId]:
        """Whom a leader of the range asks by messages."""
        machines = self.parts.machines

        def is_here(txn: TxnId, participant: ParticipantId) -> bool:
            machine = machines.get(keeper_among(machines, participant) or "")
            return isinstance(machine, ShardMachine) and machine.is_with(txn)

        manager = TxnStatusManager(self.table, is_here=is_here)
        return [each.participant_id for each in manager.elsewhere(self.table.get(txn_id))]


def migrate(source: Log, target: Log, number: int = 7) -> None:
    """Shard 3, by the entries of both logs."""
    source.parts.apply([releasing("shard-3", number)])
    chunk, is_last = 0, False
    while not is_last:
        data, is_last, goes_on = source.parts.migrations.released["shard-3"].chunk(chunk)
        assert target.parts.apply([arriving(Arrives("shard-3", number, chunk, data, is_last, goes_on))]) == [None]
        chunk += 1


def remote_write(txn_id: TxnId, table_id: ParticipantId) -> shard_cmd.OpenWrite:
    return shard_cmd.OpenWrite(txn_id, table_id, OWNER, "write0001", begins=True)


def logs() -> tuple[Log, Log]:
    return Log(0, 3, 4), Log(1, 9)


def decided(log: Log, txn_id: TxnId, prepared: int) -> TxnRecord:
    return log.record(cmd.FinalizeCommit(txn_id, Timestamp(200), 5, prepared))


def steps(outcome: StatusApplied | Rejected) -> Sequence[ParticipantId]:
    assert isinstance(outcome, StatusApplied), outcome
    return [step.participant_id for step in outcome.steps]
