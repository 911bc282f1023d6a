"""What a node tells of itself while it runs: how much its log does, and where its spans go."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

from txndeploy import logs
from txndeploy.errors import ConfigError
from txndeploy.node import config as configuration
from txndeploy.node.config import NodeConfig
from txnstatus.tracing import beginning

log = logging.getLogger(__name__)

LAST_SPANS_SECONDS = 2.0
"""Time that a process which ends gives to spans that it has not sent."""


def follow_levels(config: NodeConfig, path: Path) -> None:
    """SIGHUP has the levels of the log be what the configuration says by then; all else in it waits for a restart."""
    levels = config.levels

    def look() -> None:
        nonlocal levels
        try:
            wanted = configuration.load(path).levels
        except ConfigError as error:
            log.error("the levels of the log stay as they are: %s", error)
            return
        logs.set_levels(wanted, levels)
        levels = wanted
        log.info("the log tells %s", ", ".join(f"{level} of {name or 'all'}" for name, level in levels.items()))

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, look)


def begin_traces(config: NodeConfig) -> None:
    """Raises InvalidArgument."""
    beginning.begin("txnstatus-node", config.node_id, config.trace_endpoint)
