"""Which calls are recorded, and what of them: operator's actions, grants, aborts of others, drops, backups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from txnstatus.trail import Deed

MAX_CHARACTERS = 300
"""Characters of a field that are recorded."""


def _always(*fields: str) -> Callable[[Any], Mapping[str, str] | None]:
    return lambda request: {field: _text(getattr(request, field)) for field in fields}


def _as_operator(*fields: str) -> Callable[[Any], Mapping[str, str] | None]:
    told = _always(*fields)
    return lambda request: told(request) if request.as_operator else None


def _raised(request: Any) -> Mapping[str, str] | None:
    return None if request.only_ask else {"level": _text(request.level)}


def _adopted(request: Any) -> Mapping[str, str] | None:
    if request.only_ask:
        return None
    return {"table_id": _text(request.table_id), "names": _text(", ".join(request.names))}


def _leveled(request: Any) -> Mapping[str, str] | None:
    return {"logger": _text(request.logger), "level": _text(request.level)} if request.level else None


def _refusals_only(_request: Any) -> Mapping[str, str] | None:
    """For calls that are many for one deed, which another call of it tells."""
    return None


RECORDED: Mapping[str, Callable[[Any], Mapping[str, str] | None]] = {
    "txnstatus.Admin/SetOption": _always("name", "value"),
    "txnstatus.Admin/SetLogLevel": _leveled,
    "txnstatus.Admin/ReplaceNode": _always("old_node", "new_node", "address"),
    "txnstatus.Admin/AddNode": _always("node_id", "address", "roles"),
    "txnstatus.Admin/DrainNode": _always("node_id", "drain"),
    "txnstatus.Admin/RemoveNode": _always("node_id"),
    "txnstatus.Admin/Rebalance": _always("stops"),
    "txnstatus.Admin/AddGroup": _always("name"),
    "txnstatus.Admin/MigrateShard": _always("shard", "group"),
    "txnstatus.Admin/SplitShard": _always("shard", "new_shard"),
    "txnstatus.Admin/PlaceDatabase": _always("database", "group"),
    "txnstatus.Admin/RemoveForeign": _always("name"),
    "txnstatus.Admin/RaiseLevel": _raised,
    "txnstatus.Admin/Distrust": _always("what", "restores"),
    "txnstatus.Admin/SetLimit": _always("identity", "name", "value", "restores"),
    "txnstatus.Admin/TurnTicketKey": _always("after"),
    "txnstatus.Admin/Grant": _always("object", "identity", "role"),
    "txnstatus.Admin/Revoke": _always("object", "identity", "role"),
    "txnstatus.TxnManager/AbortTransaction": _as_operator("txn_id", "reason"),
    "txnstatus.Savepoints/ReleaseSavepoint": _as_operator("name", "savepoint_id"),
    "txnstatus.Table/DropTable": _always("table", "txn_id"),
    "txnstatus.Table/RenameTable": _always("table", "new_name"),
    "txnstatus.Audit/AdoptDirectories": _adopted,
    "txnstatus.Backups/CutCluster": _always(),
    "txnstatus.Backups/KeepOverwritten": _refusals_only,
    "txnstatus.Backups/ReadCut": _refusals_only,
}
"""Method → what is recorded of a request; None: nothing, but that it was refused."""


def deed(who: str, method: str, request: Any) -> Deed | None:
    """What is recorded before it is done; None: nothing."""
    what = told(request) if (told := RECORDED.get(method)) is not None else None
    return None if what is None else Deed(who, method.removeprefix("txnstatus."), what, "asked")


def _text(content: object) -> str:
    return str(content)[:MAX_CHARACTERS]
