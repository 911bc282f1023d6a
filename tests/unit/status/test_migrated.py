"""Transactions whose participants go to another log, or come to that of their record, while they are open or commit."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.harness.one_log import OWNER, commit, first_write
from tests.unit.harness.shards import added, create
from txndeploy.node.machines import group_machine
from txnparticipant.leader.machine import ShardMachine, keeper_among
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.errors import Unavailable
from txnstatus.raft.migration import Arrives
from txnstatus.raft.parts import Parts, address, arriving, opening, releasing
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import HybridClock, Participant, ParticipantId, ParticipantState, Timestamp, TxnId, TxnState

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


def test_one_that_leaves_after_it_has_prepared_is_counted_once_it_was_asked_again() -> None:
    first, second = logs()
    txn_id = first.begin()
    first.write(MOVED, first_write(txn_id, MOVED))
    first.register(txn_id, AWAY)
    second.write(AWAY, remote_write(txn_id, AWAY))
    assert steps(first.ask(commit(txn_id))) == [MOVED]
    migrate(first, second)
    refused = first.ask(cmd.FinalizeCommit(txn_id, Timestamp(200), 5, 1))
    assert isinstance(refused, Rejected), "what has left does not count without its answer"
    assert first.elsewhere(txn_id) == [MOVED, AWAY]
    assert second.state(MOVED, txn_id) is STATES.COMMIT_IN_PROGRESS, "it is asked there, and says what it said"
    assert decided(first, txn_id, 2).state is TxnState.FINALIZE_IN_PROGRESS
    second.write(MOVED, shard_cmd.FinalizeCommit(txn_id, MOVED, Timestamp(200)))
    assert second.state(MOVED, txn_id) is STATES.COMMITTED


def test_one_that_leaves_while_the_transaction_is_open_is_asked_by_messages() -> None:
    first, second = logs()
    txn_id = first.begin()
    first.write(MOVED, first_write(txn_id, MOVED))
    first.write(STAYS, first_write(txn_id, STAYS))
    migrate(first, second)
    outcome = first.ask(commit(txn_id))
    assert steps(outcome) == [STAYS]
    assert first.elsewhere(txn_id) == [MOVED]
    assert first.table.get(txn_id).state is TxnState.COMMIT_IN_PROGRESS


def test_one_that_comes_is_elsewhere_for_all_that_have_begun_before() -> None:
    """What they have there may not be registered; or it was asked already, by a message."""
    first, second = logs()
    early = second.begin()
    second.register(early, MOVED)
    first.write(MOVED, remote_write(early, MOVED))
    migrate(first, second)
    assert second.elsewhere(early) == [MOVED]
    assert steps(second.ask(commit(early))) == []
    assert second.state(MOVED, early) is STATES.OPEN
    assert isinstance(second.ask(cmd.FinalizeCommit(early, Timestamp(200), 5, 0)), Rejected)
    assert second.write(MOVED, shard_cmd.BeginCommit(early, MOVED, Timestamp(150)))
    assert decided(second, early, 1).state is TxnState.FINALIZE_IN_PROGRESS


def test_one_that_comes_is_here_for_all_that_begin_then() -> None:
    first, second = logs()
    second.begin()
    migrate(first, second)
    late = second.begin()
    assert isinstance(second.write(MOVED, first_write(late, MOVED)), ShardApplied)
    assert second.elsewhere(late) == []
    assert steps(second.ask(commit(late))) == [MOVED, MOVED]
    assert second.table.get(late).state is TxnState.COMMITTED


def test_a_last_write_for_one_that_has_left_is_refused_for_now() -> None:
    first, second = logs()
    txn_id = first.begin()
    write = shard_cmd.encode(added(txn_id))
    migrate(first, second)
    outcome = first.ask(cmd.BeginCommit(txn_id, OWNER, 5, Timestamp(100), (cmd.LastWrite(MOVED, write),)))
    assert isinstance(outcome, Rejected)
    assert type(outcome.error) is Unavailable
    assert first.table.get(txn_id).state is TxnState.OPEN


def test_who_is_elsewhere_stays_so_after_a_restart() -> None:
    first, second = logs()
    early = second.begin()
    second.register(early, MOVED)
    migrate(first, second)
    chunks = list(second.parts.snapshot())
    second.parts = restored(group_machine(lambda: SPAN, HybridClock(lambda: 0)), chunks)
    assert list(second.parts.snapshot()) == chunks
    assert second.elsewhere(early) == [MOVED]


def test_one_that_comes_back_is_elsewhere_for_all_that_have_begun_meanwhile() -> None:
    first, second = logs()
    early = first.begin()
    first.write(MOVED, first_write(early, MOVED))
    migrate(first, second, 7)
    meanwhile = first.begin()
    first.register(meanwhile, MOVED)
    migrate(second, first, 9)
    assert first.elsewhere(early) == first.elsewhere(meanwhile) == [MOVED]
    assert first.state(MOVED, early) is STATES.OPEN


def restored(parts: Parts, chunks: Sequence[bytes]) -> Parts:
    restoring = parts.restoring()
    for chunk in chunks:
        restoring.add(chunk)
    restoring.finish()
    return parts
