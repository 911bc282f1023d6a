"""Compactions that nobody does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from txnclient import CompactionSummary
from txnstatus.findings import Finding, Kind
from txnstatus.types import micros_of


def waiting(found: Iterable[CompactionSummary], now_micros: int, patience_seconds: float) -> Iterator[Finding]:
    """Compactions that have waited for longer than that, for a worker who is not there."""
    for each in found:
        seconds = (now_micros - micros_of(each.opened)) / 1e6
        if each.state == "initiated" and each.reason and seconds > patience_seconds:
            what = f"{each.kind} compaction {each.compaction_id} {each.partition}".rstrip()
            yield Finding(Kind.WAITING_COMPACTION, each.table, what, f"for {seconds:.0f} s; {each.reason}")
