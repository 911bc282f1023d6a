"""Changes of a catalog, as they come over the wire, and what became of them."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.harness.cluster import BOTH
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.errors import TxnError
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.replicated import Rejected


def asked(**command: object) -> cmd.Command:
    """As it comes over the wire."""
    return cmd.from_wire(pb.CatalogCommand(**command))  # type: ignore[arg-type]


def ok(catalog: Catalog, *, changes: bool = True, **command: object) -> CatalogState:
    """The state after a command; its version rises with a change, and only then."""
    before = catalog.state
    outcome = catalog.apply(asked(**command))
    assert isinstance(outcome, CatalogState), outcome
    assert outcome is catalog.state
    if changes:
        assert catalog.state.version == before.version + 1
        assert replace(catalog.state, version=0) != replace(before, version=0)
    else:
        assert catalog.state is before
    return catalog.state


def refused(catalog: Catalog, **command: object) -> TxnError:
    before = catalog.state
    outcome = catalog.apply(asked(**command))
    assert isinstance(outcome, Rejected), outcome
    assert catalog.state is before
    return outcome.error


def swap(old: str, new: str, address: str = "host9:7051") -> pb.CatalogCommand.ReplaceNode:
    return pb.CatalogCommand.ReplaceNode(old_node=old, new_node=new, address=address)


def joining(node: str) -> pb.CatalogCommand.AddNode:
    return pb.CatalogCommand.AddNode(node_id=node, address=f"{node}:1", roles=BOTH)


def draining(node: str, drain: int) -> pb.CatalogCommand.DrainNode:
    return pb.CatalogCommand.DrainNode(node_id=node, drain=drain)  # type: ignore[arg-type]


def move(group: str, old: str = "n2", new: str = "n9") -> pb.CatalogCommand.MoveReplica:
    return pb.CatalogCommand.MoveReplica(group=group, old_node=old, new_node=new)


def spread(groups: int, shards: int) -> Catalog:
    nodes = {f"n{number}": NodeInfo(f"n{number}:1", BOTH) for number in range(3)}
    state = initial(nodes, participant_shards=shards, replication=3, range_span=100, options=Options(), groups=groups)
    return Catalog(replace(state, version=1))
