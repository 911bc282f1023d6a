"""Positions as JSON, and what is compared with them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnclient.streams.marks import Mark, check_source, encode, not_found, require
from txnstatus.errors import IllegalState, InvalidArgument
from txnstatus.types import TxnId

POSITIONS = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def mark(position: Any) -> Mark:
    return Mark("orders", position, TxnId(7), "ada", datetime(2026, 1, 31, tzinfo=UTC))


@given(POSITIONS)
def test_a_position_is_read_back_as_it_was_given(position: Any) -> None:
    assert json.loads(encode(position)) == position
    require("orders", mark(json.loads(encode(position))), position)


def test_the_order_of_a_dict_does_not_count() -> None:
    assert encode({"0": 1, "1": 2}) == encode({"1": 2, "0": 1})


@pytest.mark.parametrize(
    "position", [None, float("nan"), float("inf"), {1: 2}, (1, 2), b"17", {"at": datetime(2026, 1, 1)}, {1, 2}]
)
def test_what_would_be_read_back_as_something_else_is_refused(position: Any) -> None:
    with pytest.raises(InvalidArgument, match="position"):
        encode(position)


def test_what_is_deep_or_long_without_end_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArgument, match="cannot be said in JSON"):
        encode(deep)
    with pytest.raises(InvalidArgument, match="65536 are possible"):
        encode("x" * 65_536)


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        (None, 17, "was expected to be at 17: it has no mark"),
        (mark(17), None, "was expected to have no mark: it is at 17, where transaction 7 of ada took it"),
        (mark(17), 16, "was expected to be at 16: it is at 17"),
        (mark(17), "17", "was expected to be at '17': it is at 17"),
        (mark({"0": 1}), {"0": 2}, "was expected to be at {'0': 2}: it is at {'0': 1}"),
    ],
)
def test_a_source_that_is_elsewhere_is_told_with_who_took_it_there(
    found: Mark | None, expected: Any, said: str
) -> None:
    with pytest.raises(IllegalState) as caught:
        require("orders", found, expected)
    assert f"source 'orders' {said}" in caught.value.message


@pytest.mark.parametrize("source", ["", " orders", "a\nb", "x" * 201, None, 7, b"orders"])
def test_what_is_no_name_is_refused(source: Any) -> None:
    with pytest.raises(InvalidArgument, match="source"):
        check_source(source)


def test_a_source_that_there_is_not_is_told_with_those_that_there_are() -> None:
    assert not_found("a", []).message == "source 'a' has no mark; there are: none"
    many = [Mark(f"s{n}", n, TxnId(n), "ada", datetime(2026, 1, 31, tzinfo=UTC)) for n in range(12)]
    assert not_found("a", many).message.endswith("'s9' and 2 more")
