"""Tables in a bucket: written, changed, compacted, read, cleaned and examined, without a directory or a rename."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyarrow import fs

from tests.integration.files.object_store import BUCKET, findings, found_by, ids, object_store, serving
from tests.integration.files.two_tables import change_and_clean, make_two_tables, write_to_both
from tests.support import connect, fast_cluster, rows
from txnclient import Client
from txndeploy.node.config import TxnSection
from txnstatus.lake import storage

pytestmark = pytest.mark.cluster
WAREHOUSE = f"s3://{BUCKET}/warehouse"
TXN = TxnSection(zombie_grace_seconds=1.0)
REQUESTS = re.compile(r'"(PUT|POST|DELETE|GET|HEAD) (\S+) HTTP')


def test_tables_in_a_bucket(tmp_path: Path) -> None:
    log = tmp_path / "store.log"
    with (
        object_store(log) as variables,
        fast_cluster(tmp_path / "cluster", nodes=1, warehouse=WAREHOUSE, environment=variables, txn=TXN) as cluster,
        connect(cluster) as client,
    ):
        make_two_tables(client)
        asked = commit_of_two_tables(client, log)
        assert not [each for each in asked if each[0] == "GET" and "list-type" in each[1]], "a commit lists nothing"
        assert not [each for each in asked if each[0] in ("POST", "DELETE")], "a file is one request"
        assert len([each for each in asked if each[0] == "PUT"]) == 4, "two files and two manifests"
        change_and_clean(client, cluster, WAREHOUSE)
        assert client.sql("SELECT count(*) AS n FROM a.keyed").to_pylist() == [{"n": 3}]


def test_each_root_has_a_store_of_its_own(tmp_path: Path) -> None:
    """And a transaction is over tables in both. Neither is found by what the process has in its environment."""
    stores = tmp_path / "stores.toml"
    roots = [f"s3://{BUCKET}/{name}" for name in ("here", "there")]
    with serving(tmp_path / "here.log") as here, serving(tmp_path / "there.log") as there:
        keys = 'region = "us-east-1"\naccess_key = "k"\nsecret_key = "s"'
        said = [f'["{root}"]\nendpoint = "{at}"\n{keys}' for root, at in zip(roots, (here, there), strict=True)]
        stores.write_text("\n".join(said))
        with (
            found_by({"TXN_STORES": str(stores), "AWS_EC2_METADATA_DISABLED": "true"}) as variables,
            fast_cluster(tmp_path / "cluster", nodes=1, table_roots=roots, environment=variables) as cluster,
            connect(cluster) as client,
        ):
            tables = {"a.here": roots[0], "a.there": roots[1]}
            for table, root in tables.items():
                client.create_table(table, "id bigint, note string", location=f"{root}/t")
            with client.transaction() as txn:
                for table in tables:
                    txn.write(rows(1, 2), table)
            assert [ids(client, table) for table in tables] == [[1, 2], [1, 2]]
            assert findings(cluster) == ([], [])
    for log, other in (("here.log", "there"), ("there.log", "here")):
        asked = (tmp_path / log).read_text()
        assert "PUT /" in asked
        assert f"/{BUCKET}/{other}" not in asked


def commit_of_two_tables(client: Client, log: Path) -> list[tuple[str, str]]:
    """Commits, and tells what requests that took in the tables' places: a node looks for its timeline by itself."""
    before = log.stat().st_size
    write_to_both(client)
    asked = REQUESTS.findall(log.read_bytes()[before:].decode())
    return [(method, path) for method, path in asked if "warehouse/a/" in path]


def test_what_is_local_is_synced_though_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of tables in a bucket and on a disk synced nothing where the bucket's came first."""
    local = tmp_path / "db" / "t" / "delta_1_x" / "f.parquet"
    local.parent.mkdir(parents=True)
    local.write_bytes(b"")
    synced: list[str] = []
    elsewhere = fs.SubTreeFileSystem("/elsewhere", fs.LocalFileSystem())
    systems = {"s3://bucket/db/t/delta_1_x/f.parquet": (elsewhere, "f.parquet")}
    located = storage.located
    monkeypatch.setattr(storage, "sync", lambda path: synced.append(str(path)))
    monkeypatch.setattr(storage, "located", lambda uri: systems.get(uri) or located(uri))
    storage.make_durable([*systems, local.as_uri()])
    assert str(local) in synced
