"""Pauses before another try: they grow, they end, and chance spreads them."""

from __future__ import annotations

import pytest

from txnstatus.backoff import Backoff

RETRIES = Backoff(first_seconds=0.1, most_seconds=1.0, growth=2.0)


def test_a_pause_grows_with_each_failure_up_to_its_most() -> None:
    assert [RETRIES.pause(failures, 1.0) for failures in range(1, 7)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize("failures", [1, 3, 10_000])
def test_chance_decides_between_half_of_it_and_all_of_it(failures: int) -> None:
    most = RETRIES.pause(failures, 1.0)
    assert [RETRIES.pause(failures, chance) for chance in (0.0, 0.5)] == pytest.approx([0.5 * most, 0.75 * most])
