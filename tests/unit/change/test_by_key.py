"""Tables with a primary key: the same statements, answered with positions in files, and the keys of rows in no file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.harness.changes import World, counted, schema_of
from txnclient.change import local, merging
from txnclient.change.merge import Merge
from txnclient.change.plan import RowsChanged
from txnclient.read.row_reads import RowChanges
from txnclient.read.table_files import TableFiles
from txnstatus.lake.rows import Change
from txnstatus.types import Timestamp

SCHEMA = schema_of("id bigint, v int, s string")
KEYED = replace(SCHEMA, primary_key=("id",))
SOURCE = pa.table({"id": [3, 4, 70, 71], "v": pa.array([1, None, 2, 3], pa.int32())})


def merged(build: Callable[[Merge[RowsChanged]], Merge[RowsChanged]]) -> Callable[[TableFiles], RowsChanged]:
    def run(there: TableFiles) -> RowsChanged:
        on = "target.id = source.id"
        return build(Merge("db.t", SCHEMA, on, lambda plan: merging.merge(there, SOURCE, plan))).execute()

    return run


STATEMENTS: list[Callable[[TableFiles], RowsChanged]] = [
    lambda there: local.delete(there, "id % 7 = 3"),
    lambda there: local.delete(there, "id between 12 and 17 and v is not null"),
    lambda there: local.delete(there, "true"),
    lambda there: local.delete(there, "v > 100"),
    lambda there: local.update(there, {"v": "v + 1"}, "s = 'b' or id < 5"),
    lambda there: local.update(there, {"id": "id + 1000"}, "id >= 25"),
    merged(lambda m: m.when_matched_delete(condition="source.v = 1").when_not_matched_insert({"id": "source.id"})),
    merged(lambda m: m.when_matched_update({"v": "source.v"}).when_not_matched_by_source_delete(condition="id > 20")),
    merged(lambda m: m.when_not_matched_by_source_update({"s": "'far'"}).when_matched_delete()),
]


@pytest.mark.parametrize("run", STATEMENTS)
def test_the_answer_is_that_by_position(tmp_path: Path, run: Callable[[TableFiles], RowsChanged]) -> None:
    rows = [{"id": n, "v": n if n % 4 else None, "s": "abc"[n % 3]} for n in range(30)]
    world = World.of(tmp_path, SCHEMA, [rows[:10], rows[10:20], rows[20:]])
    world.apply(local.delete(world.there, "id in (4, 13)"))
    by_position = run(world.there)
    by_key = run(replace(world.there, schema=KEYED))
    assert by_key.dead == by_position.dead
    assert by_key.gone is None or not by_key.gone.num_rows
    for name in ("inserted", "updated", "deleted", "looked"):
        assert getattr(by_key, name) == getattr(by_position, name)
    assert _counted(by_key.rows) == _counted(by_position.rows)


def test_rows_that_were_changed_by_key_are_seen_as_they_are(tmp_path: Path) -> None:
    world = World.of(tmp_path, SCHEMA, [[{"id": n, "v": 0, "s": "x"} for n in range(4)]])
    rows = pa.table({"id": [1, 9], "v": pa.array([5, 5], pa.int32()), "s": ["y", "z"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    change = Change(Timestamp(20), False, sink.getvalue().to_pybytes())
    changes = RowChanges((change,), (), Timestamp(0), Timestamp(30), (Timestamp(10),))
    there = replace(world.there, schema=KEYED, changes=changes)
    changed = local.update(there, {"v": "v + 1"}, "v = 5 or id = 0")
    assert sorted(changed.gone["id"].to_pylist()) == [1, 9]
    assert [list(positions) for positions in changed.dead.values()] == [[0]]
    assert sorted(changed.rows["v"].to_pylist()) == [1, 6, 6]
    assert not local.delete(there, "id = 1 and s = 'x'").gone.num_rows
    everything = local.delete(there, "true")
    assert ([list(positions) for positions in everything.dead.values()], everything.deleted) == ([[0, 2, 3]], 5)


def _counted(rows: pa.Table | None) -> object:
    return counted([] if rows is None else rows.to_pylist())
