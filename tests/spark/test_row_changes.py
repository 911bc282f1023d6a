"""DELETE, UPDATE and MERGE by Spark, beside a list of rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from tests.unit.harness.deleted_rows import Table
from txnclient import Client
from txnclient.change import local
from txnclient.change import merging as local_merging
from txnclient.change.merge import Merge
from txnclient.change.merging import Bounds
from txnclient.change.plan import Act, Clause, Looked, MergePlan, Rows, RowsChanged
from txnclient.outcome import RowsAffected
from txnclient.read.table_files import TableFiles
from txnclient.spark import alive_rows, merging, merging_here, row_changes, writer
from txnstatus.errors import InvalidArgument
from txnstatus.lake import manifest
from txnstatus.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = Schema((Column("k", "int"), Column("p", "string"), Column("v", "bigint")), ("p",))
Row = tuple[int | None, str, int | None]
SOURCE = "k bigint, p string, v bigint, op string"


class Changing(Table):
    """A table that what an engine says is done to."""

    def __init__(self, directory: Path, spark: SparkSession) -> None:
        super().__init__(directory, SCHEMA)
        self.spark = spark
        self.is_same_elsewhere = True
        """Whether the engine without Spark is to come to the same."""

    def fill(self, *files: list[Row]) -> None:
        for rows in files:
            names = [column.name for column in SCHEMA.columns]
            kinds = [pa.int32(), pa.string(), pa.int64()]
            columns = zip(*rows, strict=True)
            self.write(pa.table([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)], names=names))

    def do(self, changed: RowsChanged) -> RowsChanged:
        """As a transaction that is committed."""
        before = self.read()
        for file in before.files:
            gone = changed.dead.get(file.path, BitMap())
            assert gone.isdisjoint(before.dead.get(file.path, BitMap())), "what is dead does not die again"
        assert sum(map(len, changed.dead.values())) == changed.updated + changed.deleted
        if changed.dead:
            self.delete(dict(changed.dead))
        added = 0
        if changed.rows is not None:
            directory = self._directory()
            files = writer.write_files(changed.rows, directory, SCHEMA, "a.t")
            added = sum(file.rows for file in files)
            self.response.manifests.append(manifest.write(directory, files, table_id="0.0", txn_id=1, write_id="w"))
        assert added == changed.inserted + changed.updated
        return changed

    def merge(self, source: DataFrame, on: str) -> Merge[RowsChanged]:
        def execute(plan: MergePlan) -> RowsChanged:
            found = merging.merge(self.read(), source, plan)
            if self.is_same_elsewhere:
                other = local_merging.merge(self.read(), source.toArrow(), plan)
                same(found, replace(other, looked=other.looked if merging.has_jvm(self.spark) else ()))
            return self.do(found)

        return Merge("a.t", SCHEMA, on, execute)

    def source(self, *rows: tuple[Any, ...]) -> DataFrame:
        return self.spark.createDataFrame(list(rows), SOURCE)

    def rows(self) -> list[Row]:
        found = self.read().to_arrow().to_pylist()
        return sorted(((row["k"], row["p"], row["v"]) for row in found), key=str)


def same(one: RowsChanged, other: RowsChanged) -> None:
    assert replace(one, rows=None) == replace(other, rows=None)
    rows = [[] if each.rows is None else each.rows for each in (one, other)]
    found = [each if isinstance(each, list) else to_arrow(each).to_pylist() for each in rows]
    assert sorted(found[0], key=str) == sorted(found[1], key=str)


def to_arrow(rows: pa.Table | DataFrame) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else rows.toArrow()


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Changing:
    return Changing(tmp_path / "a b%", spark)


def test_rows_are_deleted_and_updated_where_a_predicate_holds(table: Changing) -> None:
    table.fill([(k, "a", k) for k in range(10)], [(k, "b", None) for k in range(10, 20)], [(None, "c", 1)])
    deleted = row_changes.delete(table.spark, table.read(), "k % 3 = 0 OR v > 100")
    same(deleted, local.delete(table.read(), "k % 3 = 0 OR v > 100"))
    found = table.do(deleted)
    assert (found.deleted, len(found.dead)) == (7, 2), "a row for which the predicate is null stays"
    assert row_changes.delete(table.spark, table.read(), "t.k % 3 = 0") == RowsChanged({})
    values = {"V": "coalesce(v, 0) + k * 100", "p": "'new'"}
    update = row_changes.update(table.spark, table.read(), values, "k IN (1, 10)")
    same(update, local.update(table.read(), values, "k IN (1, 10)"))
    assert (table.do(update).updated, update.inserted) == (2, 0)
    kept = [(k, "a", k) for k in range(10) if k % 3 and k != 1] + [(k, "b", None) for k in range(11, 20) if k % 3]
    assert table.rows() == sorted([*kept, (None, "c", 1), (1, "new", 101), (10, "new", 1000)], key=str)
    assert table.do(row_changes.delete(table.spark, table.read(), "true")).deleted == len(kept) + 3
    assert table.rows() == []


def test_the_rows_that_die_are_those_that_come_again(table: Changing) -> None:
    """With rand() in the predicate, two evaluations would hit other rows: some died for good, others came twice."""
    table.is_same_elsewhere = False
    table.fill([(k, "a", k) for k in range(400)])
    table.do(row_changes.update(table.spark, table.read(), {"v": "cast(rand() * 1000 as bigint)"}, "rand() < k / 400"))
    assert sorted(row[0] for row in table.rows()) == list(range(400))
    source = table.spark.range(300).selectExpr("id AS k", "'a' AS p", "int(rand() * 1e9) AS v", "uuid() AS op")
    told = table.merge(source, "target.k = source.k AND source.v % 2 = 0").when_matched_update({"v": "source.v"})
    found = told.when_not_matched_insert({"k": "-1", "p": "'b'", "v": "source.v"}, condition="rand() < 0.5").execute()
    assert sorted(row[0] for row in table.rows() if row[0] >= 0) == list(range(400))
    assert found.updated + found.inserted < 300
    assert all((row[2] % 2 == 1) for row in table.rows() if row[0] == -1), "matched, and inserted for all that"


def test_clauses_count_in_their_order_and_nulls_match_nothing(table: Changing) -> None:
    table.fill([(1, "a", 1), (2, "a", 2), (3, "a", 3), (4, "a", 4), (None, "a", 5)], [(6, "b", None)])
    source = table.source(
        (1, "x", 10, "u"), (2, "x", 20, "d"), (3, "x", 30, None), (7, "x", 70, "i"), (None, "x", 0, "u")
    )
    found = (
        table.merge(source, "target.k = source.k")
        .when_matched_update({"v": "target.v + source.v", "p": "op"}, condition="op = 'u'")
        .when_matched_delete(condition="op = 'd'")
        .when_not_matched_insert({"k": "int(k)", "v": "v"}, condition="k IS NULL")
        .when_not_matched_insert_all(condition="false OR k = 8")
        .when_not_matched_by_source_update({"p": "'left'"}, condition="v > 4")
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert table.rows() == sorted([(1, "u", 11), (3, "a", 3), (None, None, 0), (None, "left", 5)], key=str)
    assert (found.inserted, found.updated, found.deleted) == (1, 2, 3)
    assert found.looked == (Looked("k", "1", "7"),)


def test_where_a_merge_looks(table: Changing) -> None:
    source = table.source((5, "q", 1, "u"), (9, "b", 2, "u"))
    for on, expected in {
        "target.k = source.k + 1 AND source.p = target.p AND target.v <> 3": (
            Looked("k", "6", "10"),
            Looked("p", "b", "q"),
        ),
        "target.k = source.k OR target.p = source.p": (),
        "target.k < source.k AND target.v = target.k AND source.v = 3": (),
    }.items():
        near = merging._Merge(table.read(), MergePlan(on), source)._near()
        assert (len(near.where), near.looked, near.rows) == (len(expected), expected, 2)
        assert near.bytes < 1_000


def test_a_small_merge_that_computes_nothing_is_done_here(table: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    """And comes to what Spark makes of it."""
    table.fill([(1, "a", 1), (2, "a", 2), (None, "a", 4)], [(2, "b", 3)], [(5, "c", None), (6, "c", 6)])
    source = table.spark.createDataFrame(
        [(2, "new", 20, 1.5), (5, "new", None, 2.5), (9, "new", 90, None), (None, "null", 0, None)],
        "k int, P string, v bigint, more double",
    )
    there, on = table.read(), "TARGET.k = source.`k`"

    def run(plain: Callable[[Merge[RowsChanged]], Merge[RowsChanged]]) -> RowsChanged:
        return plain(Merge("a.t", SCHEMA, on, lambda plan: merging.merge(there, source, plan))).execute()

    plans: list[Callable[[Merge[RowsChanged]], Merge[RowsChanged]]] = [
        lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
        lambda merge: merge.when_matched_update({"V": "source.v"}),
        lambda merge: merge.when_matched_delete().when_not_matched_insert({"k": "source.k", "p": "Source.p "}),
    ]
    found = [run(plan) for plan in plans]
    assert [(each.inserted, each.updated, each.deleted) for each in found] == [(2, 3, 0), (0, 3, 0), (2, 0, 3)]
    assert all(isinstance(each.rows, pa.Table) for each in found)
    monkeypatch.setattr(merging_here, "asked", lambda *_: None)
    for plan, one in zip(plans, found, strict=True):
        same(run(plan), one)


@pytest.mark.parametrize(
    ("on", "kind", "clause"),
    [
        ("target.k = source.k AND target.v > 0", "k int, p string, v bigint", {"v": "source.v"}),
        ("target.k = source.k + 1", "k int, p string, v bigint", {"v": "source.v"}),
        ("target.k = source.k", "k bigint, p string, v bigint", {"v": "source.v"}),
        ("target.k <=> source.k", "k int, p string, v bigint", {"v": "source.v"}),
        ("target.k = source.k", "k int, p string, v bigint", {"v": "source.v + 1"}),
        ("target.k = source.k", "k int, p string, v bigint", {"v": "7"}),
        ("target.k = source.k", "k int, p string, v int", {"v": "source.v"}),
        ("target.k = source.k", "k int, p string, v bigint, source struct<v:bigint>", {"v": "source.v"}),
    ],
)
def test_whatever_is_computed_is_sparks(table: Changing, on: str, kind: str, clause: dict[str, str]) -> None:
    """As it says what numbers become, and which values are equal."""
    table.fill([(1, "a", 1), (2, "a", 2)])
    source = table.spark.createDataFrame([(1, "b", 10, None)[: kind.count(",") + 1]], kind)
    found = Merge("a.t", SCHEMA, on, lambda plan: merging.merge(table.read(), source, plan))
    assert not isinstance(found.when_matched_update(clause).execute().rows, pa.Table)


def test_lists_are_sparks(spark: SparkSession) -> None:
    """As many rows of them as are few may be very large."""
    there = TableFiles("a.t", Schema((Column("k", "int"), Column("a", "array<int>"))), ())
    source = spark.createDataFrame([], "k int, a array<int>")
    for act, is_here in ((Act.DELETE, True), (Act.UPDATE, False)):
        plan = MergePlan("target.k = source.k", (Clause(Rows.MATCHED, act),))
        assert (merging._Merge(there, plan, source)._asked_here is not None) == is_here


def test_a_merge_that_becomes_large_is_sparks(table: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    table.fill([(1, "a", n) for n in range(5)], [(9, "a", 9)])
    source = table.spark.createDataFrame([(1, "b", 10), (7, "b", 10)], "k int, p string, v bigint")

    def run() -> RowsChanged:
        merge = Merge("a.t", SCHEMA, "target.k = source.k", lambda plan: merging.merge(table.read(), source, plan))
        return merge.when_matched_update_all().execute()

    here = run()
    bounds = [(Bounds(4, 9), 9), (Bounds(9, 4), 9), (Bounds(9, 9), 1)]
    for most, rows in bounds:
        monkeypatch.setattr(merging_here, "BOUNDS", most)
        monkeypatch.setattr(merging_here, "MAX_ROWS", rows)
        by_spark = run()
        assert not isinstance(by_spark.rows, pa.Table), most
        same(by_spark, here)


def test_a_row_is_changed_once(table: Changing) -> None:
    table.fill([(1, "a", 1), (2, "a", 2)])
    source = table.source((1, "x", 10, "u"), (1, "x", 20, "d"))
    one = table.merge(source, "target.k = source.k").when_matched_update({"v": "source.v"})
    with pytest.raises(
        InvalidArgument, match=r"1 rows of table a\.t are each matched by several .*: \(k=1, p='a', v=1\)"
    ):
        one.execute()
    both = table.merge(source, "target.k = source.k").when_matched_delete(condition="op = 'd'")
    assert both.when_matched_update({"v": "7"}, condition="op = 'x'").execute().deleted == 1, "one of them acts"
    assert table.rows() == [(2, "a", 2)]


def test_transactions_of_spark_change_rows(spark: SparkSession, client: Client, new_table: Callable[..., str]) -> None:
    """The table's directories, and the files in them, have other characters escaped in our URIs than in Spark's."""
    table = new_table("id bigint, `grö ße` string, v double", partition_by=["grö ße"])
    client.write(spark.range(100).selectExpr("id", "concat('p=', id % 2) AS `grö ße`", "id / 2 AS v"), table)
    start = client.last_commit()
    with client.transaction() as txn:
        assert txn.delete_where(table, "id < 10", spark=spark).deleted == 10
        assert txn.update_where(table, {"v": "rand()", "grö ße": "'new'"}, "id = 10", spark=spark).updated == 1
        source = spark.range(95, 105).selectExpr("id", "'s' AS `grö ße`", "cast(-1 AS double) AS v")
        merge = txn.merge(table, source, on="target.id = source.id").when_matched_update_all()
        assert merge.when_not_matched_insert_all().execute() == RowsAffected(inserted=5, updated=5)
        inside = txn.read(spark, table).toArrow()
        assert sorted(inside["id"].to_pylist()) == list(range(10, 105))
        assert client.snapshot().read(spark, table).count() == 100
    assert client.delete_where(table, "v = -1 AND id > 100", spark=spark).rows == RowsAffected(deleted=4)
    found = client.snapshot().read(spark, table)
    by_arrow = client.snapshot().to_arrow(table)
    assert sorted(found.toArrow().to_pylist(), key=str) == sorted(by_arrow.to_pylist(), key=str)
    assert found.where("`grö ße` = 's'").count() == 6
    changes = client.diff(table, start, spark=spark).groupBy("_change_kind").count().collect()
    assert {row["_change_kind"]: row["count"] for row in changes} == {"delete": 16, "insert": 7}


BAD = {
    "nope = 1": "`nope` cannot be resolved",
    "1 = 1": "names no column",
    "k = 1; DROP TABLE t": "does not read as Spark SQL",
    "k = 1 x": "does not read as Spark SQL",
    "k": "not a boolean",
    "max(k) > 1": "invalid expressions",
    "_txn_row = 1": "cannot be resolved",
}
BAD_VALUES = {
    "'x'": "the column is bigint, and the value is string",
    "max(v)": "not of one row",
    "explode(array(1, 2))": "not of one row",
    "row_number() OVER (ORDER BY k)": "not of one row",
}


def test_what_does_not_fit_is_refused_by_name(table: Changing) -> None:
    table.fill([(1, "a", 0)])
    there, spark, source = table.read(), table.spark, table.source((1, "x", 10, "u"))

    def delete(text: Any) -> object:
        return row_changes.delete(spark, there, text)

    def update(text: str) -> object:
        return row_changes.update(spark, there, {"v": text}, "k = 1")

    def merge(on: str = "target.k = source.k", rows: DataFrame = source) -> Merge[RowsChanged]:
        return table.merge(rows, on)

    refused: list[tuple[Callable[[], object], str]] = [
        *((partial(delete, text), why) for text, why in BAD.items()),
        *((partial(update, text), why) for text, why in BAD_VALUES.items()),
        *(
            (partial(delete, text), "the predicate: expected an SQL expression as text")
            for text in (None, 5, b"k", " ")
        ),
        (partial(delete, "1 / v > 2"), "DIVIDE_BY_ZERO"),
        (merge().when_matched_update({"v": "1 / target.v"}).execute, "DIVIDE_BY_ZERO"),
        (merge("1 = 1").when_matched_delete().execute, "names no column"),
        (merge().when_not_matched_insert({"v": "target.v"}).execute, "cannot be resolved"),
        (merge(rows=source.drop("v")).when_matched_update_all().execute, "has no column 'v'"),
        (merge().when_matched_update({"k": "3000000000 + source.v"}).execute, "does not fit int"),
        (merge(rows=source.selectExpr("k AS _TXN_x")).when_matched_delete().execute, "are taken"),
    ]
    for run, why in refused:
        with pytest.raises(InvalidArgument, match=why):
            run()
    assert table.rows() == [(1, "a", 0)]


CAMPAIGN = pytest.mark.campaign


@pytest.mark.parametrize(
    ("seeds", "has_jvm", "broadcast"),
    [
        (1, False, True),
        (2, True, False),
        pytest.param(20, False, True, marks=CAMPAIGN),
        pytest.param(40, True, True, marks=CAMPAIGN),
        pytest.param(40, True, False, marks=CAMPAIGN),
    ],
)
def test_programs_of_merges_do_what_the_model_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: int, has_jvm: bool, broadcast: bool
) -> None:
    """And what the engine without Spark does."""
    monkeypatch.setattr(alive_rows, "has_jvm", lambda _: has_jvm)
    if not broadcast:
        monkeypatch.setattr(merging, "MAX_BROADCAST_BYTES", -1)
    for module in ("expressions", "merging"):
        monkeypatch.setattr(f"txnclient.spark.{module}.has_jvm", lambda _: has_jvm)
    for seed in range(seeds):
        chance = random.Random(seed)
        table = Changing(tmp_path / str(seed), spark)
        model: list[Row] = []
        for part in range(3):
            model += (
                rows := [(chance.choice([None, *range(30)]), f"p{part}", n) for n in range(chance.randint(1, 12))]
            )
            table.fill(rows)
        for _ in range(2):
            keys = chance.sample(range(40), chance.randint(0, 12))
            source = [(key, "s", chance.randint(0, 9), chance.choice("ud")) for key in keys] + [(None, "s", 1, "u")]
            by_source = chance.random() < 0.5
            merge = table.merge(table.source(*source), "target.k = source.k").when_matched_delete(
                condition="source.op = 'd'"
            )
            merge = merge.when_matched_update({"v": "source.v + target.v"}, condition="source.v > 3")
            merge = merge.when_not_matched_insert(
                {"k": "int(source.k)", "p": "source.p", "v": "source.v"}, condition="source.v < 7"
            )
            if by_source:
                merge = merge.when_not_matched_by_source_delete(condition="target.v % 5 = 4")
            merge.execute()
            model = merged(model, source, by_source=by_source)
            assert table.rows() == sorted(model, key=str), f"seed {seed}"


def merged(rows: list[Row], source: list[tuple[Any, ...]], *, by_source: bool) -> list[Row]:
    by_key = {row[0]: row for row in source if row[0] is not None}
    found: list[Row] = []
    for k, p, v in rows:
        match = by_key.get(k) if k is not None else None
        if match is None:
            if not (by_source and v is not None and v % 5 == 4):
                found.append((k, p, v))
        elif match[3] != "d":
            found.append((k, p, match[2] + v if match[2] > 3 and v is not None else v))
    there = {row[0] for row in rows}
    found += [(k, p, v) for k, p, v, _ in source if (k is None or k not in there) and v < 7]
    return found
