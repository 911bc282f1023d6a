"""What a node's configuration may say of conflict strategies, and what loading them refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.harness.cluster import CONFIG
from txndeploy.errors import ConfigError
from txndeploy.node import config, strategies
from txnparticipant.locks.strategies import BUILT_IN


def written(directory: Path, name: str, target: str) -> Path:
    changed = CONFIG.model_copy(update={"conflict_strategies": {name: target}})
    path = directory / "node.toml"
    path.write_text(config.dump(changed))
    return path


def test_a_configuration_is_read_as_it_was_written(tmp_path: Path) -> None:
    loaded = config.load(written(tmp_path, "priority", "my.module:PRIORITY"))
    assert loaded.conflict_strategies == {"priority": "my.module:PRIORITY"}


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("wait", "my.module:WAIT", "'wait' comes with the service"),
        ("Priority", "my.module:PRIORITY", "Priority"),
        ("priority", "my.module", "should match pattern"),
        ("priority", "my module:X", "should match pattern"),
        ("priority", ":X", "should match pattern"),
    ],
)
def test_names_that_are_none(tmp_path: Path, name: str, target: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config.load(written(tmp_path, name, target))


def test_those_that_come_with_the_service_are_always_there() -> None:
    assert strategies.load({}) == BUILT_IN


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module:X", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("txnparticipant.locks.strategies:NOTHING", "cannot be loaded: AttributeError"),
        ("txnparticipant.locks.strategies:InTurn", "is no strategy: .* is a class"),
        ("txnparticipant.locks.strategies:judged", "is no strategy: it has no `settle`"),
    ],
)
def test_what_is_no_strategy(target: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"conflict_strategies\.mine = '{target}' {says}"):
        strategies.load({"mine": target})
