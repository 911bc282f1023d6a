"""Every rpc there is, and who answers it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.badinput.world import methods
from txnstatus.rpc.methods import full_name

LEFT_OUT = {
    "txnstatus.Catalog/ChangeCatalog": "takes a cluster apart: test_catalog_changes.py has one for each change",
    "txnstatus.Admin/RemoveForeign": "is a change of the catalog, too",
    "txnstatus.CutHolder/HoldGroup": "holds all others up: tests/unit/deploy/test_cuts.py",
    "txnstatus.Admin/TurnTicketKey": "is one, too",
    "txnstatus.Admin/Distrust": "is one, too",
    "txnstatus.Admin/RaiseLevel": "is one, too",
    "txnstatus.Admin/AddNode": "is one, too",
    "txnstatus.Admin/DrainNode": "is one, too",
    "txnstatus.Admin/RemoveNode": "is one, too",
    "txnstatus.Admin/Rebalance": "is one, too",
    "txnstatus.Admin/MigrateShard": "is one, too",
    "txnstatus.Admin/SplitShard": "is one, too",
    "txnstatus.Admin/ReadPart": "is to be asked again, where no shard leaves: tests/unit/deploy/test_migrating.py",
}
"""Methods that are left out, and why."""
MOVE = "txnstatus.Admin/MoveReplica"
NEEDS_A_TASK = {f"txnstatus.Compactions/{name}Compaction" for name in ("Renew", "Complete", "Fail")}
# A group that is added ends the range in which the other requests' transactions are.
WRONG_HERE = {"txnstatus.Admin/ReplaceNode", "txnstatus.Admin/AddGroup", MOVE, *NEEDS_A_TASK}
"""Methods whose requests are wrong here, whatever they say."""
METHODS = {full_name(method): method for method in methods() if full_name(method) not in LEFT_OUT}
BETWEEN_NODES = {
    "txnstatus.TxnStatus": "range",
    "txnstatus.Participant": "shard",
    "txnstatus.SavepointHolder": "shard",
    "txnstatus.CommitCounter": "shard",
    "txnstatus.Keeper": "shard",
    "txnstatus.Catalog": "catalog",
    "txnstatus.CutHolder": "catalog",
}
"""Services that only leaders answer."""
ALSO_LEADERS = {
    "txnstatus.TxnManager": "range",
    "txnstatus.Table": "shard",
    "txnstatus.Audit": "shard",
    "txnstatus.Compactions": "shard",
    "txnstatus.TxnSavepoints": "shard",
}
MANAGERS_ONLY = {"BeginTransaction", "Enlist", "GetSnapshot", "IssueTicket"}


def ways() -> Iterator[tuple[str, str]]:
    """Each method to each who answers it: the node itself, or the leader of a group."""
    for name, method in METHODS.items():
        service = method.containing_service.full_name
        if service not in BETWEEN_NODES and name != MOVE:
            yield name, ""
        if (kind := (BETWEEN_NODES | ALSO_LEADERS).get(service, "")) and method.name not in MANAGERS_ONLY:
            yield name, kind
    yield "txnstatus.Admin/ListTransactions", "range"
    yield "txnstatus.Savepoints/ListSavepoints", "shard"
    yield MOVE, "shard"


WAYS = list(ways())
EACH = pytest.mark.parametrize(("name", "kind"), WAYS, ids=[f"{name} {kind}".strip() for name, kind in WAYS])
