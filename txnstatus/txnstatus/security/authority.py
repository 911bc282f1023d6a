"""Who may call what: one table of all methods, and the decision, which is made where a user's call is dispatched.

A method that the table does not have is nobody's. Whether an object is there is not looked at: who may not see it hears
the same of what is and of what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from google.protobuf.message import Message

from txnstatus.errors import NotAuthorized
from txnstatus.foreign import is_foreign
from txnstatus.roles import ANY, CLUSTER, OFFICES, Rights, Role, called, database_of
from txnstatus.types import Statement
from txnstatus.values import value

Reads = Callable[[Any], Iterator[str]]


@value
class Need:
    """One of some roles, on all objects that a request names there."""

    roles: tuple[Role, ...]
    """Any of them will do; none: whichever it is."""
    where: str
    """The field that names the object; with `[]` after those that are repeated. Empty: the cluster. `*`: any object."""
    in_database: bool = False
    """Whether the object is the database of that table."""
    when: str = ""
    """One of CONDITIONS, without which it is not needed."""
    even_unnamed: bool = True
    """Whether a request that names no object there means the cluster; else nothing is needed then."""

    @property
    def mask(self) -> int:
        return sum(role.bit for role in self.roles) or ANY


def _on(field: str, *roles: Role) -> Need:
    return Need(roles, field)


def _if_named(field: str, *roles: Role) -> Need:
    return Need(roles, field, even_unnamed=False)


_READER, _WRITER, _OWNER, _OPERATOR, _ADMIN = Role.READER, Role.WRITER, Role.OWNER, Role.OPERATOR, Role.ADMIN
_SOME = (Need((), "*"),)
_SOME_WRITER = (Need((_WRITER,), "*"),)
_OPERATES = (_on("", _OPERATOR),)
_ADMINISTERS = (_on("", _ADMIN),)
_OWN: Sequence[Need] = ()
"""Nothing: what it is about is the caller's own, which is seen to where it is."""
_OFFICE, _NO_OFFICE = "the role is operator or admin", "the role is another one"
_LOCKS_TO_READ, _LOCKS = "it is for a select", "it is for anything else"
_NAMES_TABLE = "it is no foreign one"
_AS_OPERATOR = "as_operator is said"

CONDITIONS: Mapping[str, Callable[[Any], bool]] = {
    _AS_OPERATOR: lambda request: request.as_operator,
    _NAMES_TABLE: lambda request: not is_foreign(request.participant),
    _OFFICE: lambda request: request.role in OFFICES,
    _NO_OFFICE: lambda request: request.role not in OFFICES,
    _LOCKS_TO_READ: lambda request: request.statement == Statement.SELECT,
    _LOCKS: lambda request: request.statement != Statement.SELECT,
}
_TO_GRANT = (Need((_OWNER,), "object", when=_NO_OFFICE), Need((_ADMIN,), "object", when=_OFFICE))
_CALLS: Mapping[str, Mapping[str, Sequence[Need]]] = {
    "TxnManager": {
        "BeginTransaction": (*_SOME, _on("first_writes[].table", _WRITER), _if_named("near", _READER)),
        "CommitTransaction": (*_OWN, _on("last_writes[].table", _WRITER)),
        "AbortTransaction": (*_OWN, Need((_OPERATOR,), "", when=_AS_OPERATOR)),
        "GetTransactionState": _SOME,
        "KeepTransactionAlive": _OWN,
        "Enlist": _SOME_WRITER,
        "GetSnapshot": _SOME,
        "IssueTicket": _OWN,
    },
    "Table": {
        "CreateTable": (Need((_WRITER,), "name", in_database=True),),
        "GetTable": (_on("name", _READER, _OPERATOR),),
        "ListTables": _SOME,
        "AlterTable": (_on("table", _OWNER),),
        "RenameTable": (_on("table", _OWNER), Need((_WRITER,), "new_name", in_database=True)),
        "DropTable": (_on("table", _OWNER),),
        "OpenWrite": (_on("table", _WRITER),),
        "AddFiles": (_on("table", _WRITER),),
        "WriteRows": (_on("table", _WRITER),),
        "Scan": (_on("table", _READER),),
        "RenewLeases": _SOME,
        "Lock": (Need((_READER,), "table", when=_LOCKS_TO_READ), Need((_WRITER,), "table", when=_LOCKS)),
        "ShowLocks": (*_SOME, _if_named("table", _READER, _OPERATOR)),
    },
    "TxnSavepoints": {"SetSavepoint": _OWN, "RollbackTo": _OWN},
    "Savepoints": {
        "CreateSavepoint": (_on("tables[]", _WRITER, _OPERATOR),),
        "ListSavepoints": _SOME,
        "ReleaseSavepoint": (*_OWN, Need((_OPERATOR,), "", when=_AS_OPERATOR)),
    },
    "Timeline": {"ListTimeline": (_on("", _READER, _OPERATOR),)},
    "Compactions": {
        "RequestCompaction": (_on("table", _WRITER, _OPERATOR),),
        "ListCompactions": (*_SOME, _if_named("table", _READER, _OPERATOR)),
        "LeaseCompaction": (_on("table", _WRITER),),
        # The id of the lease is known to whom it was given.
        "RenewCompaction": _SOME_WRITER,
        "CompleteCompaction": _SOME_WRITER,
        "FailCompaction": _SOME_WRITER,
    },
    "Audit": {
        "AuditShard": _OPERATES,
        "AuditTable": _OPERATES,
        "AuditTransaction": _SOME,
        "AdoptDirectories": _OPERATES,
    },
    # A backup has what is in all tables, and all grants.
    "Backups": {
        "KeepOverwritten": _ADMINISTERS,
        "CutCluster": _ADMINISTERS,
        "ReadCut": _ADMINISTERS,
    },
    "Admin": {
        "GetCluster": _SOME,
        "GetNode": _OPERATES,
        "ListTransactions": (
            *_SOME,
            Need((_READER, _OPERATOR), "participant", when=_NAMES_TABLE, even_unnamed=False),
        ),
        "SetOption": _OPERATES,
        "SetLogLevel": _OPERATES,
        "ReplaceNode": _OPERATES,
        "AddNode": _OPERATES,
        "DrainNode": _OPERATES,
        "RemoveNode": _OPERATES,
        "Rebalance": _OPERATES,
        "AddGroup": _OPERATES,
        "MigrateShard": _OPERATES,
        "SplitShard": _OPERATES,
        "PlaceDatabase": (_on("database", _OWNER, _OPERATOR),),
        "RemoveForeign": _OPERATES,
        "RaiseLevel": _OPERATES,
        "Distrust": _ADMINISTERS,
        "SetLimit": _OPERATES,
        "TurnTicketKey": _ADMINISTERS,
        "Grant": _TO_GRANT,
        "Revoke": _TO_GRANT,
        "ShowGrants": _OWN,
    },
}
CALLS: Mapping[str, Sequence[Need]] = {
    f"txnstatus.{service}/{method}": needs for service, methods in _CALLS.items() for method, needs in methods.items()
}
"""What users call, and all that they need for it. By other methods processes of the cluster call each other."""


def missing(rights: Rights, identity: str, method: str, request: Message) -> str | None:
    """What somebody lacks for a call, in words; None: it may call. Total: of an unknown method everything."""
    needs = _COMPILED.get(method)
    if needs is None:
        return "a process of the cluster"
    for mask, objects, need in needs:
        if objects is None:
            if not rights.anywhere(identity) & mask:
                return f"{_any_of(need)} on something"
        elif not need.when or CONDITIONS[need.when](request):
            for name in objects(request):
                if not rights.on(identity, name) & mask:
                    return f"{_any_of(need)} on {called(name[:_SHOWN])}"
    return None


def check(rights: Rights, identity: str, method: str, request: Message) -> None:
    """Raises NotAuthorized, which says what role is needed on what."""
    lacks = missing(rights, identity, method, request)
    if lacks is not None:
        short = method.removeprefix("txnstatus.")
        raise NotAuthorized(
            f"{identity} may not call {short}: that is for {lacks}",
            hint="txnctl grant, by an owner of it or an admin; txnctl grants shows what one has",
        )


_SHOWN = 300
"""Characters of an object's name that an error repeats."""


def _any_of(need: Need) -> str:
    return " or ".join(need.roles) or "any role"


def _reader(need: Need) -> Reads | None:
    """What finds the objects in a request; None: it is no certain one."""
    if need.where == "*":
        return None
    if not need.where:
        return lambda _request: iter((CLUSTER,))
    found = _path(need.where)
    if need.in_database:
        return lambda request: map(database_of, found(request))
    if need.even_unnamed:
        return found
    return lambda request: filter(None, found(request))


def _path(where: str) -> Reads:
    """`table`, `tables[]` (none: the cluster), `writes[].table` (none: nothing)."""
    first, repeated, rest = where.partition("[]")
    get = attrgetter(first)
    if not repeated:
        return lambda request: iter((get(request),))
    if not rest:
        return lambda request: iter(get(request) or (CLUSTER,))
    inner = attrgetter(rest.removeprefix("."))
    return lambda request: map(inner, get(request))


Compiled = Mapping[str, Sequence[tuple[int, Reads | None, Need]]]


def compiled(calls: Mapping[str, Sequence[Need]]) -> Compiled:
    """The table as it is asked for each call."""
    return {method: tuple((need.mask, _reader(need), need) for need in needs) for method, needs in calls.items()}


_COMPILED = compiled(CALLS)
