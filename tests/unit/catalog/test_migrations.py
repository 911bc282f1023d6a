"""Shards that go from one group to another, in the catalog."""

from __future__ import annotations

import pytest

from tests.unit.harness.catalogs import ok, refused, spread
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.migrations import half_of
from txnstatus.catalog.placement import Migration
from txnstatus.errors import IllegalState, InvalidArgument, NotFound


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
    with pytest.raises(InvalidArgument):
        half_of(catalog.state, "group-9")
    with pytest.raises(IllegalState, match="nothing to split"):
        half_of(spread(1, shards=1).state, "group-0")
