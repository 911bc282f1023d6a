"""Predicates that look into another table, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.harness.changes import World, schema_of
from txnclient.change import local, merging
from txnclient.change.merge import Merge
from txnclient.change.plan import MergePlan, RowsChanged
from txnclient.read.table_files import TableFiles
from txnstatus.errors import InvalidArgument, NotFound

SCHEMA = schema_of("id bigint, v int")
OTHER = schema_of("`key` int, kind string")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.of(tmp_path / "t", SCHEMA, [[{"id": n, "v": n % 5} for n in range(10)]])


@pytest.fixture
def other(tmp_path: Path) -> World:
    rows = [{"key": 3, "kind": "a"}, {"key": 4, "kind": "b"}, {"key": 30, "kind": "a"}, {"key": None, "kind": "c"}]
    return World.of(tmp_path / "o", OTHER, [rows], "db.other")


def tables(world: World, other: World, name: str) -> TableFiles:
    found = {"db.t": world, "db.other": other}.get(name)
    if found is None:
        raise NotFound(f"there is no table {name}")
    return found.there


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        ("id IN (SELECT key FROM db.other)", [3, 4]),
        ("id IN (SELECT key FROM db.other WHERE kind = 'a')", [3]),
        ("id IN (SELECT o.key + 1 FROM db.other AS o WHERE o.kind <> 'c') AND v < 5", [4, 5]),
        ("id NOT IN (SELECT key FROM db.other)", []),
        ("id NOT IN (SELECT key FROM db.other WHERE key IS NOT NULL)", [0, 1, 2, 5, 6, 7, 8, 9]),
        ("v IN (SELECT v FROM db.t WHERE id = 7) OR id IN (SELECT other.key FROM db.other)", [2, 3, 4, 7]),
        ("id IN (SELECT key FROM db.other WHERE kind = 'none')", []),
        ("id IN (SELECT 5 FROM db.other)", [5]),
    ],
)
def test_rows_are_found_by_what_is_in_another_table(world: World, other: World, predicate: str, ids: list[int]) -> None:
    changed = local.delete(world.there, predicate, tables=lambda name: tables(world, other, name))
    assert [at for positions in changed.dead.values() for at in positions] == ids


def test_new_values_and_conditions_of_a_merge_look_into_tables_too(world: World, other: World) -> None:
    def run(plan: MergePlan) -> RowsChanged:
        return merging.merge(world.there, source, plan, tables=lambda name: tables(world, other, name))

    values = {"v": "CASE WHEN id IN (SELECT key FROM db.other) THEN 100 ELSE v END"}
    updated = local.update(world.there, values, "id < 5", tables=lambda name: tables(world, other, name))
    assert updated.rows["v"].to_pylist() == [0, 1, 2, 100, 100]
    source = pa.table({"id": pa.array([3, 5, 30, 31], pa.int64())})
    merge = Merge("db.t", SCHEMA, "target.id = source.id", run)
    among = "source.id IN (SELECT key FROM db.other)"
    changed = (
        merge.when_matched_delete(condition=among)
        .when_not_matched_insert({"id": "source.id"}, condition=among)
        .execute()
    )
    assert (changed.deleted, changed.inserted, changed.rows["id"].to_pylist()) == (1, 1, [30])


@pytest.mark.parametrize(
    ("predicate", "error", "why"),
    [
        ("id IN (SELECT key FROM other)", InvalidArgument, "database.table"),
        ("id IN (SELECT key FROM db.nowhere)", NotFound, "no table db.nowhere"),
        ("id IN (SELECT nothing FROM db.other)", InvalidArgument, "no column 'nothing'"),
        ("id IN (SELECT key FROM db.other WHERE key = t.id)", InvalidArgument, "no column 't.id'"),
        ("id IN (SELECT key, kind FROM db.other)", InvalidArgument, "SELECT one value"),
        ("id IN (SELECT DISTINCT key FROM db.other)", InvalidArgument, "SELECT one value"),
        ("id IN (SELECT key FROM db.other GROUP BY key)", InvalidArgument, "SELECT one value"),
        ("id IN (SELECT key FROM db.other WHERE kind)", InvalidArgument, "WHERE is string"),
        ("id IN (SELECT kind FROM db.other)", InvalidArgument, "do not go together"),
        ("id IN (SELECT key FROM db.other WHERE key IN (SELECT key FROM db.other))", InvalidArgument, "query inside"),
        ("id = (SELECT key FROM db.other)", InvalidArgument, "query inside"),
        ("EXISTS (SELECT 1 FROM db.other)", InvalidArgument, "query inside"),
    ],
)
def test_queries_that_are_not_understood_are_refused(
    world: World, other: World, predicate: str, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        local.delete(world.there, predicate, tables=lambda name: tables(world, other, name))
