from __future__ import annotations

import pytest

from txnstatus.measures import BOUNDS, Durations


def test_what_took_as_long_as_a_bound_counts_below_it() -> None:
    durations = Durations()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 1e-9, BOUNDS[-1], BOUNDS[-1] + 1):
        durations.add(seconds)
    buckets = dict(durations.cumulative())
    assert list(buckets) == [*BOUNDS, float("inf")]
    assert buckets[BOUNDS[0]] == 2
    assert buckets[BOUNDS[1]] == 3
    assert buckets[BOUNDS[-1]] == 4
    assert buckets[float("inf")] == durations.count == 5
    assert durations.seconds == pytest.approx(2 * BOUNDS[0] + 2 * BOUNDS[-1] + 1)
