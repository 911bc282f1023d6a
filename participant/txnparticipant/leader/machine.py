"""A shard as Raft sees it: bytes in, outcomes out; and how it and status ranges in the same log work together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.snapshot import Restored
from txnparticipant.shard.translation import untranslated
from txnstatus.catalog.cluster_map import part_of
from txnstatus.errors import TxnError, Unavailable, forgotten
from txnstatus.raft.machine import Restoring, StateMachine
from txnstatus.replicated import Rejected
from txnstatus.status.commands import RegisterParticipants
from txnstatus.status.commit.together import Here
from txnstatus.status.records import Step
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import Participant, ParticipantId, ParticipantState, Timestamp, TxnId

RangeOf = Callable[[TxnId], TxnStatusTable | None]
"""Finds the range that a transaction is of, if it is in the same log."""


class ShardMachine:
    """Implements raft.machine.StateMachine, and status.together.Member."""

    def __init__(self, shard: int, range_of: RangeOf) -> None:
        self.shard = ParticipantShard(shard)
        self._range_of = range_of

    def is_with(self, txn_id: TxnId) -> bool:
        """Whether it has been in this log for as long as the transaction, if that one's record is here, too."""
        return txn_id >= self.shard.apart_below

    def range_of(self, txn_id: TxnId) -> TxnStatusTable | None:
        """The range that the transaction is of, if the shard takes part in it by the same log."""
        return self._range_of(txn_id) if self.is_with(txn_id) else None

    def arrives(self, apart_below: TxnId) -> None:
        """It comes from another log: transactions with lower ids have begun here before."""
        self.shard.apart_below = apart_below

    def apply(self, commands: Sequence[bytes]) -> list[ShardApplied | Rejected]:
        return [self._apply(cmd.decode(command)) for command in commands]

    def _apply(self, command: cmd.Command) -> ShardApplied | Rejected:
        if isinstance(command, cmd.FirstWrite) and command.registers and (refusal := self._register(command)):
            return refusal
        return self.shard.apply(command)

    def _register(self, command: cmd.FirstWrite) -> Rejected | None:
        """The table becomes a participant, as by a message before the write."""
        table = self.range_of(command.txn_id)
        if table is None:  # the range has gone since the command was proposed
            return Rejected(forgotten(command.txn_id))
        participants = (Participant(ParticipantId(command.table_id), self.shard.name_of(command.table_id)),)
        outcome = table.apply(RegisterParticipants(command.txn_id, command.owner, participants))
        return outcome if isinstance(outcome, Rejected) else None

    def divide(self, other: StateMachine, share: Sequence[str]) -> None:
        """Implements raft.machine.Divisible. `share`: ids of tables."""
        assert isinstance(other, ShardMachine), "shards and ranges are no parts of each other"
        self.shard.divide(other.shard, set(share))

    # ---- for status ranges in the same log

    def unready(self, txn_id: TxnId, participant_id: ParticipantId) -> TxnError | None:
        record = self.shard.record(participant_id, txn_id)
        if record is None or record.state is not ParticipantState.OPEN:
            return None
        table = self.shard.table_by_id(participant_id)
        return Unavailable(f"{table.name} was compacted meanwhile") if any(untranslated(table, record)) else None

    def write(self, command: bytes) -> TxnError | None:
        (outcome,) = self.apply([command])
        return outcome.error if isinstance(outcome, Rejected) else None

    def prepare(self, txn_id: TxnId, participant: Participant, at: Timestamp) -> Step:
        participant_id, _, first_write = participant
        at = max(at, Timestamp(self.shard.last_row_change(participant_id) + 1))
        return self._ask(cmd.BeginCommit(txn_id, participant_id, at, first_write))

    def publish(self, txn_id: TxnId, participant_id: ParticipantId, commit_ts: Timestamp) -> Step:
        return self._ask(cmd.FinalizeCommit(txn_id, participant_id, commit_ts))

    def discard(self, txn_id: TxnId, participant: Participant) -> Step:
        participant_id, _, first_write = participant
        return self._ask(cmd.AbortTxn(txn_id, participant_id, first_write))

    def _ask(self, command: cmd.BeginCommit | cmd.FinalizeCommit | cmd.AbortTxn) -> Step:
        outcome, participant_id = self.shard.apply(command), ParticipantId(command.table_id)
        if isinstance(outcome, Rejected):
            return Step(participant_id, command, outcome, refused=outcome.error)
        return Step(participant_id, command, outcome, outcome.timestamp)

    # ---- snapshots

    def snapshot(self) -> Iterator[bytes]:
        return self.shard.chunks()

    def restoring(self) -> Restoring:
        return Restored(self.shard.become)


def shards_here(machines: Callable[[], Mapping[str, StateMachine]]) -> Here:
    """`machines`: the parts of a group, for its status ranges."""

    def find(txn_id: TxnId, participant_id: ParticipantId) -> ShardMachine | None:
        there = machines()
        machine = there.get(keeper_among(there, participant_id) or "")
        return machine if isinstance(machine, ShardMachine) and machine.is_with(txn_id) else None

    return find


def keeper_among(machines: Mapping[str, StateMachine], participant_id: ParticipantId) -> str | None:
    """The shard that keeps a participant, by its name as a part, if it is one of these."""
    if (part := part_of(participant_id)) is None:
        return None
    began = machines.get(part)
    if isinstance(began, ShardMachine) and participant_id not in began.shard.gone:
        return part
    came = (
        name for name, each in machines.items() if isinstance(each, ShardMachine) and participant_id in each.shard.came
    )
    return next(came, None)
