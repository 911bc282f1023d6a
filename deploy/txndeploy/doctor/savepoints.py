"""Savepoints that keep much, and those whose makers have died over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from txnclient import Savepoint
from txnstatus.findings import Finding, Kind

MIB = 1 << 20


def troubling(found: Iterable[Savepoint], now: datetime, patience_seconds: float, warn_mib: int) -> Iterator[Finding]:
    """`patience_seconds`: how long one may be in the making. `warn_mib`: what one may keep."""
    for each in found:
        where = ", ".join(each.tables) or "all tables"
        seconds = (now - each.created).total_seconds()
        if each.unfinished and seconds > patience_seconds:
            story = f"{each.owner} began to make it {seconds:.0f} s ago; what it would keep is kept"
            yield Finding(Kind.UNFINISHED_SAVEPOINT, where, each.name, story)
        if each.held_bytes >= warn_mib * MIB:
            until = f"until {each.expires:%Y-%m-%d %H:%M} UTC" if each.expires else "until it is released"
            story = f"it keeps {each.held_bytes // MIB:,} MiB that only readers of the past see, {until}"
            yield Finding(Kind.COSTLY_SAVEPOINT, where, each.name, story)
