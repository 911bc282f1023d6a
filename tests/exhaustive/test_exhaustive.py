"""Small configurations, searched whole; and planted faults, which the search must find by a shortest way."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from operator import attrgetter

import pytest
from _pytest.mark.structures import ParameterSet

from tests.exhaustive.faults import PLANTED, Planted
from tests.exhaustive.faults_together import PLANTED_TOGETHER
from tests.exhaustive.invariants import ACKNOWLEDGED
from tests.exhaustive.search import MAX_STATES, SMALL, circle, main, search
from tests.support import rest_in_campaigns

COMMITTED, ABORTED = "COMMITTED", "ABORTED"
EITHER = {(COMMITTED,), (ABORTED,)}
OUTCOMES: dict[str, set[tuple[str, ...]]] = {
    "life": {(), *EITHER},
    "impatient": {(), *EITHER},
    "leaders": {(), *EITHER},
    "commits": set(itertools.product((COMMITTED, ABORTED), repeat=2)),
    "drop": {(), *EITHER, *itertools.product((COMMITTED, ABORTED), repeat=2)},
    "together": {(), *EITHER},
    "together, carried": {(), *EITHER},
    "together, rivals": set(itertools.product((COMMITTED, ABORTED), repeat=2)) - {(COMMITTED, COMMITTED)},
    "spanning": {(), *EITHER},
    "spanning, carried": {(), *EITHER},
    "spanning, rivals": set(itertools.product((COMMITTED, ABORTED), repeat=2)) - {(COMMITTED, COMMITTED)},
    "conflict": set(itertools.product((COMMITTED, ABORTED), repeat=2)) - {(COMMITTED, COMMITTED)},
}
"""How the transactions may end. A client may stop before it commits, so each may expire."""
FOUND_WITHIN = 200_000
"""States in which a planted fault must have been found."""
CONFIGS = {config.name: config for config in SMALL}
IN_CAMPAIGNS = {"impatient", "commits", "together, rivals", "spanning, carried"}
"""Configurations that take long, each beside one that differs little from it."""

ALL_PLANTED = PLANTED + PLANTED_TOGETHER
LATE = {"decide for those who were asked", "all are asked again", "do not ask who registered late"}
"""Faults that are found late, each of a rule that others break sooner."""


def sliced(names: Iterable[str]) -> list[ParameterSet]:
    return rest_in_campaigns(names, CONFIGS.keys() - IN_CAMPAIGNS)


@pytest.mark.parametrize("name", sliced(CONFIGS))
def test_no_rule_is_broken_in_any_state(name: str) -> None:
    found = search(CONFIGS[name], MAX_STATES)
    assert found.violation is None, found.story()
    assert found.complete
    assert found.outcomes == OUTCOMES[name]


@pytest.mark.parametrize("name", sliced(name for name in CONFIGS if name != "drop"))
def test_without_faults_every_order_of_steps_ends(name: str) -> None:
    """In "drop" a client may write for ever to what is gone."""
    assert circle(CONFIGS[name]) == []


def test_a_circle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    next(p for p in PLANTED if p.name == "all are asked again").plant(monkeypatch)
    assert circle(SMALL[0]) == [
        "the status leader's waits are over: it asks again",
        "deliver: ABORT_TXN of transaction 0 to 0.0",
        "deliver: answer of 0.0 to ABORT_TXN of transaction 0: done",
    ]


def test_a_search_is_the_same_every_time() -> None:
    first, second = (search(SMALL[0], 5_000) for _ in range(2))
    covered = attrgetter("states", "transitions", "core_steps", "outcomes")
    assert covered(first) == covered(second)


def test_a_limit_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["life", "--states", "100"]) == 0
    told = capsys.readouterr().out
    assert "part" in told
    assert "all" not in told.split("Rules")[0]


def test_a_broken_rule_is_told_step_by_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = next(p for p in PLANTED if p.rule == ACKNOWLEDGED)
    planted.plant(monkeypatch)
    assert main(["commits"]) == 1
    told = capsys.readouterr().out
    assert "transaction 0 is said to be decided: FINALIZE_IN_PROGRESS; it is OPEN" in told
    assert "1. client 0 asks for commit" in told
    assert "on the way: commit of transaction 0" in told


@pytest.mark.parametrize(
    "planted",
    rest_in_campaigns(ALL_PLANTED, [p for p in ALL_PLANTED if p.name not in LATE][::2]),
    ids=lambda p: p.name,
)
def test_a_planted_fault_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch)
    found = search(planted.config, FOUND_WITHIN)
    assert found.violation is not None, f"not found in {found.states} states"
    assert found.violation.rule == planted.rule, found.story()
    assert len(found.trace) == planted.steps, found.story()
