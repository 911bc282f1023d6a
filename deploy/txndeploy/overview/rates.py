"""How fast a cluster is: by the transactions that began of late, the newest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from txnclient import TxnState, TxnSummary
from txnstatus.types import AbortCode

MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Times a second, and seconds, of transactions that began within the window."""

    begun: float
    committed: float
    aborted: float
    conflicts: float
    median_seconds: float | None
    """The time from begin until it was published, of those that committed; None: none did."""
    p99_seconds: float | None


def rates(found: Sequence[TxnSummary], now_micros: int, window_seconds: float, *, cut: bool) -> Rates:
    """`cut`: those found are the newest of more that are in the window, which then begins with the oldest one."""
    seconds = window_seconds
    if cut and found:
        seconds = max((now_micros - min(each.begin_micros for each in found)) / MICROS, 1 / MICROS)
    committed = [each for each in found if each.state is TxnState.COMMITTED]
    aborted = [each for each in found if each.state is TxnState.ABORTED]
    conflicts = sum(each.cause is not None and each.cause.code is AbortCode.CONFLICT for each in aborted)
    took = sorted(max(0, each.last_transition_micros - each.begin_micros) / MICROS for each in committed)
    return Rates(
        len(found) / seconds,
        len(committed) / seconds,
        len(aborted) / seconds,
        conflicts / seconds,
        within(took, 0.5),
        within(took, 0.99),
    )


def within(rising: Sequence[float], share: float) -> float | None:
    """The lowest value that such a share of them keeps; None: there are none."""
    return rising[min(len(rising) - 1, int(len(rising) * share))] if rising else None
