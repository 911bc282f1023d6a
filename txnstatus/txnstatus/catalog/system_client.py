"""TxnSystemClient: finds the leader of a group, and asks again until somebody answers or the deadline passes.

Used by managers, status leaders and participants. It keeps a guess of each group's leader and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from txnstatus.backoff import Backoff
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.errors import NotTheLeader, TxnError, Unavailable
from txnstatus.process.environment import Environment
from txnstatus.rpc.attempts import Attempts, NoAnswer
from txnstatus.rpc.calls import Answer, Call, PassedOn, asked
from txnstatus.rpc.channel import Channel, PeerChannel, call_over
from txnstatus.rpc.deadlines import Deadlines, answer_by, time_left
from txnstatus.rpc.server import Registry
from txnstatus.security.tls import Tls

ResponseT = TypeVar("ResponseT", bound=Message)

ATTEMPT_SECONDS = 3.0
"""How long one node may take before another is asked; handlers that wait do so for less."""
RETRIES = Backoff(first_seconds=0.02, most_seconds=0.1, growth=1.5)
"""A longer pause would be added to every failover: nobody knows that a leader is there until he asks again."""


class TxnSystemClient:
    def __init__(
        self,
        cluster: ClusterMap,
        environment: Environment,
        connect: Callable[[str], Channel] | None = None,
        tls: Tls | None = None,
        gone: Callable[[], None] = lambda: None,
    ) -> None:
        """`connect` makes a channel to an address; by default one that ends at other clusters' processes, and with
        `tls` at any but the one that the catalog says is there. `gone` hears that others know this process as none of
        the cluster's any more."""
        self.cluster, self.gone = cluster, gone
        self.random = environment.random
        self._connect = connect
        self._tls = tls
        self._here: tuple[str, Registry] | None = None
        self._channels: dict[tuple[str, str], Channel] = {}
        """Channels by address and the process that is to be there."""
        self._leaders: dict[str, str] = {}
        self._pausing: defaultdict[str, dict[_Asking, None]] = defaultdict(dict)
        """Calls, by group."""
        self._news: Counter[str] = Counter()
        """How often it was heard who leads, by group."""
        self.late: Deadlines[Attempt] = Deadlines(Attempt.too_late)

    def serve_here(self, node: str, registry: Registry) -> None:
        """This process is that node: its own handlers are called as they are, and no bytes are made."""
        self._here = (node, registry)

    async def call_leader(
        self, group: str, method: str, request: Message, response: type[ResponseT], timeout: float
    ) -> ResponseT:
        """As `ask_leader`, for one call that a task waits for; as long as the caller of the running handler, at most.

        `group`: a group, or a part of one, whose leader is that of the group. Raises what the call would hear.
        """
        answer: ResponseT = await asked(
            request, timeout, lambda calls: self.ask_leader(group, method, calls, response, timeout)
        )
        return answer

    def ask_leader(
        self, group: str, method: str, calls: Sequence[Call], response: type[Message], seconds: float
    ) -> None:
        """Each call hears the leader's final answer, NotFound where the catalog has no such group, or Unavailable with
        what was tried and what each member said last.

        Every request is idempotent by its content, so it is simply sent again, for so many seconds or as long as who
        asks waits. At first all go together.
        """
        try:
            node = self.leader_of(group)
        except TxnError as error:
            for call in calls:
                call.tell(error)
            return
        attempts = [_Asking(self, group, method, call, response, seconds).attempt_at(node) for call in calls]
        self.ask_node(node, method, attempts, response, group)

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

        def ask(calls: Sequence[Call]) -> None:
            self.ask_node(
                node, method, [Attempt(call, timeout, self.late, call.tell) for call in calls], response, group
            )

        answer: ResponseT = await asked(request, timeout, ask)
        return answer

    def ask_node(
        self, node: str, method: str, attempts: Sequence[Attempt], response: type[Message], group: str
    ) -> None:
        """Each hears what the node answers, or Unavailable."""
        if self._here is not None and self._here[0] == node:
            for attempt in attempts:
                attempt.begin_here()
            self._here[1].answer(method, attempts, group)
            return
        address = self.cluster.address(node)
        for attempt in attempts:
            if address is None:
                attempt.tell(Unavailable(f"the catalog has no node {node!r}"))
            else:
                attempt.led_at = address
                self._channel(address, f"node/{node}").ask(method, attempt, response, attempt.seconds, group)

    async def call_foreign(
        self, name: str, method: str, request: Message, response: type[ResponseT], timeout: float
    ) -> ResponseT:
        """One attempt at the host of a foreign participant. Raises what it answers, or Unavailable."""
        timeout = max(0.001, time_left(timeout))
        address = self.cluster.state.foreign.get(name)
        if not address:
            raise Unavailable(f"the catalog says nowhere where the foreign participant {name} is")
        return await call_over(self._channel(address, f"host/{name}"), method, request, response, timeout)

    # ---- who leads

    def leader_of(self, group: str) -> str:
        """Whoever is to be asked first. Raises NotFound where the catalog has no such group."""
        members = self.cluster.replicas(group)
        guess = self._leaders.get(self.cluster.state.group_of(group))
        return guess if guess in members else members[0]

    def leads(self, node: str, group: str) -> None:
        self._leaders[self.cluster.state.group_of(group)] = node

    def hears_leader(self, group: str, node: str) -> None:
        """A replica here has heard who leads now: whoever waits for a leader asks that one at once."""
        self._leaders[group] = node
        self._news[group] += 1
        for asking in list(self.pausing(group)):
            asking.go_on(node)

    def news(self, group: str) -> int:
        """How often it was heard who leads."""
        return self._news[self.cluster.state.group_of(group)]

    def pausing(self, group: str) -> dict[_Asking, None]:
        """Calls that wait until a leader of the group is heard of, or their pause is over."""
        return self._pausing[self.cluster.state.group_of(group)]

    def leads_not(self, node: str, group: str, hinted: str) -> None:
        """`hinted`: who leads, by the node's word. Raises NotFound where the catalog has no such group any more."""
        whole = self.cluster.state.group_of(group)
        if self._leaders.get(whole, node) == node:
            # A call whose whole time one node took is followed by one that begins with another.
            self._leaders[whole] = self.after(node, group, hinted)

    def after(self, node: str, group: str, hinted: str) -> str:
        """The node to ask next: the one that was named, which may be the same, or else the next member.

        Raises NotFound.
        """
        members = self.cluster.replicas(group)
        if hinted in members:
            return hinted
        return members[(members.index(node) + 1) % len(members)] if node in members else members[0]

    def _channel(self, address: str, expected: str) -> Channel:
        found = self._channels.get((address, expected))
        if found is None:
            found = self._channels[address, expected] = (
                self._connect(address)
                if self._connect
                else PeerChannel(address, lambda: self.cluster.state.cluster_id, self._tls, expected)
            )
        return found

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))


class Attempt(PassedOn):
    """A call at one node."""

    __slots__ = ("_heard", "_late", "seconds")

    def __init__(self, origin: Call, seconds: float, late: Deadlines[Attempt], heard: Callable[[Any], None]) -> None:
        """`seconds`: it may take so long. `heard` hears the Answer."""
        super().__init__(origin, origin.request)
        self.seconds = seconds
        self._late, self._heard = late, heard

    def begin_here(self) -> None:
        """It is at this node itself: nothing else bounds its time."""
        self.answer_by = min(self.answer_by, answer_by(self.seconds))
        self._late.add(self, self.seconds)

    def too_late(self) -> None:
        self.give_up()
        self._hear(NoAnswer(f"this node did not answer within {self.seconds:.1f} s"))

    def give_up(self) -> None:
        self._late.remove(self)
        super().give_up()

    def _hear(self, answer: Any) -> None:
        self._late.remove(self)
        self.origin.on_end = None
        self.origin.led_at = self.led_at
        self._heard(answer)


class _Asking:
    """A call on its way to a group's leader: one member is asked after the other, until one knows."""

    def __init__(
        self, client: TxnSystemClient, group: str, method: str, call: Call, response: type[Message], seconds: float
    ) -> None:
        self._client, self._group, self._method, self._call, self._response = client, group, method, call, response
        self._seconds = call.seconds_left(seconds)
        self._by = asyncio.get_running_loop().time() + self._seconds
        self._attempts: Attempts | None = None
        self._failures = 0
        self._node = ""
        self._news = 0
        """What was heard of leaders before the attempt began."""
        self._pause: asyncio.TimerHandle | None = None
        self._pausing: dict[_Asking, None] = {}
        """Calls of the same group that pause, this one among them while it does."""

    def attempt_at(self, node: str) -> Attempt:
        self._node, self._news = node, self._client.news(self._group)
        left = self._by - asyncio.get_running_loop().time()
        return Attempt(self._call, min(ATTEMPT_SECONDS, max(0.001, left)), self._client.late, self._heard)

    def _heard(self, answer: Answer) -> None:
        client, call = self._client, self._call
        if not (isinstance(answer, TxnError) and answer.retriable):
            client.leads(self._node, self._group)
            call.tell(answer)
            return
        if self._attempts is None:
            self._attempts = Attempts()
        self._attempts.failed(self._node, answer)
        hinted = answer.leader if isinstance(answer, NotTheLeader) else ""
        self._failures += 1
        pause = RETRIES.pause(self._failures, client.random.random())
        loop = asyncio.get_running_loop()
        try:
            client.leads_not(self._node, self._group, hinted)
            leader, has_news = client.leader_of(self._group), client.news(self._group) != self._news
        except TxnError as gone:
            call.tell(gone)
        else:
            if has_news:
                self.go_on(leader)  # it was heard of while the answer was on its way
            elif loop.time() + pause >= self._by:
                within = f"within {self._seconds:.1f} s"
                goes = client.cluster.state.migrations.get(self._group)
                of = self._group if goes is None else f"{self._group}, which is {goes},"
                call.tell(self._attempts.error(f"no leader of {of} answered {self._method} {within}"))
            else:
                self._pause = loop.call_later(pause, self._again, hinted)
                call.on_end = self._end_pause
                self._pausing = client.pausing(self._group)
                self._pausing[self] = None

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._pausing.pop(self, None)

    def _again(self, hinted: str) -> None:
        try:
            node = self._client.after(self._node, self._group, hinted)
        except TxnError as gone:
            self._end_pause()
            self._call.tell(gone)
        else:
            self._ask(node)

    def go_on(self, node: str) -> None:
        """That one leads: what failed before says nothing any more."""
        self._failures = 0
        self._ask(node)

    def _ask(self, node: str) -> None:
        self._end_pause()
        self._call.repeated = True
        self._client.ask_node(node, self._method, [self.attempt_at(node)], self._response, self._group)
