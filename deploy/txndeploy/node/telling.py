"""What a node tells of itself while it runs: how much its log does, and where its spans go."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

from txndeploy import logs
from txndeploy.errors import ConfigError
from txndeploy.logs import Level
from txndeploy.node import config as configuration
from txndeploy.node.config import NodeConfig
from txnstatus.errors import InvalidArgument
from txnstatus.proto import admin_pb2 as pb
from txnstatus.tracing import beginning

log = logging.getLogger(__name__)

LAST_SPANS_SECONDS = 2.0
"""Time that a process which ends gives to spans that it has not sent."""
CONFIGURED = "CONFIGURED"
"""Word in the place of a level: what the configuration says."""
MAX_LOGGER_CHARACTERS = 200
MAX_LEVELS = 100
"""Loggers with a level of their own that operators have set."""


class LogLevels:
    """The least that this process's log tells, by logger. Implements that of the Admin service."""

    def __init__(self, config: NodeConfig, path: Path) -> None:
        """`path`: the configuration's file."""
        self._path = path
        self._configured = config.levels
        self._said: dict[str, Level] = {}
        """Levels that operators have set since the configuration was read."""

    def follow(self) -> None:
        """SIGHUP has the levels be what the configuration says by then; all else in it waits for a restart."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._read)

    async def set_log_level(self, request: pb.SetLogLevelRequest) -> pb.SetLogLevelResponse:
        """Raises InvalidArgument."""
        before, logger = self.levels, request.logger
        if request.level:
            self._say(logger, request.level)
            self._apply(before)
        levels = [pb.LogLevel(logger=name, level=level) for name, level in sorted(self.levels.items())]
        return pb.SetLogLevelResponse(levels=levels)

    @property
    def levels(self) -> dict[str, Level]:
        return {**self._configured, **self._said}

    def _say(self, logger: str, level: str) -> None:
        if len(logger) > MAX_LOGGER_CHARACTERS:
            raise InvalidArgument(f"a logger's name of {len(logger)} characters: {MAX_LOGGER_CHARACTERS} are possible")
        if level == CONFIGURED:
            if logger:
                self._said.pop(logger, None)
            else:
                self._said.clear()
            return
        if level not in frozenset(Level):
            known = ", ".join((*Level, CONFIGURED))
            raise InvalidArgument(f"there is no level {level[:100]!r}; there are: {known}")
        if logger not in self._said and len(self._said) >= MAX_LEVELS:
            raise InvalidArgument(f"{MAX_LEVELS} loggers have a level of their own: {CONFIGURED} takes them away")
        self._said[logger] = Level(level)

    def _read(self) -> None:
        try:
            wanted = configuration.load(self._path).levels
        except ConfigError as error:
            log.error("the levels of the log stay as they are: %s", error)
            return
        before = self.levels
        self._configured, self._said = wanted, {}
        self._apply(before)

    def _apply(self, before: dict[str, Level]) -> None:
        logs.set_levels(self.levels, before)
        log.info("the log tells %s", ", ".join(f"{level} of {name or 'all'}" for name, level in self.levels.items()))


def begin_traces(config: NodeConfig) -> None:
    """Raises InvalidArgument."""
    beginning.begin("txnstatus-node", config.node_id, config.trace_endpoint)
