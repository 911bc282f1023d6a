"""Listings of what a cluster's past is kept by, and of how far sources have been taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from txnclient import Mark, Past, Savepoint, TableChange
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


def marks(found: Sequence[Mark]) -> Listing:
    fields = (
        Field("source", "source"),
        Field("position", "position", brief_chars=60),
        Field("txn_id", "transaction", whole=True),
        Field("owner", "owner"),
        Field("written", "written (UTC)"),
    )
    rows = [
        {
            "source": each.source,
            "position": json.dumps(each.position),
            "txn_id": each.txn_id,
            "owner": each.owner,
            "written": each.written,
        }
        for each in found
    ]
    return Listing("marks", fields, rows)


def timeline(found: Sequence[Past]) -> Listing:
    fields = (
        Field("id", "id", whole=True),
        Field("state", "state", lambda state: "green" if state == "COMMITTED" else "red"),
        Field("owner", "owner"),
        Field("label", "label"),
        Field("begin", "begin (UTC)", wide=True),
        Field("end", "end (UTC)"),
        Field("commit_timestamp", "commit timestamp", hidden=True),
        Field("tables", "tables"),
        Field("abort_code", "abort code", hidden=True),
        Field("aborted_by", "aborted by", hidden=True),
        Field("abort_reason", "abort reason", brief_chars=60),
        Field("winner", "winner", hidden=True),
        Field("conflicts", "conflicts", hidden=True),
        Field("undoes", "undoes", hidden=True),
    )
    return Listing("timeline", fields, list(map(row, found)))


def row(txn: Past) -> Mapping[str, Any]:
    """One that is over, as a timeline has it."""
    return {
        "id": txn.txn_id,
        "state": txn.state,
        "owner": txn.owner,
        "label": txn.label,
        "begin": txn.began,
        "end": txn.ended,
        "commit_timestamp": txn.commit_timestamp or None,
        "tables": list(map(_told, txn.tables)),
        "abort_code": txn.abort_code or None,
        "aborted_by": txn.aborted_by or None,
        "abort_reason": txn.abort_reason or None,
        "winner": txn.winner,
        "conflicts": list(txn.conflicts),
        "undoes": txn.undoes,
    }


def _told(change: TableChange) -> str:
    """The table, and what became of it: `air.flights: 100 rows in 2 files, 3 deleted`."""
    parts = []
    if change.added_files:
        parts.append(f"{change.added_rows:,} rows in {change.added_files:,} files")
    if change.deleted_rows:
        parts.append(f"{change.deleted_rows:,} deleted")
    if change.changed_rows:
        parts.append(f"{change.changed_rows:,} by key")
    return f"{change.table}: {', '.join(parts)}" if parts else change.table
