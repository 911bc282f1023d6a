"""A cluster as its catalog knows it, and the configuration of one of its nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from txndeploy.node.config import NodeConfig, NodeEntry
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options

BOTH = ("status", "participant")
NODES = {f"n{number}": NodeInfo(f"host{number}:7051", BOTH) for number in range(1, 5)}
CONFIG = NodeConfig(
    cluster_name="c",
    node_id="n1",
    data_dir=Path("/n1"),
    warehouse="file:///w",
    nodes={f"n{number}": NodeEntry(address=f"h:{number}") for number in (1, 2, 3)},
)


def new_catalog(nodes: int = 4, *, shards: int = 5, replication: int = 3, groups: int = 1) -> Catalog:
    some = dict(list(NODES.items())[:nodes])
    state = initial(
        some, participant_shards=shards, replication=replication, range_span=100, options=Options(), groups=groups
    )
    return Catalog(replace(state, version=1))  # founded
