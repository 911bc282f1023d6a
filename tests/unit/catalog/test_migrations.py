"""Shards that go from one group to another, in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.harness.catalogs import ok, refused, spread
from txnstatus import features
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.migrations import half_of
from txnstatus.catalog.placement import Migration
from txnstatus.errors import IllegalState, InvalidArgument, NotFound, TxnError


def two_groups() -> Catalog:
    """Shards 0 to 3 in the first group, and 4 to 7 in the other one."""
    catalog = spread(1, shards=4)
    ok(catalog, add_group={"name": "group-1"})
    return catalog


def test_a_shard_is_of_its_old_group_until_it_is_in_the_new_one() -> None:
    catalog = two_groups()
    state = ok(catalog, migrate_shard={"shard": 1, "group": "group-1"})
    assert state.migrations == {"shard-1": Migration("group-1", state.version)}
    assert state.parts["shard-1"] == "group-0"
    ok(catalog, changes=False, migrate_shard={"shard": 1, "group": "group-1"})
    state = ok(catalog, finish_migration={"shard": 1, "number": state.version})
    assert state.parts["shard-1"] == "group-1"
    assert not state.migrations


def test_what_finishes_another_migration_changes_nothing() -> None:
    catalog = two_groups()
    first = ok(catalog, migrate_shard={"shard": 1, "group": "group-1"}).version
    ok(catalog, changes=False, finish_migration={"shard": 1, "number": first + 1})
    ok(catalog, changes=False, finish_migration={"shard": 2, "number": first})
    ok(catalog, finish_migration={"shard": 1, "number": first})
    back = ok(catalog, migrate_shard={"shard": 1, "group": "group-0"})
    assert back.migrations["shard-1"].number > first
    ok(catalog, changes=False, finish_migration={"shard": 1, "number": first})


@pytest.mark.parametrize(
    ("shard", "group", "kind"),
    [(9, "group-1", NotFound), *((1, group, InvalidArgument) for group in ("group-2", "catalog", ""))],
)
def test_a_shard_goes_nowhere_that_there_is_not(shard: int, group: str, kind: type[Exception]) -> None:
    assert type(refused(two_groups(), migrate_shard={"shard": shard, "group": group})) is kind


def test_a_shard_on_its_way_goes_nowhere_else() -> None:
    catalog = two_groups()
    ok(catalog, add_group={"name": "group-2"})
    ok(catalog, migrate_shard={"shard": 1, "group": "group-1"})
    error = refused(catalog, migrate_shard={"shard": 1, "group": "group-2"})
    assert isinstance(error, IllegalState)
    assert "group-1" in error.message


def test_a_shard_that_is_there_stays() -> None:
    ok(two_groups(), changes=False, migrate_shard={"shard": 1, "group": "group-0"})


def test_a_group_keeps_a_shard() -> None:
    """By whether it has one transactions begin in its ranges, or not."""
    catalog = two_groups()
    for shard in (0, 1, 2):
        state = ok(catalog, migrate_shard={"shard": shard, "group": "group-1"})
        if shard == 1:
            ok(catalog, finish_migration={"shard": shard, "number": state.version})
    assert isinstance(refused(catalog, migrate_shard={"shard": 3, "group": "group-1"}), IllegalState)
    ok(catalog, migrate_shard={"shard": 4, "group": "group-0"})
    assert isinstance(refused(catalog, migrate_shard={"shard": 3, "group": "group-1"}), IllegalState), "not there yet"


def test_what_an_old_state_says_does_not_end_a_migration() -> None:
    catalog = two_groups()
    before = catalog.state
    state = ok(catalog, migrate_shard={"shard": 1, "group": "group-1"})
    number = state.version
    assert not before.has_migrated("shard-1", number)
    assert not state.has_migrated("shard-1", number)
    assert ok(catalog, finish_migration={"shard": 1, "number": number}).has_migrated("shard-1", number)


def test_every_other_shard_leaves_a_group_that_is_split() -> None:
    catalog = two_groups()
    assert half_of(catalog.state, "group-0") == [1, 3]
    ok(catalog, migrate_shard={"shard": 1, "group": "group-1"})
    assert half_of(catalog.state, "group-0") == [2]
    with pytest.raises(InvalidArgument, match="'group-9' is no group of tables; there are group-0, group-1"):
        half_of(catalog.state, "group-9")
    with pytest.raises(IllegalState, match="nothing to split"):
        half_of(spread(1, shards=1).state, "group-0")


def test_a_group_whose_other_shards_are_on_their_way_is_told_from_one_with_one_shard() -> None:
    catalog = spread(1, shards=2)
    ok(catalog, add_group={"name": "group-1"})
    ok(catalog, migrate_shard={"shard": 1, "group": "group-1"})
    with pytest.raises(IllegalState, match="shard 1 is on its way to group-1"):
        half_of(catalog.state, "group-0")


def test_no_group_is_split_below_the_level_at_which_shards_move() -> None:
    """The group that is added first would be left, with nothing in it, and for good."""
    state = replace(two_groups().state, level=features.PLACES - 1)
    with pytest.raises(IllegalState, match="feature level 3; the cluster is at 2"):
        half_of(state, "group-0")


def test_a_shard_that_is_split_off_is_of_the_same_group() -> None:
    catalog = two_groups()
    state = ok(catalog, split_shard={"shard": 1, "new_shard": 8})
    number = state.version
    assert state.migrations == {"shard-1": Migration("group-0", number, 8)}
    assert state.parts["shard-8"] == "group-0"
    assert state.unborn == {"shard-8"}
    assert state.families[1] == [1, 8]
    ok(catalog, changes=False, split_shard={"shard": 1, "new_shard": 8})
    state = ok(catalog, finish_migration={"shard": 1, "number": number})
    assert not state.migrations
    assert not state.unborn
    ok(catalog, changes=False, split_shard={"shard": 1, "new_shard": 8})
    ok(catalog, split_shard={"shard": 8, "new_shard": 9})
    state = ok(catalog, split_shard={"shard": 2, "new_shard": 10})
    assert (state.families[1], state.families[2]) == ([1, 8, 9], [2, 10])
    assert CatalogState.from_wire(state.to_wire()) == state


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ({"split_shard": {"shard": 9, "new_shard": 9}}, NotFound),
        ({"split_shard": {"shard": 2, "new_shard": 8}}, InvalidArgument),
        ({"split_shard": {"shard": 2, "new_shard": 10}}, InvalidArgument),
        ({"split_shard": {"shard": 1, "new_shard": 9}}, IllegalState),
        ({"split_shard": {"shard": 8, "new_shard": 9}}, IllegalState),
        ({"split_shard": {"shard": 3, "new_shard": 9}}, IllegalState),
        ({"migrate_shard": {"shard": 1, "group": "group-1"}}, IllegalState),
        ({"migrate_shard": {"shard": 8, "group": "group-1"}}, IllegalState),
    ],
)
def test_what_is_being_split_or_is_on_its_way_stays_as_it_is(wanted: dict[str, object], kind: type[TxnError]) -> None:
    catalog = two_groups()
    ok(catalog, split_shard={"shard": 1, "new_shard": 8})
    ok(catalog, migrate_shard={"shard": 3, "group": "group-1"})
    assert type(refused(catalog, **wanted)) is kind


def test_half_of_a_group_is_of_whole_shards() -> None:
    catalog = two_groups()
    state = ok(catalog, split_shard={"shard": 1, "new_shard": 8})
    assert half_of(state, "group-0") == [2]


def test_new_tables_are_spread_over_what_was_split_off() -> None:
    catalog = two_groups()
    ok(catalog, split_shard={"shard": 1, "new_shard": 8})
    state = ok(catalog, migrate_shard={"shard": 2, "group": "group-1"})
    cluster = ClusterMap(state)
    names = [name for number in range(40) if cluster.shard_by_hash(name := f"air.t{number}") == 1]
    assert {cluster.shard_beside(1, name, "") for name in names} == {1, 8}
    assert {cluster.shard_beside(1, name, "group-0") for name in names} == {1, 8}
    assert {cluster.shard_beside(2, name, "group-1") for name in names} == {2}, "none of its family is there"
