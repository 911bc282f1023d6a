"""The shipped participant, one step at a time: a shard with one table, from one numbered state to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.exhaustive.values import OWNER, Error, Interned
from tests.exhaustive.violation import guarded
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import Manifest
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.types import ParticipantId, Timestamp, TxnId

FIRST_TXN = TxnId(1_000)
"""Committed what the tables hold at the start."""
FIRST_WRITE = "first0001"
FIRST_TS = Timestamp(1)


class Accepted(NamedTuple):
    """A write that the shard has said yes to; never forgotten, whatever the shard does with it."""

    txn_id: TxnId
    replaces: tuple[str, ...]


class FrozenShard(NamedTuple):
    snapshot: bytes
    accepted: tuple[Accepted, ...]


class ShardCore:
    """A ParticipantShard with one table."""

    def __init__(
        self,
        participant_id: ParticipantId,
        check_step: Callable[[TableState, shard_cmd.TxnCommand, Any, TableState], None],
    ) -> None:
        self.participant_id = participant_id
        self._check_step = check_step
        self.states = Interned[FrozenShard]()
        self._shards: list[ParticipantShard] = []
        self._applied: dict[tuple[int, shard_cmd.TxnCommand], tuple[int, ShardApplied | Error]] = {}
        self.steps = 0
        self.start = self._first()

    def table(self, number: int) -> TableState:
        """To be read only."""
        return next(self._shards[number].tables())

    def shard(self, number: int) -> ParticipantShard:
        """To be read only."""
        return self._shards[number]

    def apply(self, number: int, command: shard_cmd.TxnCommand) -> tuple[int, ShardApplied | Error]:
        key = number, command
        known = self._applied.get(key)
        if known is None:
            frozen = self.states.values[number]
            after = self._shard()
            after.restore(frozen.snapshot)
            with guarded(f"table {self.participant_id}"):
                outcome = after.apply(command)
            table = next(after.tables())
            self._check_step(self.table(number), command, outcome, table)
            with guarded(f"table {self.participant_id}"):
                after.check_invariants()
            accepted = frozen.accepted
            if isinstance(command, shard_cmd.AddFiles) and isinstance(outcome, ShardApplied):
                write = table.txns[command.txn_id].writes[command.write_id]
                accepted = tuple(sorted({*accepted, Accepted(command.txn_id, tuple(write.replaces))}))
            told = Error.of(outcome.error) if isinstance(outcome, Rejected) else outcome
            known = self._applied[key] = self._number(after, accepted), told
            self.steps += 1
        return known

    def _number(self, shard: ParticipantShard, accepted: tuple[Accepted, ...]) -> int:
        number = self.states(FrozenShard(shard.snapshot(), accepted))
        if number == len(self._shards):
            self._shards.append(shard)
        return number

    def _shard(self) -> ParticipantShard:
        """An empty one, of the table's number."""
        return ParticipantShard(int(self.participant_id.split(".", maxsplit=1)[0]))

    def _first(self) -> int:
        """A table with one committed write."""
        shard = self._shard()
        name = f"lake.{self.participant_id.replace('.', '_')}"
        first: list[shard_cmd.Command] = [
            shard_cmd.CreateTable(name, Schema((Column("id", "bigint"),)), f"file:///{name}", "create"),
            shard_cmd.OpenWrite(FIRST_TXN, self.participant_id, OWNER, FIRST_WRITE, begins=True),
            shard_cmd.AddFiles(FIRST_TXN, self.participant_id, OWNER, FIRST_WRITE, manifest_of(FIRST_TXN)),
            shard_cmd.BeginCommit(FIRST_TXN, self.participant_id, FIRST_TS),
            shard_cmd.FinalizeCommit(FIRST_TXN, self.participant_id, FIRST_TS),
        ]
        for command in first:
            outcome = shard.apply(command)
            if isinstance(outcome, Rejected):
                raise outcome.error
        return self._number(shard, ())


def manifest_of(txn_id: TxnId) -> Manifest:
    """The manifest of the one write that a transaction makes to a table."""
    return Manifest(f"manifest-{txn_id}", 1, 1, 1, 1, 1)


def write_of(txn_id: TxnId) -> str:
    return FIRST_WRITE if txn_id == FIRST_TXN else f"write000{txn_id}"
