"""TxnSystemClient: finds the leader of a group, and asks again until somebody answers or the deadline passes.

Used by managers, status leaders and participants. It keeps a guess of each group's leader and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from txnstatus.backoff import Backoff
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.errors import NotTheLeader, TxnError, Unavailable
from txnstatus.process.environment import Environment
from txnstatus.rpc.attempts import Attempts, NoAnswer
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.deadlines import Timeouts, answering_within, time_left
from txnstatus.rpc.server import Registry

ResponseT = TypeVar("ResponseT", bound=Message)

ATTEMPT_SECONDS = 3.0
"""How long one node may take before another is asked; handlers that wait do so for less."""
RETRIES = Backoff(first_seconds=0.02, most_seconds=0.1, growth=1.5)
"""A longer pause would be added to every failover: nobody knows that a leader is there until he asks again."""


class Channel(Protocol):
    """Calls to one node; `PeerChannel` is the real one."""

    async def call(
        self, method: str, request: Message, response: type[ResponseT], timeout: float, group: str = ""
    ) -> ResponseT: ...
    async def close(self) -> None: ...


class TxnSystemClient:
    def __init__(
        self, cluster: ClusterMap, environment: Environment, connect: Callable[[str], Channel] | None = None
    ) -> None:
        """`connect` makes a channel to an address; by default one that ends at other clusters' processes."""
        self.cluster = cluster
        self._random = environment.random
        self._connect = connect or (lambda address: PeerChannel(address, lambda: cluster.state.cluster_id))
        self._here: tuple[str, Registry] | None = None
        self._channels: dict[str, Channel] = {}
        self._leaders: dict[str, str] = {}
        self._timeouts = Timeouts()

    def serve_here(self, node: str, registry: Registry) -> None:
        """This process is that node: its own handlers are called as they are, and no bytes are made."""
        self._here = (node, registry)

    async def call_leader(
        self,
        group: str,
        method: str,
        request: Message,
        response: type[ResponseT],
        timeout: float,
        on_repeat: Callable[[], None] | None = None,
    ) -> ResponseT:
        """Every request is idempotent by its content, so it is simply sent again, for `timeout` seconds or as long as
        the caller of the running handler waits. `on_repeat` runs before every attempt after the first.

        Raises the leader's final answer, NotFound where the catalog has no such group, or Unavailable with what was
        tried and what each member said last.
        """
        loop = asyncio.get_running_loop()
        timeout = time_left(timeout)
        deadline = loop.time() + timeout
        members = self.cluster.replicas(group)
        guess = self._leaders.get(group)
        node = guess if guess in members else members[0]
        failures, attempts = 0, Attempts()
        while True:
            attempt = min(ATTEMPT_SECONDS, max(0.001, deadline - loop.time()))
            try:
                answer = await self.call_node(node, method, request, response, attempt, group)
            except TxnError as error:
                if not error.retriable:
                    self._leaders[group] = node
                    raise
                attempts.failed(node, error)
                hinted = error.leader if isinstance(error, NotTheLeader) else ""
            else:
                self._leaders[group] = node
                return answer
            if self._leaders.get(group, node) == node:
                # A call whose whole time one node took is followed by one that begins with another.
                self._leaders[group] = self._after(node, group, hinted)
            failures += 1
            pause = RETRIES.pause(failures, self._random.random())
            if loop.time() + pause >= deadline:
                raise attempts.error(f"no leader of {group} answered {method} within {timeout:.1f} s")
            await asyncio.sleep(pause)
            if on_repeat is not None:
                on_repeat()
            node = self._after(node, group, hinted)

    def _after(self, node: str, group: str, hinted: str) -> str:
        """The node to ask next: the one that was named, or else the next member."""
        members = self.cluster.replicas(group)
        if hinted in members and hinted != node:
            return hinted
        return members[(members.index(node) + 1) % len(members)] if node in members else members[0]

    async def call_node(
        self,
        node: str,
        method: str,
        request: Message,
        response: type[ResponseT],
        timeout: float,
        group: str = "",
    ) -> ResponseT:
        """One attempt at one node, or at its replica of a group. Raises what it answers, or Unavailable."""
        if self._here is not None and self._here[0] == node:
            return await self._call_here(self._here[1], method, request, response, timeout, group)
        address = self.cluster.address(node)
        if address is None:
            raise Unavailable(f"the catalog has no node {node!r}")
        return await self._channel(address).call(method, request, response, timeout, group)

    async def _call_here(
        self, registry: Registry, method: str, request: Message, response: type[ResponseT], timeout: float, group: str
    ) -> ResponseT:
        try:
            with self._timeouts.after(timeout), answering_within(timeout):
                answer = await registry.ask(method, request, group)
        except TimeoutError:
            raise NoAnswer(f"this node did not answer {method} within {timeout:.1f} s") from None
        assert isinstance(answer, response)
        return answer

    async def call_foreign(
        self, name: str, method: str, request: Message, response: type[ResponseT], timeout: float
    ) -> ResponseT:
        """One attempt at the host of a foreign participant. Raises what it answers, or Unavailable."""
        timeout = max(0.001, time_left(timeout))
        address = self.cluster.state.foreign.get(name)
        if not address:
            raise Unavailable(f"the catalog says nowhere where the foreign participant {name} is")
        return await self._channel(address).call(method, request, response, timeout)

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            self._channels[address] = self._connect(address)
        return self._channels[address]

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
