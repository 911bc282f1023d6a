"""The catalog as each of Spark's sessions has it: those of a driver, or one that was attached, and the copies of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from txnclient.sparksql.bridge import Request
from txnclient.sparksql.tables import Tables
from txnstatus.errors import TxnError


class Sessions:
    """Each has a transaction of its own, if it begins one.

    Spark copies a session for what is to go on by itself, as a query of Structured Streaming. A copy has the settings
    by which it finds the catalog, and nothing else of it: what it writes is no part of the other one's transaction.
    """

    def __init__(self, make: Callable[[str], Tables]) -> None:
        """`make`: what answers a session, by Spark's id of it."""
        self._make = make
        self._lock = threading.Lock()
        self._tables: dict[str, Tables] = {}
        self._gone: set[str] = set()
        """Sessions of which only plans are left. What nothing refers to any more says so in any order."""
        self._first = ""

    def answer(self, method: str, request: Request) -> Any:
        session = request["session"]
        tables = self._of(session)
        try:
            return tables.answer(method, request)
        finally:
            if method in ("bye", "release"):
                self._forget(session, tables, is_gone=method == "bye")

    def _forget(self, session: str, tables: Tables, *, is_gone: bool) -> None:
        """What a plan reads is kept until it says that it is gone."""
        with self._lock:
            if is_gone:
                self._gone.add(session)
            if session in self._gone and not tables.is_read:
                self._gone.discard(session)
                self._tables.pop(session, None)

    def of(self, session: str | None) -> Tables:
        """None: the session that has asked first, where nobody here knows its id."""
        return self._of(self._first if session is None else session)

    def _of(self, session: str) -> Tables:
        with self._lock:
            self._first = self._first or session
            if session not in self._tables:
                self._tables[session] = self._make(session)
            return self._tables[session]

    def leave(self) -> None:
        """Rolls back what sessions have not committed."""
        with self._lock:
            left = list(self._tables.items())
        for session, tables in left:
            with suppress(TxnError):  # it expires
                tables.sql.gone(session)
