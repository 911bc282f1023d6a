"""Liveness: what a handle knows of its transaction's life, and whom it tells."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable

from txnclient.calls import forking
from txnstatus.errors import TxnError, Unavailable
from txnstatus.types import TxnId

log = logging.getLogger(__name__)

OnLost = Callable[[TxnError], None]


class _Lock:
    """One for all handles: what it guards takes no time, and a child of a fork needs only one new one."""

    def __init__(self) -> None:
        self.after_fork()
        forking.register(self)

    def after_fork(self) -> None:
        self.held = threading.Lock()


_LOCK = _Lock()


class Liveness:
    """Alive; or silent, when nobody answered for longer than the keep-alive interval; or lost, for good.

    The heartbeat thread and the handle's own calls feed it.
    """

    def __init__(self, txn_id: TxnId, keepalive_seconds: float, heard_at: float) -> None:
        self.heard_at = heard_at
        self._txn_id = txn_id
        self._keepalive_seconds = keepalive_seconds
        self._lost: TxnError | None = None
        self._silence: TxnError | None = None
        self._first_news: TxnError | None = None
        self._callbacks: list[OnLost] = []

    @property
    def alive(self) -> bool:
        return self._lost is None and self._silence is None

    @property
    def lost(self) -> bool:
        return self._lost is not None

    def require(self) -> None:
        """Raises what the handle was lost to."""
        if not self.alive:
            # A copy, and in no variable: tracebacks would pile up in the one that is kept, and a frame that holds its
            # own exception is a cycle, which would keep the handle from becoming garbage when its owner drops it.
            raise copy.copy(self._lost or self._silence)  # type: ignore[misc]

    def heard(self, sent_at: float) -> None:
        """The service has the transaction open. Silence before it is forgiven; a loss is not."""
        self.heard_at = sent_at
        self._silence = None

    def silent(self, seconds: float, last: TxnError) -> None:
        self._silence = Unavailable(
            f"no heartbeat of transaction {self._txn_id} was answered for {seconds:.1f} s, and its keep-alive interval "
            f"is {self._keepalive_seconds:g} s: it may have expired, which is not known; last: {last.message}",
            txn_id=self._txn_id,
            hint="commit() asks for the truth; a transaction begun anew is on the safe side",
        )
        self._tell(self._silence)

    def lose(self, error: TxnError) -> None:
        """The transaction is over, or not ours."""
        # Without its traceback: that would keep its frames, and through them the handle, which could then never become
        # garbage.
        self._lost = copy.copy(error)
        self._tell(self._lost)

    def end(self, error: TxnError) -> None:
        """The program itself ended it: that is no news. A loss before it stays what it was."""
        self._lost = self._lost or copy.copy(error)
        with _LOCK.held:
            self._callbacks = []

    def on_lost(self, callback: OnLost) -> None:
        with _LOCK.held:
            news = self._first_news
            if news is None:
                self._callbacks.append(callback)
        if news is not None:
            self._call(callback, news)

    def _tell(self, news: TxnError) -> None:
        with _LOCK.held:
            if self._first_news is not None:
                return
            self._first_news = news
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback, news)

    def _call(self, callback: OnLost, news: TxnError) -> None:
        try:
            callback(copy.copy(news))
        except Exception:
            log.exception(
                "a callback for the loss of transaction %s failed", self._txn_id, extra={"txn_id": self._txn_id}
            )
