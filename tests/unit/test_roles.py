"""What a node's roles begin with, without a process around them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from txndeploy.config import NodeConfig, NodeEntry
from txndeploy.roles import Roles
from txndeploy.sim.disk import SimDisk
from txnstatus.catalog import CATALOG
from txnstatus.catalog_service import CatalogMachine
from txnstatus.cluster_map import ClusterMap
from txnstatus.environment import Environment
from txnstatus.raft.transport import RaftTransport
from txnstatus.system_client import TxnSystemClient


def test_the_catalogs_log_is_replayed_on_what_the_cluster_began_with_not_on_what_the_node_heard_last() -> None:
    """Else the entries apply a second time, and the replica's versions are not the others'."""
    config = NodeConfig(
        cluster_id="c",
        node_id="n1",
        data_dir=Path("/n1"),
        warehouse="file:///w",
        nodes={f"n{number}": NodeEntry(address=f"h:{number}") for number in (1, 2, 3)},
    )
    founded = config.initial_catalog()
    cluster = ClusterMap(replace(founded, version=7))
    environment = Environment(disk=SimDisk(random.Random(1)))
    transport = cast(RaftTransport, SimpleNamespace(add=lambda _driver: None))
    roles = Roles(config, environment, TxnSystemClient(cluster, environment), transport, 1)
    machine = roles._groups[CATALOG].machine
    assert isinstance(machine, CatalogMachine)
    assert machine.catalog.state == founded
    assert roles.catalog.version == 7
