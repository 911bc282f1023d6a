"""Feature levels: what may be proposed at which, and which nodes can be in a cluster of one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from txnstatus import features
from txnstatus.catalog import commands as cmd
from txnstatus.errors import IllegalState
from txnstatus.features import Gate, Levels

REGISTER = cmd.RegisterNode("n1", "1", 1, 2)


@pytest.mark.parametrize("level", [features.FIRST, features.REGISTERED, features.PLACES])
def test_what_a_level_brought_is_proposed_from_it_on(level: int) -> None:
    gate = Gate("catalog", lambda: level)
    gate.check([cmd.AddRange(0), cmd.SetOption("retention_ms", 1), cmd.RaiseLevel(features.REGISTERED)])
    if level >= features.REGISTERED:
        gate.check([REGISTER])
        return
    with pytest.raises(IllegalState, match="RegisterNode needs feature level 2; the cluster is at 1") as caught:
        gate.check([cmd.AddRange(0), REGISTER])
    assert "txnctl upgrade finish" in caught.value.hint


def test_fields_and_options_have_levels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "FIELDS", {"catalog.AddRange.after": 2})
    monkeypatch.setattr(features, "OPTIONS", {"new_ms": 2})
    gate = Gate("catalog", lambda: 1)
    gate.check([cmd.AddRange(0), cmd.SetOption("old_ms", 1)])
    for later in (cmd.AddRange(1), cmd.SetOption("new_ms", 1)):
        with pytest.raises(IllegalState, match="needs feature level 2"):
            gate.check([later])


def test_a_command_that_nobody_has_listed_is_no_command() -> None:
    @dataclass
    class Unlisted:
        pass

    with pytest.raises(KeyError):
        Gate("catalog", lambda: 1).check([Unlisted()])


def test_who_cannot_be_in_a_cluster_is_told_what_to_do() -> None:
    assert features.refusal("n1", Levels(1, 2), 2) is None
    assert "newer than this one" in (features.refusal("n1", Levels(1, 2), 3) or "")
    assert "older than this one" in (features.refusal("n1", Levels(2, 3), 1) or "")


def test_hindrances_name_each_node() -> None:
    nodes = {"n2": None, "n1": Levels(1, 1), "n3": Levels(1, 2)}
    assert features.hindrances(nodes, 2) == ["n1 does 1 alone", "nobody knows what n2 does"]
    assert features.hindrances({"n3": Levels(1, 2)}, 2) == []
