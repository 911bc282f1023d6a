"""Nodes and groups: who is silent, which group has no leader, which replica is behind, and which are not alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from txnstatus.catalog.catalog import CatalogState
from txnstatus.findings import Finding, Kind
from txnstatus.proto import admin_pb2 as pb

Look = Mapping[str, pb.GetNodeResponse | None]
"""What each node said of itself; None: nothing."""


class Groups:
    """Judges by several looks: what a failover or a slow answer explains is gone at the next one."""

    def __init__(self) -> None:
        self._goals: dict[str, int] = {}
        """Group → what was committed there at the first look that knew."""
        self._digests: defaultdict[tuple[str, int], dict[bytes, list[str]]] = defaultdict(dict)
        """Group and index → digest → the nodes that have it."""

    def findings(self, state: CatalogState, look: Look) -> list[Finding]:
        """As of this look, the last, and of the catalog before it: groups come and go."""
        for status in look.values():
            for group in status.groups if status else ():
                if group.leader:
                    self._goals.setdefault(group.group, group.commit_index)
        return [*_of_nodes(state, look), *self._of_groups(state, look)]

    def compare(self, look: Look) -> None:
        """A look with digests."""
        for node, status in look.items():
            for group in status.groups if status else ():
                nodes = self._digests[group.group, group.applied_index].setdefault(group.digest, [])
                if node not in nodes:
                    nodes.append(node)

    @property
    def compared(self) -> set[str]:
        """Groups of which at least two replicas were seen at one index."""
        return {
            group
            for (group, _), by_digest in self._digests.items()
            if sum(len(nodes) for nodes in by_digest.values()) > 1
        }

    def _of_groups(self, state: CatalogState, look: Look) -> Iterator[Finding]:
        statuses = {
            (node, group.group): group for node, status in look.items() for group in (status.groups if status else ())
        }
        for name in sorted(state.groups):
            members = state.replicas(name)
            replicas = {node: statuses.get((node, name)) for node in members}
            if not any(replica and replica.leader for replica in replicas.values()):
                silent = [node for node in members if look.get(node) is None]
                story = f"of {', '.join(members)}" + (f"; silent: {', '.join(silent)}" if silent else "")
                yield Finding(Kind.NO_LEADER, name, "", story)
            for node, replica in replicas.items():
                if look.get(node) is None:
                    continue
                if replica is None:
                    yield Finding(Kind.REPLICA_BEHIND, name, node, f"{node} has no replica of it")
                elif replica.applied_index < self._goals.get(name, 0):
                    story = f"{node} is at entry {replica.applied_index}, {self._goals[name]} was committed before"
                    yield Finding(Kind.REPLICA_BEHIND, name, node, story)

    def differing(self) -> Iterator[Finding]:
        for (group, index), by_digest in sorted(self._digests.items()):
            if len(by_digest) > 1:
                sides = " and ".join(f"{', '.join(nodes)}" for nodes in by_digest.values())
                yield Finding(Kind.REPLICAS_DIFFER, group, str(index), f"at entry {index}: {sides}")


def _of_nodes(state: CatalogState, look: Look) -> Iterator[Finding]:
    for node, status in look.items():
        if status is None:
            yield Finding(Kind.NODE_SILENT, node, "", f"no answer from {state.nodes[node].address}")
