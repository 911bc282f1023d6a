"""Shards that were on their way when a cluster's logs ended, each at a moment of its own: each is in one group again.

What a log says of a shard counts, and not what the catalog does, whose log may end before it heard, or after. Where a
shard has left one log, and is in no other, it comes back. Where one was split, and then a log begins again in which it
is whole yet, it is split there, too: a table is in one shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.catalog.catalog import CatalogState, range_number
from txnstatus.raft.migration import Arrives, Splits
from txnstatus.raft.parts import Parts, arriving, forgetting, releasing, splitting


def gathered(state: CatalogState, groups: Mapping[str, Parts]) -> CatalogState:
    """The catalog by what the groups have then, which this changes, too. `groups`: those of which anything is left."""
    found = dict(state.parts)
    unheard = {part for machine in groups.values() for part in _shards(machine)} - found.keys()
    for part in [*found, *sorted(unheard)]:
        if range_number(part) is None and (group := _gather(part, groups)) is not None:
            found[part] = group
    _split_again(groups)
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


def _split_again(groups: Mapping[str, Parts]) -> None:
    """The tables that two shards have are the one's with the higher number: it was split off the other one."""
    there = {shard.shard: (part, shard) for machine in groups.values() for part, shard in _shards(machine).items()}
    for number, (part, shard) in sorted(there.items(), reverse=True):
        for group in groups.values():
            for whole, other in _shards(group).items():
                share = tuple(sorted(table.table_id for table in other.tables() if table.table_id in shard.came))
                if other.shard < number and share:
                    _split(whole, part, share, group)


def _split(whole: str, part: str, share: tuple[str, ...], group: Parts) -> None:
    """The group gives the share away, which is in another one's log by now."""
    number = max(group.migrations.numbers.values(), default=0) + 1
    group.apply([releasing(whole, number), splitting(Splits(whole, number, part, share))])
    group.apply([releasing(part, number + 1), forgetting(part, number + 1)])


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
