"""What a transaction's token allows: each call there is, within a scope and beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from txndeploy.node.roles import SERVICES
from txnstatus.errors import NotAuthorized
from txnstatus.proto import table_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_savepoint_pb2 as savepoint_pb
from txnstatus.rpc.methods import full_name
from txnstatus.security.principals import Scope
from txnstatus.security.scopes import OPEN_ONLY, RULES, check
from txnstatus.types import TxnId

ALL = Scope(TxnId(7), may_commit=True)
TABLES = replace(ALL, tables=("air.a", "air.b"))
APPENDS = replace(TABLES, appends_only=True)
STAGES = replace(APPENDS, may_commit=False)
METHODS = {full_name(method): method for service in SERVICES.values() for method in service.methods}

WRITE = {"txn_id": 7, "table": "air.a"}
ADD = table_pb2.AddFilesRequest(**WRITE)
ANY = (ALL, TABLES, APPENDS, STAGES)
OVERWRITE = table_pb2.AddFilesRequest(**WRITE, mode=table_pb2.OVERWRITE)
DELETES = table_pb2.AddFilesRequest(**WRITE, deletes=table_pb2.Deletes())

REQUESTS: list[tuple[str, Message, tuple[Scope, ...]]] = [
    ("TxnManager/GetTransactionState", pb.GetTransactionStateRequest(txn_id=7), ANY),
    ("TxnManager/GetTransactionState", pb.GetTransactionStateRequest(txn_id=8), ()),
    ("TxnManager/KeepTransactionAlive", pb.KeepTransactionAliveRequest(txn_ids=[7]), ANY),
    ("TxnManager/KeepTransactionAlive", pb.KeepTransactionAliveRequest(txn_ids=[7, 8]), ()),
    ("TxnManager/CommitTransaction", pb.CommitTransactionRequest(txn_id=7), (ALL, TABLES, APPENDS)),
    ("TxnManager/CommitTransaction", pb.CommitTransactionRequest(txn_id=8), ()),
    ("TxnManager/CommitTransaction", pb.CommitTransactionRequest(txn_id=7, last_writes=[ADD]), (ALL, TABLES, APPENDS)),
    ("TxnManager/CommitTransaction", pb.CommitTransactionRequest(txn_id=7, last_writes=[OVERWRITE]), (ALL, TABLES)),
    (
        "TxnManager/CommitTransaction",
        pb.CommitTransactionRequest(txn_id=7, last_writes=[ADD, table_pb2.AddFilesRequest(txn_id=8, table="air.a")]),
        (),
    ),
    ("TxnManager/AbortTransaction", pb.AbortTransactionRequest(txn_id=7), (ALL, TABLES, APPENDS)),
    ("TxnManager/AbortTransaction", pb.AbortTransactionRequest(txn_id=7, as_operator=True), ()),
    ("TxnManager/AbortTransaction", pb.AbortTransactionRequest(txn_id=8), ()),
    ("TxnManager/Enlist", pb.EnlistRequest(txn_id=7), (ALL,)),
    ("TxnManager/GetSnapshot", pb.GetSnapshotRequest(), (ALL, TABLES)),
    ("TxnSavepoints/SetSavepoint", savepoint_pb.SetSavepointRequest(txn_id=7), (ALL,)),
    ("TxnSavepoints/RollbackTo", savepoint_pb.RollbackToRequest(txn_id=7), (ALL,)),
    ("TxnSavepoints/RollbackTo", savepoint_pb.RollbackToRequest(txn_id=8), ()),
    ("Table/OpenWrite", table_pb2.OpenWriteRequest(**WRITE), ANY),
    ("Table/OpenWrite", table_pb2.OpenWriteRequest(txn_id=7, table="air.c"), (ALL,)),
    ("Table/OpenWrite", table_pb2.OpenWriteRequest(txn_id=8, table="air.a"), ()),
    ("Table/AddFiles", ADD, ANY),
    ("Table/AddFiles", OVERWRITE, (ALL, TABLES)),
    ("Table/AddFiles", DELETES, (ALL, TABLES)),
    ("Table/AddFiles", table_pb2.AddFilesRequest(**WRITE, overwrites=["month=1"]), (ALL, TABLES)),
    ("Table/WriteRows", table_pb2.WriteRowsRequest(**WRITE, change="ROW_INSERT"), ANY),
    (
        "Table/WriteRows",
        table_pb2.WriteRowsRequest(**WRITE, change="ROW_INSERT_IGNORE"),
        (ALL, TABLES, APPENDS, STAGES),
    ),
    ("Table/WriteRows", table_pb2.WriteRowsRequest(**WRITE, change="ROW_UPSERT"), (ALL, TABLES)),
    ("Table/WriteRows", table_pb2.WriteRowsRequest(**WRITE, change="ROW_UPDATE"), (ALL, TABLES)),
    ("Table/WriteRows", table_pb2.WriteRowsRequest(**WRITE, change="ROW_DELETE"), (ALL, TABLES)),
    ("Table/WriteRows", table_pb2.WriteRowsRequest(**WRITE), (ALL, TABLES)),
    ("Table/Lock", table_pb2.LockRequest(**WRITE, statement="insert into"), ANY),
    ("Table/Lock", table_pb2.LockRequest(**WRITE, mode="LOCK_SHARED_WRITE"), ANY),
    ("Table/Lock", table_pb2.LockRequest(**WRITE, mode="LOCK_X"), (ALL, TABLES)),
    ("Table/Lock", table_pb2.LockRequest(**WRITE, statement="drop table", mode="LOCK_S"), (ALL, TABLES)),
    ("Table/Lock", table_pb2.LockRequest(txn_id=7, table="air", mode="LOCK_S"), (ALL,)),
    ("Table/Scan", table_pb2.ScanRequest(**WRITE), (ALL, TABLES)),
    ("Table/Scan", table_pb2.ScanRequest(table="air.a"), ()),
    ("Table/Scan", table_pb2.ScanRequest(txn_id=7, table="air.c"), (ALL,)),
    ("Table/GetTable", table_pb2.GetTableRequest(name="air.a"), (ALL, TABLES)),
    ("Table/GetTable", table_pb2.GetTableRequest(name="air.c"), (ALL,)),
    ("Table/RenewLeases", table_pb2.RenewLeasesRequest(leases=[{"table": "air.a"}]), (ALL, TABLES)),
    ("Table/RenewLeases", table_pb2.RenewLeasesRequest(leases=[{"table": "air.a"}, {"table": "air.c"}]), (ALL,)),
]
"""Method, a request, and the scopes that it is within."""


def cells() -> Iterator[tuple[str, Message, Scope, bool]]:
    for method, request, within in REQUESTS:
        for scope in ANY:
            yield f"txnstatus.{method}", request, scope, scope in within


CELLS = list(cells())


def allowed(scope: Scope, method: str, request: Message) -> bool:
    try:
        check(scope, method, request)
    except NotAuthorized:
        return False
    return True


def wrong() -> list[str]:
    """What is allowed and should not be, or the other way round."""
    return [
        f"{name} {request} by {scope}" for name, request, scope, may in CELLS if allowed(scope, name, request) != may
    ]


def test_each_request_is_within_the_scopes_that_it_is_in_and_no_others() -> None:
    assert not wrong()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_is_in_no_rule_is_allowed_by_no_token(name: str) -> None:
    request = GetMessageClass(METHODS[name].input_type)()
    if name in RULES:
        assert name.removeprefix("txnstatus.") in {method for method, _, _ in REQUESTS}, "it has no test"
        return
    with pytest.raises(NotAuthorized, match="a token of transaction 0 does not allow this"):
        check(replace(ALL, txn_id=TxnId(0)), name, request)


def test_every_rule_is_of_a_method_that_there_is() -> None:
    assert RULES.keys() <= METHODS.keys()
    assert RULES.keys() >= OPEN_ONLY


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_that_let_everything_through_would_be_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One planted fault each."""
    monkeypatch.setitem(RULES, name, lambda _scope, _request: True)  # type: ignore[arg-type]
    assert wrong()
