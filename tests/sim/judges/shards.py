"""Watches every shard's leader from inside: what it retires under its readers, and what it knows from before."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from txnparticipant.leader.registering import Key
from txnparticipant.leader.service import ShardService
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.table import TableState
from txnstatus.errors import OutcomeUnknown, TxnError
from txnstatus.proto import participant_pb2 as pb
from txnstatus.replicated import Rejected
from txnstatus.types import ParticipantOpType, ParticipantState, TxnId, micros_of

T = TypeVar("T")
SLACK_MICROS = 10_000


class WatchedShardService(ShardService):
    """ShardService, checked."""

    violated: Callable[[str, str], None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asked: Counter[tuple[str, TxnId, str]] = Counter()
        """How often each write was asked for."""
        self._carried: set[tuple[str, TxnId, str]] = set()
        """Writes that ends have told of: the begin has claimed their directories, whatever became of the writes."""
        self._unwatched_write, self._registering.write = self._registering.write, self._write  # type: ignore[method-assign]
        self._unwatched_note, self._registering._note = self._registering._note, self._note  # type: ignore[method-assign]

    def on_leadership(self, leading: bool) -> None:
        """What one leadership was told, the next finds out anew: another may have led between the two."""
        super().on_leadership(leading)
        self._began = asyncio.get_running_loop().time(), micros_of(self._clock.now())
        sure = {table_id: txn_ids for table_id, txn_ids in self._registering._sure.items() if txn_ids}
        if sure or len(self._retirement._leases):
            self._broken("a leader's memory", f"begins or ends to lead, and is sure of {sure}, or knows of leases")

    async def _write(
        self, table: TableState, txn_id: TxnId, owner: str, write_id: str, write: Callable[[bool], Awaitable[T]]
    ) -> T:
        """A write that was asked for once, and is refused, is no part of anything."""
        key, leadership = (table.table_id, txn_id, write_id), self._registering._leadership
        self._asked[key] += 1
        was_there = self._is_there(*key)
        try:
            return await self._unwatched_write(table, txn_id, owner, write_id, write)
        except OutcomeUnknown:
            raise
        except TxnError as error:
            once = self._asked[key] == 1 and not was_there and leadership == self._registering._leadership
            if once and self._is_there(*key):
                self._broken(
                    "8 no late writes", f"{write_id} of {txn_id} on {table.name} was refused, and is there: {error}"
                )
            raise

    def _is_there(self, table_id: str, txn_id: TxnId, write_id: str) -> bool:
        record = self.shard.record(table_id, txn_id)
        if record is None or record.state is ParticipantState.ABORTED:
            return False
        claimed = write_id in record.claimed and (table_id, txn_id, write_id) not in self._carried
        return claimed or write_id in record.writes or write_id in record.rows

    def _note(self, key: Key, leadership: int) -> None:
        registering = self._registering
        before = key[1] in registering._sure[key[0]]
        self._unwatched_note(key, leadership)
        if leadership != registering._leadership and not before and key[1] in registering._sure[key[0]]:
            self._broken("a leader's memory", f"was told of {key} before it led, and believes it")

    def _command(self, op: pb.ParticipantOp) -> cmd.Command:
        """A prepare comes after first writes, and once it is sure that the transaction lists the table."""
        key = op.table_id, TxnId(op.txn_id)
        self._carried.add((*key, op.first_write))
        if op.type == int(ParticipantOpType.BEGIN_COMMIT):
            registering, record = self._registering, self.shard.record(*key)
            is_open = record is not None and record.state is ParticipantState.OPEN
            unsure = is_open and key[1] not in registering._sure[key[0]]
            if unsure or registering._dispatcher.is_busy(key):
                self._broken("8 no late writes", f"{key} prepares, and a first write of it is on its way, or may be")
        return super()._command(op)

    def _heard(self, commands: Sequence[cmd.Command], outcomes: Sequence[ShardApplied | Rejected]) -> None:
        for command in commands:
            if isinstance(command, cmd.BeginCommit | cmd.AbortTxn):  # also where a range in the same log asks
                self._carried.add((command.table_id, command.txn_id, command.first_write))
            if isinstance(command, cmd.Retire):
                self._check_leases(command)
                self._check_age(command)
        super()._heard(commands, outcomes)

    def _check_leases(self, command: cmd.Retire) -> None:
        """What a lease reads is there until its end, also of one that was taken while the command was on its way."""
        leases = self._retirement._leases
        for lease_id, (at, end) in leases._held.get(command.table_id, {}).items():
            if end > leases._healthy and at < command.up_to:
                story = f"{command.table_id} is retired up to {command.up_to}, and read at {at} under lease {lease_id}"
                self._broken("leases", story)

    def _check_age(self, command: cmd.Retire) -> None:
        """What is retired has been kept for long enough, by a clock that does not jump."""
        began, began_micros = self._began
        led_micros = int((asyncio.get_running_loop().time() - began) * 1e6)
        kept_micros = began_micros + led_micros - micros_of(command.up_to)
        if kept_micros < self._options().snapshot_retention_seconds * 1_000_000 - SLACK_MICROS:
            story = f"{command.table_id} is retired up to {command.up_to}, {kept_micros / 1e6:.3f} s after that"
            self._broken("retention", story)

    def _broken(self, rule: str, story: str) -> None:
        self.violated(rule, f"{self._driver.group.group} on {self._driver.group.node_id}: {story}")


def watched_shards(violated: Callable[[str, str], None]) -> type[WatchedShardService]:
    """The ShardService of one world: takes the place of the name in txndeploy.node.roles."""
    return type("Service", (WatchedShardService,), {"violated": staticmethod(violated)})
