"""Tables in a file system of fsspec's that is like HDFS: written, changed, compacted, read, cleaned and examined."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.files.hdfs_like import NAME, asked_of, hdfs_like
from tests.integration.files.two_tables import change_and_clean, make_two_tables, write_to_both
from tests.support import connect, fast_cluster
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
        make_two_tables(client)
        before = len(asked_of(base))
        write_to_both(client)
        asked = [each for each, path in asked_of(base)[before:] if "/lake/a/" in path]
        assert asked.count("create") == 4, "two files and two manifests"
        assert not {"rename", "list", "delete"} & set(asked), "a commit renames nothing and lists nothing"
        change_and_clean(client, cluster, WAREHOUSE)


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
