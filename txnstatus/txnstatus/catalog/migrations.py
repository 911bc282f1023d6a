"""Which group's log a shard is in: what commands about that do to the catalog."""

from __future__ import annotations

from dataclasses import replace

from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.catalog.placement import Migration
from txnstatus.errors import IllegalState, NotFound

Command = cmd.MigrateShard | cmd.FinishMigration


def changed(state: CatalogState, command: Command) -> CatalogState:
    """Raises TxnError."""
    match command:
        case cmd.MigrateShard(shard, group):
            return _migrate(state, shard, group)
        case cmd.FinishMigration(shard, number):
            return _finish(state, shard_group(shard), number)


def half_of(state: CatalogState, group: str) -> list[int]:
    """The shards that leave a group which is split in two: every other one. Raises InvalidArgument, IllegalState."""
    state.check_placement(group)
    shards = [shard for shard in state.shards_of[group] if shard_group(shard) not in state.migrations]
    if len(shards) < 2:
        raise IllegalState(f"{group} has one shard, which stays: there is nothing to split")
    return shards[1::2]


def _migrate(state: CatalogState, shard: int, group: str) -> CatalogState:
    part = shard_group(shard)
    if part not in state.parts:
        raise NotFound(f"no shard {shard}; there are {', '.join(map(str, state.shards))}")
    state.check_placement(group)
    if (under_way := state.migrations.get(part)) is not None:
        if under_way.group == group:
            return state
        raise IllegalState(
            f"shard {shard} is on its way to {under_way.group}: it cannot go to {group} meanwhile",
            hint="wait until it is there: txnctl shard list",
        )
    source = state.parts[part]
    if source == group:
        return state
    if all(shard_group(other) in state.migrations for other in state.shards_of[source] if other != shard):
        raise IllegalState(
            f"shard {shard} is the last one of {source}: a group that has shards keeps one",
            hint="move another one there first, if this one is to go",
        )
    # What this change makes of the catalog has the next version.
    return replace(state, migrations={**state.migrations, part: Migration(group, state.version + 1)})


def _finish(state: CatalogState, part: str, number: int) -> CatalogState:
    under_way = state.migrations.get(part)
    if under_way is None or under_way.number != number:
        return state
    left = {each: of for each, of in state.migrations.items() if each != part}
    return replace(state, parts={**state.parts, part: under_way.group}, migrations=left)
