"""Shards that were on their way when a cluster's logs ended, each at a moment of its own: each is in one group again.

What a log says of a shard counts, and not what the catalog does, whose log may end before it heard, or after. Where a
shard has left one log, and is in no other, it comes back. Where one was split, and then a log begins again in which it
is whole yet, that one gives it what went: a table is in one shard, and whoever is asked for it says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard.commands import PlaceTable
from txnparticipant.shard.dividing import names
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.catalog.catalog import CatalogState, range_number
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.raft.migration import Arrives
from txnstatus.raft.parts import Parts, arriving, forgetting, releasing


def gathered(state: CatalogState, groups: Mapping[str, Parts]) -> CatalogState:
    """The catalog by what the groups have then, which this changes, too. `groups`: those of which anything is left."""
    found = dict(state.parts)
    unheard = {part for machine in groups.values() for part in _shards(machine)} - found.keys()
    for part in [*found, *sorted(unheard)]:
        if range_number(part) is None and (group := _gather(part, groups)) is not None:
            found[part] = group
    _hear_of_each_other(state, groups)
    # What is split is split by its log, or stays whole: then the new shard begins with nothing.
    unsettled = {
        part: each
        for part, each in state.migrations.items()
        if each.new_shard is None and not _is_in(part, found[part], groups)
    }
    # No migration to come may have a number that a log has seen.
    seen = max((number for machine in groups.values() for number in machine.migrations.numbers.values()), default=0)
    origins = _origins(groups) | dict(state.origins)
    if (found, unsettled, origins) == (state.parts, state.migrations, state.origins) and seen <= state.version:
        return state
    version = max(state.version, seen) + 1
    return replace(state, parts=found, migrations=unsettled, origins=origins, version=version)


def _shards(machine: Parts) -> dict[str, ParticipantShard]:
    return {part: each.shard for part, each in machine.machines.items() if isinstance(each, ShardMachine)}


def _origins(groups: Mapping[str, Parts]) -> dict[int, int]:
    """Shards, and those that have given them tables."""
    shards = [shard for machine in groups.values() for shard in _shards(machine).values()]
    return {gone.shard: shard.shard for shard in shards for gone in shard.gone.values()}


def _hear_of_each_other(state: CatalogState, groups: Mapping[str, Parts]) -> None:
    """A log that ends before the others has tables that went later, or does not know that there are such, or that they
    are called so. A table is with the shard of the highest number that it has come to."""
    shards = {each.shard: each for machine in groups.values() for each in _shards(machine).values()}
    for later in sorted(shards.values(), key=lambda each: -each.shard):
        for each in (each for each in shards.values() if each.shard < later.shard):
            were_here = {id_ for id_ in later.came if id_ in each.came or id_.startswith(f"{each.shard}.")}
            if unheard := were_here - each.gone.keys():
                each.gave_once(later, unheard)
    cluster = ClusterMap(state)
    for keeper in shards.values():
        for name in sorted({name for table in keeper.tables() if not table.is_database for name in names(table)}):
            home = shards.get(cluster.shard_by_hash(name))
            if home is not None and home is not keeper:
                home.apply(PlaceTable(name, keeper.shard))


def _is_in(part: str, group: str, groups: Mapping[str, Parts]) -> bool:
    return group in groups and part in groups[group].machines


def _gather(part: str, groups: Mapping[str, Parts]) -> str | None:
    """Has the group with the shard's last state serve it, and no other one; None where there is nothing of it."""
    stays = {name: stay for name, machine in groups.items() if (stay := machine.stay(part)) is not None}
    left = {
        name: machine.migrations.released[part].number
        for name, machine in groups.items()
        if part in machine.migrations.released
    }
    # One that has come by a number is later than one that has left by it.
    found = max(
        [*((stay, 1, name) for name, stay in stays.items()), *((number, 0, name) for name, number in left.items())],
        default=None,
    )
    if found is None:
        return None
    number, is_there, last = found
    if not is_there:
        _come_back(part, number + 1, groups[last])
    for name in stays.keys() - {last}:
        groups[name].apply([releasing(part, number), forgetting(part, number)])
    return last


def _come_back(part: str, number: int, group: Parts) -> None:
    """The group takes what it has left behind, as from another one's log."""
    commands, released, is_last = list[bytes](), group.migrations.released[part], False
    while not is_last:
        data, is_last, goes_on = released.chunk(len(commands))
        commands.append(arriving(Arrives(part, number, len(commands), data, is_last, goes_on)))
    group.apply(commands)
