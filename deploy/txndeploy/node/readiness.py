"""Whether a node serves: what a load balancer, or an upgrade that goes from node to node, waits for."""

from __future__ import annotations

from txndeploy.node.roles import Roles


def not_ready(roles: Roles) -> str:
    """Why it does not; empty: it does, and each of its groups has a leader that it knows, here or elsewhere."""
    if roles.registry.leaving is not None:
        return "it stops"
    if missing := roles.missing:
        return f"it has no replica yet of {', '.join(missing)}"
    replicas = sorted(roles.replicas.items())
    if full := [name for name, group in replicas if group.no_room]:
        return f"its disk is full: {', '.join(full)}"
    if orphans := [name for name, group in replicas if not group.leader]:
        return f"it knows no leader of {', '.join(orphans)}"
    return ""
