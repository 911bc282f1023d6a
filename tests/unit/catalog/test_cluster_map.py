"""ClusterMap: takes what is newer, tells those who wait, and says where things are."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from txnstatus.catalog.catalog import CATALOG, CatalogState
from txnstatus.catalog.cluster_map import ClusterMap, shard_of_table_id
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.errors import NotFound, Unavailable


def at(version: int) -> CatalogState:
    nodes = {name: NodeInfo(f"{name}:1", ("status", "participant")) for name in ("n1", "n2", "n3")}
    state = initial(nodes, participant_shards=4, replication=3, range_span=100, options=Options())
    return replace(state, version=version)


def test_a_newer_state_is_taken_and_told_and_an_older_one_is_not() -> None:
    cluster = ClusterMap(at(3))
    heard: list[int] = []
    cluster.subscribe(lambda state: heard.append(state.version))
    for version in (2, 3, 5, 4, 5, 6):
        cluster.update(at(version))
    assert heard == [5, 6]
    assert cluster.state.version == 6


async def test_who_waits_is_told_when_it_is_so() -> None:
    cluster = ClusterMap(at(0))
    waiting = [
        asyncio.create_task(cluster.wait_for(lambda state, v=v: state.version >= v, "news", 60)) for v in (0, 1, 3)
    ]
    await asyncio.sleep(0)
    for version in (1, 2, 3):
        cluster.update(at(version))
        await asyncio.sleep(0)
    assert [state.version for state in await asyncio.gather(*waiting)] == [0, 1, 3]


def test_what_never_comes_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"range 7: the catalog did not say so within 0\.0 s"):
        asyncio.run(ClusterMap(at(0)).wait_for(lambda _state: False, "range 7", 0.001))


def test_where_groups_nodes_and_tables_are() -> None:
    cluster = ClusterMap(at(0))
    assert cluster.members(CATALOG) == ("n1", "n2", "n3")
    with pytest.raises(NotFound, match="status-1"):
        cluster.members("status-1")
    assert cluster.address("n2") == "n2:1"
    assert cluster.address("n9") is None


def test_the_shard_of_a_table_never_changes() -> None:
    """It is where the table's records are; the numbers are those of zlib.crc32."""
    cluster = ClusterMap(at(0))
    assert [cluster.shard_of_table(name) for name in ("air.flights", "air.weather", "a.b", "ü.ß")] == [1, 1, 1, 2]
    assert {cluster.shard_of_table(f"db.t{number}") for number in range(50)} == {0, 1, 2, 3}


def test_a_table_id_names_its_shard() -> None:
    assert shard_of_table_id("12.0") == 12
    for wrong in ("", "x.0", ".1"):
        with pytest.raises(ValueError, match="invalid literal"):
            shard_of_table_id(wrong)
