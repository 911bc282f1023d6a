"""The commands of `txnctl` that look at the whole: how it is, how fast it is, and all of it for a maintainer."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

import txnclient
from txnclient import Client, LockInfo, TxnError, TxnState, TxnSummary
from txnclient.calls.channel import parse_addresses
from txndeploy.overview import bundle
from txndeploy.overview.health import ExitCode, Trouble, exit_code, troubles
from txndeploy.overview.rates import Rates, rates
from txndeploy.terminal import listings
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, tells_errors
from txndeploy.terminal.output import PIPED_COLUMNS, Field, Listing, as_json, console, lines, plain, status_line
from txnstatus.errors import InvalidArgument, NotAuthorized, Unauthenticated, Unavailable
from txnstatus.security import showing
from txnstatus.types import TERMINAL

commands = typer.Typer(rich_markup_mode=None)
debug_app = typer.Typer(help="For whoever maintains this service.", no_args_is_help=True)
commands.add_typer(debug_app, name="debug")

LOOK_SECONDS = 1.0
"""Time in which a node answers that refuses who asks."""
WINDOW_SECONDS = 10.0
LOOKED_AT = 2_000
"""Transactions of the window that are looked at, the newest."""
LIVE_SHOWN = 20
BRIEF_CHARS = 40
"""Characters of a name beside others."""
SECONDS_FROM = 60.0
"""Time from which on nobody counts milliseconds."""


# ---- health


@commands.command()
@tells_errors
def health(cluster: ClusterOption, as_json_: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """Say whether the cluster serves, and whether all nodes and replicas are there.

    Exit code 0: all is well; 1: it serves, and something is amiss, or one is not told; 3: some of it does
    not serve, or nobody answers; 4: one is refused for one's credentials, so it is not known how the cluster is.
    """
    try:
        found = _found(cluster, timeout)
        code = exit_code(found)
    except Unauthenticated as error:
        told = f"{error.message}; {error.hint}" if error.hint else error.message
        found, code = [Trouble(told, is_down=False)], ExitCode.REFUSED
    if as_json_:
        typer.echo(as_json({"exit_code": int(code), "troubles": [dataclasses.asdict(each) for each in found]}))
    else:
        for each in found:
            console().print(Text(lines(each.what), "red" if each.is_down else "yellow"), soft_wrap=True)
        console().print(Text(code.name.lower(), "green" if code is ExitCode.HEALTHY else "red"))
    raise typer.Exit(code)


def _found(cluster: str, timeout: float) -> list[Trouble]:
    """Raises Unauthenticated: nothing is known of the cluster then."""
    try:
        showing.from_environment()
    except InvalidArgument as error:
        raise Unauthenticated(error.message, hint=error.hint) from error
    try:
        with txnclient.connect(cluster, timeout=timeout) as client:
            state = listings.catalog(client)
            return troubles(state, listings.groups(client, state).rows)
    except NotAuthorized as error:
        return [Trouble(error.message, is_down=False)]  # who refuses serves
    except Unauthenticated:
        raise
    except TxnError as error:
        if isinstance(error, Unavailable):
            _see_whether_refused(cluster)
        return [Trouble(error.message, is_down=True)]


def _see_whether_refused(cluster: str) -> None:
    """Raises Unauthenticated where a node refuses who asks, while others may be silent."""
    for address in parse_addresses(cluster):
        with txnclient.connect(address, timeout=LOOK_SECONDS) as one:
            try:
                listings.catalog(one)
            except Unauthenticated:
                raise
            except TxnError:
                continue  # of that one nothing is known either


# ---- top


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    at: datetime
    rates: Rates
    live: Sequence[TxnSummary]
    waiting: Mapping[int, LockInfo]
    """Transaction → what it waits for."""
    troubles: Sequence[Trouble]


@commands.command()
@tells_errors
def top(
    cluster: ClusterOption,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds from one look to the next.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json_: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Show what goes on, over and over until Ctrl-C: rates and latencies, who has been live for longest, what is amiss.

    Rates and latencies are of transactions that began within the last ten seconds. --json looks once.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        if as_json_:
            typer.echo(as_json(_document(_look(client))))
        elif once:
            console().print(_shown(_look(client)))
        else:
            with Live(console=console(), screen=True, auto_refresh=False) as live:
                for now in _looks(client, interval):
                    live.update(now, refresh=True)


def _looks(client: Client, interval: float) -> Iterator[RenderableType]:
    """Until Ctrl-C. What cannot be seen is said, and looked for again."""
    pause = threading.Event()
    while True:
        began = time.monotonic()
        try:
            yield _shown(_look(client))
        except TxnError as error:
            yield Text(lines(str(error)), "red")
        pause.wait(_pause(interval, time.monotonic() - began))


def _pause(interval: float, took: float) -> float:
    """Seconds until the next look. Nodes that take long to answer have as long without one."""
    return max(interval - took, took)


def _look(client: Client) -> _Look:
    at = datetime.now(UTC)
    begun = client.transactions(since=at - timedelta(seconds=WINDOW_SECONDS), limit=LOOKED_AT + 1)
    live = client.transactions(set(TxnState) - TERMINAL)
    state = listings.catalog(client)
    found = troubles(state, listings.groups(client, state).rows)
    waiting = dict[int, LockInfo]()
    try:
        waiting.update((lock.txn_id, lock) for lock in client.locks() if not lock.acquired)
    except TxnError as error:  # some tables cannot be asked: all else is told
        found.append(Trouble(f"who waits for a lock is not known: {error.message}", is_down=False))
    return _Look(
        at,
        rates(begun[:LOOKED_AT], int(at.timestamp() * 1e6), WINDOW_SECONDS, cut=len(begun) > LOOKED_AT),
        sorted(live, key=lambda txn: txn.begin_micros),
        waiting,
        found,
    )


def _live(look: _Look, *, brief: bool = False) -> Listing:
    """`brief`: of long names the middle is left out."""
    fields = (
        Field("id", "id", whole=True),
        Field("state", "state", whole=True),
        Field("age_seconds", "age (s)", whole=True),
        Field("owner", "owner", brief_chars=40),
        Field("label", "label", brief_chars=40),
        Field("waits_for", "waits for"),
    )
    now = int(look.at.timestamp() * 1e6)
    rows = [
        {
            "id": txn.txn_id,
            "state": txn.state.name,
            "age_seconds": max(0, now - txn.begin_micros) // 1_000_000,
            "owner": txn.owner,
            "label": txn.label,
            "waits_for": _waits_for(look.waiting.get(txn.txn_id), brief=brief),
        }
        for txn in look.live[:LIVE_SHOWN]
    ]
    title = f"{len(look.live):,} live transactions, the oldest first"
    return Listing("live", fields, rows, title=title, more=len(look.live) > LIVE_SHOWN)


def _waits_for(lock: LockInfo | None, *, brief: bool) -> str | None:
    if lock is None:
        return None
    name, behind = lock.object, ", ".join(map(str, lock.blocked_by)) or "nobody"
    if brief and len(name) > BRIEF_CHARS:
        name = f"{name[: BRIEF_CHARS // 2]}…{name[-BRIEF_CHARS // 2 :]}"
    return f"{name} ({lock.mode}), behind {behind}"


def _document(look: _Look) -> dict[str, object]:
    found = [dataclasses.asdict(each) for each in look.troubles]
    counts = {"rates": dataclasses.asdict(look.rates), "count": len(look.live)}
    return {"at": look.at, **counts, "troubles": found, **_live(look).document()}


def _shown(look: _Look) -> RenderableType:
    found = look.rates
    ended = f"{found.committed:,.1f} commit, {found.aborted:,.1f} abort, {found.conflicts:,.1f} of these by conflicts"
    out = console()
    return Group(
        Text(f"{look.at:%Y-%m-%d %H:%M:%S} UTC", "bold"),
        Text(f"each second {found.begun:,.1f} begin; of those {ended}"),
        Text(f"commits take {_time(found.median_seconds)} (median), {_time(found.p99_seconds)} (99 of 100)"),
        *(Text(plain(each.what), "red" if each.is_down else "yellow") for each in look.troubles),
        _live(look, brief=out.width < PIPED_COLUMNS).table(out.width),
    )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:,.1f} ms" if seconds < SECONDS_FROM else f"{seconds:,.0f} s"


# ---- debug


@debug_app.command("bundle")
@tells_errors
def debug_bundle(
    cluster: ClusterOption,
    out: Annotated[Path, typer.Argument(help="The file to make: NAME.tar.gz.")],
    directory: Annotated[
        Path | None, typer.Option("--dir", help="A directory of `txnctl up`: its nodes' configurations, logs, metrics.")
    ] = None,
    config: Annotated[list[Path] | None, typer.Option(help="A node's configuration; may be repeated.")] = None,
    log: Annotated[list[Path] | None, typer.Option(help="A log, whose end is taken; may be repeated.")] = None,
    metrics: Annotated[list[str] | None, typer.Option(help="URL of a node's metrics; may be repeated.")] = None,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Put what a maintainer needs into one file: versions, groups, transactions, explanations, configurations, logs.

    What looks like a secret is left out; look at it before you give it away. What cannot be had is said in it.
    """
    configs, logs, urls = list(config or ()), list(log or ()), list(metrics or ())
    if directory is not None:
        configs += sorted(directory.glob("n*/node.toml"))
        logs += [*sorted(directory.glob("n*/node.log")), *directory.glob("compactor.log")]
        urls += bundle.metrics_of(configs)
    shown = showing.from_environment()
    with txnclient.connect(cluster, timeout=timeout) as client, status_line(f"{out} is made"):
        try:
            missing = bundle.write(out, bundle.files(client, configs, logs, urls, shown))
        except OSError as error:
            raise RuntimeError(f"{out} cannot be written: {error.strerror or error}") from error
    for name, why in missing.items():
        console(stderr=True).print(lines(f"{name} is missing: {why}"), style="yellow", soft_wrap=True)
    console().print(f"{plain(str(out))} is made. Look at it before you give it away.", soft_wrap=True)
