from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.minors import EXECUTORS
from txndeploy.demo.spark_session import LOCAL_CLUSTER, local_cluster_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_DRIVER = "local[2,4]"
"""Two tasks at a time, of which each is tried four times, as by executors."""


@pytest.fixture(scope="package")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose tasks run in the driver's process, which is half the work of three processes' warming up.

    In campaigns, and where EXECUTORS is set, two executors are processes, as those of the demo and of the README are.
    """
    campaign = any(item.get_closest_marker("campaign") for item in request.session.items)
    master = LOCAL_CLUSTER if campaign or EXECUTORS in os.environ else IN_DRIVER
    with local_cluster_session("tests", tmp_path_factory.mktemp("spark"), master) as session:
        yield session
