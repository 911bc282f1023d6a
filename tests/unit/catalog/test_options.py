"""Options: their bounds, and how they hold together."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnstatus.catalog.options import MAX_VALUE, Options
from txnstatus.errors import InvalidArgument, NotFound

NAMES = [field.name for field in fields(Options)]


def test_the_defaults_are_possible_and_explained() -> None:
    assert Options.checked({name: value for name, value, _ in Options().items()}) == Options()
    assert [name for name, _, _ in Options().items()] == NAMES
    assert all(meaning for _, _, meaning in Options().items())


@pytest.mark.parametrize("field", fields(Options), ids=lambda field: field.name)
def test_every_option_has_its_bounds(field) -> None:  # type: ignore[no-untyped-def]
    minimum, maximum = field.metadata["minimum"], field.metadata["maximum"]
    for value in (minimum - 1, maximum + 1, MAX_VALUE + 1, -(2**63)):
        with pytest.raises(InvalidArgument, match=f"{field.name} = {value} is out of range: {minimum} to {maximum} "):
            Options().with_value(field.name, value)


def test_an_option_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(NotFound, match=r"'retention'.*retention_ms"):
        Options().with_value("retention", 1)


@pytest.mark.parametrize(
    ("name", "value"), [("keepalive_default_ms", 999), ("keepalive_min_ms", 30_001), ("keepalive_max_ms", 29_999)]
)
def test_the_default_interval_lies_between_the_shortest_and_the_longest(name: str, value: int) -> None:
    with pytest.raises(InvalidArgument, match="must lie between"):
        Options().with_value(name, value)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-1, MAX_VALUE + 1)), max_size=10))
def test_whatever_is_set_the_options_stay_possible(changes: list[tuple[str, int]]) -> None:
    options = Options()
    for name, value in changes:
        try:
            changed = options.with_value(name, value)
        except InvalidArgument:
            continue
        assert getattr(changed, name) == value
        assert {n: v for n, v, _ in changed.items() if n != name} == {n: v for n, v, _ in options.items() if n != name}
        options = changed
    assert Options.checked({name: value for name, value, _ in options.items()}) == options
    assert options.keepalive(0) == options.keepalive_default_ms
    assert options.keepalive(options.keepalive_min_ms) == options.keepalive_min_ms


@pytest.mark.parametrize(("asked", "given_"), [(0, 30_000), (1_000, 1_000), (3_600_000, 3_600_000)])
def test_the_interval_of_a_begin(asked: int, given_: int) -> None:
    assert Options().keepalive(asked) == given_


@pytest.mark.parametrize("asked", [-1, 1, 999, 3_600_001])
def test_an_interval_out_of_bounds_is_refused_with_the_bounds(asked: int) -> None:
    with pytest.raises(InvalidArgument, match=rf"{asked} ms is out of range: 1000 to 3600000 ms"):
        Options().keepalive(asked)
