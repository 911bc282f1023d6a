"""Watches every shard's leader from inside: what it retires under its readers, and what it knows from before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from txnparticipant.leader.registering import Key
from txnparticipant.leader.service import ShardService
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.replicated import Rejected
from txnstatus.types import micros_of

SLACK_MICROS = 10_000


class WatchedShardService(ShardService):
    """ShardService, checked."""

    violated: Callable[[str, str], None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unwatched_note, self._registering._note = self._registering._note, self._note  # type: ignore[method-assign]

    def on_leadership(self, leading: bool) -> None:
        """What one leadership was told, the next finds out anew: another may have led between the two."""
        super().on_leadership(leading)
        self._began = asyncio.get_running_loop().time(), micros_of(self._clock.now())
        sure = {table_id: txn_ids for table_id, txn_ids in self._registering._sure.items() if txn_ids}
        if sure or len(self._retirement._leases):
            self._broken("a leader's memory", f"begins or ends to lead, and is sure of {sure}, or knows of leases")

    def _note(self, key: Key, leadership: int) -> None:
        registering = self._registering
        before = key[1] in registering._sure[key[0]]
        self._unwatched_note(key, leadership)
        if leadership != registering._leadership and not before and key[1] in registering._sure[key[0]]:
            self._broken("a leader's memory", f"was told of {key} before it led, and believes it")

    def _heard(self, commands: Sequence[cmd.Command], outcomes: Sequence[ShardApplied | Rejected]) -> None:
        for command in commands:
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
