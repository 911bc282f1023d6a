"""The commands of `txnctl` that have to do with compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar, get_args

import typer

import txnclient
from txnclient import CompactionSummary
from txnclient.compact.asking import DEFAULT_TIMEOUT_SECONDS, Kind, State
from txndeploy.node import compactor as process
from txndeploy.terminal import listings
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, plain, status_line

WordT = TypeVar("WordT", bound=str)


@tells_errors
def compactor(
    cluster: ClusterOption,
    table: Annotated[str, typer.Option(help="Work for this table alone.")] = "",
    threads: Annotated[int, typer.Option(min=1, max=64, help="Compactions at a time.")] = 1,
    memory: Annotated[
        int, typer.Option(min=64, help="MiB that they may take for rows, all together.")
    ] = process.DEFAULT_MEMORY_MIB,
    once: Annotated[bool, typer.Option("--once", help="End when there is nothing to do.")] = False,
) -> None:
    """Do compactions, until SIGTERM or Ctrl-C: any number of these may run, anywhere that reaches nodes and storage.

    What is under way when it ends is given back, and begun anew by another one; killing it loses nothing either.
    """
    raise typer.Exit(process.run(cluster, table=table, threads=threads, memory_mib=memory, once=once))


@tells_errors
def compactions(
    cluster: ClusterOption,
    table: Annotated[str, typer.Option(help="Only of this table.")] = "",
    state: Annotated[str, typer.Option(help=f"Only in this state: {', '.join(get_args(State))}.")] = "",
    partition: Annotated[str, typer.Option(help="Only of this partition: column=value/...")] = "",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Show compactions that are wanted or under way, and how the last ones ended: some of each way, for each table."""
    chosen: State | None = one_of(state, get_args(State), "--state") if state else None
    with txnclient.connect(cluster, timeout=timeout) as client:
        found = client.compactions(table or None, chosen)
    found = [each for each in found if partition in ("", each.partition)]
    show(listings.compactions(found), as_json=as_json)


@tells_errors
def compact(
    cluster: ClusterOption,
    name: str,
    partition: Annotated[str, typer.Option(help="Only this partition: column=value/...")] = "",
    kind: Annotated[
        str, typer.Option(help="major: all files, without deleted rows; minor: small files only.")
    ] = "major",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when it is over.")] = False,
    as_json: JsonOption = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Have a table's files written anew: fewer and larger ones, with the same rows. Writers and readers go on.

    It is asked for, and done by `txnctl compactor`. Exit code 1 with --wait: one has failed, or is not over in time.
    """
    chosen: Kind = one_of(kind, get_args(Kind), "--kind")
    with txnclient.connect(cluster) as client, status_line(f"{name} waits for a worker") as tell:

        def progress(now: Sequence[CompactionSummary]) -> None:
            tell(f"{name}: {_progress(now)}")

        found = client.compact(name, partition or None, chosen, wait=wait, timeout=timeout, progress=progress)
    if not found and not as_json:
        console().print(f"{plain(name)} has nothing to compact.")
        return
    show(listings.compactions(found), as_json=as_json)


def _progress(now: Sequence[CompactionSummary]) -> str:
    over = sum(each.is_over for each in now)
    workers = sorted({each.worker for each in now if each.state == "working"})
    return f"{over} of {len(now)} are over; {', '.join(workers) if workers else 'no worker'} at work"


def one_of(text: str, known: Sequence[WordT], option: str) -> WordT:
    """Raises BadParameter."""
    for each in known:
        if each == text.lower():
            return each
    raise typer.BadParameter(f"{text!r}: there are {', '.join(known)}", param_hint=option)
