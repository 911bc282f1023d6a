"""Nodes that join, are drained and leave, and the moves of replicas between them, in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.harness.catalogs import draining, joining, move, ok, refused, spread, swap
from tests.unit.harness.cluster import BOTH, new_catalog
from txnstatus.catalog import commands
from txnstatus.catalog.catalog import CATALOG
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import Drain, NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.placement import Move
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound
from txnstatus.proto import catalog_pb2 as pb


def four() -> Catalog:
    """Three groups and the catalog on three nodes, and one more node."""
    catalog = spread(3, shards=6)
    ok(catalog, add_node=joining("n3"))
    return catalog


def finish(catalog: Catalog) -> None:
    while catalog.state.moves:
        first = catalog.state.moves[0]
        ok(catalog, move_replica=move(first.group, first.old_node, first.new_node))


def test_a_node_that_joins_holds_nothing() -> None:
    catalog = spread(2, shards=4)
    before = catalog.state
    state = ok(catalog, add_node=joining("n3"))
    assert state.nodes == {**before.nodes, "n3": NodeInfo("n3:1", BOTH)}
    assert state.groups == before.groups
    ok(catalog, changes=False, add_node=joining("n3"))


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ({"node_id": "n1", "address": "other:1", "roles": BOTH}, AlreadyExists),
        ({"node_id": "n9", "address": "n1:1", "roles": BOTH}, AlreadyExists),
        ({"node_id": "../n9", "address": "n9:1", "roles": BOTH}, InvalidArgument),
        ({"node_id": "n9", "address": "n9", "roles": BOTH}, InvalidArgument),
        ({"node_id": "n9", "address": "n9:1", "roles": ["king"]}, InvalidArgument),
        ({"node_id": "n9", "address": "n9:1", "roles": []}, InvalidArgument),
    ],
)
def test_a_node_that_cannot_join_is_refused(wanted: dict[str, object], kind: type[Exception]) -> None:
    assert type(refused(spread(2, shards=4), add_node=wanted)) is kind


def test_replicas_move_to_a_node_that_joined() -> None:
    catalog = four()
    before = catalog.state.groups
    state = ok(catalog, rebalance={})
    assert state.groups == before, "nothing has moved yet"
    assert {each.new_node for each in state.moves} == {"n3"}
    assert len(state.moves) == 3
    first = state.moves[0]
    assert state.replicas(first.group) == (*before[first.group], "n3"), "it may lead before the catalog hears of it"
    ok(catalog, changes=False, rebalance={})
    finish(catalog)
    held = [sum(node in members for members in catalog.state.groups.values()) for node in catalog.state.nodes]
    assert sorted(held) == [3, 3, 3, 3]
    ok(catalog, changes=False, rebalance={})


def test_only_a_move_that_is_under_way_is_done() -> None:
    catalog = four()
    state = ok(catalog, rebalance={})
    first = state.moves[0]
    assert type(refused(catalog, move_replica=move(first.group, first.new_node, first.old_node))) is IllegalState
    assert type(refused(catalog, move_replica=move("group-77", "n1", "n3"))) is IllegalState
    ok(catalog, move_replica=move(first.group, first.old_node, first.new_node))
    assert type(refused(catalog, move_replica=move(first.group, first.old_node, first.new_node))) is IllegalState


def test_moves_are_taken_back_once() -> None:
    """A member that is to stay after all, and one that has come already, must both be there until it is settled."""
    catalog = four()
    state = ok(catalog, rebalance={})
    under_way = state.moves[0]
    state = ok(catalog, rebalance={"stops": True})
    back = next(each for each in state.moves if each.group == under_way.group)
    assert back == Move(under_way.group, under_way.new_node, under_way.old_node)
    assert set(state.replicas(back.group)) == {"n0", "n1", "n2", "n3"}
    ok(catalog, changes=False, rebalance={"stops": True})
    before = state.groups
    finish(catalog)
    assert catalog.state.groups == before


def test_a_group_that_is_too_small_gets_more_and_what_was_to_come_is_taken_back() -> None:
    nodes = {"n0": NodeInfo("n0:1", BOTH)}
    state = initial(nodes, participant_shards=1, replication=3, range_span=100, options=Options())
    catalog = Catalog(replace(state, version=1))
    for node in ("n1", "n2"):
        ok(catalog, add_node=joining(node))
    ok(catalog, rebalance={})
    ok(catalog, rebalance={"stops": True})
    finish(catalog)
    assert catalog.state.groups == {CATALOG: ("n0",), "group-0": ("n0",)}
    ok(catalog, rebalance={})
    finish(catalog)
    assert {frozenset(members) for members in catalog.state.groups.values()} == {frozenset({"n0", "n1", "n2"})}


def test_a_drained_node_keeps_its_replicas_and_gets_none() -> None:
    catalog = four()
    state = ok(catalog, drain_node=draining("n3", 1))
    assert state.drained == {"n3"}
    ok(catalog, changes=False, rebalance={})
    ok(catalog, changes=False, drain_node=draining("n3", 1))
    state = ok(catalog, drain_node=draining("n3", 0))
    assert state.nodes["n3"].drain is Drain.SERVES
    ok(catalog, rebalance={})


def test_a_node_leaves_from_beginning_to_end() -> None:
    catalog = four()
    state = ok(catalog, drain_node=draining("n1", 2))
    assert [each.group for each in state.moves][-1] == CATALOG
    assert {(each.old_node, each.new_node) for each in state.moves} == {("n1", "n3")}
    assert type(refused(catalog, remove_node={"node_id": "n1"})) is IllegalState
    state = ok(catalog, add_group={"name": "group-3"})
    assert "n1" not in state.groups["group-3"]
    finish(catalog)
    state = ok(catalog, remove_node={"node_id": "n1"})
    assert "n1" not in state.nodes
    assert state.revoked == {"node/n1"}
    ok(catalog, changes=False, remove_node={"node_id": "n1"})
    assert type(refused(catalog, add_node=joining("n1"))) is AlreadyExists


def test_a_node_whose_replicas_can_go_nowhere_cannot_leave() -> None:
    catalog = spread(2, shards=4)
    error = refused(catalog, drain_node=draining("n1", 2))
    assert type(error) is IllegalState
    assert "n1 cannot leave: its replica of group-0 could go nowhere" in error.message


def test_a_node_is_not_removed_while_one_is_to_come_to_it() -> None:
    catalog = four()
    ok(catalog, rebalance={})
    assert "holds replicas, or is to" in refused(catalog, remove_node={"node_id": "n3"}).message


def test_a_replacement_and_moves_exclude_each_other() -> None:
    catalog = four()
    ok(catalog, rebalance={})
    error = refused(catalog, replace_node=swap("n1", "n9"))
    assert type(error) is IllegalState
    assert error.hint == "wait for it, or take it back: txnctl rebalance --stop"
    other = new_catalog()
    ok(other, replace_node=swap("n2", "n9"))
    assert type(refused(other, rebalance={})) is IllegalState
    assert type(refused(other, drain_node=draining("n1", 2))) is IllegalState
    ok(other, drain_node=draining("n1", 1))


def test_what_is_no_node_is_told() -> None:
    catalog = four()
    assert type(refused(catalog, drain_node=draining("n9", 1))) is NotFound
    assert type(refused(catalog, remove_node={"node_id": "n9"})) is NotFound
    with pytest.raises(ValueError, match="7"):
        commands.from_wire(pb.CatalogCommand(drain_node={"node_id": "n1", "drain": 7}))
