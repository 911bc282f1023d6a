"""The serving side: a registry of handlers, whichever way calls come to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.limits import MAX_PLAIN_REQUEST_BYTES, MAX_REQUEST_BYTES
from txnstatus.measures import Measures
from txnstatus.rpc import bulk
from txnstatus.rpc.calls import Call, Handler, asked, failed, handler_of
from txnstatus.rpc.errors import NOT_SERVED, clip
from txnstatus.rpc.load import Load
from txnstatus.rpc.methods import full_name, is_method, snake
from txnstatus.rpc.open_only import RequireOpen
from txnstatus.rpc.owners import check_call, claim
from txnstatus.rpc.recording import Recording, around
from txnstatus.rpc.turns import Turns
from txnstatus.security.access import Access
from txnstatus.security.principals import Principal
from txnstatus.tracing import spans

CALLS_PER_TURN = 256
"""Calls that begin in one turn of the loop: others have theirs in between."""
BULKY = frozenset(["txnstatus.Table/WriteRows"])
"""Methods whose requests may be as long as any: what is long in them is one field."""
CLIENTS_BYTES = 256 << 20
"""Bytes of calls of all clients that wait or run: with more the connection ends that has the most of them."""
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
        self.clients = Load(CLIENTS_BYTES)
        """What the calls of all clients keep."""
        self.leaving: TxnError | None = None
        """What clients hear from now on; None: the process serves them."""
        self.require_open: RequireOpen | None = None
        """None: this process cannot tell whether a transaction is open."""
        self._begun: list[tuple[str, str, Call]] = []
        """Calls that are to be answered in the next turn of the loop: method, group, call."""

    @property
    def clients_bytes(self) -> int:
        """Bytes of clients' calls that wait or run."""
        return self.clients.bytes

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
        by = asyncio.get_running_loop().time() + seconds
        await self._turn(caller, method, request, seconds)

        def ask(calls: Sequence[Call]) -> None:
            for call in calls:
                call.view, call.trace = self.access.view(caller), trace
            self.answer(method, calls, group)

        act = self.recording.wanted(caller, method, request)
        with self.access.answering(caller, method, len(payload)):
            answer = await around(act, lambda: asked(request, by - asyncio.get_running_loop().time(), ask))
        return self.access.shown(caller, method, answer)

    async def _turn(self, caller: Principal | None, method: str, request: Message, patience: float) -> None:
        """Waits for that of a call. Raises LimitReached when it is refused."""
        loop, refusal = asyncio.get_running_loop(), None
        turn = self.access.turn(caller, method, request, loop.time(), patience)
        try:
            if turn.seconds > 0:
                await asyncio.sleep(turn.seconds)
        finally:
            if turn.is_refused:
                refusal = self.access.told(caller, method, turn, loop.time())
        if refusal is not None:
            raise refusal

    async def leave(self, why: TxnError) -> None:
        """Clients' calls that have not begun hear why, and ask elsewhere. Returns when all others are answered."""
        self.leaving = why
        await self.clients.idle.wait()

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
