"""Spans: pieces of work with a beginning and an end, in the trace of a transaction.

Off, which is the rule, nothing of it is there but `tracer`, which is None: whoever could begin a span looks at that
first. Programs begin traces; a node begins spans only in those of which a call says that it is part.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

Fact = str | int | float | bool
Facts = Mapping[str, Fact]

TRACE_ID_BYTES = 16
CONTEXT_BYTES = 25
"""A context: the ids of the trace and of the span in it, and a byte of flags, as W3C's `traceparent` has them."""
_TRACEPARENT = re.compile(
    "(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
MAX_KNOWN = 10_000
"""Transactions of which a process remembers the traces."""


class Kind(enum.Enum):
    """OpenTelemetry's words."""

    INTERNAL = "INTERNAL"
    CLIENT = "CLIENT"
    SERVER = "SERVER"


class Span(Protocol):
    """Nothing of it raises or waits."""

    @property
    def context(self) -> bytes:
        """By which others begin spans below it."""
        ...

    @property
    def is_over(self) -> bool: ...

    def note(self, facts: Facts) -> None: ...

    def tell(self, event: str, facts: Facts) -> None:
        """Something happened in it, now."""
        ...

    def end(self, error: str = "") -> None:
        """Idempotent. `error`: why it failed; empty: it did not."""
        ...


class Tracer(Protocol):
    """Nothing of it raises, and nothing but `close` waits."""

    def begin(self, name: str, kind: Kind, parent: bytes, facts: Facts) -> Span | None:
        """`parent`: a context; empty: the span in which the program is, or a trace of its own. None: it is not kept."""
        ...

    def surrounding(self) -> bytes:
        """The context in which the program is, by its own use of OpenTelemetry; empty: it is in none."""
        ...

    def flush(self) -> None:
        """What has ended is sent soon. Waits for nothing."""
        ...

    def close(self, seconds: float) -> None:
        """The end: what has ended by now is sent, if that takes no longer."""
        ...


tracer: Tracer | None = None
"""The one of this process. None: it traces nothing."""
_current: ContextVar[Span | None] = ContextVar("span", default=None)
_known: dict[int, bytes] = {}


def use(found: Tracer | None) -> None:
    """That one is this process's from now on; None: none is."""
    global tracer
    tracer = found


def close(seconds: float) -> None:
    """Ends it; what has ended by now is sent, if that takes no longer."""
    global tracer
    if tracer is not None:
        found, tracer = tracer, None
        found.close(seconds)


@contextlib.contextmanager
def within(span: Span | None) -> Iterator[None]:
    """What is asked of others in the block is part of the span."""
    before = _current.get()
    _current.set(span)
    try:
        yield
    finally:
        _current.set(before)


def begin_within(span: Span | None) -> None:
    """As `within`, for all that is left of a task with a context of its own."""
    _current.set(span)


def current() -> Span | None:
    """The span of whoever asks; None: there is none, or it has ended: what goes on in the background is not its."""
    span = _current.get()
    return None if span is None or span.is_over else span


def below(span: Span | None) -> bytes:
    """The context that goes with what is asked on behalf of a span."""
    return b"" if span is None else span.context


def is_context(data: bytes) -> bool:
    """Whether somebody's bytes can be one: anything else is as if nothing were said."""
    return len(data) == CONTEXT_BYTES and any(data[:TRACE_ID_BYTES]) and any(data[TRACE_ID_BYTES:-1])


def from_traceparent(text: str) -> bytes:
    """The context that W3C's header says; empty where it says none, or not in its words: it counts as if it were not
    there.

    What follows the flags is of a later version than 00, and passed over, as the standard says.
    """
    found = _TRACEPARENT.fullmatch(text)
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found["more"]):
        return b""
    context = bytes.fromhex(found["trace"] + found["span"] + found["flags"])
    return context if is_context(context) else b""


# ---- which trace a transaction has


def txn_of(request: Any) -> int | None:
    """The transaction that a request is about; None: it is about none. The first one is 0."""
    field = request.DESCRIPTOR.fields_by_name.get("txn_id")
    if field is None or (field.has_presence and not request.HasField("txn_id")):
        return None
    return int(request.txn_id)


def remember(txn_id: int, context: bytes) -> None:
    if txn_id not in _known and len(_known) >= MAX_KNOWN:
        _known.pop(next(iter(_known)), None)
    _known[txn_id] = context


def known(txn_id: int) -> bytes:
    """The context of the transaction's last span of which this process has heard; empty: of none, or too long ago."""
    return _known.get(txn_id, b"")


def trace_id(txn_id: int | None = None) -> str:
    """The id of the trace in which whoever asks is, or else of the transaction's last one; empty: there is none."""
    span = current()
    context = span.context if span is not None else b"" if txn_id is None else _known.get(txn_id, b"")
    return context[:TRACE_ID_BYTES].hex()
