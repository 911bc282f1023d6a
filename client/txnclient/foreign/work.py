"""What a program does in foreign participants within its transaction: prepared before the commit is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from txnclient.calls.requests import build
from txnclient.handle import Handle
from txnstatus.errors import IllegalState, TxnAborted, TxnError
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import AbortCause, AbortCode

if TYPE_CHECKING:
    import psycopg

    from txnclient.foreign.postgres import PostgresPart

log = logging.getLogger(__name__)


class Part(Protocol):
    """A program's own work in a foreign participant, for `Transaction.enlist`. Called from the program's thread."""

    def prepare(self) -> None:
        """Makes the work durable, able to be published and able to be discarded, whatever crashes.

        Raises a TxnError to refuse: the transaction is aborted.
        """

    def publish(self) -> None:
        """The transaction is committed. The participant's host will publish the work; this only does so sooner."""

    def discard(self) -> None:
        """The transaction is aborted, or cannot commit. The host discards what is prepared; all else, only this can."""


class ForeignWork:
    """The parts of one transaction."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._parts: dict[str, Part] = {}
        self._prepared: set[str] = set()
        """Names of the parts that are prepared, or may be."""

    def enlist(self, name: str, part: Part) -> None:
        handle = self._handle
        handle.require_writable()
        if name in self._parts:
            raise IllegalState(f"{name} is part of transaction {handle.id} already", txn_id=handle.id)
        request = build(pb.EnlistRequest, txn_id=handle.id, owner=handle.owner, participant=name)
        handle.ask("txnstatus.TxnManager/Enlist", request, pb.EnlistResponse)
        self._parts[name] = part

    def postgres(self, name: str, target: str | psycopg.Connection) -> PostgresPart:
        from txnclient.foreign.postgres import PostgresPart

        self._handle.require_writable()
        part = PostgresPart(self._handle.session.cluster_id, name, self._handle.id, target)
        try:
            self.enlist(name, part)
            part.begin()
        except BaseException:  # an interruption as well: nobody else has the session
            part.close()
            raise
        return part

    def prepare(self, abort: Callable[[str], None]) -> None:
        """Once, however often the commit is asked for. `abort` ends the transaction when a part refuses.

        Raises the first refusal, or TxnAborted.
        """
        for name, part in self._parts.items():
            if name in self._prepared:
                continue
            self._prepared.add(name)
            try:
                part.prepare()
            except TxnError as error:
                self._abort(abort, name, error)
                if not error.retriable:
                    raise
                cause = AbortCause(AbortCode.REFUSED, error.message, name)
                hint = "run it again from the beginning"
                raise TxnAborted(error.message, txn_id=self._handle.id, hint=hint, cause=cause) from error

    def _abort(self, abort: Callable[[str], None], name: str, refusal: TxnError) -> None:
        try:
            abort(f"{name} was not prepared: {refusal.message}"[:500])
        except TxnError as error:
            log.warning(
                "transaction %s could not be aborted, it will expire: %s",
                self._handle.id,
                error.message,
                extra={"txn_id": self._handle.id},
            )

    def publish(self) -> None:
        self._end("published", lambda part: part.publish())

    def discard(self, *, prepared: bool = True) -> None:
        """`prepared`: also parts that are prepared, because the transaction is known to be aborted."""
        kept = {} if prepared else {name: part for name, part in self._parts.items() if name in self._prepared}
        self._parts = {name: part for name, part in self._parts.items() if name not in kept}
        self._end("discarded", lambda part: part.discard())
        self._parts = kept

    def _end(self, what: str, end: Callable[[Part], None]) -> None:
        """What fails here is no failure of the transaction: the participant's host does it."""
        parts, self._parts = self._parts, {}
        for name, part in parts.items():
            try:
                end(part)
            except TxnError as error:
                log.info("%s will be %s by the participant's host: %s", name, what, error.message)
