"""Iceberg metadata on demand, as other engines read it: what our snapshot of its commit shows."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks.suite.duckdb_extensions import loaded
from tests.support import fast_cluster, rows
from txnclient import Client, IcebergVersion, IllegalState, InternalError, InvalidArgument
from txnclient.compact.worker import Worker
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]
Read = Callable[[str], pa.Table]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("iceberg")) as running:
        yield running


def by_pyiceberg(metadata: str) -> pa.Table:
    return importlib.import_module("pyiceberg.table").StaticTable.from_metadata(metadata).scan().to_arrow()


def by_duckdb(metadata: str) -> pa.Table:
    connection = loaded("avro", "iceberg")
    place = metadata.removeprefix("file://").replace("'", "''")
    return connection.execute(f"SELECT * FROM iceberg_scan('{place}')").to_arrow_table()


@pytest.fixture(params=[by_pyiceberg, by_duckdb])
def read(request: pytest.FixtureRequest) -> Read:
    found: Read = request.param
    return found


def ordered(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def ours(client: Client, table: str, at: int) -> list[dict[str, Any]]:
    with client.snapshot(at=at) as snapshot:
        return ordered(snapshot.to_arrow(table))


def compacted(client: Client, table: str) -> None:
    client.compact(table, kind="major", wait=False)
    assert Worker(client.session, "here", threading.Event(), table).run_once()


def test_every_version_is_what_a_snapshot_of_its_commit_shows(
    client: Client, new_table: NewTable, tmp_path: Path, read: Read
) -> None:
    table, to = new_table(), str(tmp_path / "the ice")
    done: list[IcebergVersion] = []

    def publish() -> None:
        done.append(client.publish_iceberg(table, to))
        assert ordered(read(done[-1].metadata)) == ours(client, table, done[-1].commit_timestamp)

    publish()
    client.write(rows(1, 2, 3), table)
    client.write(rows(4, 5), table)
    publish()
    client.delete_where(table, "id IN (2, 5)")
    publish()
    client.update_where(table, {"note": "'other'"}, "id >= 3")
    publish()
    compacted(client, table)
    publish()
    client.write(rows(9), table, "overwrite")
    publish()
    assert [each.version for each in done] == [1, 2, 3, 4, 5, 6]
    client.write(rows(1), new_table())
    assert client.publish_iceberg(table, to) == done[-1], "nothing of the table has changed"
    for each in done[:4]:  # what these name is kept as long as snapshots of then are
        assert ordered(read(each.metadata)) == ours(client, table, each.commit_timestamp)
    assert (tmp_path / "the ice" / "metadata" / "version-hint.text").read_text() == "6"


NOON = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
VALUES = {
    "id": pa.array([1, 2, 3], pa.int64()),
    "tiny": pa.array([-128, None, 127], pa.int8()),
    "small": pa.array([1, 2, None], pa.int16()),
    "number": pa.array([1, 2, 3], pa.int32()),
    "text": ["ä", "", None],
    "day": [date(1, 1, 1), date(9999, 12, 31), None],
    "time": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
    "clock": pa.array([NOON.replace(tzinfo=None), None, None], pa.timestamp("us")),
    "fraction": [1.5, float("-inf"), None],
    "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
    "yes": [True, False, None],
    "many": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "part": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}], pa.struct({"a": pa.int32(), "b": pa.string()})),
}


def test_columns_of_all_types_and_such_as_have_changed(client: Client, tmp_path: Path, read: Read) -> None:
    name = f"ice.types_{read.__name__}"
    data = pa.table(VALUES)
    client.create_table(name, data.schema)
    client.write(data, name)
    done = client.publish_iceberg(name, str(tmp_path / "a"))
    assert ordered(read(done.metadata)) == ours(client, name, done.commit_timestamp)
    client.alter_table(name, rename={"text": "said", "number": "count"}, drop=["yes"])
    client.alter_table(name, add="text bigint, yes string")
    client.alter_table(name, widen={"count": "bigint"})
    renamed = data.rename_columns({"text": "said", "number": "count"}).drop_columns(["yes"])
    more = renamed.append_column("text", [[7, 8, 9]]).append_column("yes", [["a", "b", "c"]])
    client.write(more.set_column(0, "id", [[4, 5, 6]]), name)
    done = client.publish_iceberg(name, str(tmp_path / "a"))
    assert done.version == 2
    assert ordered(read(done.metadata)) == ours(client, name, done.commit_timestamp)


def test_ranges_leave_files_out(client: Client, new_table: NewTable, tmp_path: Path) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    table = new_table("id bigint, note string, day date", partition_by=["day"])
    for number in range(3):
        data = rows(10 * number, 10 * number + 5).append_column("day", [[date(2024, 1, number + 1)] * 2])
        client.write(data, table)
    scan = static.from_metadata(client.publish_iceberg(table, str(tmp_path)).metadata).scan
    assert len(list(scan().plan_files())) == 3
    for where in ("id = 12", "note = 'row 5'", "day = '2024-01-02'"):
        assert len(list(scan(row_filter=where).plan_files())) == 1, where


def test_what_is_in_no_file_waits_for_a_compaction(client: Client, tmp_path: Path, read: Read) -> None:
    name = f"ice.keyed_{read.__name__}"
    client.create_table(name, "id bigint, note string", primary_key=["id"])
    client.write(rows(1, 2), name)
    client.upsert(name, rows(2, 3))
    with pytest.raises(IllegalState, match="changed by key, which are in no file"):
        client.publish_iceberg(name, str(tmp_path))
    compacted(client, name)
    done = client.publish_iceberg(name, str(tmp_path))
    assert ordered(read(done.metadata)) == ours(client, name, done.commit_timestamp)
    assert len(ours(client, name, done.commit_timestamp)) == 3


def test_files_without_columns_of_partitions_are_to_be_written_anew(client: Client, tmp_path: Path) -> None:
    (tmp_path / "hive" / "month=1").mkdir(parents=True)
    pq.write_table(rows(1), tmp_path / "hive" / "month=1" / "p.parquet")
    client.import_files("ice.bare", str(tmp_path / "hive"), create=True)
    with pytest.raises(IllegalState, match="do not have the columns that it is partitioned by"):
        client.publish_iceberg("ice.bare", str(tmp_path / "ice"))
    client.optimize("ice.bare", sort_by=["id"])
    done = client.publish_iceberg("ice.bare", str(tmp_path / "ice"))
    assert by_pyiceberg(done.metadata)["month"].to_pylist() == [1]


def test_others_metadata_is_left_alone(client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table, other = new_table(), new_table()
    client.write(rows(1), table)
    done = client.publish_iceberg(table, str(tmp_path))
    with pytest.raises(IllegalState, match="has metadata of"):
        client.publish_iceberg(other, str(tmp_path))
    path = Path(done.metadata.removeprefix("file://"))
    content = json.loads(path.read_bytes())
    content["snapshots"][0]["summary"] = {"operation": "append"}
    (path.parent / "v2.metadata.json").write_text(json.dumps(content))
    client.write(rows(2), table)
    with pytest.raises(IllegalState, match="somebody else has written version 2"):
        client.publish_iceberg(table, str(tmp_path))
    (path.parent / "v2.metadata.json").write_text("no JSON")
    with pytest.raises(InternalError, match="does not read"):
        client.publish_iceberg(table, str(tmp_path))
    (path.parent / "v2.metadata.json").unlink()
    assert client.publish_iceberg(table, str(tmp_path)).version == 2
    for to in (client.table(table).location, "s3://lake/ice", str(path)):
        with pytest.raises(InvalidArgument, match=r"lie one in the other|is in no file system|can be no directory"):
            client.publish_iceberg(table, to)


def test_it_is_a_command_too(cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table = new_table()
    client.write(rows(1, 2), table)
    command = ["table", "iceberg", table, str(tmp_path), "--cluster", cluster.addresses, "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert by_pyiceberg(json.loads(result.output)["metadata"])["id"].to_pylist() == [1, 2]
