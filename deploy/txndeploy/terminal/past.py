"""Listings of what a cluster's past is kept by."""

from __future__ import annotations

from collections.abc import Sequence

from txnclient import Savepoint
from txndeploy.terminal.output import Field, Listing


def savepoints(found: Sequence[Savepoint]) -> Listing:
    fields = (
        Field("name", "savepoint"),
        Field("timestamp", "timestamp", hidden=True),
        Field("tables", "tables"),
        Field("owner", "owner"),
        Field("created", "created (UTC)"),
        Field("expires", "expires (UTC)"),
        Field("held_bytes", "kept bytes", grouped=True),
        Field("unfinished", "unfinished", wide=True),
    )
    rows = [
        {
            "name": each.name,
            "timestamp": each.timestamp,
            "tables": list(each.tables) or ["all"],
            "owner": each.owner,
            "created": each.created,
            "expires": each.expires,
            "held_bytes": each.held_bytes,
            "unfinished": each.unfinished,
        }
        for each in found
    ]
    return Listing("savepoints", fields, rows)
