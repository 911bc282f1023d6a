"""What `txnctl top` shows where there is much to show."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rich.console import Console

from txnclient import LockInfo, TxnState, TxnSummary
from txndeploy.ctl import looking
from txndeploy.overview.rates import Rates
from txnstatus.types import Timestamp, TxnId

AT = datetime(2026, 1, 2, tzinfo=UTC)
LONG = f"sales.{'x' * 194}"


def look(count: int) -> looking._Look:
    """What there is with so many live transactions: the second one waits for a lock on a table with a long name."""
    micros = int(AT.timestamp() * 1e6)
    live = [
        TxnSummary(
            txn_id=TxnId(10**12 + number),
            state=TxnState.OPEN,
            owner=f"system:serviceaccount:air:{'y' * 90}",
            label="l" * 200,
            keepalive_millis=1_000,
            begin_micros=micros - 10**12,
            last_transition_micros=micros,
            commit_timestamp=Timestamp(0),
            participants=(LONG,),
            cause=None,
            undoes=None,
        )
        for number in range(count)
    ]
    behind = tuple(TxnId(10**12 + number) for number in range(10))
    lock = LockInfo(LONG, "X", False, live[1].txn_id, live[1].owner, Timestamp(0), behind)
    return looking._Look(AT, Rates(123_456.7, 1.0, 1.0, 1.0, 0.0123, 1_234_567.8), live, {lock.txn_id: lock}, ())


@pytest.mark.parametrize("width", [100, 140])
def test_who_is_behind_whom_is_seen_beside_long_names(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of 200 characters, and an owner's of 100, filled the screen; hours were told in milliseconds."""
    out = Console(width=width, record=True, markup=False, highlight=False)
    monkeypatch.setattr(looking, "console", lambda: out)
    out.print(looking._shown(look(100_000)))
    text = out.export_text()
    assert "100,000 live transactions" in text
    assert "commits take 12.3 ms (median), 1,234,568 s (99 of 100)" in text
    assert text.count("\n") < 130
    assert "…" in text
    assert str(10**12 + 9) in text, "the last one in its way"


@pytest.mark.parametrize(("took", "pause"), [(0.0, 2.0), (0.5, 1.5), (1.5, 1.5), (25.0, 25.0)])
def test_who_takes_long_to_answer_is_asked_less_often(took: float, pause: float) -> None:
    """With 100,000 open transactions a look took 25 s, and the next one began at once."""
    assert looking._pause(2.0, took) == pause


def test_programs_get_names_as_they_are() -> None:
    live = looking._document(look(2))["live"]
    assert isinstance(live, list)
    assert live[1]["waits_for"].startswith(f"{LONG} (X), behind {10**12}, ")
