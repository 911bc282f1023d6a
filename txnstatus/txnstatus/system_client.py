"""TxnSystemClient: finds the leader of a group, and asks again until somebody answers or the deadline passes.

Used by managers, status leaders and participants. It keeps a guess of each group's leader and nothing else.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from txnstatus.environment import Environment
from txnstatus.errors import NotTheLeader, TxnError, Unavailable
from txnstatus.rpc.channel import PeerChannel
from txnstatus.types import TxnId

ResponseT = TypeVar("ResponseT", bound=Message)

ATTEMPT_SECONDS = 3.0
"""How long one node may take before another is asked; handlers that wait do so for less."""
RETRY_SECONDS = 0.02
RETRY_MAX_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Placement:
    """Where everything is: a pure function of the cluster's configuration, the same on every node."""

    nodes: Mapping[str, str]
    """Node id to address."""
    status_nodes: Sequence[str]
    participant_nodes: Sequence[str]
    participant_shards: int
    replication: int = 3

    def status_group(self, txn_id: TxnId | None = None) -> str:
        """The status partition of a transaction; None: the one that takes new ones."""
        return "status-0"

    def shard_of_table(self, name: str) -> int:
        return zlib.crc32(name.encode()) % self.participant_shards

    @staticmethod
    def shard_of_table_id(table_id: str) -> int:
        """A table id is `SHARD.NUMBER`. Raises ValueError."""
        return int(table_id.split(".", 1)[0])

    @staticmethod
    def shard_group(shard: int) -> str:
        return f"shard-{shard}"

    def members(self, group: str) -> tuple[str, ...]:
        """The nodes that hold a replica, in order of preference. Raises KeyError for an unknown group."""
        kind, number = group.rsplit("-", 1)
        candidates = {"status": self.status_nodes, "shard": self.participant_nodes}[kind]
        start = int(number) % len(candidates)
        rotated = [*candidates[start:], *candidates[:start]]
        return tuple(rotated[: self.replication])


class Channel(Protocol):
    """Calls to one node; `PeerChannel` is the real one."""

    async def call(self, method: str, request: Message, response: type[ResponseT], timeout: float) -> ResponseT: ...
    async def close(self) -> None: ...


class TxnSystemClient:
    def __init__(
        self, placement: Placement, environment: Environment, connect: Callable[[str], Channel] = PeerChannel
    ) -> None:
        """`connect` makes a channel to an address."""
        self.placement = placement
        self._random = environment.random
        self._channels = {node: connect(address) for node, address in placement.nodes.items()}
        self._leaders: dict[str, str] = {}

    async def call_leader(
        self, group: str, method: str, request: Message, response: type[ResponseT], timeout: float
    ) -> ResponseT:
        """Every request is idempotent by its content, so it is simply sent again.

        Raises the leader's final answer, or Unavailable with what was tried.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        members = self.placement.members(group)
        turn = members.index(self._leaders.get(group, members[0]))
        pause = RETRY_SECONDS
        while True:
            node = members[turn % len(members)]
            attempt = min(ATTEMPT_SECONDS, max(0.001, deadline - loop.time()))
            try:
                answer = await self._channels[node].call(method, request, response, attempt)
            except TxnError as error:
                if not error.retriable:
                    self._leaders[group] = node
                    raise
                last = error
            else:
                self._leaders[group] = node
                return answer
            hinted = last.leader if isinstance(last, NotTheLeader) else ""
            turn = members.index(hinted) if hinted in members and hinted != node else turn + 1
            if loop.time() + pause >= deadline:
                raise Unavailable(
                    f"no leader of {group} answered {method} within {timeout:.1f} s; "
                    f"tried {', '.join(members)}; last: {last.message}"
                ) from last
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, RETRY_MAX_SECONDS)

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
