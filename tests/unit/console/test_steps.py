"""How long steps take, by the histograms of a node."""

from __future__ import annotations

from txndeploy.console import steps
from txnstatus.measures import Durations, Measures


def durations(*seconds: float) -> Durations:
    made = Durations()
    for each in seconds:
        made.add(each)
    return made


def test_a_share_is_within_a_bound() -> None:
    many = durations(*[0.0004] * 98, 0.03, 0.2)
    assert steps.within(many, 0.5) == 0.0005
    assert steps.within(many, 0.99) == 0.05
    assert steps.within(many, 1.0) == 0.25


def test_what_is_above_all_bounds_is_within_none() -> None:
    assert steps.within(durations(61.0), 0.5) is None
    assert steps.within(durations(), 0.5) is None


def test_the_slowest_comes_first_and_what_was_never_done_is_not_there() -> None:
    measures = Measures()
    measures.calls["txnstatus.Table/Scan"] = durations(0.3)
    measures.calls["txnstatus.Table/Lock"] = durations(70.0)
    measures.calls["txnstatus.Table/GetTable"] = durations()
    measures.refusals[("txnstatus.Table/Lock", "LOCKED")] = 2
    measures.refusals[("txnstatus.Table/Lock", "NOT_FOUND")] = 1
    measures.syncs = durations(0.002)
    found = steps.of(measures)
    assert [(each.step, each.count, each.refused) for each in found] == [
        ("Table/Lock", 1, 3),
        ("Table/Scan", 1, 0),
        ("log sync", 1, 0),
    ]
    assert found[1].mean_seconds == 0.3
