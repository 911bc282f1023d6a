"""Published tables, as other engines read them: at every version what our snapshot of that commit shows."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import url2pathname

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError
from typer.testing import CliRunner

from benchmarks.suite.duckdb_extensions import loaded
from tests.support import FAST_TXN, connect, fast_cluster, rows, wait_until
from txnclient import Client, InvalidArgument
from txnclient.compact.worker import Worker
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("publication")) as running:
        yield running


def place(client: Client, table: str) -> str:
    return url2pathname(client.table(table).location.removeprefix("file://"))


def entries(client: Client, table: str) -> list[tuple[int, int]]:
    """Version and commit timestamp of each entry of the log."""
    found = []
    for path in sorted(Path(place(client, table), "_delta_log").glob("*.json")):
        first = json.loads(path.read_text().splitlines()[0])
        found.append((int(path.stem), int(first["commitInfo"]["txnId"].rpartition("/")[2])))
    return found


def published(client: Client, table: str, at: int) -> bool:
    return any(commit >= at for _, commit in entries(client, table))


def by_rust(path: str, version: int) -> list[tuple[object, ...]]:
    """The rows as delta-rs has them, which knows deletion vectors by its query engine alone."""
    found = QueryBuilder().register("t", DeltaTable(path, version=version)).execute("SELECT id, note FROM t")
    return sorted(map(tuple, (row.values() for row in pa.RecordBatchReader.from_stream(found).read_all().to_pylist())))


def by_polars(path: str, version: int) -> list[tuple[object, ...]]:
    return sorted(pl.scan_delta(path, version=version).select("id", "note").collect().rows())


def by_duckdb(path: str, version: int) -> list[tuple[object, ...]]:
    place = path.replace("'", "''")
    found = loaded("delta").execute(f"SELECT id, note FROM delta_scan('{place}', version={version})")
    return sorted(found.fetchall())


ENGINES = [by_rust, by_polars, by_duckdb]


def ours(client: Client, table: str, at: int) -> list[tuple[object, ...]]:
    with client.snapshot(at=at) as snapshot:
        return sorted(map(tuple, (row.values() for row in snapshot.to_arrow(table, ["id", "note"]).to_pylist())))


def test_every_version_is_what_a_snapshot_of_its_commit_shows(client: Client, new_table: NewTable) -> None:
    table = new_table(properties={"publish": "delta"})
    all_is_published(client, table)
    commits = [client.write(rows(1, 2, 3), table).commit_timestamp]
    commits.append(client.write(rows(4), table).commit_timestamp)
    commits.append(client.delete_where(table, "id = 2").commit_timestamp)
    commits.append(client.update_where(table, {"note": "'other'"}, "id >= 3").commit_timestamp)
    commits.append(client.write(rows(9), table, "overwrite").commit_timestamp)
    commits.append(client.truncate(table).commit_timestamp)
    commits.append(client.write(rows(5, 6), table).commit_timestamp)
    wait_until(lambda: published(client, table, commits[-1]), "the last commit is published")
    assert check_versions(client, table) == 1 + len(commits)
    assert [at for _, at in entries(client, table)][1:] == commits


def all_is_published(client: Client, *tables: str) -> None:
    for table in tables:
        wait_until(lambda table=table: client.publication(table).is_current, f"{table} is published")


def check_versions(client: Client, table: str) -> int:
    """Each version, by each engine, against the snapshot of its commit; returns how many there are."""
    path, seen = place(client, table), entries(client, table)
    assert [version for version, _ in seen] == list(range(len(seen)))
    assert [at for _, at in seen] == sorted(at for _, at in seen)
    for version, at in seen:
        expected = ours(client, table, at)
        for read in ENGINES:
            assert read(path, version) == expected, (read, version)
    return len(seen)


def is_healthy(cluster: LocalCluster, table: str) -> bool:
    result = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--json", "--table", table])
    return result.exit_code == 0 and not json.loads(result.output)["findings"]


def compacted(client: Client, table: str) -> None:
    client.compact(table, kind="major", wait=False)
    assert Worker(client.session, "here", threading.Event(), table).run_once()


def test_whatever_becomes_of_a_table(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table, drawn, following = new_table(properties={"publish": "delta"}), random.Random(7), 0
    all_is_published(client, table)
    for step in range(25):
        match drawn.choice(["append", "append", "delete", "update", "overwrite", "compact"]):
            case "append":
                client.write(rows(*range(following, following + 5)), table)
                following += 5
            case "delete":
                client.delete_where(table, f"id % 7 = {drawn.randrange(7)}")
            case "update":
                client.update_where(table, {"note": f"'{step}'"}, f"id % 5 = {drawn.randrange(5)}")
            case "overwrite":
                client.write(rows(following), table, "overwrite")
                following += 1
            case "compact":
                client.write(rows(following), table)
                following += 1
                compacted(client, table)
    all_is_published(client, table)
    assert check_versions(client, table) > 10
    assert is_healthy(cluster, table)


def test_a_table_is_published_from_when_it_is_said_on(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1), table)
    client.write(rows(2), table)
    with pytest.raises(InvalidArgument, match="is not published"):
        client.publication(table)
    client.alter_table(table, properties={"publish": "Delta"})
    all_is_published(client, table)
    assert len(entries(client, table)) == 1
    client.alter_table(table, properties={"publish": None})
    client.write(rows(3), table)
    client.write(rows(4), table)
    client.alter_table(table, properties={"publish": "delta"})
    all_is_published(client, table)
    check_versions(client, table)


def test_columns_that_came_meanwhile_are_published_with_the_next_pass(client: Client, new_table: NewTable) -> None:
    table = new_table(properties={"publish": "delta"})
    client.write(rows(1), table)
    all_is_published(client, table)
    client.alter_table(table, properties={"publish": None})
    client.alter_table(table, add="more int")
    client.alter_table(table, properties={"publish": "delta"})
    path = place(client, table)
    wait_until(lambda: "more" in {each.name for each in DeltaTable(path).schema().fields}, "it is told of")
    client.write(rows(2), table)
    all_is_published(client, table)
    check_versions(client, table)


def test_the_log_goes_on_over_a_rename_and_the_name_is_free_for_another_log(
    cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    table = new_table(properties={"publish": "delta"})
    client.write(rows(1), table)
    all_is_published(client, table)
    path, named = place(client, table), f"{table}_b"
    client.rename_table(table, named)
    last = client.write(rows(2), named).commit_timestamp
    client.create_table(table, "id bigint, note string", properties={"publish": "delta"})
    client.write(rows(100), table)
    all_is_published(client, table, named)
    assert (place(client, named), client.publication(named).is_foreign) == (path, False)
    assert entries(client, named)[-1][1] == client.publication(named).commit_timestamp == last
    check_versions(client, named)
    check_versions(client, table)
    assert is_healthy(cluster, table)
    assert is_healthy(cluster, named)
    Path(path, "_delta_log", f"{entries(client, named)[-1][0] + 1:020}.json").write_text('{"commitInfo":{}}\n')
    client.write(rows(3), named)
    wait_until(lambda: client.publication(named).is_foreign, "the entry of another writer is seen")


def test_plain_readers_wait_for_a_compaction(client: Client, new_table: NewTable) -> None:
    table = new_table(properties={"publish": "delta-plain"})
    client.write(rows(1, 2, 3), table)
    all_is_published(client, table)
    client.delete_where(table, "id = 2")
    last = client.write(rows(4), table).commit_timestamp
    assert not client.publication(table).is_current
    compacted(client, table)
    all_is_published(client, table)
    assert client.publication(table).commit_timestamp > last
    assert sorted(DeltaTable(place(client, table)).to_pyarrow_table()["id"].to_pylist()) == [1, 3, 4]
    check_versions(client, table)


def test_another_writer_is_refused_and_its_entry_is_never_overwritten(client: Client, new_table: NewTable) -> None:
    table = new_table(properties={"publish": "delta"})
    client.write(rows(1), table)
    all_is_published(client, table)
    path = place(client, table)
    with pytest.raises(DeltaError, match="txnstatus"):
        write_deltalake(path, rows(2), mode="append")
    version = entries(client, table)[-1][0] + 1
    entry = Path(path, "_delta_log", f"{version:020}.json")
    entry.write_text('{"commitInfo":{"engineInfo":"somebody"}}\n')
    client.write(rows(3), table)
    wait_until(lambda: client.publication(table).is_foreign, "the entry is seen")
    assert entry.read_text() == '{"commitInfo":{"engineInfo":"somebody"}}\n'
    assert ours(client, table, client.last_commit()) == [(1, "row 1"), (3, "row 3")]
    assert not Path(path, "_delta_log", f"{version + 1:020}.json").exists()


def test_what_cannot_be_published_is_told(client: Client, new_table: NewTable) -> None:
    keyed = new_table(primary_key=["id"])
    for wrong in (
        lambda: client.alter_table(keyed, properties={"publish": "delta"}),
        lambda: new_table(primary_key=["id"], properties={"publish": "delta"}),
        lambda: new_table(properties={"publish": "iceberg"}),
    ):
        with pytest.raises(InvalidArgument, match="publish") as refused:
            wrong()
        assert "publish_iceberg" in refused.value.hint or "iceberg" in refused.value.message


def test_leaders_that_are_killed_leave_one_order_of_commits(client: Client, cluster: LocalCluster) -> None:
    client.create_table("p.killed", "id bigint, note string", properties={"publish": "delta"})
    for number, node in enumerate(cluster.configs):
        for following in range(4):
            client.write(rows(10 * number + following), "p.killed")
        cluster.kill(node)
        client.write(rows(10 * number + 9), "p.killed", timeout=60)
        cluster.start_node(node)
    wait_until(lambda: client.publication("p.killed").is_current, "all is published", timeout=60)
    check_versions(client, "p.killed")
    assert len(ours(client, "p.killed", client.last_commit())) == 15


def test_a_dropped_tables_log_goes_with_it(tmp_path: Path) -> None:
    txn = FAST_TXN.model_copy(
        update={
            "snapshot_retention_seconds": 1,
            "snapshot_lease_seconds": 1.0,
            "zombie_grace_seconds": 0.2,
            "retention_ms": 0,
        }
    )
    with fast_cluster(tmp_path, txn=txn) as hasty, connect(hasty) as client:
        client.create_table("p.going", "id bigint, note string", properties={"publish": "delta"})
        client.write(rows(1), "p.going")
        all_is_published(client, "p.going")
        path = Path(place(client, "p.going"))
        client.drop_table("p.going")
        wait_until(lambda: not path.exists(), f"{path} to go", 60)
