"""Which transactions an operator means, and what became of those that he aborts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from txnclient import Client, TxnError, TxnState, TxnSummary
from txnstatus.types import DECIDED_ABORT, DECIDED_COMMIT

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d{1,9})([smhd])")


def states(names: Sequence[str] | None) -> list[TxnState]:
    """Raises BadParameter."""
    known = {each.name: each for each in TxnState}
    for name in names or ():
        if name.upper() not in known:
            raise typer.BadParameter(f"{name!r} is no state; there are {', '.join(known)}", param_hint="--state")
    return [known[name.upper()] for name in names or ()]


def duration(text: str, option: str) -> timedelta:
    """Raises BadParameter."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no time: 90s, 30m, 1h, 2d", param_hint=option)
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long", param_hint=option) from None


def since(text: str, option: str = "--since") -> datetime | None:
    """A moment, or one so long ago. Without a zone it is in UTC. Raises BadParameter."""
    if not text:
        return None
    try:
        if _DURATION.fullmatch(text):
            return datetime.now(UTC) - duration(text, option)
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        said = f"{text!r} is no time: 2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00+01:00, or so long ago: 30m, 2h, 1d"
        raise typer.BadParameter(said, param_hint=option) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def check_ids(client: Client, ids: Sequence[int], found: Sequence[TxnSummary]) -> None:
    """Raises NotFound for a transaction that there never was, Forgotten for one that is forgotten."""
    for txn_id in set(ids) - {txn.txn_id for txn in found}:
        client.get(txn_id)


def check_abort(ids: Sequence[int], older_than: str, filters: Sequence[str]) -> None:
    """Raises BadParameter for what may not mean what it says."""
    if bool(ids) == bool(older_than):
        raise typer.BadParameter("say which ones: their ids, or --older-than and filters", param_hint="TXN_IDS")
    if ids and any(filters):
        raise typer.BadParameter("--label, --owner and --table go with --older-than", param_hint="TXN_IDS")


def aborted(client: Client, txn_id: int, reason: str) -> Mapping[str, Any]:
    """Aborts it, and tells what became of it."""
    note = ""
    before = found = None
    try:
        before = client.get(txn_id)
        client.abort(txn_id, reason)
        found = client.get(txn_id)
    except TxnError as refusal:
        note = refusal.message
    known = found or before
    if before and not found and before.state in DECIDED_COMMIT:
        note = "it has committed: what it wrote is visible and stays"
    if before and found and before.state in DECIDED_ABORT:
        why = f", by {before.cause.by}: {before.cause.message}" if before.cause else ""
        note = f"it was aborted before{why}"
    return {
        "id": txn_id,
        "aborted": found is not None,
        "state": known.state.name if known else None,
        "owner": known.owner if known else None,
        "label": known.label if known else None,
        "note": note or None,
    }
