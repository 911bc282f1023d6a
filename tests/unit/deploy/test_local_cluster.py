"""A cluster on this machine that does not come up: the error names its nodes' logs. It named nothing to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from txndeploy.local.cluster import LocalCluster

MUTE = ("sh", "-c", "exec sleep 60")
"""Before a node's command: a process that runs and never answers."""
REFUSES = ("sh", "-c", "echo no such thing; exit 2")


def test_nodes_that_do_not_answer_in_time(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1, launcher=MUTE, secure=False, compactor=False)
    try:
        cluster.start_node("n1")
        with pytest.raises(TimeoutError) as error:
            cluster.wait_ready(timeout=0.1)
    finally:
        cluster.stop()
    assert str(error.value) == f"a leader of every group (the nodes' logs are {tmp_path}/*/node.log): not within 0 s"


def test_a_node_that_refuses_to_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as error, LocalCluster(tmp_path, 1, launcher=REFUSES, secure=False):
        pass
    assert str(error.value) == f"node n1 could not start; its log is {tmp_path}/n1/node.log:\nno such thing"
