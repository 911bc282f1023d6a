"""What a program does in foreign participants within its transaction: prepared before the commit is asked for."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from google.protobuf.message import Message

from txnclient.calls.requests import build
from txnstatus.errors import IllegalState, TxnAborted, TxnError
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import AbortCause, AbortCode, TxnId

if TYPE_CHECKING:
    import psycopg

    from txnclient.client import Client
    from txnclient.foreign.postgres import PostgresPart

ResponseT = TypeVar("ResponseT", bound=Message)

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


class ForeignWork(ABC):
    """The foreign side of a `Transaction`."""

    client: Client
    id: TxnId

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}
        self._prepared: set[str] = set()
        """Parts that are prepared, or may be."""

    def enlist(self, name: str, part: Part) -> None:
        """Makes the foreign participant `name` part of the transaction. Nothing may be done there before.

        `commit` first prepares every part, in this order, and then asks for the commit; a part that refuses aborts the
        transaction. In each participant, a transaction has one part.

        Raises NotFound for a participant that the cluster does not know, IllegalState for a second part.
        """
        self._require_writable()
        if name in self._parts:
            raise IllegalState(f"{name} is part of transaction {self.id} already", txn_id=self.id)
        request = build(pb.EnlistRequest, txn_id=self.id, owner=self.client.owner, participant=name)
        self._ask("txnstatus.TxnManager/Enlist", request, pb.EnlistResponse)
        self._parts[name] = part

    def postgres(self, name: str, target: str | psycopg.Connection) -> PostgresPart:
        """One PostgreSQL transaction as part of this one: `with txn.postgres("billing", conninfo) as connection:`.

        `name`: the participant as which the database was registered (`txnctl participant list`). `target`: what psycopg
        connects to, or an idle connection of the program's own. All that the connection does from here on is committed
        with this transaction, or rolled back; do not commit or roll it back yourself. Needs `txnstatus[postgres]`.

        Raises InvalidArgument for another database, or a server that prepares no transactions; what `enlist` raises.
        """
        from txnclient.foreign.postgres import PostgresPart

        self._require_writable()
        part = PostgresPart(self.client.cluster_id, name, self.id, target)
        try:
            self.enlist(name, part)
            part.begin()
        except TxnError:
            part.close()
            raise
        return part

    # ---- for the handle

    @abstractmethod
    def _require_writable(self) -> None: ...

    @abstractmethod
    def _ask(self, method: str, request: Message, response: type[ResponseT]) -> ResponseT: ...

    @abstractmethod
    def abort(self, reason: str = "") -> None: ...

    def _prepare_parts(self) -> None:
        """Once, however often the commit is asked for. Raises the first refusal, or TxnAborted; then all is aborted."""
        for name, part in self._parts.items():
            if name in self._prepared:
                continue
            self._prepared.add(name)
            try:
                part.prepare()
            except TxnError as error:
                self._abort_unprepared(name, error)
                if not error.retriable:
                    raise
                cause = AbortCause(AbortCode.REFUSED, error.message, name)
                hint = "run it again from the beginning"
                raise TxnAborted(error.message, txn_id=self.id, hint=hint, cause=cause) from error

    def _abort_unprepared(self, name: str, refusal: TxnError) -> None:
        try:
            self.abort(reason=f"{name} was not prepared: {refusal.message}"[:500])
        except TxnError as error:
            log.warning("transaction %s could not be aborted, it will expire: %s", self.id, error.message)

    def _publish_parts(self) -> None:
        self._end_parts("published", lambda part: part.publish())

    def _discard_parts(self, *, prepared: bool = True) -> None:
        """`prepared`: also those, because the transaction is known to be aborted."""
        kept = {} if prepared else {name: part for name, part in self._parts.items() if name in self._prepared}
        self._parts = {name: part for name, part in self._parts.items() if name not in kept}
        self._end_parts("discarded", lambda part: part.discard())
        self._parts = kept

    def _end_parts(self, what: str, end: Callable[[Part], None]) -> None:
        """What fails here is no failure of the transaction: the participant's host does it."""
        parts, self._parts = self._parts, {}
        for name, part in parts.items():
            try:
                end(part)
            except TxnError as error:
                log.info("%s will be %s by the participant's host: %s", name, what, error.message)
