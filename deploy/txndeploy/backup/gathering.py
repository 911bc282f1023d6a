"""Shards that were on their way when a cluster's logs ended, each at a moment of its own: each is in one group again.

What a log says of a shard counts, and not what the catalog does, whose log may end before it heard, or after. Where a
shard has left one log, and is in no other, it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from txnstatus.catalog.catalog import CatalogState, range_number
from txnstatus.raft.migration import Arrives
from txnstatus.raft.parts import Parts, arriving, forgetting, releasing


def gathered(state: CatalogState, groups: Mapping[str, Parts]) -> CatalogState:
    """The catalog by what the groups have then, which this changes, too. `groups`: those of which anything is left."""
    found = dict(state.parts)
    for part in state.parts:
        if range_number(part) is None and (group := _gather(part, groups)) is not None:
            found[part] = group
    unsettled = {part: each for part, each in state.migrations.items() if not _is_in(part, found[part], groups)}
    # No migration to come may have a number that a log has seen.
    seen = max((number for machine in groups.values() for number in machine.migrations.numbers.values()), default=0)
    if (found, unsettled) == (state.parts, state.migrations) and seen <= state.version:
        return state
    return replace(state, parts=found, migrations=unsettled, version=max(state.version, seen) + 1)


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
