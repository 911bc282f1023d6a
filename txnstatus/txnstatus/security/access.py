"""What a process lets users do: by the last state of the catalog that it has heard of."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar

from google.protobuf.message import Message

from txnstatus.errors import LimitReached
from txnstatus.pace import AT_ONCE, Turn
from txnstatus.proto import common_pb2 as common
from txnstatus.roles import Granted, Rights, Role, View
from txnstatus.security import authority, scopes, visible
from txnstatus.security.principals import Principal
from txnstatus.shares import BEGINS, READS, Users

BEGIN = "txnstatus.TxnManager/BeginTransaction"
ASKS = (
    *("TxnManager/GetTransactionState", "TxnManager/GetSnapshot", "Timeline/ListTimeline", "Savepoints/ListSavepoints"),
    *("Table/GetTable", "Table/ListTables", "Table/Scan", "Table/ShowLocks", "Compactions/ListCompactions"),
    *("Admin/GetCluster", "Admin/GetNode", "Admin/ListTransactions", "Admin/ShowGrants"),
)
"""Calls that only ask: whoever asks waits, and nothing that is open ends meanwhile."""
PACED: Mapping[str, str] = {BEGIN: BEGINS, **{f"txnstatus.{method}": READS for method in ASKS}}
"""Calls of which users have so many in a second → the limit by which they do."""
_VIEW: ContextVar[View | None] = ContextVar("view", default=None)
"""What the caller of the running handler is shown; None: all."""


class Access:
    """Nobody may do anything, until it is heard what is granted."""

    def __init__(self, admins: Collection[str] = ()) -> None:
        """`admins`: as for Rights."""
        self._admins = tuple(admins)
        self.users = Users()
        self.rights = Rights((), self._admins)

    def learn(self, granted: Iterable[Granted]) -> None:
        """From now on that is what is granted."""
        self.rights = Rights(granted, self._admins)

    def check(self, caller: Principal | None, method: str, request: Message) -> None:
        """`caller` None: it is not known who calls, and all may do all. Raises NotAuthorized."""
        if caller is not None and not caller.is_process:
            authority.check(self.rights, caller.owner, method, request)
            if caller.scope is not None:
                scopes.check(caller.scope, method, request)

    def refusal(self, caller: Principal | None, method: str, now: float, patience: float) -> Turn | None:
        """That of a call of which nothing has been read; `told` ends it. None: it may be done. `now`, `patience`: as
        for Pace."""
        limit = PACED.get(method)
        if limit is None or caller is None or caller.is_process:
            return None
        return self.users.refusal(caller.owner, limit, now, patience)

    def turn(self, caller: Principal | None, method: str, request: Message, now: float, patience: float) -> Turn:
        """When a call is done, or refused; then `told` ends it."""
        limit = PACED.get(method)
        if limit is None or caller is None or caller.is_process:
            return AT_ONCE
        count = request.count or 1 if method == BEGIN else 1  # type: ignore[attr-defined]
        return self.users.turn(caller.owner, limit, count, now, patience)

    def told(self, caller: Principal | None, method: str, turn: Turn, now: float, number: int = 1) -> LimitReached:
        """What a number of refusals that are alike say when they have their turn, or are waited for no more."""
        assert caller is not None, "nobody else is refused"
        return self.users.told(caller.owner, PACED[method], turn, now, number)

    def answers(self, caller: Principal | None, method: str, size: int) -> None:
        """A call of so many bytes is taken up; `answered` ends it. Raises LimitReached."""
        if caller is not None and not caller.is_process:
            self.users.answers(caller.owner, method, size)

    def answered(self, caller: Principal | None, method: str, size: int) -> None:
        if caller is not None and not caller.is_process:
            self.users.answered(caller.owner, method, size)

    @contextlib.contextmanager
    def answering(self, caller: Principal | None, method: str, size: int) -> Iterator[None]:
        """The block answers a call of so many bytes. Raises LimitReached."""
        self.answers(caller, method, size)
        try:
            yield
        finally:
            self.answered(caller, method, size)

    def view(self, caller: Principal | None) -> View | None:
        """What a caller is shown; None: all."""
        return None if caller is None or caller.is_process else View(caller.owner, self.rights)

    def shown(self, caller: Principal | None, method: str, answer: Message) -> Message:
        """What a caller is shown of an answer."""
        view = self.view(caller) if method in visible.SHOWN else None
        return answer if view is None else visible.SHOWN[method](view, answer)


@contextlib.contextmanager
def showing_to(view: View | None) -> Iterator[None]:
    """The handler that runs in the block answers somebody who is shown that."""
    token = _VIEW.set(view)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # what was never finished is closed from elsewhere, when it is garbage
            _VIEW.reset(token)


def shown_to_caller(txn: common.TxnInfo) -> common.TxnInfo:
    """What the caller of the running handler is shown of a transaction."""
    view = _VIEW.get()
    return txn if view is None else visible.shown_transaction(view, txn)


def is_caller(identity: str) -> bool:
    """Whether the caller of the running handler is the user of that name."""
    view = _VIEW.get()
    return view is not None and view.identity == identity


def may_grant(name: str, identity: str) -> bool:
    """Whether the caller of the running handler is told what somebody has on an object: it is itself, or owns it."""
    view = _VIEW.get()
    return view is None or view.identity == identity or view.has(Role.OWNER, name)


def reads(name: str) -> bool:
    """Whether the caller of the running handler may read a table."""
    view = _VIEW.get()
    return view is None or view.has(Role.READER, name)


def sees(name: str) -> bool:
    """Whether the caller of the running handler is told that a table or a database is there."""
    view = _VIEW.get()
    return view is None or view.sees(name)
