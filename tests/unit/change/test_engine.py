"""One engine runs all statements of a process: what they share, and what none sees of another."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.unit.harness.changes import World, schema_of
from txnclient.change import duck, local, merging
from txnclient.change.merge import Merge
from txnstatus.errors import InternalError, InvalidArgument

SCHEMA = schema_of("id bigint, v int, s string")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.of(tmp_path, SCHEMA, [[{"id": n, "v": n % 5, "s": f"s{n}"} for n in range(100)]])


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> duckdb.DuckDBPyConnection:
    """An engine that no other test has."""
    monkeypatch.setattr(duck, "_engine", duck._Engine())
    return duck._engine.instance()


def still_works(world: World) -> bool:
    return local.delete(world.there, "v = 3").deleted == 20


FORKED = """
import os, sys
from pathlib import Path
from tests.unit.harness.changes import World, schema_of
from txnclient.change import duck, local

world = World.of(Path(sys.argv[1]), schema_of("id bigint, at timestamp"), [[{"id": n, "at": None} for n in range(50)]])
def said():
    with duck.connected() as connection:
        names = "'TimeZone'", "'disabled_optimizers'", "'enable_external_access'"
        settings = connection.execute(f"SELECT {', '.join(f'current_setting({name})' for name in names)}").fetchone()
    rows = local.update(world.there, {"at": "cast('2024-01-01 00:00:00' as timestamp)"}, "id % 5 = 1").rows
    return [os.getpid() != PARENT, settings, rows.num_rows, str(rows["at"][0])]

PARENT = os.getpid()
print(said(), flush=True)
child = os.fork()
if not child:
    print(said(), flush=True)
    sys.exit(7)  # not os._exit: the interpreter takes down what there is
_, status = os.waitpid(child, 0)
print(said(), os.waitstatus_to_exitcode(status), flush=True)
"""


def test_a_child_makes_an_engine_of_its_own_and_ends_as_it_should(tmp_path: Path) -> None:
    """The parent's has no threads in it: to run on it hung, and to take it down aborted. All times are in UTC."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)],
        env=os.environ | {"TZ": "Asia/Tokyo"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
    )
    settings = ("UTC", "filter_pushdown,join_filter_pushdown", False)
    answers = [[of_child, settings, 10, "2024-01-01 00:00:00+00:00"] for of_child in (False, True, False)]
    assert done.stdout.splitlines() == [str(answers[0]), str(answers[1]), f"{answers[2]} 7"], done.stderr


def test_statements_share_the_engine_and_see_nothing_of_each_other(
    world: World, instance: duckdb.DuckDBPyConnection
) -> None:
    with duck.connected() as one, duck.connected() as other:
        one.register("rows", pa.table({"a": [1]}))
        one.execute("CREATE TEMP TABLE made AS SELECT 1")
        for name in ("rows", "made"):
            one.execute(f"SELECT * FROM {name}")
            with pytest.raises(duckdb.CatalogException):
                other.execute(f"SELECT * FROM {name}")
    assert still_works(world)
    with duck.connected() as later:
        assert later.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)
        assert later.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)
    assert duck._engine.instance() is instance


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda there: local.delete(there, "v / 0 > 1"), "division by zero"),
        (lambda there: local.delete(there, "v = "), "does not read as Spark SQL"),
        (lambda there: local.update(there, {"v": "id + 3000000000"}, "true"), "out of range"),
        (lambda there: merged(there, pa.table({"id": pa.array([1], pa.duration("s"))})), "duration"),
        (lambda there: merged(there, pa.table({"id": pa.array([b"x"])})), "do not go together"),
    ],
)
def test_a_statement_that_is_refused_leaves_the_engine_as_it_was(
    world: World, instance: duckdb.DuckDBPyConnection, run: Any, said: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        run(world.there)
    assert said in str(caught.value)
    assert still_works(world)
    assert duck._engine.instance() is instance


def merged(there: Any, source: pa.Table) -> Any:
    return (
        Merge(there.name, there.schema, "target.id = source.id", lambda plan: merging.merge(there, source, plan))
        .when_matched_delete()
        .execute()
    )


def test_a_statement_beyond_the_memory_is_told_of_and_the_next_one_runs(
    world: World, instance: duckdb.DuckDBPyConnection
) -> None:
    instance.execute("SET memory_limit = '30MB'")
    too_much = "SELECT list(range) FROM range(30000000)"
    with pytest.raises(InternalError, match=r"db\.t: DuckDB failed: Out of Memory"), duck.connected() as connection:
        duck.run(connection, too_much, "db.t")
    assert still_works(world)
    assert duck._engine.instance() is instance


def test_an_engine_that_has_failed_for_good_is_left(world: World, instance: duckdb.DuckDBPyConnection) -> None:

    def fails() -> None:
        with duck.connected() as connection:
            connection.close()
            instance.close()  # nothing runs on it any more, as after a fault of DuckDB's own
            duck.run(connection, "SELECT 1", "db.t")

    with pytest.raises(InternalError, match="DuckDB failed"):
        fails()
    assert duck._engine.instance() is not instance
    assert still_works(world)


def test_statements_of_many_threads_have_each_their_own_rows(world: World) -> None:
    """All call their relations by the same names."""
    found: list[tuple[int, int, int]] = []

    def work(number: int) -> None:
        source = pa.table({"id": list(range(number)), "v": pa.array([number] * number, pa.int32())})
        changed = Merge(
            world.there.name, SCHEMA, "target.id = source.id", lambda plan: merging.merge(world.there, source, plan)
        )
        done = changed.when_matched_update({"v": "source.v"}).execute()
        found.append((number, done.updated, sum(done.rows["v"].to_pylist())))

    threads = [threading.Thread(target=work, args=[number], daemon=True) for number in range(1, 9)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(100)
    assert sorted(found) == [(number, number, number * number) for number in range(1, 9)]
