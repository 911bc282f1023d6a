"""Tables in a file system of fsspec's that is like HDFS: written, changed, compacted, read, cleaned and examined."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.files.hdfs_like import NAME, asked_of, hdfs_like
from tests.integration.files.object_store import findings, ids
from tests.support import connect, fast_cluster, rows, wait_until
from txnclient import InvalidArgument
from txndeploy.local import spawning
from txndeploy.node.config import TxnSection
from txnstatus.lake import storage, timeline

WAREHOUSE = f"fsspec+{NAME}://name/lake"
TXN = TxnSection(zombie_grace_seconds=1.0)


@pytest.mark.cluster
def test_tables_in_a_file_system_like_hdfs(tmp_path: Path) -> None:
    base = tmp_path / "hdfs"
    with (
        hdfs_like(base) as variables,
        fast_cluster(
            tmp_path / "cluster", nodes=1, warehouse=WAREHOUSE, environment=variables, txn=TXN, spawn=spawning.fresh
        ) as cluster,
        connect(cluster) as client,
    ):
        client.create_table("a.plain", "id bigint, note string")
        client.create_table("a.keyed", "id bigint, note string", primary_key=["id"])
        before = len(asked_of(base))
        with client.transaction() as txn:
            txn.write(rows(1, 2), "a.plain")
            txn.write(rows(1), "a.keyed")
        asked = [each for each, path in asked_of(base)[before:] if "/lake/a/" in path]
        assert asked.count("create") == 4, "two files and two manifests"
        assert not {"rename", "list", "delete"} & set(asked), "a commit renames nothing and lists nothing"
        assert (ids(client, "a.plain"), ids(client, "a.keyed")) == ([1, 2], [1])
        with client.transaction() as txn:
            txn.upsert("a.keyed", rows(2, 3))
        with client.transaction() as txn:
            txn.delete_where("a.plain", "id = 1")
        assert (ids(client, "a.plain"), ids(client, "a.keyed")) == ([2], [1, 2, 3])
        given_up = client.begin()
        given_up.write(rows(9), "a.plain")
        given_up.abort("is not wanted")
        wait_until(lambda: len(storage.tree(f"{WAREHOUSE}/a/plain") or ()) == 2, "what was aborted is removed", 60)
        client.optimize("a.plain", sort_by=["id"])
        assert ids(client, "a.plain") == [2]
        assert findings(cluster) == ([], [])


def test_what_others_list_is_there_once_all_of_it_is(tmp_path: Path) -> None:
    base, name = tmp_path / "hdfs", f"{WAREHOUSE}/{timeline.FOLDER}/one.parquet"
    with hdfs_like(base):
        storage.put_whole(name, b"all of it")
        assert storage.read_file(name) == b"all of it"
        assert [each for each, _ in asked_of(base) if each != "read"] == ["create", "rename"]
        with pytest.raises(FileExistsError):
            storage.put_whole(name, b"another one")
        assert storage.read_file(name) == b"all of it"


def test_what_is_no_file_system_of_fsspec_is_refused() -> None:
    for uri, why in (
        ("fsspec+nobody://name/lake", "nobody"),
        ("fsspec+file:///lake", "file:///lake"),
        ("fsspec+local:///lake", "file:///lake"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            storage.file_system(uri)
