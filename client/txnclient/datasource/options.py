"""Options of the data source: what a program says by text, as what it means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from txnstatus.errors import InvalidArgument

_KNOWN = (
    "cluster",
    "owner",
    "table",
    "asOf",
    "since",
    "until",
    "changes",
    "startingTimestamp",
    "maxCommitsPerTrigger",
    "label",
    "mergeSchema",
)
_ALSO = ("path", "checkpointlocation")
"""Options that Spark sets by itself."""
LATEST = "latest"
Point = int | str | datetime | None


@dataclass(frozen=True, slots=True)
class Options:
    """What the program has asked for."""

    cluster: str
    owner: str | None
    tables: tuple[str, ...]
    as_of: Point
    since: Point
    until: Point
    changes: bool
    start: Point
    """The point from which a stream reads, `LATEST`, or None: all that there is."""
    max_commits: int | None
    label: str
    merge_schema: bool
    """Whether a write adds the columns that its table has not."""

    @property
    def table(self) -> str:
        """The one table. Raises InvalidArgument."""
        if len(self.tables) != 1:
            raise InvalidArgument(f"{len(self.tables)} tables are named: only readStream reads several")
        return self.tables[0]

    @property
    def shows_changes(self) -> bool:
        return self.changes or self.since is not None or self.until is not None


def parse(given: Mapping[str, str]) -> Options:
    """Raises InvalidArgument, naming the option. Spark has their names in lower case."""
    known = {name.lower(): name for name in _KNOWN}
    unknown = [name for name in given if name.lower() not in (*known, *_ALSO)]
    if unknown:
        raise InvalidArgument(f"option {min(unknown)!r} is unknown; there are {', '.join(_KNOWN)}")
    said = {known[name.lower()]: value for name, value in given.items() if name.lower() in known}
    cluster = said.get("cluster") or os.environ.get("TXN_CLUSTER", "")
    if not cluster:
        raise InvalidArgument(
            "no cluster is named", hint='.option("cluster", "127.0.0.1:7051"), or TXN_CLUSTER in the environment'
        )
    named = said.get("table") or given.get("path", "")
    tables = tuple(dict.fromkeys(name.strip() for name in named.split(",") if name.strip()))
    if not tables:
        raise InvalidArgument("no table is named", hint='.option("table", "air.flights")')
    return Options(
        cluster,
        said.get("owner"),
        tables,
        _point("asOf", said.get("asOf")),
        _point("since", said.get("since")),
        _point("until", said.get("until")),
        _flag("changes", said.get("changes", "false")),
        LATEST if said.get("startingTimestamp") == LATEST else _point("start", said.get("startingTimestamp")),
        _count("maxCommitsPerTrigger", said.get("maxCommitsPerTrigger")),
        said.get("label", "spark txn"),
        _flag("mergeSchema", said.get("mergeSchema", "false")),
    )


def _point(name: str, said: str | None) -> Point:
    """A commit's timestamp, a time with a zone, or the name of a savepoint."""
    if said is None or not said.isascii():
        return said
    if said.isdecimal():
        return int(said)
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        return said
    if at.tzinfo is None:
        raise InvalidArgument(f"{name} = {said!r} has no time zone", hint=f"{said}Z is that time in UTC")
    return at


def _flag(name: str, said: str) -> bool:
    if said.lower() not in ("true", "false"):
        raise InvalidArgument(f"{name} = {said!r:.100}: true and false are possible")
    return said.lower() == "true"


def _count(name: str, said: str | None) -> int | None:
    if said is not None and not (said.isascii() and said.isdecimal() and int(said) > 0):
        raise InvalidArgument(f"{name} = {said!r:.100}: a whole number above 0 is possible")
    return None if said is None else int(said)
