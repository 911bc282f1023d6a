"""Limits of single users: by commands of the catalog, and as each process hears of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.harness.cluster import new_catalog
from txnstatus.catalog import commands as cmd
from txnstatus.catalog import limits
from txnstatus.catalog.catalog import CatalogState, from_wire, to_wire
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.client import access_by
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.options import OF_USERS
from txnstatus.errors import InvalidArgument, LimitReached, NotFound, TxnError
from txnstatus.proto import admin_pb2
from txnstatus.replicated import Rejected
from txnstatus.roles import Rights, Role, View
from txnstatus.security import visible
from txnstatus.shares import Shares

WAITS, OPEN = "user_lock_waits", "user_open_transactions"


def after(catalog: Catalog, *commands: cmd.Command) -> CatalogState:
    for command in commands:
        assert isinstance(catalog.apply(command), CatalogState)
    return catalog.state


def refused(catalog: Catalog, command: cmd.Command) -> TxnError:
    before = catalog.state
    outcome = catalog.apply(command)
    assert isinstance(outcome, Rejected)
    assert catalog.state is before
    return outcome.error


def test_a_limit_of_a_user_holds_in_place_of_the_option_until_it_is_taken_back() -> None:
    catalog = new_catalog()
    state = after(catalog, cmd.SetOption(WAITS, 9), cmd.SetLimit("ada", WAITS, 3), cmd.SetLimit("ada", OPEN, 0))
    assert [state.limit(user, WAITS) for user in ("ada", "bob")] == [3, 9]
    assert from_wire(to_wire(state)) == state
    assert after(catalog, cmd.SetLimit("ada", WAITS, 3)) is state, "it is that already"
    assert after(catalog, cmd.SetLimit("bob", WAITS, restores=True)) is state
    left = after(catalog, cmd.SetLimit("ada", WAITS, restores=True))
    assert left.limits == {"ada": {OPEN: 0}}, "no limit for her, whatever is set for all"
    assert left.limit("ada", WAITS) == 9
    assert not after(catalog, cmd.SetLimit("ada", OPEN, restores=True)).limits


def test_what_cannot_be_a_limit_is_named() -> None:
    catalog = new_catalog()
    for command, kind in {
        cmd.SetLimit("ada", "retention_ms", 3): NotFound,
        cmd.SetLimit("ada", "", 3): NotFound,
        cmd.SetLimit("", WAITS, 3): InvalidArgument,
        cmd.SetLimit("node/n1", WAITS, 3): InvalidArgument,
        cmd.SetLimit("ada", WAITS, -1): InvalidArgument,
        cmd.SetLimit("ada", WAITS, 2**31): InvalidArgument,
    }.items():
        assert type(refused(catalog, command)) is kind
    assert WAITS in refused(catalog, cmd.SetLimit("ada", "some", 3)).message, "it says what there is"


def test_there_is_a_most_of_users_with_limits_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LIMITED", 2)
    catalog = new_catalog()
    after(catalog, cmd.SetLimit("ada", WAITS, 1), cmd.SetLimit("bob", WAITS, 1))
    error = refused(catalog, cmd.SetLimit("eve", WAITS, 1))
    assert type(error) is LimitReached
    assert "MAX_LIMITED = 2" in error.message
    after(catalog, cmd.SetLimit("ada", OPEN, 1), cmd.SetLimit("bob", WAITS, restores=True))
    after(catalog, cmd.SetLimit("eve", WAITS, 1))


def test_a_process_goes_by_the_limits_that_it_has_heard_of() -> None:
    catalog = new_catalog()
    cluster = ClusterMap(catalog.state)
    users = access_by(cluster, []).users
    assert users.shares == Shares()
    cluster.update(after(catalog, *(cmd.SetOption(name, number) for number, name in enumerate(OF_USERS, start=1))))
    of_all = Shares(connections=2, begins_per_second=3, calls_mib=4, lock_waits=5, reads_per_second=6)
    assert users.shares == of_all
    cluster.update(after(catalog, cmd.SetLimit("ada", WAITS, 77)))
    assert users.own == {"ada": replace(of_all, lock_waits=77)}
    cluster.update(after(catalog, cmd.SetLimit("ada", WAITS, restores=True)))
    assert not users.own


def test_a_user_is_shown_his_own_limits_and_an_operator_all() -> None:
    catalog = new_catalog()
    state = to_wire(after(catalog, cmd.SetLimit("ada", WAITS, 1), cmd.SetLimit("bob", WAITS, 2)))

    def seen(name: str, *roles: Role) -> list[str]:
        rights = Rights(after(catalog, *(cmd.Grant("", "", name, role) for role in roles)).grants.values())
        return [each.identity for each in visible.shown_catalog(View(name, rights), state).limited]

    def told(name: str, role: Role) -> str | None:
        view = View(name, Rights(after(catalog, cmd.Grant("", "", name, role)).grants.values()))
        answer = visible.SHOWN["txnstatus.Admin/GetCluster"](view, admin_pb2.GetClusterResponse(catalog=state))
        return answer.limits_of if answer.HasField("limits_of") else None

    assert told("eve", Role.READER) == "eve"
    assert told("olga", Role.OPERATOR) is None
    assert seen("ada", Role.READER) == ["ada"]
    assert seen("eve", Role.READER) == []
    assert seen("olga", Role.OPERATOR) == ["ada", "bob"]
