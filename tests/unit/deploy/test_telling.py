"""How much a node's log tells, as operators say while it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from txndeploy.node.config import NodeConfig, NodeEntry
from txndeploy.node.telling import MAX_LEVELS, MAX_LOGGER_CHARACTERS, LogLevels
from txnstatus.errors import InvalidArgument
from txnstatus.proto import admin_pb2 as pb

LOGGER = "txnstatus.told.of.in.this.test"


@pytest.fixture
def levels(tmp_path: Path) -> Iterator[LogLevels]:
    before = logging.getLogger().level
    config = NodeConfig(
        cluster_name="air",
        node_id="n1",
        data_dir=tmp_path,
        warehouse=tmp_path.as_uri(),
        nodes={"n1": NodeEntry(address="127.0.0.1:7070")},
        log_levels={"txnstatus.other": "ERROR"},
    )
    yield LogLevels(config, tmp_path / "node.toml")
    logging.getLogger().setLevel(before)
    for name in (LOGGER, "txnstatus.other"):
        logging.getLogger(name).setLevel(logging.NOTSET)


async def say(levels: LogLevels, logger: str = "", level: str = "") -> dict[str, str]:
    answer = await levels.set_log_level(pb.SetLogLevelRequest(logger=logger, level=level))
    return {each.logger: each.level for each in answer.levels}


async def test_a_level_is_set_and_taken_back(levels: LogLevels) -> None:
    configured = {"": "INFO", "txnstatus.other": "ERROR"}
    assert await say(levels) == configured
    assert await say(levels, LOGGER, "DEBUG") == {**configured, LOGGER: "DEBUG"}
    assert logging.getLogger(f"{LOGGER}.below").isEnabledFor(logging.DEBUG)
    assert await say(levels, "", "ERROR") == {**configured, LOGGER: "DEBUG", "": "ERROR"}
    assert await say(levels, LOGGER, "CONFIGURED") == {**configured, "": "ERROR"}
    assert not logging.getLogger(LOGGER).isEnabledFor(logging.WARNING)
    assert await say(levels, "", "CONFIGURED") == configured


@pytest.mark.parametrize(
    ("logger", "level", "said"),
    [
        ("", "CHATTY", "there is no level 'CHATTY'"),
        ("", "debug", "there is no level 'debug'"),
        ("x" * (MAX_LOGGER_CHARACTERS + 1), "DEBUG", f"{MAX_LOGGER_CHARACTERS} are possible"),
    ],
)
async def test_what_is_no_level_changes_nothing(levels: LogLevels, logger: str, level: str, said: str) -> None:
    before = await say(levels)
    with pytest.raises(InvalidArgument, match=said):
        await say(levels, logger, level)
    assert await say(levels) == before


async def test_levels_are_bounded(levels: LogLevels) -> None:
    for number in range(MAX_LEVELS):
        await say(levels, f"{LOGGER}.{number}", "ERROR")
    with pytest.raises(InvalidArgument, match="have a level of their own"):
        await say(levels, LOGGER, "ERROR")
    await say(levels, f"{LOGGER}.0", "INFO")
    assert len(await say(levels, "", "CONFIGURED")) == 2
