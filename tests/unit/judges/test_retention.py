"""What judges refusals of reads tells of those that nothing excuses, and of no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.sim.judges.ledger import Ledger
from tests.sim.judges.retention import Retention
from tests.sim.judges.watch import GroupHistory, Watch
from tests.sim.world.clock import Clock
from txnstatus.types import TxnId, timestamp

JUMPED_AT, REFUSED_AT = 5.0, 5.6
LED_BY_N1 = cast(Watch, SimpleNamespace(history_of=lambda part: GroupHistory(part, leaders={1: "n1"})))


@pytest.mark.parametrize(
    ("proposed_at", "prepared_at", "is_told"),
    [
        (5.1, 5.2, True),
        (4.9, 5.2, False),  # its entry was on the way as the clock jumped: it is a minute old by now
        (4.8, 4.9, False),
    ],
)
def test_a_change_is_as_old_as_its_leaders_clock_says(proposed_at: float, prepared_at: float, is_told: bool) -> None:
    now, told, clock = 0.0, [], Clock()
    ledger = Ledger(lambda: now, lambda *violation: told.append(violation))
    judge = Retention(1, 2, ledger, LED_BY_N1, lambda: now)
    judge.note_clocks({"n1": clock, "n2": Clock()})
    before = clock.wall_micros(proposed_at)
    now, clock.wall_offset = JUMPED_AT, 60.0
    judge.note_clocks({"n1": clock, "n2": Clock()})
    changed = ledger.txn(TxnId(7))
    changed.prepared_at = prepared_at
    changed.commit_ts = timestamp(before if proposed_at < JUMPED_AT else clock.wall_micros(proposed_at))
    now = REFUSED_AT
    judge.refused("a.one", f"a.one cannot be read at 1: it was overwritten up to {changed.commit_ts}")
    assert bool(told) == is_told
