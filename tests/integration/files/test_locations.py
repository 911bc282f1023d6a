"""Tables outside the warehouse: only where the nodes' configuration allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import SCHEMA, connect, fast_cluster, rows, visible
from txnclient import Client, InvalidArgument
from txndeploy.local.cluster import LocalCluster


def test_without_roots_tables_are_in_the_warehouse(cluster: LocalCluster, client: Client, tmp_path: Path) -> None:
    before = client.tables()
    for location in (tmp_path.as_uri(), f"{cluster.warehouse}2/air", f"{cluster.warehouse}/../air", "s3://lake/air"):
        with pytest.raises(InvalidArgument) as caught:
            client.create_table("t.outside", SCHEMA, location=location)
        assert location in caught.value.message

    assert client.tables() == before
    inside = client.create_table("t.inside", SCHEMA, location=f"{cluster.warehouse}/else/where/")
    assert inside.location == f"{cluster.warehouse}/else/where"


def test_tables_in_a_root_and_none_where_a_link_leads_out(tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    for directory in (allowed, outside):
        directory.mkdir()
    (allowed / "link").symlink_to(outside)
    with (
        fast_cluster(tmp_path / "cluster", nodes=1, table_roots=[allowed.as_uri()]) as cluster,
        connect(cluster) as client,
    ):
        client.create_table("t.one", SCHEMA, location=f"{allowed.as_uri()}/one")
        with client.transaction() as txn:
            txn.write(rows(1), "t.one")
        assert visible(client, "t.one") == [[1]]
        for location, says in (
            (f"{allowed.as_uri()}/link/two", str(outside)),
            (f"{outside.as_uri()}/two", "not allowed"),
        ):
            with pytest.raises(InvalidArgument, match=says) as caught:
                client.create_table("t.two", SCHEMA, location=location)
            assert f"{cluster.warehouse}, {allowed.as_uri()}" in caught.value.message
        assert [info.name for info in client.tables()] == ["t.one"]
    assert not list(outside.iterdir())
