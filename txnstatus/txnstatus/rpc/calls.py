"""Calls, as who answers them sees them; and handlers, which take all calls of one method that came together.

A handler is a plain function of some calls. It begins their work, returns, and tells each call its answer when there is
one: what is proposed for all of them is one proposal, and what does not wait needs no task. A method that is written
for one request, `async def method(request) -> response`, becomes such a handler by `one_by_one`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from txnstatus.errors import InternalError, TxnError
from txnstatus.roles import View
from txnstatus.rpc.deadlines import answering_by, caller_waits_until
from txnstatus.security.access import showing_to
from txnstatus.tracing import served, spans
from txnstatus.tracing.served import Served

log = logging.getLogger(__name__)

Answer = Message | TxnError
HandlerT = TypeVar("HandlerT", bound=Callable[..., None])


class Call:
    """One call. Who asks hears one answer, or none once it has given up."""

    __slots__ = ("answer_by", "is_over", "led_at", "on_end", "repeated", "request", "served", "trace", "view")

    def __init__(self, request: Any, answer_by: float) -> None:
        """`answer_by`: the loop's time at which the answer is to be there. The request is changed by nobody."""
        self.request = request
        self.answer_by = answer_by
        self.is_over = False
        """Nobody waits for an answer any more."""
        self.on_end: Callable[[], object] | None = None
        """Ends the work for it, if that would go on where nobody waits."""
        self.repeated = False
        """Whether it was sent more than once: what was sent before may have been done."""
        self.led_at = ""
        """The address of the other node that answers it, as leader; empty: none does."""
        self.view: View | None = None
        """What who asks is shown; None: all."""
        self.trace = b""
        """The context of the span that what is asked on its behalf is part of; empty: none."""
        self.served: Served | None = None
        """What it is in its trace while it is answered."""

    def tell(self, answer: Answer) -> None:
        if not self.is_over:
            self.is_over = True
            if self.served is not None:
                self.served.answered(answer)
            self._hear(answer)

    def give_up(self) -> None:
        """Ends the work for it: who asks does not wait any more."""
        if not self.is_over:
            self.is_over = True
            if self.served is not None:
                self.served.given_up()
            if self.on_end is not None:
                end, self.on_end = self.on_end, None
                end()

    def serve(self, method: str, group: str) -> None:
        """It is to be answered, by a process that traces."""
        self.served = served.begin(method, group, self.request, self.trace)
        if self.served is not None and self.served.span is not None:
            self.trace = self.served.span.context

    def seconds_left(self, at_most: float) -> float:
        return max(0.0, min(at_most, self.answer_by - asyncio.get_running_loop().time()))

    def _hear(self, answer: Any) -> None:
        """Where the Answer goes."""
        raise NotImplementedError


class PassedOn(Call):
    """A call that somebody else is asked on behalf of another. By default its answer is that one's."""

    __slots__ = ("origin",)

    def __init__(self, origin: Call, request: Any) -> None:
        super().__init__(request, origin.answer_by)
        self.origin = origin
        self.trace = origin.trace
        origin.on_end = self.give_up

    def _hear(self, answer: Any) -> None:
        self.origin.on_end = None
        self.origin.led_at = self.led_at
        self.origin.tell(answer)


class Question(Call):
    """A call whose answer a function hears."""

    __slots__ = ("_heard",)

    def __init__(self, request: Any, answer_by: float, heard: Callable[[Any], object]) -> None:
        """`heard` hears the Answer: as all that are told one, it must be short, and may not raise."""
        super().__init__(request, answer_by)
        self._heard = heard

    def _hear(self, answer: Any) -> None:
        self._heard(answer)


Handler = Callable[[Sequence[Call]], None]
"""What it raises is the answer to all calls that it has not answered."""


def takes_calls(method: HandlerT) -> HandlerT:
    """Marks a method of a service as a handler; without the mark it is one of a single request."""
    method.takes_calls = True  # type: ignore[attr-defined]
    return method


def handler_of(name: str, method: Callable[[Any], Any]) -> Handler:
    """`name`: of the rpc."""
    return method if getattr(method, "takes_calls", False) else one_by_one(name, method)


def one_by_one(name: str, method: Callable[[Any], Awaitable[Message]]) -> Handler:
    """Each call is a task, which is cancelled when nobody waits for it."""

    async def answer(call: Call) -> None:
        if call.served is not None:
            spans.begin_within(call.served.span)
        with answering_by(call.answer_by), showing_to(call.view):
            try:
                result: Answer = await method(call.request)
            except TxnError as error:
                result = error
            except Exception as error:  # noqa: BLE001 whatever it is, the caller is not left without an answer
                result = failed(name, error, call.request)
        call.tell(result)

    def begin(calls: Sequence[Call]) -> None:
        loop = asyncio.get_running_loop()
        for call in calls:
            # In a context of its own: whoever's work gives rise to it, it is bound to its own caller's deadline alone.
            call.on_end = loop.create_task(answer(call), context=Context()).cancel

    return begin


def failed(name: str, error: Exception, request: object = None) -> InternalError:
    """The answer where a handler has failed. `request`: which one it was about, if it was one alone."""
    log.error("%s failed", name, exc_info=error, extra={"txn_id": getattr(request, "txn_id", None)})
    return InternalError(f"{name} failed: {type(error).__name__}: {error}")


async def asked(request: Message, seconds: float, ask: Callable[[Sequence[Call]], None]) -> Any:
    """What `ask` has the call told; for those who wait for one. Raises the TxnError that it is told."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    call = Question(request, min(caller_waits_until(), loop.time() + seconds), partial(_settle, answer))
    if spans.tracer is not None:
        call.trace = spans.below(spans.current())
    ask([call])
    try:
        return await answer
    finally:
        call.give_up()


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return
    if isinstance(answer, TxnError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
