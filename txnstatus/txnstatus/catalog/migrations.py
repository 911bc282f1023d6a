"""Which group's log a shard is in: what commands about that do to the catalog."""

from __future__ import annotations

from dataclasses import replace

from txnstatus import features
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CatalogState, shard_group, shard_number
from txnstatus.catalog.placement import Migration
from txnstatus.errors import IllegalState, InvalidArgument, NotFound

Command = cmd.MigrateShard | cmd.SplitShard | cmd.FinishMigration


def changed(state: CatalogState, command: Command) -> CatalogState:
    """Raises TxnError."""
    match command:
        case cmd.MigrateShard(shard, group):
            return _migrate(state, shard, group)
        case cmd.SplitShard(shard, new_shard):
            return _split(state, shard, new_shard)
        case cmd.FinishMigration(shard, number):
            return _finish(state, shard_group(shard), number)


def half_of(state: CatalogState, group: str) -> list[int]:
    """The shards that leave a group which is split in two: every other one. Raises InvalidArgument, IllegalState.

    Whatever could be refused later is refused here: the group that is added first stays.
    """
    state.check_placement(group)
    features.Gate("catalog", lambda: state.level).check([cmd.MigrateShard(0, group)])
    under_way = {*state.migrations, *state.unborn}
    shards = [shard for shard in state.shards_of[group] if shard_group(shard) not in under_way]
    if len(shards) < 2:
        for shard in state.shards_of[group]:
            if (way := state.migrations.get(shard_group(shard))) is not None:
                raise IllegalState(f"shard {shard} is {way}: without it {group} has no half to give", hint=_WAIT)
        raise IllegalState(
            f"{group} has one shard, which stays: there is nothing to split",
            hint="split the shard by its tables first: txnctl shard split",
        )
    return shards[1::2]


def _migrate(state: CatalogState, shard: int, group: str) -> CatalogState:
    part = _check_shard(state, shard)
    state.check_placement(group)
    if (under_way := state.migrations.get(part)) is not None and under_way.new_shard is None:
        if under_way.group == group:
            return state
        raise IllegalState(f"shard {shard} is {under_way}: it cannot go to {group} meanwhile", hint=_WAIT)
    _check_whole(state, shard)
    source = state.parts[part]
    if source == group:
        return state
    leaving = {of for of, each in state.migrations.items() if each.group != source}
    if all(shard_group(other) in leaving for other in state.shards_of[source] if other != shard):
        raise IllegalState(
            f"shard {shard} is the last one of {source}: a group that has shards keeps one",
            hint="move another one there first, if this one is to go",
        )
    # What this change makes of the catalog has the next version.
    return replace(state, migrations={**state.migrations, part: Migration(group, state.version + 1)})


def _split(state: CatalogState, shard: int, new_shard: int) -> CatalogState:
    part, new_part = _check_shard(state, shard), shard_group(new_shard)
    if state.origins.get(new_shard) == shard:
        return state
    following = state.shards[-1] + 1
    if new_shard != following:
        raise InvalidArgument(
            f"no shard can be split off as {new_shard}: the next one is {following}",
            hint="another one may have come in the meantime: ask again",
        )
    if (under_way := state.migrations.get(part)) is not None and under_way.new_shard is None:
        raise IllegalState(f"shard {shard} is {under_way}: it stays whole meanwhile", hint=_WAIT)
    _check_whole(state, shard)
    group = state.parts[part]
    return replace(
        state,
        parts={**state.parts, new_part: group},
        migrations={**state.migrations, part: Migration(group, state.version + 1, new_shard)},
        origins={**state.origins, new_shard: shard},
    )


def _check_shard(state: CatalogState, shard: int) -> str:
    """Its name as a part. Raises NotFound."""
    part = shard_group(shard)
    if part not in state.parts:
        raise NotFound(f"no shard {shard}; there are {', '.join(map(str, state.shards))}")
    return part


def _check_whole(state: CatalogState, shard: int) -> None:
    """Raises IllegalState where it is being split, or is what is split off."""
    for part, each in state.migrations.items():
        if each.new_shard is not None and shard in (shard_number(part), each.new_shard):
            raise IllegalState(
                f"shard {shard} is {each if each.new_shard != shard else 'not split off yet'}", hint=_WAIT
            )


_WAIT = "wait until that is done: txnctl shard list"


def _finish(state: CatalogState, part: str, number: int) -> CatalogState:
    under_way = state.migrations.get(part)
    if under_way is None or under_way.number != number:
        return state
    left = {each: of for each, of in state.migrations.items() if each != part}
    return replace(state, parts={**state.parts, part: under_way.group}, migrations=left)
