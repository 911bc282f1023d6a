"""The serving side: a registry of handlers, and the ways that lead to it."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.limits import MAX_PLAIN_REQUEST_BYTES, MAX_REQUEST_BYTES
from txnstatus.measures import Measures
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc import bulk
from txnstatus.rpc.arrived import Arrived
from txnstatus.rpc.calls import Answer, Call, Handler, asked, failed, handler_of
from txnstatus.rpc.connection import MAX_MESSAGE_BYTES, Connection, Outbox
from txnstatus.rpc.deadlines import Deadlines, answer_by
from txnstatus.rpc.errors import NOT_SERVED, clip, to_detail
from txnstatus.rpc.identity import check_cluster
from txnstatus.rpc.load import Load
from txnstatus.rpc.methods import full_name, is_method, snake
from txnstatus.rpc.open_only import RequireOpen, begin_in_scope
from txnstatus.rpc.owners import check_call, claim
from txnstatus.rpc.reading import read
from txnstatus.rpc.recording import Recording, around
from txnstatus.rpc.turns import Turns
from txnstatus.security.access import Access
from txnstatus.security.principals import Principal
from txnstatus.tracing import spans

CALLS_PER_TURN = 256
"""Calls that begin in one turn of the loop: others have theirs in between."""
BULKY = frozenset(["txnstatus.Table/WriteRows"])
"""Methods whose requests may be as long as any: what is long in them is one field."""
MAX_WAITING_CALLS = 100_000
"""Calls of one connection that have not begun: with more it ends."""
CLIENT_CALLS = 128
"""Calls of one connection of a client that run at one time: the others wait, as all do while it takes no answer in.

More than wait for a commit over one connection: behind those, a heartbeat would come too late.
"""
CLIENT_WAITING_BYTES = 32 << 20
"""Bytes of calls of one connection of a client that wait: with more it ends."""
CLIENTS_BYTES = 256 << 20
"""Bytes of calls of all clients that wait or run: with more the connection ends that has the most of them."""
CALL_BYTES = 500
"""What a call takes for itself."""
MAX_GROUP_BYTES = 100
"""Bytes of a group's name that an error repeats."""


@dataclass(frozen=True, slots=True)
class _Method:
    request: type[Message]
    handler: Handler


class Registry:
    """The handlers of this process: those of the node itself, and those of its replica of each group.

    A method goes by its full name (`txnstatus.TxnManager/BeginTransaction`). One that comes with a group is the
    replica's; without, the node's.
    """

    def __init__(
        self,
        name: str = "this node",
        cluster_id: Callable[[], str] = lambda: "",
        measures: Measures | None = None,
        *,
        only_processes: bool = False,
    ) -> None:
        """`name`: what errors call it. `cluster_id`: which cluster it is of, once that is known. `only_processes`:
        users are answered nothing, where certificates tell who calls."""
        self._name, self.only_processes = name, only_processes
        self.measures = measures if measures is not None else Measures()
        self.cluster_id = cluster_id
        self.access, self.turns = Access(), Turns()
        self.recording = Recording()
        self._methods: dict[str, dict[str, _Method]] = {"": {}}
        """Group → method → what answers it."""
        self._of_clients = Load(CLIENTS_BYTES)
        self.leaving: TxnError | None = None
        """What clients hear from now on; None: the process serves them."""
        self.require_open: RequireOpen | None = None
        """None: this process cannot tell whether a transaction is open."""
        self._begun: list[tuple[str, str, Call]] = []
        """Calls that are to be answered in the next turn of the loop: method, group, call."""

    @property
    def clients_bytes(self) -> int:
        """Bytes of clients' calls that wait or run."""
        return self._of_clients.bytes

    def add(self, service: ServiceDescriptor, implementation: object, group: str = "") -> None:
        """Each rpc of the service for which `implementation` has a method, its name in snake case."""
        for method in service.methods:
            handler = getattr(implementation, snake(method.name), None)
            if handler is not None:
                self.add_method(method, handler, group)

    def add_method(self, method: MethodDescriptor, implementation: Callable[[Any], Any], group: str = "") -> None:
        """`implementation`: of one request, or one that `takes_calls`."""
        name = full_name(method)
        entry = _Method(GetMessageClass(method.input_type), handler_of(name, implementation))
        self._methods.setdefault(group, {})[name] = entry

    def remove(self, group: str) -> None:
        """The node has no replica of the group any more."""
        self._methods.pop(group, None)

    def read(self, method: str, payload: bytes, group: str = "", caller: Principal | None = None) -> Message:
        """The request of a call; `caller`: whose it is, where a certificate says it. Raises the TxnError that is its
        answer."""
        check_call(caller, method, group, only_processes=self.only_processes)
        entry = self._methods.get(group, {}).get(method)
        if entry is None:
            raise self._not_served(method, group)
        most = MAX_REQUEST_BYTES if method in BULKY else MAX_PLAIN_REQUEST_BYTES
        if len(payload) > most:
            raise InvalidArgument(f"{method}: a request of {len(payload)} bytes: {most} are possible")
        if len(payload) > MAX_PLAIN_REQUEST_BYTES and not bulk.is_plain(payload):
            raise InvalidArgument(f"{method}: {len(payload)} bytes that are no {entry.request.__name__}")
        try:
            request = entry.request.FromString(payload)
        except DecodeError as error:
            raise InvalidArgument(f"{method}: {len(payload)} bytes that are no {entry.request.__name__}") from error
        claim(request, caller)
        try:
            self.access.check(caller, method, request)
        except TxnError as error:
            self.recording.refused(caller, method, error.message)
            raise
        return request

    def answer(self, method: str, calls: Sequence[Call], group: str = "") -> None:
        """Begins to answer them. They hear TxnErrors only: what else a handler raises is logged."""
        if spans.tracer is not None:
            for call in calls:
                call.serve(method, group)
        entry = self._methods.get(group, {}).get(method)
        error: TxnError
        if entry is not None:
            try:
                entry.handler(calls)
                return
            except TxnError as raised:
                error = raised
            except Exception as raised:  # noqa: BLE001 whatever it is, no caller is left without an answer
                error = failed(method, raised)
        else:
            error = self._not_served(method, group)
        for call in calls:
            call.tell(error)

    def begin(self, method: str, call: Call, group: str = "") -> None:
        """Answers it in the loop's next turn, together with all calls of the method that come meanwhile, whoever asks:
        one of many clients' calls costs hardly more than one of many calls of a client."""
        self._begun.append((method, group, call))
        if len(self._begun) == 1:
            asyncio.get_running_loop().call_soon(self._answer_begun)

    def recorded(self, method: str, call: Call, group: str, refusal: TxnError | None) -> None:
        """What is to be done is recorded, or it is not done."""
        self.begin(method, call, group) if refusal is None else call.tell(refusal)

    def _answer_begun(self) -> None:
        """Not more than one turn may have: the others have the next one."""
        together: dict[tuple[str, str], list[Call]] = {}
        for method, group, call in self._begun[:CALLS_PER_TURN]:
            if not call.is_over:
                together.setdefault((method, group), []).append(call)
        del self._begun[:CALLS_PER_TURN]
        if self._begun:
            asyncio.get_running_loop().call_soon(self._answer_begun)
        for (method, group), calls in together.items():
            self.answer(method, calls, group)

    async def call(
        self,
        method: str,
        payload: bytes,
        group: str = "",
        seconds: float = math.inf,
        caller: Principal | None = None,
        trace: bytes = b"",
    ) -> Message:
        """One call, by itself; who asks waits so long. `caller`: as for `read`. `trace`: the context that came with it.
        Raises TxnErrors only."""
        request = self.read(method, payload, group, caller)

        def ask(calls: Sequence[Call]) -> None:
            for call in calls:
                call.view, call.trace = self.access.view(caller), trace
            self.answer(method, calls, group)

        act = self.recording.wanted(caller, method, request)
        with self.access.answering(caller, method, len(payload)):
            answer = await around(act, lambda: asked(request, seconds, ask))
        return self.access.shown(caller, method, answer)

    def serve(self, connection: Connection) -> None:
        """Answers the calls that come over it, until it ends."""
        ServedCalls(self, connection)

    def serve_client(self, connection: Connection) -> None:
        """As `serve`, for whoever may be anybody: what it keeps of the process's memory is bounded."""
        ServedCalls(self, connection, self._of_clients)

    async def leave(self, why: TxnError) -> None:
        """Clients' calls that have not begun hear why, and ask elsewhere. Returns when all others are answered."""
        self.leaving = why
        await self._of_clients.idle.wait()

    def _not_served(self, method: str, group: str) -> TxnError:
        """What there is may be served here soon: a node takes up groups and services as the catalog tells it to."""
        if not is_method(method):
            return InvalidArgument(f"there is no method {method!r}")
        if group and group in self._methods:
            return InvalidArgument(f"{method} is nothing that {group} answers")
        if group:
            # Either catalog may be ahead, this node's or the caller's: it will look again.
            return Unavailable(f"{self._name} has no replica of {clip(group, MAX_GROUP_BYTES)}")
        if any(method in methods for methods in self._methods.values()):
            return InvalidArgument(f"{method} is answered by the leader of a group, which the call has to name")
        return Unavailable(f"this node does not serve {method} now", hint=NOT_SERVED)


class ServedCalls:
    """The calls that come over one connection. The answers of one turn of the loop leave together."""

    def __init__(self, registry: Registry, connection: Connection, load: Load | None = None) -> None:
        """`load`: that of all clients, where it is one of theirs. Then what it keeps of the process is bounded."""
        self._registry = registry
        self._connection = connection
        self._load = load
        self._caller = connection.principal if load is not None else None
        """Principal of the certificate; None: there is none, or it calls for whom it says."""
        self._replies: Outbox[pb.Reply] = Outbox(lambda replies: pb.Frame(replies=replies))
        self._replies.open(connection)
        connection.on_room = self._on_room
        self._waiting: deque[tuple[pb.Call, float, int]] = deque()
        """Calls that have not begun, with when they came, and their sizes."""
        self._waiting_bytes = 0
        self._beginning = False
        self._running: dict[Arrived, None] = {}
        self._deadlines: Deadlines[Arrived] = Deadlines(self._too_late)
        """Whoever called has given up by then, and needs no answer."""
        self._meant = ""
        """The id of the cluster that the other side means; empty: it has not said."""
        self._introduced = ""
        connection.take_up(self._take, self._end)

    def _take(self, data: bytes) -> None:
        frame = read(data)
        if frame is None or len(self._waiting) + len(frame.calls) > MAX_WAITING_CALLS:
            self._connection.abort()
            return
        calls = frame.calls
        if frame.HasField("hello"):
            self._meant = frame.hello.cluster_id
        if calls:
            self._introduce()
        now = asyncio.get_running_loop().time()
        sizes = [call.ByteSize() + CALL_BYTES for call in calls]
        if self._load is not None:
            self._load.more(self, sum(sizes))
            if self._connection.is_ending:
                return
        self._waiting.extend((call, now, size) for call, size in zip(calls, sizes, strict=True))
        self._waiting_bytes += sum(sizes)
        if not self._beginning:
            self._begin()
        if self._load is not None and self._waiting_bytes > CLIENT_WAITING_BYTES:
            self._connection.abort()

    def give_up(self) -> None:
        """Ends it at once, with all that it has under way."""
        self._connection.abort()
        self._end("")

    def _begin(self) -> None:
        """As many of those that wait as may begin in this turn, in their order."""
        now = asyncio.get_running_loop().time()
        self._beginning = False
        for _ in range(self._registry.turns.take(self._caller, len(self._waiting), CALLS_PER_TURN)):
            if not self._may_begin():
                break
            call, came, size = self._waiting.popleft()
            self._waiting_bytes -= size
            left = call.timeout_millis / 1000 - (now - came)
            if left <= 0 < call.timeout_millis:
                self._less(size)
                continue  # whoever called has given up
            try:
                if self._load is not None and self._registry.leaving is not None:
                    raise self._registry.leaving
                check_cluster(self._meant, self._registry.cluster_id())
                request = self._registry.read(call.method, call.payload, call.group, self._caller)
                self._registry.access.answers(self._caller, call.method, size)
            except TxnError as error:
                self._less(size)
                self._reply(pb.Reply(id=call.id, error=to_detail(error)))
                continue
            served = Arrived(call, request, answer_by(left), came, size, self.answered)
            served.view = self._registry.access.view(self._caller)
            self._running[served] = None
            self._deadlines.add(served, left)
            served.act = self._registry.recording.wanted(self._caller, call.method, request)
            if served.act is None:
                begin_in_scope(self._registry, self._caller, call.method, served, call.group)
            else:
                served.act.begin(partial(self._registry.recorded, call.method, served, call.group))
        # What more is asked than may begin waits on the other side, and costs nobody anything.
        had_its_turn = self._load is not None and self._may_begin()
        (self._connection.hold_up if had_its_turn else self._connection.go_on)()
        self._begin_soon()

    def _may_begin(self) -> bool:
        """Whether one that waits may: a client that has much under way, or takes no answer in, has to wait."""
        held_up = self._load is not None and (self._connection.full or len(self._running) >= CLIENT_CALLS)
        return bool(self._waiting) and not held_up

    def _begin_soon(self) -> None:
        if self._waiting and not self._beginning and self._may_begin():
            self._beginning = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _on_room(self) -> None:
        self._replies.flush()
        self._begin_soon()

    def answered(self, call: Arrived, answer: Answer) -> None:
        self._over(call)
        if call.act is not None:
            call.act.end(answer)
        measures = self._registry.measures
        measures.calls[call.method].add(asyncio.get_running_loop().time() - call.came)
        if isinstance(answer, TxnError):
            measures.refusals[call.method, answer.code] += 1
            self._reply(pb.Reply(id=call.id, error=to_detail(answer)))
            return
        response = self._registry.access.shown(self._caller, call.method, answer).SerializeToString()
        if len(response) > MAX_MESSAGE_BYTES:
            error = InvalidArgument(f"an answer of {len(response)} bytes: {MAX_MESSAGE_BYTES} are possible")
            self._reply(pb.Reply(id=call.id, error=to_detail(error)))
        else:
            self._reply(pb.Reply(id=call.id, payload=response, led_at=call.led_at))

    def _reply(self, reply: pb.Reply) -> None:
        self._introduce()
        self._replies.add(reply)

    def _too_late(self, call: Arrived) -> None:
        call.give_up()
        self._over(call)

    def _over(self, call: Arrived) -> None:
        self._less(call.size)
        if self._running.pop(call, call) is None:
            self._registry.access.answered(self._caller, call.method, call.size)
        self._deadlines.remove(call)
        self._begin_soon()

    def _introduce(self) -> None:
        """The other side knows before an answer which cluster it is of, even if that came to be while it waited."""
        if self._introduced != (own := self._registry.cluster_id()):
            self._introduced = own
            self._connection.send(pb.Frame(hello=pb.Frame.Hello(cluster_id=own)).SerializeToString())

    def _less(self, size: int) -> None:
        if self._load is not None:
            self._load.less(self, size)

    def _end(self, _why: str) -> None:
        if self._load is not None:
            self._load.no_more(self)
        self._deadlines.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        for call in list(self._running):
            call.give_up()
            self._registry.access.answered(self._caller, call.method, call.size)
        self._running.clear()
