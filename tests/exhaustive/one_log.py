"""Tables in the log of the status record: the shipped `together`, over shards whose steps are computed once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.exhaustive.shards import ShardCore
from tests.exhaustive.values import Error
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.commit.together import Together
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import ParticipantId

Command = cmd.Command | shard_cmd.TxnCommand


class _Shard:
    """A ParticipantShard that goes from one numbered state to the next."""

    def __init__(self, core: ShardCore, number: int) -> None:
        self._core = core
        self.number = number

    def apply(self, command: shard_cmd.TxnCommand) -> ShardApplied | Rejected:
        self.number, said = self._core.apply(self.number, command)
        return Rejected(said.thawed()) if isinstance(said, Error) else said

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core.shard(self.number), name)


class OneLog:
    """A status table, and the shards in its log, by the numbers of their states."""

    def __init__(
        self, table: TxnStatusTable, cores: Mapping[ParticipantId, ShardCore], numbers: tuple[int, ...]
    ) -> None:
        self._shards: dict[ParticipantId, _Shard] = {}
        self._machines: dict[ParticipantId, ShardMachine] = {}
        for (participant, core), number in zip(cores.items(), numbers, strict=True):
            machine = self._machines[participant] = ShardMachine(0, lambda _txn_id: table)
            self._shards[participant] = machine.shard = _Shard(core, number)  # type: ignore[assignment]
        self._together = Together(table, lambda _txn_id, participant: self._machines.get(participant))

    def apply(self, command: Command) -> StatusApplied | ShardApplied | Rejected:
        if isinstance(command, cmd.Command):
            return self._together.apply(command)
        return self._machines[ParticipantId(command.table_id)]._apply(command)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(shard.number for shard in self._shards.values())
