"""Procedures that are given what none of them takes."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from txnclient.control import procedures
from txnclient.control.session import SqlSession
from txnstatus.errors import InvalidArgument


@pytest.mark.parametrize(("name", "argument"), [("abort_transactions", "ids"), ("compact", "kind")])
def test_null_is_refused_by_name(name: str, argument: str) -> None:
    given = {each.name: None for each in procedures.PROCEDURES[name].parameters}
    with pytest.raises(InvalidArgument, match=f"{argument} is NULL"):
        procedures.run(name, SqlSession(Mock(), dict), given)
