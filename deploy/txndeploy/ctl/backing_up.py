"""The commands of `txnctl` that back a cluster up, and make of a backup one for other places."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import txnclient
from txndeploy.backup import moving, taking
from txndeploy.backup.files import Backup
from txndeploy.backup.manifest import Manifest
from txndeploy.terminal.commands import ClusterOption, TimeoutOption, storage_errors, tells_errors
from txndeploy.terminal.output import console, plain, status_line

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
@tells_errors
def backup(
    cluster: ClusterOption,
    directory: Annotated[Path, typer.Argument(help="The backup's directory, which must not be there yet.")],
    with_data: Annotated[
        bool, typer.Option("--data", help="With the tables' files: run it where their storage can be reached.")
    ] = False,
    timeout: TimeoutOption = 60.0,
) -> None:
    """Back up what the cluster knows, as of one moment, while it serves; with --data, the tables' files as well.

    `txnctl node restore` makes the nodes of a new cluster of it.
    """
    with (
        txnclient.connect(cluster, timeout=timeout) as client,
        status_line("backing up") as tell,
        storage_errors(directory),
    ):
        manifest = taking.take(client, directory, tell, with_data=with_data)
    _tell(directory, manifest)


@commands.command()
@tells_errors
def relocate(
    backup: Annotated[Path, typer.Argument(help="A backup with the tables' files.")],
    directory: Annotated[Path, typer.Argument(help="Where to make the other one; it must not be there yet.")],
    root: Annotated[
        list[str],
        typer.Option("--root", help="OLD=NEW, URIs: tables in OLD are to be in NEW. May come several times."),
    ],
) -> None:
    """Make of a backup one whose tables are in other places: `txnctl node restore --data` puts their files there.

    Tables that are in none of the roots stay where they are. Files that are the same are links, where the disk is the
    same.
    """
    with status_line("relocating") as tell, storage_errors(directory):
        manifest = moving.move(Backup(backup), directory, moving.roots_of(root), tell)
    _tell(directory, manifest)


def _tell(directory: Path, manifest: Manifest) -> None:
    size = sum(each.bytes for each in manifest.groups)
    had = f"{len(manifest.groups)} groups of cluster {plain(manifest.cluster_id)}, {size:,} bytes"
    out = console()
    out.print(f"{plain(str(directory))} has {had}.", soft_wrap=True)
    if (data := manifest.data) is not None:
        out.print(f"With {data.files:,} files of tables, {data.data_bytes:,} bytes.")
        if data.elsewhere:
            out.print(
                f"Without {data.elsewhere:,} files that lie outside of their tables' places: back those up yourself."
            )
