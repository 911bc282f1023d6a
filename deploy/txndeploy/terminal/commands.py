"""What the commands of `txnctl` share: their options, how they show a listing, and how they tell of errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ParamSpec

import typer
from rich.text import Text

from txnclient import TxnError
from txndeploy.errors import ConfigError
from txndeploy.logs import Level, LogFormat
from txndeploy.terminal.output import Listing, console, lines

P = ParamSpec("P")

ClusterOption = Annotated[
    str,
    typer.Option("--cluster", "-c", envvar="TXN_CLUSTER", help="Addresses of nodes: host:port, comma-separated."),
]
TimeoutOption = Annotated[float, typer.Option(help="Seconds to keep trying.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document, for programs.")]
LogLevelOption = Annotated[Level, typer.Option("--log-level", help="The least that the log tells.")]
LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Lines for people, or JSON objects.")]
NEGATIVE_NUMBERS = {"ignore_unknown_options": True}
"""Settings of a command that takes a number: -5 is one, and no option that there is not."""
ValueArgument = Annotated[int, typer.Argument(min=-(1 << 63), max=(1 << 63) - 1, help="0: no limit, where it is one.")]
"""What goes over the wire as a number: what is out of range is told by whoever has the range."""


def tells_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Errors are for people here: what happened and what to do, on stderr, and exit code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise  # RuntimeErrors, of all things
        except (TxnError, ConfigError, TimeoutError, RuntimeError) as error:
            said = Text.assemble(("error: ", "red"), lines(str(error)))
            console(stderr=True).print(said, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


@contextmanager
def storage_errors(where: Path) -> Iterator[None]:
    """An OSError in the block is one for people, too."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{error.filename or where}: {error.strerror or error}") from error


def show(listing: Listing, *, as_json: bool) -> None:
    if as_json:
        typer.echo(listing.to_json())
    else:
        out = console()
        out.print(listing.table(out.width))
