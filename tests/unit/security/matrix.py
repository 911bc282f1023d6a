"""Every call of the table of authority, in its variants, by who has one role on one object: what is decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from google.protobuf import descriptor_pool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from txnstatus.proto import admin_pb2 as admin
from txnstatus.proto import compaction_pb2 as compaction
from txnstatus.proto import savepoint_pb2 as savepoint
from txnstatus.proto import table_pb2 as table
from txnstatus.proto import txn_manager_pb2 as manager
from txnstatus.proto import txn_status_pb2 as status
from txnstatus.roles import CLUSTER, Granted, Holder, Rights, Role
from txnstatus.security import authority

TABLE, DATABASE = "air.flights", "air"
PLACES: Mapping[str, str] = {
    "table": TABLE,
    "database": DATABASE,
    "cluster": CLUSTER,
    "another table": "air.legs",
    "another database": "airports",
}
"""Where a role is granted, for a call that is about TABLE."""
FIRST, LAST = manager.FirstWrite(table=TABLE), table.AddFilesRequest(table=TABLE)
VARIANTS: Mapping[str, Mapping[str, Message]] = {
    "TxnManager/BeginTransaction": {
        "": manager.BeginTransactionRequest(),
        "first_writes": manager.BeginTransactionRequest(first_writes=[FIRST]),
        "near": manager.BeginTransactionRequest(near=TABLE),
    },
    "TxnManager/CommitTransaction": {
        "": manager.CommitTransactionRequest(),
        "last_writes": manager.CommitTransactionRequest(last_writes=[LAST]),
    },
    "TxnManager/AbortTransaction": {
        "": manager.AbortTransactionRequest(),
        "as_operator": manager.AbortTransactionRequest(as_operator=True),
    },
    "Table/Lock": {
        "for select": table.LockRequest(table=TABLE, statement="select"),
        "for insert": table.LockRequest(table=TABLE, statement="insert into"),
        "mode S": table.LockRequest(table=TABLE, mode=table.LOCK_S),
        "database": table.LockRequest(table=DATABASE, mode=table.LOCK_S),
    },
    "Table/ShowLocks": {"": table.ShowLocksRequest(), "of table": table.ShowLocksRequest(table=TABLE)},
    "Savepoints/CreateSavepoint": {
        "of all": savepoint.CreateSavepointRequest(),
        "of tables": savepoint.CreateSavepointRequest(tables=[TABLE]),
    },
    "Savepoints/ReleaseSavepoint": {
        "": savepoint.ReleaseSavepointRequest(),
        "as_operator": savepoint.ReleaseSavepointRequest(as_operator=True),
    },
    "Compactions/ListCompactions": {
        "": compaction.ListCompactionsRequest(),
        "of table": compaction.ListCompactionsRequest(table=TABLE),
    },
    "Compactions/LeaseCompaction": {
        "of any": compaction.LeaseCompactionRequest(),
        "of table": compaction.LeaseCompactionRequest(table=TABLE),
    },
    "Admin/ListTransactions": {
        "": status.ListTransactionsRequest(),
        "of table": status.ListTransactionsRequest(participant=TABLE),
        "of foreign": status.ListTransactionsRequest(participant="@billing"),
    },
    "Admin/PlaceDatabase": {"": admin.PlaceDatabaseRequest(database=DATABASE)},
    **{
        f"Admin/{method}": {role: request(object=TABLE, identity="bob", role=role) for role in Role}
        for method, request in (("Grant", admin.GrantRequest), ("Revoke", admin.RevokeRequest))
    },
}
"""Requests of calls for which one is not like the other; of each other call there is one, about TABLE."""


def requests(method: str) -> Mapping[str, Message]:
    """By what is special about each; `method`: its full name."""
    if (found := VARIANTS.get(method.removeprefix("txnstatus."))) is not None:
        return found
    descriptor = descriptor_pool.Default().FindMethodByName(method.replace("/", "."))
    request = GetMessageClass(descriptor.input_type)()
    for need in authority.CALLS[method]:
        if need.where not in ("", "*"):
            setattr(request, need.where, TABLE)
    return {"": request}


def rights(role: Role | None, place: str) -> Rights:
    """Somebody, ada, has one role in one place; None: she has none."""
    holders = (Holder("ada", (role,)),) if role else ()
    return Rights([Granted(place, "", holders)])


def lines() -> Iterator[str]:
    """A line for each call and variant: the roles that will do, by where they are granted."""
    for method in authority.CALLS:
        for variant, request in requests(method).items():
            named = f"{method.removeprefix('txnstatus.')}{f' ({variant})' if variant else ''}"
            if authority.missing(rights(None, CLUSTER), "ada", method, request) is None:
                yield f"{named}: everybody"
                continue
            allowed = {name: _allowed(method, request, place) for name, place in PLACES.items()}
            yield f"{named}: " + "; ".join(f"{name}: {' '.join(roles) or '-'}" for name, roles in allowed.items())


def _allowed(method: str, request: Message, place: str) -> Sequence[Role]:
    return [role for role in Role if authority.missing(rights(role, place), "ada", method, request) is None]
