"""Directories as Hive lays them out, in place: their files lack the columns that the directories tell."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.support import fast_cluster, wait_until
from txnclient import Client, IllegalState, InvalidArgument
from txnclient.compact.worker import Worker
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster

Rows = list[tuple[object, ...]]
ALL: Rows = [
    (1, 10, 1, date(2013, 1, 31)),
    (2, 20, 1, date(2013, 1, 31)),
    (3, 30, 2, None),
    (4, 40, 12, date(2013, 12, 1)),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("bare")) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "hive lake"
    for id_, x, month, day in ALL:
        directory = root / f"month={month}" / f"day={day or '__HIVE_DEFAULT_PARTITION__'}"
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [id_], "x": pa.array([x], pa.int32())}), directory / f"part-{id_}.parquet")
    return root


def content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def seen(client: Client, table: str) -> Rows:
    with client.snapshot() as snapshot:
        return as_rows(snapshot.to_arrow(table))


def as_rows(found: pa.Table) -> Rows:
    names = ["id", "x", "month", "day"]
    return sorted(tuple(row[name] for name in names) for row in found.select(names).to_pylist())


def test_every_reader_has_the_columns(client: Client, lake: Path) -> None:
    before = content(lake)
    client.import_files("bare.read", str(lake), create=True)
    assert client.table("bare.read").schema.partition_by == ("month", "day")
    with client.snapshot() as snapshot:
        assert as_rows(snapshot.to_arrow("bare.read")) == ALL
        assert as_rows(pa.Table.from_batches(snapshot.to_batches("bare.read"))) == ALL
        assert as_rows(snapshot.to_dataset("bare.read").to_table()) == ALL
        assert as_rows(snapshot.to_duckdb("bare.read").to_arrow_table()) == ALL
        assert as_rows(snapshot.to_polars("bare.read").to_arrow()) == ALL
        lazy = snapshot.to_polars("bare.read", lazy=True)
        assert lazy.filter(pl.col("month") > 1).select(pl.col("id").sum()).collect().item() == 7
        assert sorted(snapshot.to_pandas("bare.read")["month"]) == [1, 1, 2, 12]
        assert snapshot.to_arrow("bare.read", ["month"])["month"].to_pylist().count(1) == 2
        with pytest.raises(IllegalState, match="do not have the columns month, day"):
            snapshot.files("bare.read")
        for where, expected in (
            (pc.field("month") == 1, [1, 2]),
            ((pc.field("month") == 1) & (pc.field("x") > 10), [2]),
            ((pc.field("month") > 2) | (pc.field("x") == 10), [1, 4]),
            (pc.field("day").is_null(), [3]),
            (pc.field("month") * 2 == 24, [4]),
        ):
            assert sorted(snapshot.to_arrow("bare.read", ["id"], where=where)["id"].to_pylist()) == expected
        relation = snapshot.to_duckdb("bare.read")
        assert relation.filter("month = 12 OR day IS NULL").order("id").project("id").fetchall() == [(3,), (4,)]
    assert client.sql("SELECT month, count(*) AS n FROM bare.read GROUP BY month ORDER BY month").to_pylist() == [
        {"month": 1, "n": 2},
        {"month": 2, "n": 1},
        {"month": 12, "n": 1},
    ]
    assert content(lake) == before


def test_whatever_becomes_of_the_table(cluster: LocalCluster, client: Client, lake: Path) -> None:
    before = content(lake)
    came = client.import_files("bare.changed", str(lake), create=True)
    client.savepoint("as it came", tables=["bare.changed"])
    own = pa.table({"id": [5], "x": pa.array([50], pa.int32()), "month": pa.array([1], pa.int32()), "day": [DAY]})
    client.write(own, "bare.changed")  # a file with all columns beside one without, in one partition
    assert seen(client, "bare.changed") == [*ALL, (5, 50, 1, DAY)]
    deleted = client.delete_where("bare.changed", "month = 1 AND x < 20")
    client.update_where("bare.changed", {"x": "x + month", "month": "month + 1"}, "month = 12 OR id = 2")
    expected = [(2, 21, 2, DAY), ALL[2], (4, 52, 13, date(2013, 12, 1)), (5, 50, 1, DAY)]
    assert seen(client, "bare.changed") == expected
    with client.snapshot() as now:
        changed = now.to_arrow("bare.changed", where=pc.field("month") == 2)
        assert sorted(changed["id"].to_pylist()) == [2, 3]
    changes = client.diff("bare.changed", came.commit_timestamp, deleted.commit_timestamp)
    assert sorted((row["id"], row["month"], row["_change_kind"]) for row in changes.to_pylist()) == [
        (1, 1, "delete"),
        (5, 1, "insert"),
    ]
    client.undo(deleted.txn_id)
    assert seen(client, "bare.changed") == sorted([ALL[0], *expected])
    compacted(client, "bare.changed")
    assert seen(client, "bare.changed") == sorted([ALL[0], *expected])
    client.optimize("bare.changed", sort_by=["id"])  # also where there is one file in a partition
    assert seen(client, "bare.changed") == sorted([ALL[0], *expected])
    with client.snapshot() as now:
        assert now.files("bare.changed").rows == 5
    client.restore("as it came", tables=["bare.changed"])
    assert seen(client, "bare.changed") == ALL
    client.write(own, "bare.changed", "overwrite", partition={"month": 1})
    assert seen(client, "bare.changed") == [ALL[2], ALL[3], (5, 50, 1, DAY)]
    result = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--json", "--deep"])
    assert result.exit_code == 0, result.output
    assert not json.loads(result.output)["findings"]
    assert content(lake) == before


DAY = date(2013, 1, 31)


def compacted(client: Client, table: str) -> None:
    client.compact(table, kind="major", wait=False)
    worker = Worker(client.session, "here", threading.Event(), table)
    assert worker.run_once()
    while worker.run_once():
        pass
    assert {each.state for each in client.compactions(table)} == {"succeeded"}


def test_keys_may_be_of_columns_that_places_tell(client: Client, tmp_path: Path) -> None:
    for month in (1, 2):
        (tmp_path / f"month={month}").mkdir()
        pq.write_table(pa.table({"id": pa.array([1, 2]), "x": ["a", "b"]}), tmp_path / f"month={month}" / "p.parquet")
    client.create_table(
        "bare.keyed", "id bigint, x string, month int", partition_by=["month"], primary_key=["id", "month"]
    )
    client.import_files("bare.keyed", str(tmp_path))
    client.upsert("bare.keyed", pa.table({"id": [1], "x": ["new"], "month": pa.array([2], pa.int32())}))
    client.delete("bare.keyed", pa.table({"id": [2], "month": pa.array([1], pa.int32())}))
    expected = [(1, "a", 1), (1, "new", 2), (2, "b", 2)]
    for is_compacted in (False, True):
        with client.snapshot() as snapshot:
            found = snapshot.to_arrow("bare.keyed", ["id", "x", "month"]).to_pylist()
        assert sorted(tuple(row.values()) for row in found) == expected
        if not is_compacted:
            compacted(client, "bare.keyed")


def test_other_places_are_refused(client: Client, lake: Path, tmp_path: Path) -> None:
    client.create_table("bare.other", "id bigint, x int, month int, day date", partition_by=["month"])
    with pytest.raises(InvalidArgument, match=r"table bare\.other is partitioned by month") as refused:
        client.import_files("bare.other", str(lake))
    assert refused.value.hint == "import it with copy=True"
    client.create_table("bare.none", "id bigint, x int, month int, day date")
    with pytest.raises(InvalidArgument, match=r"table bare\.none is not partitioned"):
        client.import_files("bare.none", str(lake))
    client.create_table("bare.day", "id bigint, x int, month date, day date", partition_by=["month", "day"])
    with pytest.raises(InvalidArgument, match="its place tells '1' of column 'month'"):
        client.import_files("bare.day", str(lake))
    client.create_table("bare.null", "id bigint, x int, month int, day date NOT NULL", partition_by=["month", "day"])
    with pytest.raises(InvalidArgument, match="'day' is NOT NULL, and the file's place tells a null"):
        client.import_files("bare.null", str(lake))
    long = tmp_path / "long" / f"name={'x' * 201}"
    long.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), long / "p.parquet")
    with pytest.raises(InvalidArgument, match="a text of 201 characters of column 'name'"):
        client.import_files("bare.long", str(long.parent), create=True)


def test_published_logs_wait_until_files_are_written_anew(client: Client, lake: Path) -> None:
    client.import_files("bare.published", str(lake), create=True)
    client.alter_table("bare.published", properties={"publish": "delta"})
    client.optimize("bare.published", sort_by=["id"])
    wait_until(lambda: client.publication("bare.published").is_current, "it is published")
    place = client.table("bare.published").location.removeprefix("file://")
    assert as_rows(pl.scan_delta(place).collect().to_arrow()) == ALL
