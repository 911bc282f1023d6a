"""Two drivers of one stream at once, each a process with a Spark of its own, over one checkpoint."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.stream_drivers import FILE_ROWS, driver, written
from tests.spark.two_streams_job import BATCHES, IDS
from tests.support import wait_until
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

FILES = 4
LIFE_SECONDS = 240
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(2 * LIFE_SECONDS)]


def test_a_driver_that_was_thought_dead_writes_nothing_more(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    """One stands still in a batch, another one goes on from its checkpoint, and the first one wakes up."""
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        ids = pa.array(range(number * FILE_ROWS, (number + 1) * FILE_ROWS), pa.int64())
        pq.write_table(pa.table({"id": ids}), tmp_path / "in" / f"{number}.parquet")
    client.create_table(IDS, "id bigint")
    client.create_table(BATCHES, "batch int, rows bigint")
    with driver(cluster, tmp_path, "first") as first:
        wait_until((tmp_path / "first.inside").exists, "the first driver is in its second batch", LIFE_SECONDS)
        (tmp_path / "second.go").touch()
        with driver(cluster, tmp_path, "second") as second:
            assert second.wait(LIFE_SECONDS) == 0, (tmp_path / "second.log").read_text()[-5000:]
        before = written(client)
        (tmp_path / "first.go").touch()
        assert first.wait(LIFE_SECONDS) == 1
    assert "another copy of query" in (tmp_path / "first.log").read_text()
    assert written(client) == before
    assert before == (list(range(FILES * FILE_ROWS)), [(number, FILE_ROWS) for number in range(FILES)])
