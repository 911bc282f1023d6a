"""Nodes that come and go while a cluster serves: as an operator has them do, and under kills meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tests.faults.rig import RECOVERY_SECONDS, Rig
from tests.support import connect, wait_until
from txnclient import Client
from txndeploy.terminal.listings import catalog
from txnstatus.catalog.catalog import shard_group
from txnstatus.proto import admin_pb2

ROLES = ("manager", "status", "participant")


def drain(client: Client, node: str, what: str) -> None:
    order = admin_pb2.DrainNodeRequest(node_id=node, drain=what)
    client.call("txnstatus.Admin/DrainNode", order, admin_pb2.DrainNodeResponse)


def come_and_go(client: Client, new: str, address: str, old: str) -> None:
    """One node joins, replicas are moved until all have as many, and another node gives its own away and leaves."""

    def rest(before: str) -> None:
        wait_until(lambda: not catalog(client).moves, f"all moves before {before} are done", RECOVERY_SECONDS)

    joins = admin_pb2.AddNodeRequest(node_id=new, address=address, roles=ROLES)
    client.call("txnstatus.Admin/AddNode", joins, admin_pb2.AddNodeResponse)
    client.call("txnstatus.Admin/Rebalance", admin_pb2.RebalanceRequest(), admin_pb2.RebalanceResponse)
    rest("the drain")
    drain(client, old, "LEAVES")
    rest("the end")
    client.call("txnstatus.Admin/RemoveNode", admin_pb2.RemoveNodeRequest(node_id=old), admin_pb2.RemoveNodeResponse)


def migrate(client: Client, shard: int, group: str) -> None:
    order, part = admin_pb2.MigrateShardRequest(shard=shard, group=group), shard_group(shard)
    client.call("txnstatus.Admin/MigrateShard", order, admin_pb2.MigrateShardResponse)
    wait_until(lambda: catalog(client).parts[part] == group, f"{part} is in {group}", RECOVERY_SECONDS)


def migrate_one(client: Client, group: str) -> None:
    """A shard of another group, which is not its last one, goes to the group."""
    state = catalog(client)
    others = (shards for of, shards in state.shards_of.items() if of != group and len(shards) > 1)
    migrate(client, next(others)[0], group)


def migrate_under_kills(rig: Rig) -> None:
    """Each shard goes to a group that it is not in, but for one that is the last of its own, while nodes are killed.

    Where there is one group alone, another one is added first.
    """
    with connect(rig.cluster, timeout=RECOVERY_SECONDS) as client, ThreadPoolExecutor(1) as caller:
        if len(catalog(client).shards_of) == 1:
            client.add_group()
        _kill_until_done(rig, caller.submit(_migrate_all, client), [*rig.cluster.configs], "kill while shards move")
    rig.faults["shards in other groups"] += 1


def _migrate_all(client: Client) -> None:
    for shard in catalog(client).shards:
        state = catalog(client)
        source = state.parts[shard_group(shard)]
        if len(state.shards_of[source]) > 1:
            migrate(client, shard, next(group for group in state.shards_of if group != source))


def spread_under_kills(rig: Rig) -> None:
    """The newest node gives way to one that joins, another one is drained, and both that stay are killed by turns."""
    cluster = rig.cluster
    *stay, old = cluster.configs
    new = f"n{int(old.removeprefix('n')) + 1}"
    drained = rig.dice.choice(stay)
    with connect(cluster, timeout=RECOVERY_SECONDS) as client, ThreadPoolExecutor(1) as caller:
        drain(client, drained, "LEADS_NOTHING")
        called = caller.submit(come_and_go, client, new, cluster.add_node(new), old)
        _kill_until_done(rig, called, stay, "kill while replicas move")
        drain(client, drained, "SERVES")
    cluster.kill(old)
    cluster.forget_node(old)
    rig.faults["node in another one's place"] += 1
    rig.await_nodes()


def _kill_until_done(rig: Rig, called: Future[None], among: Sequence[str], fault: str) -> None:
    """One node after the other is killed and comes back, while something is done, and programs go on."""
    while not called.done():
        victim = rig.dice.choice(among)
        rig.cluster.kill(victim)
        rig.hold(0.1, 0.5)
        rig.cluster.start_node(victim)
        rig.faults[fault] += 1
        rig.await_progress(2)
    called.result()
