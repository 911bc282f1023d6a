"""Traces of transactions, in programs that work for them: a span from the begin to the end, and one of each call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from txnstatus.errors import TxnError
from txnstatus.tracing import spans
from txnstatus.tracing.spans import TRACE_ID_BYTES, Fact, Kind, Span

Contexts = dict[int, bytes]
"""Transaction → the context of the span below which a program's calls for it are."""


class TxnTrace:
    """What one handle knows of its transaction's trace."""

    def __init__(self, contexts: Contexts, txn_id: int, context: bytes, span: Span | None = None) -> None:
        """`span`: the transaction's own, which ends with this; None: another process has it."""
        self.context = context
        self._contexts, self._txn_id, self._span = contexts, txn_id, span
        self._is_first = txn_id not in contexts
        contexts.setdefault(txn_id, context)
        spans.remember(txn_id, context)

    def step(self, name: str, facts: spans.Facts) -> AbstractContextManager[None]:
        """Work for the transaction, with the calls that it makes."""
        return _step(name, self.context, {"txn.id": self._txn_id, **facts})

    def end(self, state: str) -> None:
        """Nothing more is done for the transaction here. Idempotent."""
        if self._is_first:
            self._contexts.pop(self._txn_id, None)
            self._is_first = False
        if self._span is not None:
            self._span.note({"txn.state": state})
            self._span.end("" if state == "COMMITTED" else state)
            self._span = None

    def __del__(self) -> None:
        self.end("left open by its program")


@contextlib.contextmanager
def beginning(label: str, owner: str, count: int) -> Iterator[list[Span | None]]:
    """Spans of transactions that begin in the block: each is in the trace in which the program is, or has its own. What
    is called in the block is part of the first."""
    tracer = spans.tracer
    if tracer is None:
        yield []
        return
    facts = {"txn.label": label, "txn.owner": owner}
    begun = [tracer.begin("transaction", Kind.INTERNAL, b"", facts) for _ in range(count)]
    try:
        with spans.within(begun[0]):
            yield begun
    except BaseException as error:
        for span in begun:
            if span is not None:
                span.end(_told(error))
        raise


@contextlib.contextmanager
def calling(contexts: Contexts, method: str, request: Any) -> Iterator[bytes]:
    """A call: the context that goes with it. Empty where it is for no transaction that is traced, and the program is in
    no span of its own: calls begin no traces."""
    tracer = spans.tracer
    txn_id = spans.txn_of(request)
    parent = _parent(b"" if txn_id is None else contexts.get(txn_id, b""))
    if tracer is None or not parent:
        yield b""
        return
    service, _, name = method.partition("/")
    facts: dict[str, Fact] = {"rpc.system": "txnstatus", "rpc.service": service, "rpc.method": name}
    if txn_id is not None:
        facts["txn.id"] = txn_id
    span = tracer.begin(method, Kind.CLIENT, parent, facts)
    with _ending(span):
        yield spans.below(span)


@contextlib.contextmanager
def _step(name: str, parent: bytes, facts: spans.Facts) -> Iterator[None]:
    tracer = spans.tracer
    span = tracer.begin(name, Kind.INTERNAL, _parent(parent), facts) if tracer is not None else None
    with _ending(span), spans.within(span):
        yield


@contextlib.contextmanager
def _ending(span: Span | None) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if span is not None:
            span.end(_told(error))
        raise
    if span is not None:
        span.end()


def _told(error: BaseException) -> str:
    return f"{error.code}: {error.message}" if isinstance(error, TxnError) else type(error).__name__


def _parent(context: bytes) -> bytes:
    """The innermost span in which the program is, of the transaction's trace; else the transaction's."""
    inner = spans.below(spans.current()) or (spans.tracer.surrounding() if spans.tracer is not None else b"")
    is_within = inner[:TRACE_ID_BYTES] == context[:TRACE_ID_BYTES]
    return inner if is_within or not context else context
