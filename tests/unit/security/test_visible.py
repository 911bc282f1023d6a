"""What users are shown: nothing of what they may not see."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from txnstatus.proto import admin_pb2 as admin
from txnstatus.proto import audit_pb2 as audit
from txnstatus.proto import catalog_pb2 as catalog
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import savepoint_pb2 as savepoint
from txnstatus.proto import txn_manager_pb2 as manager
from txnstatus.proto import txn_status_pb2 as status
from txnstatus.roles import Granted, Holder, Rights, Role, View
from txnstatus.security.visible import OF_CATALOG, SHOWN, shown_transaction

READER = View("ada", Rights([Granted("air.flights", "0.0", (Holder("ada", (Role.READER,)),))]))
OPERATOR = View("olga", Rights([Granted("", "", (Holder("olga", (Role.OPERATOR,)),))]))
SECRET = frozenset({"grants", "ticket_keys", "reserved"})
"""Fields of the catalog that no user is shown."""


def txn(owner: str, *tables: str) -> common.TxnInfo:
    return common.TxnInfo(
        txn_id=7,
        state="OPEN",  # type: ignore[arg-type]
        owner=owner,
        label="secret",
        begin_micros=5,
        commit_timestamp=9,
        cause=common.AbortCause(message="secret"),
        participants=[common.ParticipantInfo(participant_id="0.0", name=table) for table in tables],
    )


@pytest.mark.parametrize(
    ("view", "owner", "tables", "whole"),
    [
        (READER, "ada", ["air.legs"], True),
        (READER, "bob", ["air.flights"], True),
        (READER, "bob", ["air", "air.flights", "@billing"], True),
        (READER, "bob", ["air.flights", "air.legs"], False),
        (READER, "bob", ["@billing"], False),
        (READER, "bob", [], False),
        (OPERATOR, "bob", ["air.legs"], True),
    ],
)
def test_a_transaction_is_told_to_whom_it_concerns(view: View, owner: str, tables: Sequence[str], whole: bool) -> None:
    there = txn(owner, *tables)
    told = shown_transaction(view, there)
    if whole:
        assert told is there
    else:
        assert "secret" not in str(told)
        assert (told.txn_id, told.state, told.begin_micros, told.commit_timestamp) == (7, there.state, 5, 9)
        assert not told.owner
        assert not told.participants
    answer = manager.GetTransactionStateResponse(txn=there, waits_for="secret" if not whole else "it")
    assert "secret" not in str(SHOWN["txnstatus.TxnManager/GetTransactionState"](view, answer)) or whole
    page = status.ListTransactionsResponse(txns=[there], more=True, next=[status.Below(group="g", txn_id=7)])
    shown = SHOWN["txnstatus.Admin/ListTransactions"](view, page)
    assert (len(shown.txns), shown.more, len(shown.next)) == (int(whole), True, 1)


def test_every_field_of_the_catalog_is_shown_or_known_to_be_secret() -> None:
    fields = {field.name for field in catalog.CatalogState.DESCRIPTOR.fields}
    assert fields == OF_CATALOG | SECRET
    assert not OF_CATALOG & SECRET


def test_of_the_catalog_users_are_shown_no_grants_and_no_others_databases() -> None:
    state = catalog.CatalogState(
        version=3,
        nodes=[{"node_id": "n1", "address": "n1:1"}],
        replacement={"old_node": "n1", "new_node": "n2"},
        placements=[{"database": "air", "group": "group-1"}, {"database": "dark", "group": "group-1"}],
        grants=[{"object": "dark.t", "holders": [{"identity": "eve", "roles": ["admin"]}]}],
    )
    told = SHOWN["txnstatus.Admin/GetCluster"](READER, admin.GetClusterResponse(catalog=state)).catalog
    assert [each.database for each in told.placements] == ["air"]
    assert not told.grants
    assert (told.version, told.nodes[0].address, told.replacement.new_node) == (3, "n1:1", "n2")


def test_savepoints_and_locks_are_those_of_tables_that_one_sees() -> None:
    of = {"own": ("ada", ["air.legs"]), "seen": ("bob", ["air.flights"]), "both": ("bob", ["air.flights", "air.legs"])}
    all_there = [savepoint.SavepointInfo(name=name, owner=owner, tables=tables) for name, (owner, tables) in of.items()]
    all_there.append(savepoint.SavepointInfo(name="of all", owner="bob"))
    answer = savepoint.ListSavepointsResponse(savepoints=all_there)
    shown = SHOWN["txnstatus.Savepoints/ListSavepoints"]
    assert [each.name for each in shown(READER, answer).savepoints] == ["own", "seen"]
    assert len(shown(OPERATOR, answer).savepoints) == 4
    locks = audit.AuditTransactionResponse(locks=["air", "air.flights/day=1", "air.legs/day=1", "dark"])
    assert list(SHOWN["txnstatus.Audit/AuditTransaction"](READER, locks).locks) == ["air", "air.flights/day=1"]
