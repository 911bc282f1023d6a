"""What judges histories of client processes can fail: each kind of fault of a difference, and of the till, is told."""

from __future__ import annotations

import threading
from typing import cast

import pyarrow as pa
import pytest

from tests.faults.teller import Account, Accounts, Teller, Told, as_rows
from tests.faults.till import Till
from txnclient import Client
from txnclient.read.diff import UPDATE_AFTER, UPDATE_BEFORE

BEFORE: Accounts = {("bank.east", 0): Account(5), ("bank.west", 0): Account(5)}
AFTER: Accounts = {("bank.east", 0): Account(7), ("bank.west", 0): Account(7)}


class Differing:
    """A client whose differences all have these changes: kinds and balances."""

    def __init__(self, *changes: tuple[str, int]) -> None:
        self._changes = changes

    def diff(self, *_: object) -> pa.Table:
        rows = [{"account": 0, "balance": held, "number": 0, "_change_kind": kind} for kind, held in self._changes]
        return pa.Table.from_pylist(rows)


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ([(UPDATE_BEFORE, 5), (UPDATE_AFTER, 7)], True),
        ([(UPDATE_BEFORE, 5)], False),
        ([(UPDATE_BEFORE, 5), (UPDATE_AFTER, 8)], False),
        ([(UPDATE_BEFORE, 5), (UPDATE_AFTER, 7)] * 2, False),
    ],
)
def test_a_difference_that_is_wrong_is_told(changes: list[tuple[str, int]], right: bool) -> None:
    told: list[Told] = []
    client = cast(Client, Differing(*changes))
    Teller(client, "1", "a teller", 1, told.append, threading.Event(), "")._compare((1, BEFORE), (2, AFTER))
    assert (not told) == right


def test_who_overwrites_all_accounts_writes_none_that_nobody_has_changed() -> None:
    """A difference would tell of rows that a reader of the accounts does not count."""
    assert as_rows({0: Account(), 1: Account(-55, elements=(1,))})["account"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("committed", "published", "right"),
    [
        (True, [7, 8], True),
        (False, None, True),
        (None, None, True),
        (None, [7, 8], True),
        (True, None, False),
        (True, [7], False),
        (False, [7, 8], False),
        (False, [7], False),
        (None, [7], False),
    ],
)
def test_a_till_that_contradicts_is_told(
    monkeypatch: pytest.MonkeyPatch, committed: bool | None, published: list[int] | None, right: bool
) -> None:
    """Half of a transfer that was aborted, or whose outcome nobody learnt, went unseen."""
    till = Till.__new__(Till)
    monkeypatch.setattr(till, "published", lambda: {} if published is None else {1: published})
    assert (not list(till.contradictions({1: (committed, [7, 8])}))) == right
