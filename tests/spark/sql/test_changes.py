"""DELETE, UPDATE and MERGE through the catalog that Spark plans with."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions

from tests.spark.sql.changes_model import DDL, PARTITION, Drawn, Model, Row, view
from tests.support import wait_until
from txnclient import Client, RowsAffected, Transaction
from txnclient.sparksql import attach, detach, last_commit
from txnclient.write import keyed
from txndeploy.local.cluster import LocalCluster
from txnstatus.errors import AlreadyExists, Conflict, InvalidArgument
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
NUMBERS = pa.table({"id": range(10), "v": range(10)})


def there(client: Client, table: str) -> list[tuple[Any, ...]]:
    """Read without Spark."""
    return [tuple(row.values()) for row in client.snapshot().to_arrow(table).to_pylist()]


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=str)


def is_nothing_open(client: Client) -> bool:
    return not client.transactions([TxnState.OPEN])


# ---- what they do


def run(spark: SparkSession, client: Client, table: str, seed: int, statements: int, *, is_keyed: bool) -> None:
    """Statements at random, each compared with what plain Spark makes of a copy; beside other writes of the table."""
    draw, model, chance = Drawn(seed, is_keyed=is_keyed), Model(spark, is_keyed=is_keyed), random.Random(seed)
    for number in range(statements):
        known = {row[0] for row in model.rows} if is_keyed else set()
        added = [row for row in draw.rows(8, first=20 * number) if row[0] not in known]
        model.rows += added
        write(client, table, added, by_key=is_keyed and chance.random() < 0.5)
        view(spark, "source", draw.source())
        kind = chance.choice(["DELETE", "UPDATE", "MERGE", "MERGE", "REPLACE", "REPLACE"])
        if kind == "DELETE":
            where = draw.predicate(
                "t.k IN (SELECT k FROM source)", "NOT EXISTS (SELECT 1 FROM source s WHERE s.k = t.k)"
            )
            expected, statement = model.delete(where), f"DELETE FROM txn.{table} t WHERE {where}"
        elif kind == "UPDATE":
            where, sets = draw.predicate(), draw.sets()
            expected = model.update(sets, where)
            changes = ", ".join(f"{name} = {value}" for name, value in sets.items())
            statement = f"UPDATE txn.{table} t SET {changes} WHERE {where}"
        elif kind == "REPLACE":
            where = draw.condition()
            # What replaces a partition lies in it.
            rows = f"SELECT k, p, v FROM source t WHERE {where if where == PARTITION else 'true'}"
            expected = model.replace(where, rows)
            statement = f"INSERT INTO txn.{table} REPLACE WHERE {where.replace('t.', '')} {rows}"
        else:
            on, whens = draw.on(), draw.whens()
            expected = model.merge(on, whens)
            clauses = " ".join(when.sql() for when in whens)
            statement = f"MERGE INTO txn.{table} t USING source s ON {on} {clauses}"
        if expected is None or not model.is_possible(expected):
            error: Any = (AlreadyExists, InvalidArgument) if expected is not None else Exception
            with pytest.raises(error, match="MERGE_CARDINALITY_VIOLATION" if expected is None else "key"):
                spark.sql(statement)
        else:
            spark.sql(statement)
            model.rows = expected
        assert in_order(there(client, table)) == in_order(model.rows), f"seed {seed}, {statement}"
    assert in_order([tuple(row) for row in spark.table(f"txn.{table}").collect()]) == in_order(model.rows)
    assert is_nothing_open(client)


def write(client: Client, table: str, rows: list[Row], *, by_key: bool) -> None:
    data = pa.Table.from_pylist(
        [dict(zip("kpv", row, strict=True)) for row in rows], client.snapshot().to_arrow(table).schema
    )
    if by_key:
        client.upsert(table, data)
    else:
        client.write(data, table)


KINDS = {
    "without a key": ((), ()),
    "partitioned": ((), ("p",)),
    "by key": (("k",), ()),
    "in bulk": (("k",), ("p",)),
}


@contextmanager
def small_sources(spark: SparkSession) -> Iterator[None]:
    """Spark takes each source for small, and no table."""
    settings = {"spark.sql.defaultSizeInBytes": "100", "spark.sql.autoBroadcastJoinThreshold": "200"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


@pytest.mark.usefixtures("catalog")
def test_statements_do_what_plain_spark_does_to_a_copy(
    spark: SparkSession, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(spark, client, new_table, monkeypatch, "in bulk", seed=21, statements=3)


@pytest.mark.usefixtures("catalog")
def test_statements_with_small_sources_do_what_plain_spark_does_to_a_copy(
    spark: SparkSession, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_sources(spark):
        compare(spark, client, new_table, monkeypatch, "partitioned", seed=21, statements=3)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10, 14))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("catalog")
def test_many_statements_with_small_sources_do_what_plain_spark_does_to_a_copy(
    spark: SparkSession, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    with small_sources(spark):
        compare(spark, client, new_table, monkeypatch, kind, seed, statements=12)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10, 16))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("catalog")
def test_many_statements_do_what_plain_spark_does_to_a_copy(
    spark: SparkSession, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    compare(spark, client, new_table, monkeypatch, kind, seed, statements=12)


def compare(
    spark: SparkSession,
    client: Client,
    new_table: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    seed: int,
    statements: int,
) -> None:
    key, parts = KINDS[kind]
    if kind == "in bulk":
        monkeypatch.setattr(keyed, "MAX_ROWS_BY_KEY", 0)
    table = new_table(DDL, primary_key=list(key), partition_by=list(parts))
    run(spark, client, table, seed, statements, is_keyed=bool(key))


def test_all_clauses_of_a_merge_and_what_the_receipt_says(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, v bigint, `a b` string", partition_by=["a b"])
    client.write(NUMBERS.append_column("a b", pa.array(["x", "y"] * 5)), table)
    staged = "(1, 100, 'x'), (2, 200, 'z'), (3, 0, 'y'), (50, 5, 'z')"
    sql(f"CREATE OR REPLACE TEMP VIEW staged AS SELECT * FROM VALUES {staged} AS (id, v, `a b`)")
    matched = f"MERGE INTO txn.{table} t USING staged s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    (plan,) = sql(f"EXPLAIN {matched} WHEN NOT MATCHED THEN INSERT (id) VALUES (id)").first() or ("",)
    assert "MergeRows" in plan
    assert "dynamicpruning" not in plan, "the source of a MERGE is evaluated once, and not also for a filter"
    sql(
        f"MERGE INTO txn.{table} t USING staged s ON t.id = s.id WHEN MATCHED AND s.v = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 7 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN UPDATE SET v = -t.v, `a b` = NULL"
    )
    kept = [(0, 0, "x"), (4, 4, "x"), (5, 5, "y"), (6, 6, "x")]
    assert in_order(there(client, table)) == in_order(
        [*kept, (1, 100, "x"), (2, 200, "z"), (7, -7, None), (50, 5, "z")]
    )
    done = last_commit(spark)
    assert done is not None
    assert (done.tables, done.rows) == ((table,), RowsAffected(inserted=1, updated=3, deleted=3))
    assert client.snapshot(done.commit_timestamp - 1).to_arrow(table).num_rows == 10
    source = spark.sql("SELECT 50L AS id UNION ALL SELECT 50L").alias("s")
    source.mergeInto(f"txn.{table}", functions.expr(f"s.id = txn.{table}.id")).whenMatched().delete().merge()
    done = last_commit(spark)
    assert done is not None
    assert done.rows == RowsAffected(deleted=1), "a MERGE that deletes all that matches may match twice"


@pytest.mark.parametrize("matched", ["WHEN MATCHED THEN UPDATE SET *", ""])
def test_a_small_source_runs_once_and_is_sent_to_where_the_table_is_read(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, matched: str
) -> None:
    """Also one that has other rows each time that it runs."""
    table = new_table("id bigint, v bigint")
    client.write(NUMBERS, table)
    runs = spark.sparkContext.accumulator(0)

    def somewhere(number: int) -> int:
        runs.add(1)
        return number + random.choice([0, 100])

    # Spark refuses what is said to be of chance.
    source = spark.range(5, 15, 1, 2).selectExpr("id AS number").coalesce(1)
    source = source.withColumn("id", functions.udf(somewhere, "bigint")("number"))
    source.selectExpr("id", "number + 1000 AS v").createOrReplaceTempView("drawn")
    statement = f"MERGE INTO txn.{table} t USING drawn s ON t.id = s.id {matched} WHEN NOT MATCHED THEN INSERT *"
    with small_sources(spark):
        (plan,) = sql(f"EXPLAIN {statement}").first() or ("",)
        assert "LeftSemi" in plan
        assert runs.value == 0, "an explanation runs nothing"
        sql(statement)
    assert runs.value == 10
    ids = [row[0] for row in there(client, table)]
    assert len(ids) == len(set(ids)), "a row was inserted that is there"
    merged = {v - 1000 for _, v in there(client, table) if v >= 1000}
    assert merged == set(range(5, 15)) if matched else merged >= set(range(10, 15))


# ---- what they do not do


def test_what_cannot_be_is_refused_and_leaves_nothing(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v bigint", primary_key=["id"])
    client.write(NUMBERS, table)
    source = "SELECT 1L AS id, 2L AS v UNION ALL SELECT 1L, 2L"
    merge = f"MERGE INTO txn.{table} t USING ({source}) s ON t.id = s.id"
    for statement, why in (
        (f"{merge} WHEN MATCHED THEN UPDATE SET v = s.v", "MERGE_CARDINALITY_VIOLATION"),
        (f"UPDATE txn.{table} SET id = NULL WHERE id = 2", "NOT_NULL_ASSERT_VIOLATION"),
        (f"UPDATE txn.{table} SET id = id + 1 WHERE id = 2", "their keys are"),
        (f"UPDATE txn.{table} SET v = v div (id - 5)", "DIVIDE_BY_ZERO"),
        (f"UPDATE txn.{table} SET nope = 1", "UNRESOLVED_COLUMN"),
    ):
        with pytest.raises(Exception, match=why):
            sql(statement)
    assert there(client, table) == [(n, n) for n in range(10)]
    assert is_nothing_open(client)


def test_attempts_that_fail_change_nothing(
    spark: SparkSession, catalog: str, client: Client, new_table: NewTable, failing: Callable[[int], DataFrame]
) -> None:
    table = new_table("id bigint, v bigint")
    client.write(NUMBERS.slice(0, 8), table)

    def merge(times: int, more: int) -> None:
        on = functions.expr(f"s.id = {catalog}.{table}.id")
        into = failing(times).selectExpr("id", f"id + {more} AS v").alias("s").mergeInto(f"{catalog}.{table}", on)
        into.whenMatched().updateAll().whenNotMatched().insertAll().merge()

    merge(1, 10)
    assert in_order(there(client, table)) == in_order([(n, n + 10) for n in range(10)])
    with pytest.raises(Exception, match="this attempt fails"):
        merge(100, 20)
    assert in_order(there(client, table)) == in_order([(n, n + 10) for n in range(10)])
    assert is_nothing_open(client)


def test_of_two_sessions_that_change_one_row_the_second_gets_the_conflict(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table("id bigint, v bigint")
    client.write(NUMBERS, table)
    other = spark.newSession()
    attach(other, client, name="other")
    change, before = Transaction.change_written, list[str]()

    def late(self: Transaction, *rest: Any) -> RowsAffected:
        if before:
            other.sql(before.pop())
        return change(self, *rest)

    monkeypatch.setattr(Transaction, "change_written", late)
    try:
        before.append(f"UPDATE other.{table} SET v = v + 100 WHERE id < 3")
        with pytest.raises(Conflict, match=table) as caught:
            sql(f"DELETE FROM txn.{table} WHERE id = 2")
        assert caught.value.winner
        before.append(f"DELETE FROM other.{table} WHERE id = 0")
        sql(f"UPDATE txn.{table} SET v = -1 WHERE id = 9")
        for clauses in ("", "WHEN MATCHED THEN DELETE "):  # Spark plans the first one as an append
            before.append(f"INSERT INTO other.{table} VALUES (77, 1)")
            merge = f"MERGE INTO txn.{table} t USING (SELECT 77L AS id) s ON t.id = s.id AND t.v = 2 {clauses}"
            with pytest.raises(Conflict, match="rows that were not there"):
                sql(f"{merge} WHEN NOT MATCHED THEN INSERT (id) VALUES (id)")
        replace = f"INSERT INTO txn.{table} REPLACE WHERE"
        before.append(f"INSERT INTO other.{table} VALUES (78, 1)")
        with pytest.raises(Conflict, match="rows that were not there"):
            sql(f"{replace} id > 70 VALUES (79, 1)")
        before.append(f"UPDATE other.{table} SET v = 0 WHERE id = 78")
        with pytest.raises(Conflict, match=table):
            sql(f"{replace} id = 78 SELECT * FROM txn.{table} WHERE id = 0")
        before.append(f"INSERT INTO other.{table} VALUES (80, 1)")
        sql(f"{replace} id >= 78 SELECT * FROM txn.{table} WHERE id = 0")
    finally:
        detach(other, name="other")
    changed = [(1, 101), (2, 102), *((n, n) for n in range(3, 9)), (9, -1), (77, 1), (77, 1), (80, 1)]
    assert in_order(there(client, table)) == in_order(changed)
    assert is_nothing_open(client)


INSERT = "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"


@pytest.mark.parametrize(
    ("on", "clauses", "is_compared"),
    [
        ("t.id = s.id", INSERT, True),
        ("s.id = t.id AND t.v > 2", INSERT.replace(" THEN", " AND s.v > -2 THEN") + " " + INSERT, True),
        ("t.id = s.id", f"WHEN MATCHED THEN DELETE {INSERT}", True),
        ("s.v < 0 AND t.id = s.id", f"WHEN MATCHED THEN UPDATE SET * {INSERT.replace('s.id,', 'id,')}", True),
        ("t.id = s.id", f"{INSERT} WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE", True),
        ("t.id <=> s.id", INSERT, False),
        ("t.id = s.id OR t.v = s.v", INSERT, False),
        ("t.id = s.v", f"WHEN MATCHED THEN DELETE {INSERT}", False),
        ("t.id = s.id", f"WHEN NOT MATCHED AND s.v > 0 THEN INSERT (id) VALUES (s.v) {INSERT}", False),
    ],
)
@pytest.mark.usefixtures("catalog")
def test_a_merge_that_inserts_conflicts_with_who_has_added_what_it_has_looked_for(
    sql: Sql,
    client: Client,
    new_table: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    on: str,
    clauses: str,
    is_compared: bool,
) -> None:
    change, others = Transaction.change_written, list[int]()

    def late(self: Transaction, *rest: Any) -> RowsAffected:
        client.write(pa.table({"id": [others[-1]], "v": [0]}), table)
        return change(self, *rest)

    monkeypatch.setattr(Transaction, "change_written", late)
    merge = "MERGE INTO txn.{} t USING (VALUES (100L, -1L), (110L, -2L) AS new (id, v)) s ON {} {}"
    for meanwhile, is_free in ((105, False), (500, is_compared)):
        table = new_table("id bigint, v bigint")
        client.write(NUMBERS, table)
        others.append(meanwhile)
        with contextlib.nullcontext() if is_free else pytest.raises(Conflict, match="rows that were not there"):
            sql(merge.format(table, on, clauses))
        assert len([row for row in there(client, table) if row[0] in (100, 110)]) == (2 if is_free else 0)


@pytest.mark.campaign
def test_a_driver_that_is_killed_in_a_merge_leaves_nothing(
    cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    table, mark = new_table("id bigint, v bigint"), tmp_path / "mark"
    client.write(NUMBERS, table)
    job = Path(__file__).with_name("merge_job.py")
    driver = subprocess.Popen(
        [sys.executable, job, cluster.addresses, table, mark],
        start_new_session=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    try:
        wait_until(mark.exists, "the MERGE writes", 120)
        (open_now,) = client.transactions([TxnState.OPEN])
        assert open_now.label == f"Spark SQL: merge {table}"
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    wait_until(lambda: client.get(open_now.txn_id).state is TxnState.ABORTED, "the transaction expires", 90)
    assert in_order(there(client, table)) == [(n, n) for n in range(10)]
    location = Path(client.table(table).location.removeprefix("file://"))
    wait_until(lambda: len(list(location.glob("delta_*"))) == 1, "what it wrote is removed", 60)
