"""The commands of `txnctl` that have to do with compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar, get_args

import typer

import txnclient
from txnclient import CompactionSummary
from txnclient.client import optimizing
from txnclient.compact.asking import DEFAULT_TIMEOUT_SECONDS, Kind, State
from txndeploy.logs import Level, LogFormat
from txndeploy.node import compactor as process
from txndeploy.terminal import listings, output
from txndeploy.terminal.commands import (
    ClusterOption,
    JsonOption,
    LogFormatOption,
    LogLevelOption,
    TimeoutOption,
    show,
    tells_errors,
)
from txndeploy.terminal.output import console, plain, status_line

commands = typer.Typer(rich_markup_mode=None)
WordT = TypeVar("WordT", bound=str)


@commands.command()
@tells_errors
def compactor(
    cluster: ClusterOption,
    table: Annotated[str, typer.Option(help="Work for this table alone.")] = "",
    threads: Annotated[int, typer.Option(min=1, max=64, help="Compactions at a time.")] = 1,
    memory: Annotated[
        int, typer.Option(min=64, help="MiB that they may take for rows, all together.")
    ] = process.DEFAULT_MEMORY_MIB,
    once: Annotated[bool, typer.Option("--once", help="End when there is nothing to do.")] = False,
    large: Annotated[
        int, typer.Option(min=1, help="MiB: a compaction that reads as much is left to those with --spark.")
    ] = process.DEFAULT_LARGE_MIB,
    spark: Annotated[
        str, typer.Option(metavar="MASTER", help="Have Spark do large ones: local[4], spark://host:7077, yarn, ...")
    ] = "",
    spark_conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark's; may be repeated.")
    ] = None,
    log_level: LogLevelOption = Level.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Do compactions, until SIGTERM or Ctrl-C: any number of these may run, anywhere that reaches nodes and storage.

    What is under way when it ends is given back, and begun anew by another one; killing it loses nothing either. With
    --spark, --memory is of each of its tasks. No compaction is left to somebody who is not there: see compact_wait_ms.
    """
    settings = dict(_setting(each) for each in spark_conf or ())
    if settings and not spark:
        raise typer.BadParameter("there is no --spark that they are for", param_hint="--spark-conf")
    wanted = process.Spark(spark, settings) if spark else None
    code = process.run(
        cluster,
        table=table,
        threads=threads,
        memory_mib=memory,
        large_mib=large,
        once=once,
        spark=wanted,
        log_level=log_level,
        log_format=log_format,
    )
    raise typer.Exit(code)


def _setting(text: str) -> tuple[str, str]:
    """Raises BadParameter."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--spark-conf")
    return name, value


@commands.command()
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


@tells_errors
def optimize(
    cluster: ClusterOption,
    name: str,
    sort_by: Annotated[
        list[str] | None, typer.Option(help="Order rows by this column; may be repeated, the first counts most.")
    ] = None,
    zorder: Annotated[
        list[str] | None, typer.Option(help="Or by several columns that count alike: once for each.")
    ] = None,
    partition: Annotated[str, typer.Option(help="Only this partition: column=value/...")] = "",
    as_json: JsonOption = False,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to give way to others who write.")
    ] = optimizing.DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Write a table's rows anew in another order, so that readers with a filter leave more files out.

    An overwrite, done here, with one partition after the other in memory. It gives way to whoever else writes to the
    table: it waits for them, and begins anew when one of them commits first. Exit code 1: others wrote all the time,
    and nothing has changed.
    """
    if bool(sort_by) == bool(zorder):
        raise typer.BadParameter("say one of them, and which columns", param_hint="--sort-by, --zorder")
    with txnclient.connect(cluster) as client, status_line(f"{name} is read") as tell:
        receipt = client.optimize(
            name,
            sort_by=sort_by or (),
            zorder=zorder or (),
            partition=partition or None,
            timeout=timeout,
            progress=lambda now: tell(f"{name}: {now}"),
        )
    if as_json:
        found = {"txn_id": receipt.txn_id, "commit_timestamp": receipt.commit_timestamp}
        typer.echo(output.as_json({"optimized": {"table": name, **found}}))
        return
    console().print(f"{plain(name)} is ordered by {plain(', '.join(sort_by or zorder or ()))} now.", soft_wrap=True)


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
