"""A year of a cluster, at a scale: what is to be bounded does not grow (see lifetime.py)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.sim import lifetime
from tests.sim.lifetime import RANGES_A_DAY, TXNS_A_DAY, live
from tests.sim.world import clock
from txnparticipant.upkeep.cleaner import Cleaner
from txnparticipant.upkeep.retirement import Retirement
from txnstatus.types import LOGICAL_BITS

FEW_DAYS = 6
NOISE = 1.35
"""Six days are few: on some of them a snapshot has just been written."""


def test_days_go_by_and_leave_a_timeline_and_nothing_else() -> None:
    _holds(FEW_DAYS, NOISE)


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
def test_a_year_goes_by() -> None:
    _holds(lifetime.DAYS, 1.15)


def test_days_go_by_in_the_spring_of_2041(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timestamps have 63 bits, which are full that May."""
    last = (1 << 63) - 1 >> LOGICAL_BITS
    assert datetime.fromtimestamp(last / 1e6, UTC).strftime("%Y-%m") == "2041-05"
    monkeypatch.setattr(clock, "EPOCH_MICROS", last - 30 * 86_400_000_000)
    first, second = live(2)
    assert 0 < first.committed < second.committed
    assert second.timeline_files > first.timeline_files


def _holds(days: int, at_most: float) -> None:
    sizes = list(live(days))
    assert {name: ratio for name, ratio in lifetime.growth(sizes).items() if ratio > at_most} == {}
    last = sizes[-1]
    assert last.next_range >= days * RANGES_A_DAY
    assert last.committed > days * TXNS_A_DAY / 2
    assert last.ranges <= 2, "full ranges go when their transactions are forgotten"
    assert last.timeline_files >= days * RANGES_A_DAY


@pytest.mark.campaign
@pytest.mark.parametrize(("forgets", "what"), [(Cleaner, "data_files"), (Retirement, "parts_bytes")])
def test_a_cluster_that_forgets_nothing_of_one_kind_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, forgets: type, what: str
) -> None:
    async def nothing(_self: object) -> None:
        pass

    monkeypatch.setattr(forgets, "run_once", nothing)
    assert lifetime.growth(list(live(FEW_DAYS)))[what] > NOISE
