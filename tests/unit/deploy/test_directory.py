"""A data directory: which versions open it, by the feature level that the node has heard of last."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from txndeploy.errors import StartError
from txndeploy.node import directory
from txndeploy.node.config import NodeConfig, NodeEntry
from txndeploy.node.process import Node
from txnstatus import features
from txnstatus.features import Levels


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    nodes = {"n1": NodeEntry(address="127.0.0.1:7070")}
    return NodeConfig(
        cluster_name="air",
        node_id="n1",
        data_dir=tmp_path / "data",
        warehouse=tmp_path.as_uri(),
        nodes=nodes,
        insecure=True,
    )


def opened(config: NodeConfig, levels: Levels = features.OWN) -> None:
    os.close(directory.own(config, levels))


def heard(config: NodeConfig, level: int) -> None:
    opened(config)
    directory.keep(config, replace(config.initial_catalog(), cluster_id="air.1", level=level))


def noted(config: NodeConfig) -> dict[str, object]:
    return dict(json.loads((config.data_dir / "node.json").read_text()))


def test_at_the_first_level_it_is_as_versions_of_before_have_it(config: NodeConfig) -> None:
    opened(config)
    made = noted(config)
    heard(config, features.FIRST)
    assert noted(config) == made
    assert made["format"] == 2
    assert "level" not in made


def test_from_the_second_level_on_versions_of_before_refuse_it(config: NodeConfig) -> None:
    """They look at the format alone."""
    heard(config, features.REGISTERED)
    assert noted(config)["format"] == 3
    assert noted(config)["level"] == features.REGISTERED
    opened(config)


def test_a_version_that_does_not_do_the_level_refuses_it(config: NodeConfig) -> None:
    heard(config, features.REGISTERED)
    with pytest.raises(StartError, match="does feature levels 1 alone, and the cluster is at 2: it takes a version"):
        opened(config, Levels(features.FIRST, features.FIRST))
    with pytest.raises(StartError, match="older than this one"):
        opened(config, Levels(3, 4))


def test_before_the_founding_nothing_is_noted(config: NodeConfig) -> None:
    opened(config)
    directory.keep(config, config.initial_catalog())
    assert "level" not in noted(config)
    assert directory.saved_catalog(config) == config.initial_catalog()


def test_an_older_state_takes_nothing_back(config: NodeConfig) -> None:
    heard(config, features.REGISTERED)
    heard(config, features.FIRST)
    assert noted(config)["level"] == features.REGISTERED


def test_what_was_left_of_a_replica_that_is_gone_is_removed(config: NodeConfig) -> None:
    left = config.data_dir / "raft" / "group-1.gone"
    left.mkdir(parents=True)
    (left / "snapshot").write_bytes(b"")
    opened(config)
    assert not left.exists()


def config_of_n2(config: NodeConfig, *, joins: bool) -> NodeConfig:
    nodes = {**config.nodes, "n2": NodeEntry(address="127.0.0.1:7071")}
    return config.model_copy(update={"node_id": "n2", "joins": joins, "nodes": nodes})


@pytest.mark.parametrize("joins", [True, False])
async def test_a_node_that_was_removed_does_not_wait_to_be_let_in(config: NodeConfig, joins: bool) -> None:
    """Nobody joins under a name that was given up. With `joins` it waited for ever."""
    own = config_of_n2(config, joins=joins)
    opened(own)
    state = replace(config.initial_catalog(), cluster_id="air.1", version=7)
    directory.keep(own, replace(state, revoked=frozenset({"node/n2"})))
    node = Node(own)
    with pytest.raises(StartError, match="node n2 is none of cluster air any more: it was removed"):
        await node.start()
    await node.stop()


async def test_a_node_that_is_to_join_waits(config: NodeConfig) -> None:
    own = config_of_n2(config, joins=True)
    opened(own)
    directory.keep(own, replace(config.initial_catalog(), cluster_id="air.1", version=7))
    node = Node(own)
    assert node.unfit is None
    await node.stop()
