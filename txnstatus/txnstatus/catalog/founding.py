"""What a cluster begins with, by its configuration, and who it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, FIRST_GROUP, CatalogState, group_name, shard_group, status_group
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options


def initial(
    nodes: Mapping[str, NodeInfo],
    *,
    participant_shards: int,
    replication: int,
    range_span: int,
    options: Options,
    groups: int = 1,
    level: int = features.OWN.newest,
) -> CatalogState:
    """What a cluster begins with: a function of its configuration, the same on every node.

    `groups`: logs that the shards are spread over. Each has a status range, too, unless other nodes keep those. Shards
    come from the last group on: where there are more groups than shards, the first has none, and the only range.
    `level`: the newest that this program does.
    """
    state = CatalogState(range_span, nodes, {}, {}, replication, participant_shards, options=options, level=level)
    status, participants = state.with_role("status"), state.with_role("participant")
    together = status == participants
    members = {CATALOG: placed(status, 0, replication)}
    if not together:
        members[FIRST_GROUP] = placed(status, 0, replication)
    of_shards = [group_name(number) for number in range(not together, groups + (not together))]
    members |= {name: placed(participants, number, replication) for number, name in enumerate(of_shards)}
    shards = {shard_group(shard): of_shards[-1 - shard % groups] for shard in range(participant_shards)}
    with_ranges = of_shards if together and groups <= participant_shards else [FIRST_GROUP]
    ranges = {status_group(number): group for number, group in enumerate(with_ranges)}
    return replace(state, groups=members, parts={**shards, **ranges}, next_range=len(ranges))


def founding_id(name: str, drawn: int) -> str:
    """The id of a cluster that is founded now; `drawn`: 128 bits of chance."""
    return f"{name}.{drawn:032x}"


def name_in(cluster_id: str) -> str:
    """The cluster's name: what people call it."""
    return cluster_id.rpartition(".")[0]


def placed(candidates: Sequence[str], number: int, replication: int) -> tuple[str, ...]:
    """The members of the `number`th group of a kind: from a start that differs by group, so that groups spread."""
    start = number % len(candidates)
    return tuple([*candidates[start:], *candidates[:start]][:replication])
