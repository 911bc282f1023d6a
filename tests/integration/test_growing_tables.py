"""Writes that bring columns which their table has not: added where that is asked for, and refused elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from txnclient import Client, InvalidArgument, NotFound

pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]


def rows(client: Client, table: str) -> list[dict[str, Any]]:
    with client.snapshot() as snapshot:
        return snapshot.to_arrow(table).sort_by("id").to_pylist()


def columns(client: Client, table: str) -> list[tuple[str, str, bool]]:
    return [(each.name, each.type, each.nullable) for each in client.table(table).schema.columns]


@pytest.fixture(params=[False, True], ids=["without a key", "with a key"])
def table(request: pytest.FixtureRequest, client: Client, new_table: NewTable) -> str:
    name = new_table("id bigint NOT NULL, v string", primary_key=["id"] if request.param else ())
    client.write(pa.table({"id": [1], "v": ["a"]}), name)
    return name


def test_columns_that_are_new_come_with_the_data(client: Client, table: str) -> None:
    before = client.snapshot()
    data = pa.table({"ID": [2], "x": pa.array([7], pa.int32()), "v": ["b"], "Y": [["p"]]})
    with pytest.raises(InvalidArgument, match="column 'x' of the data is not a column of table") as caught:
        client.write(data, table)
    assert "merge_schema=True" in caught.value.hint
    client.write(data, table, merge_schema=True)
    assert columns(client, table) == [
        ("id", "bigint", False),
        ("v", "string", True),
        ("x", "int", True),
        ("Y", "array<string>", True),
    ]
    assert rows(client, table) == [
        {"id": 1, "v": "a", "x": None, "Y": None},
        {"id": 2, "v": "b", "x": 7, "Y": ["p"]},
    ]
    assert before.to_arrow(table).to_pylist() == [{"id": 1, "v": "a"}]
    version = client.table(table).schema.version
    client.write(data.slice(0, 0), table, merge_schema=True)
    assert client.table(table).schema.version == version, "nothing was new"


def test_data_of_whatever_kind_may_bring_them(client: Client, table: str) -> None:
    client.write(pd.DataFrame({"id": [2], "v": ["b"], "a": [0.5]}), table, merge_schema=True)
    batches = pa.table({"id": [3], "v": ["c"], "a": [1.5], "b": [True]}).to_batches()
    with client.transaction() as txn:
        txn.write(pa.RecordBatchReader.from_batches(batches[0].schema, batches), table, merge_schema=True)
    with pytest.raises(InvalidArgument, match="column 'nothing'"):
        client.write(pa.table({"id": [4], "v": ["d"], "nothing": [None]}), table, merge_schema=True)
    strict = pa.struct([pa.field("f", pa.int64(), nullable=False)])
    with pytest.raises(InvalidArgument, match="its field 'f' takes no nulls"):
        client.write(pa.table({"id": [4], "v": ["d"], "s": pa.array([{"f": 1}], strict)}), table, merge_schema=True)
    with pytest.raises(NotFound):
        client.write(batches[0], "t.nowhere", merge_schema=True)
    assert [tuple(row.values()) for row in rows(client, table)] == [
        (1, "a", None, None),
        (2, "b", 0.5, None),
        (3, "c", 1.5, True),
    ]


@pytest.mark.parametrize("count", [2, 12_000])
def test_an_upsert_and_an_overwrite_bring_them(client: Client, new_table: NewTable, count: int) -> None:
    """By key, and as files."""
    table = new_table("id bigint, v string", primary_key=["id"])
    client.write(pa.table({"id": [0, -1], "v": ["a", "b"]}), table)
    ids = pa.array(range(count), pa.int64())
    client.write(pa.table({"id": ids, "v": ids.cast(pa.string()), "x": ids}), table, mode="upsert", merge_schema=True)
    found = rows(client, table)
    assert found[:3] == [{"id": -1, "v": "b", "x": None}, {"id": 0, "v": "0", "x": 0}, {"id": 1, "v": "1", "x": 1}]
    assert len(found) == count + 1
    client.write(pa.table({"id": [5], "v": ["c"], "y": [1]}), table, mode="overwrite", merge_schema=True)
    assert rows(client, table) == [{"id": 5, "v": "c", "x": None, "y": 1}]


def test_they_stay_where_the_transaction_aborts_and_are_not_seen_by_what_has_read(client: Client, table: str) -> None:
    txn = client.begin()
    assert txn.to_arrow(table).column_names == ["id", "v"]
    txn.write(pa.table({"id": [2], "v": ["b"], "x": [7]}), table, merge_schema=True)
    assert txn.to_arrow(table).sort_by("id").to_pylist() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    client.write(pa.table({"id": [3], "v": ["c"], "x": [8]}), table)
    txn.commit()
    assert [(row["id"], row["x"]) for row in rows(client, table)] == [(1, None), (2, 7), (3, 8)]
    txn = client.begin()
    txn.write(pa.table({"id": [4], "v": ["d"], "y": [7]}), table, merge_schema=True)
    txn.abort()
    assert rows(client, table)[-1] == {"id": 3, "v": "c", "x": 8, "y": None}


def test_programs_that_bring_the_same_columns_at_once_all_go_on(client: Client, table: str) -> None:
    together = threading.Barrier(4)

    def load(number: int) -> None:
        data = pa.table({"id": [number], "v": ["n"], "x": [number], f"own{number % 2}": [number]})
        together.wait(30)
        client.write(data, table, merge_schema=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load, range(10, 14)))
    assert {name for name, _, _ in columns(client, table)} == {"id", "v", "x", "own0", "own1"}
    assert [(row["x"], row[f"own{row['id'] % 2}"]) for row in rows(client, table)[1:]] == [
        (number, number) for number in range(10, 14)
    ]


def test_a_table_that_is_published_keeps_its_columns(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint", properties={"publish": "delta"})
    with pytest.raises(InvalidArgument, match="is published: its columns cannot be changed"):
        client.write(pa.table({"id": [1], "x": [1]}), table, merge_schema=True)


def test_sql_without_spark_says_with_schema_evolution(client: Client, table: str) -> None:
    insert = f"INSERT WITH SCHEMA EVOLUTION INTO {table}"
    with pytest.raises(InvalidArgument, match="3 values for the columns id, v"):
        client.sql(f"INSERT INTO {table} SELECT 2, 'b', 7 AS x")
    client.sql(f"{insert} SELECT 2, 'b', 7 AS x")
    client.sql(f"{insert} BY NAME SELECT 0.5D AS y, 'c' AS V, 3 AS id")
    client.sql(f"{insert} (id, v, z) VALUES (4, 'd', 'new')")
    client.sql(f"insert with schema evolution into {table} (id, v) VALUES (5, :v)", {"v": "e"})
    assert columns(client, table)[2:] == [("x", "int", True), ("y", "double", True), ("z", "string", True)]
    assert [tuple(row.values()) for row in rows(client, table)] == [
        (1, "a", None, None, None),
        (2, "b", 7, None, None),
        (3, "c", None, 0.5, None),
        (4, "d", None, None, "new"),
        (5, "e", None, None, None),
    ]
    for statement, why in (
        (f"{insert} BY NAME SELECT 1 AS id, 2 AS a, 3 AS A", "two have one name"),
        (
            f"{insert} BY NAME SELECT 9 AS id, 'x' AS v, NULL AS new",
            "column 'new' .* has no type: there are only nulls",
        ),
    ):
        with pytest.raises(InvalidArgument, match=why):
            client.sql(statement)


def test_a_merge_without_spark_says_with_schema_evolution(client: Client, table: str) -> None:
    merge = f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING"
    every = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    client.sql(f"{merge} (SELECT 1 AS id, 7 AS n UNION ALL SELECT 2, 8) s {every}")
    assert columns(client, table)[2:] == [("n", "int", True)]
    assert [tuple(row.values()) for row in rows(client, table)] == [(1, "a", 7), (2, None, 8)]
    client.sql(f"{merge} (SELECT 2 AS k, 'x' AS o) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET v = s.o, o = s.o")
    assert [tuple(row.values())[1:] for row in rows(client, table)][1] == ("x", 8, None, "x")
    with pytest.raises(InvalidArgument, match=r"column 'm' of the data is new to table .*, and has no type"):
        client.sql(f"{merge} (SELECT 1 AS id, NULL AS m) s {every}")
    client.sql(f"SELECT * FROM {table}; {merge} (SELECT 1 AS id, 5 AS p UNION ALL SELECT 3, 6) s {every}")
    assert [(row["id"], row["p"]) for row in rows(client, table)] == [(1, 5), (2, None), (3, 6)]


def test_a_merge_sets_a_column_that_came_after_it_has_read(client: Client, table: str) -> None:
    """Its value was lost, and nobody was told."""
    with client.transaction() as txn:
        txn.to_arrow(table)
        client.alter_table(table, add="n bigint DEFAULT 5")
        merging = txn.merge(table, pa.table({"k": [1, 2]}), on="target.id = source.k").when_matched_update(
            {"n": "n + 1"}
        )
        merging.when_not_matched_insert({"id": "source.k", "n": "8"}).execute()
    assert [tuple(row.values()) for row in rows(client, table)] == [(1, "a", 6), (2, None, 8)]
    txn = client.begin()
    txn.to_arrow(table)
    client.alter_table(table, rename={"v": "w"}, add="m bigint")
    merging = txn.merge(table, pa.table({"k": [1]}), on="target.id = source.k").when_matched_update({"m": "7"})
    with pytest.raises(InvalidArgument, match=r"column 'm' .* came after the transaction has read others"):
        merging.execute()
