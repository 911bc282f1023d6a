"""What of an answer a user is shown: what one may not see is left out, as if it were not there.

Lists that come page by page are cut before they are divided into pages, by the handlers that do that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from txnstatus.foreign import is_foreign
from txnstatus.proto import admin_pb2 as admin
from txnstatus.proto import audit_pb2 as audit
from txnstatus.proto import catalog_pb2 as catalog
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import savepoint_pb2 as savepoints
from txnstatus.proto import txn_manager_pb2 as manager
from txnstatus.proto import txn_status_pb2 as status
from txnstatus.roles import Role, View

OF_CATALOG = frozenset(
    {
        *("format", "version", "cluster_id", "nodes", "groups", "replication", "participant_shards", "replacement"),
        *("moves", "migrations", "origins"),
        *("range_span", "next_range", "joined", "floor", "options", "foreign", "placements"),
        *("is_public", "revoked", "limited", "level"),
    }
)
"""Fields of the catalog that users are shown; each other one is the processes'."""


def sees_transaction(view: View, txn: common.TxnInfo) -> bool:
    """Whether one is told whose a transaction is, and where it takes part: it is one's own, or one operates the
    cluster, or sees all tables in which it takes part."""
    if txn.owner == view.identity or view.has(Role.OPERATOR):
        return True
    tables = [each.name for each in txn.participants if not is_foreign(each.name)]
    return bool(tables) and all(map(view.sees, tables))


def table_of_lock(name: str) -> str:
    """The table, or the database, whose lock, or whose partition's, this is."""
    return name.partition("/")[0]


def shown_transaction(view: View, txn: common.TxnInfo) -> common.TxnInfo:
    """All of it, or that it is there, and what became of it."""
    if sees_transaction(view, txn):
        return txn
    return common.TxnInfo(
        txn_id=txn.txn_id,
        state=txn.state,
        keepalive_millis=txn.keepalive_millis,
        begin_micros=txn.begin_micros,
        last_transition_micros=txn.last_transition_micros,
        commit_timestamp=txn.commit_timestamp,
    )


def shown_catalog(view: View, state: catalog.CatalogState) -> catalog.CatalogState:
    shown = catalog.CatalogState()
    for field, content in state.ListFields():
        if field.name not in OF_CATALOG or (field.name == "revoked" and not view.has(Role.OPERATOR)):
            continue
        if field.name == "placements":
            shown.placements.extend(each for each in state.placements if view.sees(each.database))
        elif field.name == "limited":
            all_of_them = view.has(Role.OPERATOR)
            shown.limited.extend(each for each in state.limited if all_of_them or each.identity == view.identity)
        elif field.is_repeated:
            getattr(shown, field.name).extend(content)
        elif field.message_type is not None:
            getattr(shown, field.name).CopyFrom(content)
        else:
            setattr(shown, field.name, content)
    return shown


def _cluster(view: View, answer: admin.GetClusterResponse) -> admin.GetClusterResponse:
    return admin.GetClusterResponse(
        catalog=shown_catalog(view, answer.catalog),
        ticket_key=answer.ticket_key,
        limits_of=None if view.has(Role.OPERATOR) else view.identity,
    )


def _catalog_of(kind: Callable[..., Any]) -> Callable[[View, Any], Any]:
    return lambda view, answer: kind(catalog=shown_catalog(view, answer.catalog))


def _state(view: View, answer: manager.GetTransactionStateResponse) -> manager.GetTransactionStateResponse:
    if sees_transaction(view, answer.txn):
        return answer
    return manager.GetTransactionStateResponse(txn=shown_transaction(view, answer.txn))


def _transactions(view: View, answer: status.ListTransactionsResponse) -> status.ListTransactionsResponse:
    seen = (txn for txn in answer.txns if sees_transaction(view, txn))
    return status.ListTransactionsResponse(txns=seen, more=answer.more, next=answer.next)


def _savepoints(view: View, answer: savepoints.ListSavepointsResponse) -> savepoints.ListSavepointsResponse:
    """Without tables it is one of all: whoever has a role on the cluster sees those."""
    return savepoints.ListSavepointsResponse(
        savepoints=(
            each
            for each in answer.savepoints
            if each.owner == view.identity or all(map(view.sees, each.tables or ("",)))
        )
    )


def _locks(view: View, answer: audit.AuditTransactionResponse) -> audit.AuditTransactionResponse:
    return audit.AuditTransactionResponse(
        state=answer.state,
        prepare_timestamp=answer.prepare_timestamp,
        commit_timestamp=answer.commit_timestamp,
        locks=(lock for lock in answer.locks if view.sees(table_of_lock(lock))),
    )


SHOWN: Mapping[str, Callable[[View, Any], Any]] = {
    "txnstatus.Admin/GetCluster": _cluster,
    "txnstatus.Admin/Distrust": _catalog_of(admin.DistrustResponse),
    "txnstatus.Admin/SetLimit": _catalog_of(admin.SetLimitResponse),
    "txnstatus.Admin/SetOption": _catalog_of(admin.SetOptionResponse),
    "txnstatus.Admin/ReplaceNode": _catalog_of(admin.ReplaceNodeResponse),
    "txnstatus.Admin/AddNode": _catalog_of(admin.AddNodeResponse),
    "txnstatus.Admin/DrainNode": _catalog_of(admin.DrainNodeResponse),
    "txnstatus.Admin/RemoveNode": _catalog_of(admin.RemoveNodeResponse),
    "txnstatus.Admin/Rebalance": _catalog_of(admin.RebalanceResponse),
    "txnstatus.Admin/AddGroup": _catalog_of(admin.AddGroupResponse),
    "txnstatus.Admin/MigrateShard": _catalog_of(admin.MigrateShardResponse),
    "txnstatus.Admin/SplitShard": _catalog_of(admin.SplitShardResponse),
    "txnstatus.Admin/PlaceDatabase": _catalog_of(admin.PlaceDatabaseResponse),
    "txnstatus.Admin/RemoveForeign": _catalog_of(admin.RemoveForeignResponse),
    "txnstatus.Admin/ListTransactions": _transactions,
    "txnstatus.TxnManager/GetTransactionState": _state,
    "txnstatus.Savepoints/ListSavepoints": _savepoints,
    "txnstatus.Audit/AuditTransaction": _locks,
}
"""Method → what a user is shown of its answer; of each other all."""
