"""The commands of `txnctl group`, `txnctl shard` and `txnctl database`: where tables are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

import txnclient
from txndeploy.local.cluster import wait_until
from txndeploy.terminal import listings
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import Field, Listing, console, plain, status_line
from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.catalog.migrations import half_of
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
group_app = typer.Typer(help="Add groups of replicas, each with its log, and split them.", no_args_is_help=True)
shard_app = typer.Typer(help="Move shards, each with its tables, to other groups; split them.", no_args_is_help=True)
database_app = typer.Typer(help="Say where new tables of a database are, and look at it.", no_args_is_help=True)
_GOES_ON = "the cluster goes on with it: txnctl shard list"
commands.add_typer(group_app, name="group")
commands.add_typer(shard_app, name="shard")
commands.add_typer(database_app, name="database")


@group_app.command("add")
@tells_errors
def add(cluster: ClusterOption, timeout: TimeoutOption = 60.0) -> None:
    """Add a group, on the nodes that there are. New tables can be placed there; what there is stays where it is."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        console().print(f"{plain(client.add_group())} is there.")


@group_app.command("split")
@tells_errors
def split(
    cluster: ClusterOption,
    group: Annotated[str, typer.Argument(help="Such as group-0.")],
    timeout: TimeoutOption = 600.0,
) -> None:
    """Split a group in two: a group is added, and every other shard goes there, with its tables and their past.

    The cluster serves meanwhile. The tables of a shard wait while it is on its way. If this command is ended, a shard
    that is on its way arrives, and the others stay: `txnctl shard move` takes them to the new group.
    """
    with txnclient.connect(cluster, timeout=60.0) as client:
        shards = half_of(listings.catalog(client), group)
        new = client.add_group()
        console().print(f"{plain(new)} is there.")
        _move(client, shards, new, timeout)


@shard_app.command("list")
@tells_errors
def shard_list(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List the shards, the group that each is in, where it is on its way to, and which one it was split off."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        state = listings.catalog(client)
    rows = [_row(state, shard) for shard in state.shards]
    fields = (
        Field("shard", "shard"),
        Field("group", "group"),
        Field("goes_to", "on its way to"),
        Field("split_into", "is split into"),
        Field("split_off", "was split off"),
    )
    show(Listing("shards", fields, rows, title="shards"), as_json=as_json)


@shard_app.command("move")
@tells_errors
def shard_move(
    cluster: ClusterOption,
    shard: Annotated[int, typer.Argument(min=0, help="Its number, as txnctl table show tells it.")],
    group: Annotated[str, typer.Argument(help="Such as group-1.")],
    timeout: TimeoutOption = 600.0,
) -> None:
    """Move a shard, with its tables and their past, into another group's log, while the cluster serves.

    Its tables wait while it is on its way. The cluster goes on with it when this command is ended, or a node is.
    """
    with txnclient.connect(cluster, timeout=60.0) as client:
        _move(client, [shard], group, timeout)


@shard_app.command("split")
@tells_errors
def shard_split(
    cluster: ClusterOption,
    shard: Annotated[int, typer.Argument(min=0, help="Its number, as txnctl table show tells it.")],
    timeout: TimeoutOption = 600.0,
) -> None:
    """Split a shard in two by its tables, while the cluster serves. The new one is in the same group, and can be moved.

    The tables with a half of the recent work go, each with its past and its id. Those that had a name in common stay
    together. New tables with names that the shard has by their hashes are in either of them from then on.
    """
    with txnclient.connect(cluster, timeout=60.0) as client, status_line("shard is split") as tell:
        new = listings.catalog(client).shards[-1] + 1
        tell(f"shard {shard} is split into {shard} and {new}")
        asked = admin_pb2.SplitShardRequest(shard=shard, new_shard=new)
        client.call("txnstatus.Admin/SplitShard", asked, admin_pb2.SplitShardResponse)
        wait_until(
            partial(_is_split, client, shard_group(shard), new), f"shard {new} split off {shard} ({_GOES_ON})", timeout
        )
    console().print(plain(f"Shard {shard} is split: a half of its work is shard {new}'s."))


def _is_split(client: txnclient.Client, part: str, new_shard: int) -> bool:
    under_way = listings.catalog(client).migrations.get(part)
    return under_way is None or under_way.new_shard != new_shard


def _row(state: CatalogState, shard: int) -> dict[str, object]:
    under_way = state.migrations.get(shard_group(shard))
    is_split = under_way is not None and under_way.new_shard is not None
    return {
        "shard": shard,
        "group": state.parts[shard_group(shard)],
        "goes_to": under_way.group if under_way and not is_split else None,
        "split_into": under_way.new_shard if under_way else None,
        "split_off": state.origins.get(shard),
    }


def _move(client: txnclient.Client, shards: Sequence[int], group: str, timeout: float) -> None:
    """One after the other: what waits is never more than one shard's tables."""
    with status_line("shards move") as tell:
        for number, shard in enumerate(shards):
            tell(f"shard {shard} goes to {group}, {len(shards) - number} to go")
            asked = admin_pb2.MigrateShardRequest(shard=shard, group=group)
            client.call("txnstatus.Admin/MigrateShard", asked, admin_pb2.MigrateShardResponse)
            part = shard_group(shard)
            left = ", ".join(map(str, shards[number + 1 :]))
            later = f"; not on their way: {left}, for txnctl shard move" if left else ""
            wait_until(partial(_is_in, client, part, group), f"shard {shard} in {group} ({_GOES_ON}{later})", timeout)
    told = "Shard" if len(shards) == 1 else "Shards"
    console().print(plain(f"{told} {', '.join(map(str, shards))} in {group}."))


def _is_in(client: txnclient.Client, part: str, group: str) -> bool:
    return listings.catalog(client).parts.get(part) == group


@database_app.command("list")
@tells_errors
def database_list(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List the databases whose new tables have a group. Those of all others are where the hashes of their names say."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        rows = [{"database": name, "group": group} for name, group in sorted(client.placements().items())]
    fields = (Field("database", "database"), Field("group", "group of its new tables"))
    show(Listing("databases", fields, rows, title="placed databases"), as_json=as_json)


@database_app.command("place")
@tells_errors
def place(
    cluster: ClusterOption,
    database: str,
    group: Annotated[str, typer.Argument(help="Such as group-1; empty: by the hashes of the tables' names.")],
    timeout: TimeoutOption = 10.0,
) -> None:
    """Have new tables of a database be in a group. Those that are there stay where they are."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.place_database(database, group or None)
    where = f"in {group}" if group else "where the hashes of their names say"
    console().print(f"New tables of {plain(database)} are {plain(where)}.")
