"""How fast a cluster is, by the transactions that began of late."""

from __future__ import annotations

from txnclient import TxnState, TxnSummary
from txndeploy.overview.rates import Rates, rates, within
from txnstatus.types import AbortCause, AbortCode, Timestamp, TxnId

NOW = 1_800_000_000_000_000
MILLI = 1_000


def txn(ago_millis: int, state: TxnState, took_millis: int = 0, code: AbortCode | None = None) -> TxnSummary:
    began = NOW - ago_millis * MILLI
    cause = AbortCause(code, "", "ada") if code is not None else None
    ended = began + took_millis * MILLI
    return TxnSummary(TxnId(1), state, "ada", "", 30_000, began, ended, Timestamp(0), (), cause)


def test_rates_are_of_the_window() -> None:
    found = [
        *(txn(5_000, TxnState.COMMITTED, took) for took in range(1, 101)),
        txn(100, TxnState.ABORTED, 1, AbortCode.CONFLICT),
        txn(100, TxnState.ABORTED, 1, AbortCode.REQUESTED),
        txn(50, TxnState.OPEN),
    ]
    assert rates(found, NOW, 10.0, cut=False) == Rates(10.3, 10.0, 0.2, 0.1, 0.051, 0.1)


def test_where_there_are_more_the_window_begins_with_the_oldest() -> None:
    found = [txn(2_000, TxnState.COMMITTED, 5), txn(1_000, TxnState.COMMITTED, 5)]
    assert rates(found, NOW, 10.0, cut=True).begun == 1.0
    assert rates([txn(0, TxnState.OPEN)], NOW, 10.0, cut=True).begun > 0


def test_nothing_has_no_latency() -> None:
    assert rates([], NOW, 10.0, cut=False) == Rates(0.0, 0.0, 0.0, 0.0, None, None)
    assert within([3.0], 0.99) == 3.0
