"""Calls that come over connections: how many of them wait, begin and run, and their answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial

from google.protobuf.message import Message

from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.arrived import Arrived
from txnstatus.rpc.calls import Answer
from txnstatus.rpc.connection import MAX_MESSAGE_BYTES, Connection, Outbox
from txnstatus.rpc.deadlines import ANSWER_SHARE, Deadlines, answer_by
from txnstatus.rpc.errors import to_detail
from txnstatus.rpc.identity import check_cluster
from txnstatus.rpc.late import Late
from txnstatus.rpc.load import Load
from txnstatus.rpc.open_only import begin_in_scope
from txnstatus.rpc.reading import read
from txnstatus.rpc.server import CALLS_PER_TURN, Registry

MAX_WAITING_CALLS = 100_000
"""Calls of one connection that have not begun: with more it ends."""
CLIENT_CALLS = 128
"""Calls of one connection of a client that run at one time: the others wait, as all do while it takes no answer in.

More than wait for a commit over one connection: behind those, a heartbeat would come too late.
"""
CLIENT_WAITING_BYTES = 32 << 20
"""Bytes of calls of one connection of a client that wait: with more it ends."""
UNREAD_PER_TURN = 64
"""Calls that are refused unread in one turn of the loop: as much work as a few that begin."""
CALL_BYTES = 500
"""What a call takes for itself."""


def serve(registry: Registry, connection: Connection) -> None:
    """Answers the calls that come over it, until it ends."""
    ServedCalls(registry, connection)


def serve_client(registry: Registry, connection: Connection) -> None:
    """As `serve`, for whoever may be anybody: what it keeps of the process's memory is bounded."""
    ServedCalls(registry, connection, registry.clients)


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
        self._late = Late(registry.access, self._caller, self._refuse_all)
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
        left = self._registry.turns.take(self._caller, len(self._waiting), CALLS_PER_TURN)
        unread = UNREAD_PER_TURN
        while left and unread and self._may_begin():
            if self._take_turn(*self._waiting.popleft(), now):
                left -= 1
            else:
                unread -= 1
        # What more is asked than may begin waits on the other side, and costs nobody anything.
        had_its_turn = self._load is not None and self._may_begin()
        (self._connection.hold_up if had_its_turn else self._connection.go_on)()
        self._begin_soon()

    def _take_turn(self, call: pb.Call, came: float, size: int, now: float) -> bool:
        """Begins one, or has it wait for its user's turn. Returns whether that was some work: to put it aside unread is
        hardly any."""
        self._waiting_bytes -= size
        left = call.timeout_millis / 1000 - (now - came)
        if left <= 0 < call.timeout_millis:
            self._less(size)
            return False  # whoever called has given up
        registry, access, patience = self._registry, self._registry.access, left * ANSWER_SHARE
        try:
            self._check_served()
            if (turn := access.refusal(self._caller, call.method, now, patience)) is not None:
                self._less(size)
                self._late.refuse(call.id, call.method, turn)
                return False
            request = registry.read(call.method, call.payload, call.group, self._caller)
            turn = access.turn(self._caller, call.method, request, now, patience)
        except TxnError as error:
            self._refuse(call.id, size, error)
            return True
        if turn.is_refused:
            self._less(size)
            self._late.refuse(call.id, call.method, turn)
        elif turn.seconds > 0:
            self._late.begin(turn, partial(self._start, call, request, came, size))
        else:
            self._start(call, request, came, size)
        return True

    def _start(self, call: pb.Call, request: Message, came: float, size: int) -> None:
        registry, method = self._registry, call.method
        left = call.timeout_millis / 1000 - (asyncio.get_running_loop().time() - came)
        try:
            self._check_served()
            registry.access.answers(self._caller, method, size)
        except TxnError as error:
            self._refuse(call.id, size, error)
            return
        served = Arrived(call, request, answer_by(left), came, size, self.answered)
        served.view = registry.access.view(self._caller)
        self._running[served] = None
        self._deadlines.add(served, left)
        served.act = registry.recording.wanted(self._caller, method, request)
        if served.act is None:
            begin_in_scope(registry, self._caller, method, served, call.group)
        else:
            served.act.begin(partial(registry.recorded, method, served, call.group))

    def _refuse_all(self, ids: Sequence[int], error: TxnError) -> None:
        detail = to_detail(error)
        for call_id in ids:
            self._reply(pb.Reply(id=call_id, error=detail))

    def _check_served(self) -> None:
        """Whether whoever asks is answered at all. Raises a TxnError."""
        if self._load is not None and self._registry.leaving is not None:
            raise self._registry.leaving
        check_cluster(self._meant, self._registry.cluster_id())

    def _refuse(self, call_id: int, size: int, error: TxnError) -> None:
        self._less(size)
        self._reply(pb.Reply(id=call_id, error=to_detail(error)))

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
        self._late.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        for call in list(self._running):
            call.give_up()
            self._registry.access.answered(self._caller, call.method, call.size)
        self._running.clear()
