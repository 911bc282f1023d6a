"""A node, as the catalog has it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from txnstatus.features import Levels
from txnstatus.proto import catalog_pb2 as pb


class Drain(IntEnum):
    """What is taken from a node."""

    SERVES = 0
    """Nothing."""
    LEADS_NOTHING = 1
    """The leading of groups, where another one can."""
    LEAVES = 2
    """Leadership and replicas: it gives those away that it has, and gets none."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    address: str
    roles: tuple[str, ...]
    version: str = ""
    levels: Levels | None = None
    """The feature levels that it does; None: it has not said so yet."""
    drain: Drain = Drain.SERVES


def node_to_wire(node: str, info: NodeInfo) -> pb.CatalogState.Node:
    levels = info.levels or Levels(0, 0)
    return pb.CatalogState.Node(
        node_id=node,
        address=info.address,
        roles=info.roles,
        version=info.version,
        oldest_level=levels.oldest,
        newest_level=levels.newest,
        drain=info.drain.name,
    )


def node_from_wire(wire: pb.CatalogState.Node) -> NodeInfo:
    """Raises ValueError for a drain that there is not."""
    levels = Levels(wire.oldest_level, wire.newest_level) if wire.newest_level else None
    return NodeInfo(wire.address, tuple(wire.roles), wire.version, levels, Drain(wire.drain))
