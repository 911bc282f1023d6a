"""What whoever acts by a transaction token may ask for: one table of calls, and nothing that is not in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from txnstatus.errors import NotAuthorized
from txnstatus.proto import table_pb2 as pb
from txnstatus.security.principals import Scope
from txnstatus.types import Statement

_ADDS = frozenset({pb.ROW_INSERT, pb.ROW_INSERT_IGNORE})
_LOCKS_OF_ADDS = frozenset({pb.LOCK_S, pb.LOCK_SHARED_WRITE})
_STATEMENTS_THAT_ADD = frozenset({Statement.SELECT, Statement.INSERT})


def check(scope: Scope, method: str, request: Any) -> None:
    """Whether a request is within the scope. Raises NotAuthorized, for every method that is not in RULES, too."""
    rule = RULES.get(method)
    if rule is None or not rule(scope, request):
        raise NotAuthorized(
            f"a token of transaction {scope.txn_id} does not allow this {method.rpartition('/')[2]}",
            hint="txn.token(tables=..., appends_only=..., may_commit=...) says what its holder may do",
        )


def _its_own(scope: Scope, request: Any) -> bool:
    return bool(request.txn_id == scope.txn_id)


def _keeps_alive(scope: Scope, request: Any) -> bool:
    return all(txn_id == scope.txn_id for txn_id in request.txn_ids)


def _ends(scope: Scope, request: Any) -> bool:
    return scope.may_commit and _its_own(scope, request)


def _commits(scope: Scope, request: Any) -> bool:
    return _ends(scope, request) and all(_adds_files(scope, write) for write in request.last_writes)


def _aborts(scope: Scope, request: Any) -> bool:
    return _ends(scope, request) and not request.as_operator


def _has_table(scope: Scope, table: str) -> bool:
    return not scope.tables or table in scope.tables


def _writes(scope: Scope, request: Any) -> bool:
    return _its_own(scope, request) and _has_table(scope, request.table)


def _adds_files(scope: Scope, request: Any) -> bool:
    replaces = request.mode != pb.APPEND or request.overwrites or request.HasField("deletes")
    return _writes(scope, request) and not (scope.appends_only and replaces)


def _changes_rows(scope: Scope, request: Any) -> bool:
    return _writes(scope, request) and not (scope.appends_only and request.change not in _ADDS)


def _locks(scope: Scope, request: Any) -> bool:
    adds = request.statement in _STATEMENTS_THAT_ADD if request.statement else request.mode in _LOCKS_OF_ADDS
    return _writes(scope, request) and (adds or not scope.appends_only)


def _in_all(scope: Scope, request: Any) -> bool:
    """For what concerns all that the transaction does, in whichever table."""
    return _its_own(scope, request) and not scope.appends_only and not scope.tables


def _reads(scope: Scope, request: Any) -> bool:
    return not scope.appends_only and request.HasField("txn_id") and _writes(scope, request)


def _names(scope: Scope, request: Any) -> bool:
    return not scope.appends_only and _has_table(scope, request.name)


def _renews(scope: Scope, request: Any) -> bool:
    return not scope.appends_only and all(_has_table(scope, lease.table) for lease in request.leases)


def _reads_anything(scope: Scope, _request: Any) -> bool:
    return not scope.appends_only


RULES: Mapping[str, Callable[[Scope, Any], bool]] = {
    "txnstatus.TxnManager/GetTransactionState": _its_own,
    "txnstatus.TxnManager/KeepTransactionAlive": _keeps_alive,
    "txnstatus.TxnManager/CommitTransaction": _commits,
    "txnstatus.TxnManager/AbortTransaction": _aborts,
    "txnstatus.TxnManager/Enlist": _in_all,
    "txnstatus.TxnManager/GetSnapshot": _reads_anything,
    "txnstatus.TxnSavepoints/SetSavepoint": _in_all,
    "txnstatus.TxnSavepoints/RollbackTo": _in_all,
    "txnstatus.Table/OpenWrite": _writes,
    "txnstatus.Table/AddFiles": _adds_files,
    "txnstatus.Table/WriteRows": _changes_rows,
    "txnstatus.Table/Lock": _locks,
    "txnstatus.Table/Scan": _reads,
    "txnstatus.Table/GetTable": _names,
    "txnstatus.Table/RenewLeases": _renews,
}
"""Method → whether a request for it is within a scope. Tables are made, changed and dropped by nobody's token."""
OPEN_ONLY = frozenset(
    f"txnstatus.{method}" for method in ("TxnManager/GetSnapshot", "Table/Scan", "Table/GetTable", "Table/RenewLeases")
)
"""Methods that would be answered after the transaction has ended, too: it is asked first whether it has."""
