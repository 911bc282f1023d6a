from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.minors import EXECUTORS
from tests.support import connect, fast_cluster
from txnclient import Client
from txnclient.sparksql import attach, detach
from txndeploy.demo.spark_session import LOCAL_CLUSTER, local_cluster_session
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import TxnSection
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IN_DRIVER = "local[2,4]"
"""Two tasks at a time, of which each is tried four times, as by executors."""
_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node, which costs a third of three: a test in which one dies has a cluster of its own, as the demo has."""
    txn = TxnSection(staleness_interval_ms=200, zombie_grace_seconds=1.0)
    with fast_cluster(tmp_path_factory.mktemp("cluster"), nodes=1, txn=txn) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected


@pytest.fixture(scope="package")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose tasks run in the driver's process, which is half the work of three processes' warming up.

    In campaigns, and where EXECUTORS is set, two executors are processes, as those of the demo and of the README are.
    """
    campaign = any(item.get_closest_marker("campaign") for item in request.session.items)
    master = LOCAL_CLUSTER if campaign or EXECUTORS in os.environ else IN_DRIVER
    with local_cluster_session("tests", tmp_path_factory.mktemp("spark"), master) as session:
        yield session


@pytest.fixture(scope="package")
def catalog(spark: SparkSession, cluster: LocalCluster) -> Iterator[str]:
    """The name of the catalog that is attached to the session."""
    with connect(cluster) as connected:
        attach(spark, connected, name="txn")
        yield "txn"
        detach(spark, name="txn")


@pytest.fixture
def sql(spark: SparkSession, catalog: str) -> Callable[[str], DataFrame]:
    """Runs a statement in a session to which the catalog is attached."""
    return spark.sql


@pytest.fixture
def nothing_left(sql: Callable[[str], DataFrame], client: Client) -> Iterator[None]:
    """No test leaves a transaction open."""
    yield
    if left := client.transactions([TxnState.OPEN]):
        sql("ROLLBACK")
    assert not left


@pytest.fixture
def new_table(client: Client) -> Callable[..., str]:
    """Makes a table of the test's own."""

    def make(schema: object, **options: object) -> str:
        name = f"s.table_{next(_numbers)}"
        client.create_table(name, schema, **options)  # type: ignore[arg-type]
        return name

    return make


@pytest.fixture
def attempts(tmp_path: Path) -> Path:
    """A directory in which tasks of all processes leave marks."""
    path = tmp_path / "attempts"
    path.mkdir()
    return path


@pytest.fixture
def failing(spark: SparkSession, attempts: Path) -> Callable[[int], DataFrame]:
    """Rows of two tasks, of which one fails its first `times` attempts after it has written some."""
    marks = str(attempts)

    def rows(times: int) -> DataFrame:
        def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                if batch.column(0)[0].as_py() >= 5:
                    done = len(list(Path(marks).iterdir()))
                    if done < times:
                        (Path(marks) / str(done)).touch()
                        raise ValueError("this attempt fails")

        return spark.range(0, 10, 1, 2).mapInArrow(each, "id bigint")

    return rows
