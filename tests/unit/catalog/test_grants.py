"""What is granted: by commands of the catalog, and as each process hears of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.harness.cluster import new_catalog
from txnstatus.catalog import commands as cmd
from txnstatus.catalog import grants
from txnstatus.catalog.catalog import CatalogState, from_wire, to_wire
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.client import access_by
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.errors import InvalidArgument, LimitReached, NotAuthorized
from txnstatus.proto import table_pb2
from txnstatus.replicated import Rejected
from txnstatus.roles import Granted, Holder, Role
from txnstatus.security.principals import Kind, Principal

ADA = Principal("air", Kind.USER, "ada")


def after(catalog: Catalog, *commands: cmd.Command) -> CatalogState:
    for command in commands:
        assert isinstance(catalog.apply(command), CatalogState)
    return catalog.state


def test_grants_are_added_and_taken_back_and_told_over_the_wire() -> None:
    catalog = new_catalog()
    state = after(
        catalog,
        cmd.Grant("air", "", "ada", "writer"),
        cmd.Grant("air", "", "ada", "reader"),
        cmd.Grant("", "", "olga", "operator"),
        cmd.Grant("air.t", "0.3", "bob", "owner"),
    )
    assert state.grants == {
        "air": Granted("air", "", (Holder("ada", (Role.READER, Role.WRITER)),)),
        "": Granted("", "", (Holder("olga", (Role.OPERATOR,)),)),
        "air.t": Granted("air.t", "0.3", (Holder("bob", (Role.OWNER,)),)),
    }
    assert from_wire(to_wire(state)) == state
    assert after(catalog, cmd.Grant("air", "", "ada", "writer")) is state, "what is granted already changes nothing"
    assert after(catalog, cmd.Revoke("air", "ada", "owner"), cmd.Revoke("no", "ada", "owner")) is state
    left = after(catalog, cmd.Revoke("air", "ada", "writer"), cmd.Revoke("", "olga", "operator"))
    assert left.grants.keys() == {"air", "air.t"}
    assert left.grants["air"].holders == (Holder("ada", (Role.READER,)),)


def test_what_is_granted_on_a_table_is_not_granted_on_a_later_one_of_its_name() -> None:
    catalog = new_catalog()
    first = after(catalog, cmd.Grant("air.t", "0.3", "bob", "owner"))
    assert after(catalog, cmd.ForgetGrants("air.t", "0.4")) is first
    assert after(catalog, cmd.ForgetGrants("air.t", "")) is first
    later = after(catalog, cmd.Grant("air.t", "0.9", "ada", "reader"))
    assert later.grants["air.t"] == Granted("air.t", "0.9", (Holder("ada", (Role.READER,)),))
    assert after(catalog, cmd.ForgetGrants("air.t", "0.3")) is later, "of the one that is gone"
    assert not after(catalog, cmd.ForgetGrants("air.t", "0.9")).grants


def test_what_is_granted_on_a_table_moves_to_its_new_name_in_whichever_step_it_is_interrupted() -> None:
    for done in range(4):
        catalog = new_catalog()
        before = after(
            catalog,
            *(cmd.Grant("air.t", "0.3", who, role) for who, role in (("bob", "owner"), ("ada", "reader"))),
            cmd.Grant("air.u", "0.1", "eve", "owner"),  # on a table that had the new name, and is gone
        )
        steps = grants.moved(before.grants["air.t"], "air.u")
        after(catalog, *steps[:done])  # somebody else begins anew
        found = after(catalog, *(grants.moved(catalog.state.grants["air.t"], "air.u") if done < len(steps) else ()))
        assert found.grants == {"air.u": replace(before.grants["air.t"], object="air.u")}
        assert len(steps) == 3


@pytest.mark.parametrize(
    "command",
    [
        cmd.Grant("air.t", "", "ada", "reader"),
        cmd.Grant("air", "0.1", "ada", "reader"),
        cmd.Grant("", "0.1", "ada", "reader"),
        cmd.Grant("air.t", "here", "ada", "reader"),
        cmd.Grant("a b.t.u", "0.1", "ada", "reader"),
        cmd.Grant("air", "", "node/n1", "reader"),
        cmd.Grant("air", "", "", "reader"),
        cmd.Grant("air", "", "a\nb", "reader"),
        cmd.Grant("air", "", "x" * 201, "reader"),
        cmd.Grant("air", "", "ada", "Reader"),
        cmd.Revoke("air", "ada", ""),
    ],
)
def test_what_cannot_be_granted_is_refused(command: cmd.Command) -> None:
    catalog = new_catalog()
    outcome = catalog.apply(command)
    assert isinstance(outcome, Rejected)
    assert type(outcome.error) is InvalidArgument
    assert not catalog.state.grants


def test_there_is_a_most_that_can_be_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "MAX_GRANTED", 2)
    catalog = new_catalog()
    after(catalog, cmd.Grant("air", "", "ada", "reader"), cmd.Grant("air", "", "bob", "reader"))
    outcome = catalog.apply(cmd.Grant("air", "", "eve", "reader"))
    assert isinstance(outcome, Rejected)
    assert type(outcome.error) is LimitReached
    assert "MAX_GRANTED = 2" in outcome.error.message
    after(catalog, cmd.Grant("air", "", "ada", "writer"))  # of who has one already


def test_a_process_goes_by_the_catalog_that_it_has_heard_of() -> None:
    catalog = new_catalog()
    cluster = ClusterMap(catalog.state)
    access = access_by(cluster, ["root"])
    scan = table_pb2.ScanRequest(table="air.t")

    def may(name: str) -> bool:
        try:
            access.check(replace(ADA, name=name), "txnstatus.Table/Scan", scan)
        except NotAuthorized:
            return False
        return True

    assert [may("ada"), may("root")] == [False, True]
    cluster.update(after(catalog, cmd.Grant("air", "", "ada", "reader")))
    assert [may("ada"), may("root")] == [True, True]
    before = access.rights
    cluster.update(after(catalog, cmd.SetOption("retention_ms", 1)))
    assert access.rights is before, "nothing is made anew where nothing was granted"
    cluster.update(after(catalog, cmd.Revoke("air", "ada", "reader"), cmd.Revoke("", "root", "admin")))
    assert [may("ada"), may("root")] == [False, True]
