"""Requests from a program's values."""

from __future__ import annotations

from typing import Any

import pytest

from txnclient.calls.requests import names_of
from txnstatus.errors import InvalidArgument


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("air.flights", "tables = 'air.flights': give a list of names"),
        (["air.flights", 7], r"tables = \['air.flights', 7\]: expected names"),
        ([None], r"tables = \[None\]: expected names"),
        (5, "tables = 5: expected names"),
    ],
)
def test_what_is_no_list_of_names_is_refused_as_such(tables: Any, said: str) -> None:
    """A text was taken for the list of its letters: `table name 's'`."""
    with pytest.raises(InvalidArgument, match=said):
        names_of(tables)


def test_names_of_tables_are_each_there_once_in_their_order() -> None:
    assert names_of(iter(["b.b", "a.a", "b.b"])) == ["b.b", "a.a"]
