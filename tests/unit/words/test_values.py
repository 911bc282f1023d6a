"""Values are equal by what they hold, and only to their own kind."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from txnstatus.values import value


@value
class Move:
    txn_id: int
    where: str = "here"


@value
class Stop:
    txn_id: int
    where: str = "here"


def test_values_are_equal_by_class_and_fields() -> None:
    assert Move(1) == Move(1, "here")
    assert Move(1) != Stop(1)
    assert len({Move(1), Move(1), Move(2), Stop(1)}) == 3


def test_a_value_can_be_matched_copied_and_sent() -> None:
    match Move(1, "there"):
        case Move(txn_id, where):
            assert (txn_id, where) == (1, "there")
    assert dataclasses.replace(Move(1), where="there") == Move(1, "there")
    assert pickle.loads(pickle.dumps(Move(1, "there"))) == Move(1, "there")


def test_a_value_takes_no_field_that_it_does_not_have() -> None:
    with pytest.raises(AttributeError):
        Move(1).elsewhere = 2  # type: ignore[attr-defined]
