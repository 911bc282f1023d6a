"""Compaction as the benchmark of old tables has it done: what goes wrong fails the run, and is no figure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.suite.turns import aged
from benchmarks.suite.turns.aged import Turns
from txnstatus.errors import Unavailable

TABLE = "bench.aged0"


class Fake:
    """A client, and the worker of it, that has nothing to do."""

    session = None

    def __init__(self, *states: str) -> None:
        self._states = states

    def compact(self, table: str, *, wait: bool) -> None:
        assert (table, wait) == (TABLE, False)
        if not self._states:
            raise Unavailable("nobody answers")

    def compactions(self, table: str) -> list[SimpleNamespace]:
        assert table == TABLE
        return [SimpleNamespace(compaction_id="major1", state=state, reason="why") for state in self._states if state]

    def run_once(self) -> bool:
        return False


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def make(*states: str) -> Turns:
        client: Any = Fake(*states)
        monkeypatch.setattr(aged, "Worker", lambda *_: client)
        made = Turns(client, None, tmp_path)  # type: ignore[arg-type]
        made._tables = [TABLE]
        return made

    return make


def test_what_is_done_has_its_cost(turns: Any) -> None:
    assert turns("succeeded", "attempted", "initiated").compact(1).keys() == {"compaction"}


def test_a_call_that_fails_is_no_refusal(turns: Any) -> None:
    """It was taken for one, and the tables were measured as if nothing could be compacted."""
    with pytest.raises(Unavailable, match="nobody answers"):
        turns().compact(1)


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (("succeeded", "failed"), "major1 is succeeded why; major1 is failed why"),
        (("attempted",), "major1 is attempted why"),
        (("",), "nothing was begun"),
    ],
)
def test_what_comes_to_nothing_is_told(turns: Any, states: tuple[str, ...], told: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{TABLE} was to be compacted: {told}$"):
        turns(*states).compact(1)
