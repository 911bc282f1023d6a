"""DELETE, UPDATE and MERGE one by one: what they answer, what they read, and what they refuse."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyroaring import BitMap

from tests.unit.harness.changes import Row, World, counted, schema_of
from txnclient.change import local, merging, scan
from txnclient.change.merge import Merge
from txnclient.change.plan import Looked, RowsChanged
from txnclient.change.scan import Scan
from txnclient.formats import arrow
from txnstatus.errors import DataDamaged, InvalidArgument
from txnstatus.lake import data_files

SCHEMA = schema_of("id bigint, v int, s string")


def row(number: int, v: int | None = 0, s: str | None = "x") -> Row:
    return {"id": number, "v": v, "s": s}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three files of ten rows: ids 0 to 9, 10 to 19, 20 to 29."""
    return World.of(tmp_path, SCHEMA, [[row(part * 10 + n) for n in range(10)] for part in range(3)])


def merge(world: World, source: Any, on: str = "target.id = source.id") -> Merge[RowsChanged]:
    there = world.there
    return Merge(there.name, there.schema, on, lambda plan: merging.merge(there, source, plan))


def ids(world: World) -> list[int]:
    return sorted(each["id"] for each in world.rows())


class Reads:
    """The files that were looked at, and the row groups and columns that were read."""

    def __init__(self) -> None:
        self.files: list[int] = []
        self.groups: list[tuple[int, int, tuple[str, ...]]] = []
        """File, first row, and the engine's names of the columns, of each group."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    found = Reads()
    check, read = data_files.check, Scan._read

    def counted_check(files: Any, *rest: Any) -> None:
        found.files.append(len(files))
        check(files, *rest)

    def counted_read(self: Scan, names: Any, task: Any, **options: Any) -> Any:
        found.groups.append((task.number, task.offset, tuple(names)))
        return read(self, names, task, **options)

    monkeypatch.setattr(data_files, "check", counted_check)
    monkeypatch.setattr(Scan, "_read", counted_read)
    yield found
    found.groups.sort()


# ---- what they answer


def test_positions_are_those_of_the_file_as_it_is_stored(world: World) -> None:
    world.apply(local.delete(world.there, "id in (10, 12)"))
    changed = local.delete(world.there, "id between 10 and 14")
    assert changed.deleted == 3
    assert dict(changed.dead) == {world.there.files[1].path: BitMap([1, 3, 4])}


def test_a_delete_of_all_reads_nothing(world: World, reads: Reads) -> None:
    world.apply(local.delete(world.there, "id = 3"))
    reads.groups.clear()
    changed = local.delete(world.there, " TRUE ")
    assert changed.deleted == 29
    assert reads.groups == []
    world.apply(changed)
    assert world.rows() == []
    assert local.delete(world.there, "true") == RowsChanged({})
    assert local.delete(world.there, "false") == RowsChanged({})


def test_nothing_is_hit_where_a_predicate_is_null(world: World) -> None:
    world.add(
        pa.Table.from_pylist([row(50, None)], schema=pa.schema([("id", "int64"), ("v", "int32"), ("s", "string")]))
    )
    assert local.delete(world.there, "v <> 0").deleted == 0
    assert local.delete(world.there, "not (v = 0)").deleted == 0
    assert local.delete(world.there, "v = null or id = 50").deleted == 1
    assert local.delete(world.there, "v <=> null").deleted == 1


def test_new_values_are_computed_from_the_old_ones_all_at_once(world: World) -> None:
    changed = local.update(world.there, {"V": "cast(id as int) + 1", "id": "v + 100", "s": "concat(s, 'y')"}, "ID = 7")
    assert (changed.updated, changed.inserted, changed.deleted) == (1, 0, 0)
    assert changed.rows.to_pylist() == [row(100, 8, "xy")]
    world.apply(changed)
    assert 7 not in ids(world)


def test_an_update_that_hits_nothing_adds_nothing(world: World) -> None:
    assert local.update(world.there, {"v": "1"}, "id > 100") == RowsChanged({})


def test_a_table_without_files() -> None:
    there = World(Path(), replace(World.of(Path(), SCHEMA, []).there)).there
    assert local.delete(there, "id = 1") == RowsChanged({})
    assert local.update(there, {"v": "1"}, "true") == RowsChanged({})
    source = pa.table({"id": [1], "v": pa.array([2], pa.int32()), "s": ["n"]})
    inserting = Merge("db.t", SCHEMA, "target.id = source.id", lambda plan: merging.merge(there, source, plan))
    changed = inserting.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (changed.inserted, changed.rows.to_pylist()) == (1, [row(1, 2, "n")])


def test_a_merge_within_bounds_reads_and_matches_no_more(world: World, reads: Reads) -> None:
    """Rows of files count in which matches can be, by the ranges of the source's values."""
    source = pa.table({"id": [3, 3, 12], "v": pa.array([1, 2, 3], pa.int32()), "s": ["n"] * 3})

    def run(bounds: merging.Bounds) -> RowsChanged:
        merge = Merge(
            "db.t",
            SCHEMA,
            "target.id = source.id",
            lambda plan: merging.merge(world.there, source, plan, bounds=bounds),
        )
        return merge.when_matched_delete().execute()

    assert run(merging.Bounds(rows=20, pairs=3)).deleted == 2
    reads.groups.clear()
    with pytest.raises(merging.BeyondBoundsError):
        run(merging.Bounds(rows=19, pairs=3))
    assert reads.groups == []
    with pytest.raises(merging.BeyondBoundsError):
        run(merging.Bounds(rows=20, pairs=2))


def test_rows_move_to_another_partition(tmp_path: Path) -> None:
    schema = schema_of("id bigint, month int", ["month"])
    world = World.of(tmp_path, schema, [[{"id": n, "month": n % 2} for n in range(6)]])
    world.apply(local.update(world.there, {"month": "month + 5"}, "month = 1 and id > 1"))
    assert sorted(file.partition for file in world.there.files) == ["month=0", "month=1", "month=6"]
    assert {each["id"]: each["month"] for each in world.rows()} == {0: 0, 1: 1, 2: 0, 3: 6, 4: 0, 5: 6}


def test_structs_are_read_and_set_by_field(tmp_path: Path) -> None:
    schema = schema_of("id bigint, st struct<A:int,b:struct<c:string>>, `odd name` int, `x.y` int")
    rows = [{"id": n, "st": {"A": n, "b": {"c": f"c{n}"}}, "odd name": n, "x.y": n} for n in range(4)]
    world = World.of(tmp_path, schema, [rows])
    assert local.delete(world.there, "ST.a = 1 or st.B.c = 'c2' or `odd name` = 3 or `X.Y` = 0").deleted == 4
    assert local.delete(world.there, "t.st.a = 1 or db.T.id = 2").deleted == 2
    text = "named_struct('A', st.a + 10, 'b', named_struct('c', upper(st.b.c)))"
    changed = local.update(world.there, {"st": text}, "id = 1")
    assert changed.rows.to_pylist()[0]["st"] == {"A": 11, "b": {"c": "C1"}}


def test_numbers_are_stored_as_spark_stores_them(tmp_path: Path) -> None:
    schema = schema_of("t tinyint, p decimal(6,2), x double, f float, b bigint, d date, at timestamp, n timestamp_ntz")
    old = {"t": 1, "p": Decimal("1.00"), "x": 0.0, "f": 0.0, "b": 0, "d": None, "at": None, "n": None}
    world = World.of(tmp_path, schema, [[old]])
    texts = {
        "t": "t + 1",
        "p": "p * 1.005",
        "x": "1 / 8",
        "f": "0.5",
        "b": "7.9",
        "d": "date'2024-02-29' + interval 1 year",
        "at": "timestamp'2024-01-01 02:00:00+02:00'",
        "n": "cast('2024-01-01 02:00:00.5' as timestamp_ntz)",
    }
    assert local.update(world.there, texts, "true").rows.to_pylist() == [
        {
            "t": 2,
            "p": Decimal("1.01"),
            "x": 0.125,
            "f": 0.5,
            "b": 7,
            "d": dt.date(2025, 2, 28),
            "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            "n": dt.datetime(2024, 1, 1, 2, 0, 0, 500_000),
        }
    ]


# ---- MERGE


@pytest.mark.parametrize(
    "as_source",
    [
        lambda rows: rows,
        lambda rows: rows.to_batches()[0],
        lambda rows: rows.to_reader(),
        lambda rows: rows.to_pandas(),
        pl.from_arrow,
    ],
    ids=["table", "batch", "reader", "pandas", "polars"],
)
def test_a_source_of_any_kind_whose_columns_are_in_any_order_and_case(
    world: World, as_source: Callable[[pa.Table], Any]
) -> None:
    rows = pa.table({"S": ["new", "newer"], "Id": [5, 500], "V": pa.array([7, 8], pa.int32()), "more": [1.5, 2.5]})
    changed = (
        merge(world, as_source(rows))
        .when_matched_update_all(condition="source.more < 2")
        .when_not_matched_insert_all()
        .execute()
    )
    assert (changed.updated, changed.inserted) == (1, 1)
    assert changed.rows.to_pylist() == [row(5, 7, "new"), row(500, 8, "newer")]
    assert changed.looked == (Looked("id", "5", "500"),)


def test_the_first_clause_whose_condition_holds_acts(world: World) -> None:
    source = pa.table({"id": [1, 2, 3, 100, 101, 102], "kind": ["a", "b", None, "a", "b", None]})
    changed = (
        merge(world, source)
        .when_matched_delete(condition="kind = 'a'")
        .when_matched_update({"s": "kind"}, condition="source.kind <> 'z'")
        .when_not_matched_insert({"id": "source.id", "s": "'first'"}, condition="kind = 'b'")
        .when_not_matched_insert({"id": "source.id"}, condition="kind is null")
        .when_not_matched_by_source_update({"v": "target.v + 1"}, condition="target.id >= 28")
        .when_not_matched_by_source_delete(condition="target.id >= 25")
        .execute()
    )
    assert (changed.inserted, changed.updated, changed.deleted) == (2, 3, 4)
    world.apply(changed)
    found = {each["id"]: (each["v"], each["s"]) for each in world.rows()}
    assert found == {n: (0, "x") for n in range(25) if n != 1} | {
        2: (0, "b"),
        28: (1, "x"),
        29: (1, "x"),
        101: (None, "first"),
        102: (None, None),
    }


def test_nulls_do_not_match_but_by_the_null_safe_sign(tmp_path: Path) -> None:
    world = World.of(tmp_path, SCHEMA, [[{"id": None, "v": 1, "s": "x"}]])
    source = pa.table({"id": pa.array([None], pa.int64())})
    assert merge(world, source).when_matched_delete().execute() == RowsChanged({})
    inserting = merge(world, source).when_matched_delete().when_not_matched_insert({"id": "source.id"}).execute()
    assert (inserting.inserted, inserting.deleted, inserting.looked) == (1, 0, ())
    assert merge(world, source, "target.id <=> source.id").when_matched_delete().execute().deleted == 1


def test_a_row_that_two_source_rows_change_is_refused_by_name(world: World) -> None:
    source = pa.table({"id": [4, 4, 5], "v": pa.array([1, 2, 3], pa.int32())})
    with pytest.raises(InvalidArgument, match=r"1 rows of table db.t are each matched by several .*: \(id=4\)"):
        merge(world, source).when_matched_update({"v": "source.v"}).execute()
    with pytest.raises(InvalidArgument, match="matched by several"):
        merge(world, source).when_matched_delete(condition="source.v < 3").execute()
    # Only one of the two acts; or what both do is the same, as in Spark.
    assert merge(world, source).when_matched_update({"v": "source.v"}, condition="source.v > 1").execute().updated == 2
    assert merge(world, source).when_matched_delete().execute().deleted == 2


@pytest.mark.parametrize(
    ("on", "count"), [("true", 30), ("source.id = 1", 30), ("source.id = 2", 0), ("target.id < 3", 3)]
)
def test_an_on_that_names_no_column_of_one_side(world: World, on: str, count: int) -> None:
    """Without a column of the table no row matched, and nobody was told."""
    assert merge(world, pa.table({"id": [1]}), on).when_matched_delete().execute().deleted == count
    kept = merge(world, pa.table({"id": [1]}), on).when_not_matched_by_source_delete().execute()
    assert kept.deleted == 30 - count
    inserted = merge(world, pa.table({"id": [1], "v": [1], "s": ["x"]}), on).when_not_matched_insert_all().execute()
    assert inserted.inserted == (not count)


def test_days_and_times_beyond_the_years_of_python(tmp_path: Path) -> None:
    """They were on their way through Python twice, and the statement failed as a fault of DuckDB's."""
    days = pa.array([2_932_897, -719_163, 0], pa.int32()).cast(pa.date32())
    times = pa.array([253_402_300_800_000_000, -(1 << 62), 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    world = World.of(tmp_path, schema_of("d date, t timestamp, v bigint"), [])
    world.add(pa.table({"d": days, "t": times, "v": pa.array([1, 2, 3], pa.int64())}))
    source = pa.table({"d": days, "t": times, "v": pa.array([4, 5, 6], pa.int64())})
    on = "target.d = source.d AND target.t = source.t"
    assert merge(world, source, on).when_matched_update_all().execute().updated == 3
    assert merge(world, source, on).when_not_matched_insert_all().execute().inserted == 0
    with pytest.raises(InvalidArgument, match=r"\(d=10000-01-01, t=.*\)"):
        merge(world, pa.concat_tables([source, source]), on).when_matched_update_all().execute()


def test_an_insert_that_comes_twice_is_two_rows(world: World) -> None:
    source = pa.table({"id": [40, 40]})
    assert merge(world, source).when_not_matched_insert({"id": "source.id"}).execute().inserted == 2


def test_where_it_looked_is_told_column_by_column(world: World) -> None:
    source = pa.table({"id": [3, 90, None], "s": ["b", "a", "c"], "v": pa.array([1, 2, 3], pa.int64())})

    def looked(on: str) -> tuple[Looked, ...]:
        return merge(world, source, on).when_not_matched_insert({"id": "source.id"}).execute().looked

    assert looked("target.id = source.id and source.s = target.s") == (Looked("id", "3", "90"), Looked("s", "a", "c"))
    assert looked("target.id = source.id * 2 and target.v > 1") == (Looked("id", "6", "180"),)
    assert looked("target.id = source.id or target.v = source.v") == ()
    assert looked("target.id > source.id") == ()
    assert merge(world, source).when_matched_delete().execute().looked == ()


# ---- what they read


def test_only_files_and_row_groups_that_may_hit_are_read(
    tmp_path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "ROWS_PER_GROUP", 4)
    world = World.of(tmp_path, SCHEMA, [[row(part * 10 + n) for n in range(10)] for part in range(3)])
    assert local.delete(world.there, "id = 15").deleted == 1
    assert (reads.files, reads.groups) == ([1], [(1, 4, ("t0",))])
    reads.groups.clear()
    changed = local.update(world.there, {"v": "2"}, "id >= 8 and id < 12 and s = 'x'")
    assert changed.updated == 4
    looked = [(0, 8, ("t0", "t2")), (1, 0, ("t0", "t2"))]
    assert sorted(reads.groups) == sorted([*looked, (0, 8, ("t0", "t2")), (1, 0, ("t0", "t2"))])
    reads.groups.clear()
    source = pa.table({"id": [1, 3], "v": pa.array([1, 2], pa.int32()), "s": ["a", "b"]})
    changed = merge(world, source).when_matched_update_all().when_not_matched_insert_all().execute()
    assert changed.updated == 2
    assert reads.groups == [(0, 0, ("t0",))], "the source has all that the new rows have"


def test_the_engine_is_given_only_rows_that_may_hit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.apply(local.delete(world.there, "id = 12"))
    given: list[int] = []
    rows = Scan.rows

    def told(self: Scan, *args: Any, **options: Any) -> Iterator[pa.Table]:
        for part in rows(self, *args, **options):
            given.extend(part["t0"].to_pylist())
            yield part

    monkeypatch.setattr(Scan, "rows", told)
    assert local.delete(world.there, "id between 11 and 14 and id % 2 = 1").deleted == 2
    assert given == [11, 13, 14]


@pytest.mark.parametrize(
    ("predicate", "hit"),
    [
        ("d < 1.0 or d = 2.0", ["-0.0", "0.0", "2.0"]),
        ("d = 0.0", ["-0.0", "0.0"]),
        ("d > 1.0", ["2.0", "inf", "nan"]),
        ("d in (0.0, 2.0, null)", ["-0.0", "0.0", "2.0"]),
        ("d is null or d <= 0", ["-0.0", "0.0", "None"]),
        ("d is not null and d between 0 and 2", ["-0.0", "0.0", "2.0"]),
        ("d <=> 2.0", ["2.0"]),
        ("not (d <= 2.0)", ["inf", "nan"]),
    ],
)
def test_what_is_looked_at_before_the_engine_holds_as_it_does_there(
    tmp_path: Path, predicate: str, hit: list[str]
) -> None:
    """pyarrow has another place for NaN than SQL has."""
    values = [float("nan"), -0.0, 0.0, 2.0, None, float("inf")]
    world = World.of(tmp_path, schema_of("d double"), [[{"d": value} for value in values]])
    world.apply(local.delete(world.there, predicate))
    left = sorted(str(each["d"]) for each in world.rows())
    assert left == sorted({str(value) for value in values} - set(hit))


def test_files_whose_rows_are_all_dead_are_not_opened(world: World, reads: Reads) -> None:
    world.apply(local.delete(world.there, "id < 10"))
    reads.files.clear()
    assert local.delete(world.there, "s = 'x'").deleted == 20
    assert reads.files == [2]


def test_damage_is_named_whatever_reads_it(world: World) -> None:
    file = world.there.files[1]
    path = Path(file.path.removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    source = pa.table({"id": [15], "s": ["x"]})
    for run in (
        lambda: local.delete(world.there, "id = 15"),
        lambda: local.update(world.there, {"v": "1"}, "s = 'x'"),
        lambda: merge(world, source).when_matched_delete().execute(),
        lambda: merge(world, source).when_not_matched_by_source_delete(condition="target.v = 0").execute(),
    ):
        with pytest.raises(DataDamaged, match=path.name):
            run()
    assert local.delete(world.there, "id = 5").deleted == 1


def test_damage_within_a_page_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "WHOLE_BYTES", 64)
    world = World.of(tmp_path, SCHEMA, [[row(n) for n in range(1000)]])
    path = Path(world.there.files[0].path.removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataDamaged, match=path.name):
        local.delete(world.there, "id = 15 and v = 0 and s = 'x'")


def test_texts_of_rows_that_change_are_read_by_dictionary_where_the_file_has_them_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dictionary of texts that hardly repeat is given up as they are written; to make one takes long."""
    monkeypatch.setattr(scan, "DICTIONARY_BYTES", 0)
    by_dictionary, columns = scan._by_dictionary, list[list[str]]()

    def noted(*asked: Any) -> list[str]:
        columns.append(by_dictionary(*asked))
        return columns[-1]

    monkeypatch.setattr(scan, "_by_dictionary", noted)
    schema = schema_of("id bigint, few string, own string, raw binary")
    rows = [
        {
            "id": number,
            "few": None if number % 7 == 0 else f"text {number % 5}",
            "own": f"a text that is this row's own: {number}",
            "raw": bytes([number % 3]),
        }
        for number in range(2_000)
    ]
    world = World.of(tmp_path, schema, [rows[:1_000], rows[1_000:]])
    world.apply(local.update(world.there, {"id": "id + 10000"}, "id % 100 < 2 or id = 1999"))
    changed = [each | {"id": each["id"] + 10_000 * (each["id"] % 100 < 2 or each["id"] == 1_999)} for each in rows]
    assert counted(world.rows()) == counted(changed)
    assert columns == [["few", "raw"], ["few", "raw"]]


def test_files_that_are_far_away_are_read_ahead_and_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Reads
) -> None:
    monkeypatch.setattr(arrow, "ROWS_PER_GROUP", 3)
    world = World.of(tmp_path, SCHEMA, [[row(part * 10 + n, n) for n in range(10)] for part in range(3)])
    near = local.update(world.there, {"s": "concat(s, s)"}, "v % 4 = 1")
    groups = sorted(reads.groups)
    reads.groups.clear()
    ahead, read_ahead = list[int](), scan._read_ahead
    monkeypatch.setattr(scan, "is_near", lambda uri: False)

    def noted(*asked: Any) -> Any:
        ahead.append(1)
        return read_ahead(*asked)

    monkeypatch.setattr(scan, "_read_ahead", noted)
    far = local.update(world.there, {"s": "concat(s, s)"}, "v % 4 = 1")
    assert (far.dead, far.rows, far.updated) == (near.dead, near.rows, 9)
    assert (len(ahead), sorted(reads.groups)) == (2, groups)


def test_many_statements_at_once_do_not_wait_for_each_other_for_ever(tmp_path: Path) -> None:
    """Each held one of Arrow's threads for files while it waited for files to be read: eight of them hung a program."""
    before = pa.io_thread_count()
    pa.set_io_thread_count(4)
    world = World.of(tmp_path, SCHEMA, [[row(part * 10 + n) for n in range(10)] for part in range(12)])
    done: list[int] = []

    def work() -> None:
        for _ in range(3):
            done.append(local.delete(world.there, "s = 'x' or id < 0").deleted)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join(100)
        assert done == [done[0]] * 24
    finally:
        pa.set_io_thread_count(before)


# ---- what they refuse


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("", "expected an SQL expression as text, not ''"),
        (None, "not None"),
        ("id = ", "does not read as Spark SQL"),
        ("id = 1; delete from t", "expected one expression, there are 2"),
        ("id = 1 v", "does not read as Spark SQL"),
        ("-- nothing", "expected one expression, there are 0"),
        ("drop table t", "Drop cannot be used"),
        ("nope = 1", "there is no column 'nope': there are id, v, s"),
        ("other.id = 1", "there is no column 'other.id'"),
        ("id.x = 1", "bigint has no field 'x'"),
        ("id", "it is bigint, and has to be true or false"),
        ("1 = 1", "it names no column"),
        ("'id' <> 'x'", "it names no column"),
        ("id = 'x'", "bigint and string do not go together"),
        ("s > 5", "string and int do not go together"),
        ("not v", "v is int, where boolean is expected"),
        ("id in (select id from db.t)", "a query inside cannot be used without Spark"),
        ("exists (select 1 from db.t)", "a query inside cannot be used"),
        ("count(*) > 1", "Count cannot be used"),
        ("rand() < 0.5", "Rand cannot be used"),
        ("my_function(id)", "there is no such function"),
        ("s = 'it''s'", "two strings touch"),
        ("s rlike '('", "missing )"),
        ("(" * 2000 + "id = 1" + ")" * 2000, "too many parts in each other"),
        ("v / 0 > 1", "division by zero"),
        ("cast(s as int) = 1", "a string does not read as int: x"),
        ("id * 9223372036854775807 > 1", "Overflow"),
        ("id between 3", "BETWEEN is not complete, at character 12"),
        ('"ID" > 1', "'ID' in quotes is a text; the column is `id`"),
    ],
)
def test_a_predicate_that_cannot_be_is_refused(world: World, predicate: Any, said: str) -> None:
    for run in (local.delete, lambda there, text: local.update(there, {"v": "1"}, text)):
        with pytest.raises(InvalidArgument) as caught:
            run(world.there, predicate)
        assert said in str(caught.value)
        assert "db.t" in str(caught.value)


def test_who_needs_spark_is_told_how_to_give_it(world: World) -> None:
    for predicate in ("rand() < 0.5", "my_function(id)", "id in (select max(id) from db.t group by v)"):
        with pytest.raises(InvalidArgument) as refused:
            local.delete(world.there, predicate, tables=lambda _: world.there)
        assert "spark=..." in refused.value.hint


def test_what_is_not_looked_at_is_no_error(world: World) -> None:
    assert local.delete(world.there, "id <> 0 and 10 / id >= 5").deleted == 2
    assert local.delete(world.there, "id = 0 or 10 / id >= 5").deleted == 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "a mapping of columns"),
        ({"nope": "1"}, "'nope' is set, and is not a column of table db.t"),
        ({"v": "1", "V": "2"}, "'v' of table db.t is set twice"),
        ({"v": 1}, "SQL expression as text, not 1"),
        ({"v": "s"}, "column 'v' is int, and its new value 's' is string"),
        ({"v": "id = 1"}, "its new value 'id = 1' is boolean"),
        ({"s": "v"}, "column 's' is string, and its new value 'v' is int"),
        ({"v": "nope"}, "column 'v' of table db.t set to 'nope': there is no column 'nope'"),
        ({"v": "max(v)"}, "Max cannot be used"),
        ({"v": "id + 3000000000"}, "out of range"),
        ({"id": "null"}, "column 'id' of table db.t is NOT NULL"),
        ({"v": "1 1"}, "does not read as Spark SQL"),
    ],
)
def test_values_that_cannot_be_are_refused(tmp_path: Path, values: Any, said: str) -> None:
    world = World.of(tmp_path, schema_of("id bigint NOT NULL, v int, s string"), [[row(1)]])
    with pytest.raises(InvalidArgument) as caught:
        local.update(world.there, values, "true")
    assert said in str(caught.value)


SOURCE = pa.table({"id": [1], "v": pa.array([1], pa.int64()), "o": ["x"]})


@pytest.mark.parametrize(
    ("source", "on", "build", "said"),
    [
        ([1], "target.id = source.id", lambda m: m.when_matched_delete(), "not list"),
        (pd.DataFrame({"id": [1], "ID": [2]}), "true", lambda m: m.when_matched_delete(), "has column 'ID' twice"),
        (SOURCE, "id = o", lambda m: m.when_matched_delete(), "column 'id' is ambiguous: write target.id or source.id"),
        (SOURCE, "target.o = 1", lambda m: m.when_matched_delete(), "there is no column 'target.o'"),
        (SOURCE, "target.id = source.o", lambda m: m.when_matched_delete(), "bigint and string do not go together"),
        (SOURCE, "1 = 1", lambda m: m.when_matched_delete(), "it names no column"),
        (SOURCE, "t.id = source.id", lambda m: m.when_matched_delete(), "there is no column 't.id'"),
        (SOURCE, "target.id = source.id", lambda m: m.when_matched_update_all(), "has no column 's', of which update"),
        (
            SOURCE,
            "target.id = source.id",
            lambda m: m.when_not_matched_insert({"v": "target.v"}),
            "target.v cannot be used here: there is no row of it",
        ),
        (
            SOURCE,
            "target.id = source.id",
            lambda m: m.when_not_matched_by_source_delete(condition="source.id = 1"),
            "source.id cannot be used here",
        ),
        (
            SOURCE.append_column("s", pa.array([1])),
            "target.id = source.id",
            lambda m: m.when_matched_update_all(),
            "column 's' is string, and its new value 'source.s' is bigint",
        ),
        (
            SOURCE.set_column(1, "v", pa.array([1 << 40])),
            "target.id = source.id",
            lambda m: m.when_matched_update({"v": "source.v"}),
            "out of range",
        ),
        (
            SOURCE,
            "target.id = source.id + 1",
            lambda m: m.when_not_matched_insert({"v": "1"}),
            "'id' of table db.t is NOT",
        ),
    ],
)
def test_a_merge_that_cannot_be_is_refused(tmp_path: Path, source: Any, on: str, build: Any, said: str) -> None:
    world = World.of(tmp_path, schema_of("id bigint NOT NULL, v int, s string"), [[row(1)]])
    with pytest.raises(InvalidArgument) as caught:
        build(merge(world, source, on)).execute()
    assert said in str(caught.value)


def test_long_predicates_are_read(world: World) -> None:
    many = ", ".join(map(str, range(5000)))
    assert local.delete(world.there, f"id in ({many})").deleted == 30
    assert local.delete(world.there, " or ".join(f"id = {n}" for n in range(100))).deleted == 30
