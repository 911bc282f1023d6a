"""What a process of the cluster logs: a line for people, or a JSON object, for each thing that happens.

A log call that is about a transaction says so (`extra={"txn_id": ...}`): whoever searches for one needs no pattern.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from txndeploy.plain import plain
from txnstatus.tracing import spans


class Level(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TextLines(logging.Formatter):
    """A line for each thing, after which the traceback of an error follows. What somebody wrote stays in its line."""

    def __init__(self, process: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)s {process} %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = plain(record.message)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """A JSON object of one line for each thing, with these keys; the last three where there is something to say.

    `time` (ISO 8601, UTC), `level`, `process`, `logger`, `message`, `txn_id` (the transaction), `trace_id` (its trace),
    `error` (a traceback).
    """

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "time": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (txn_id := getattr(record, "txn_id", None)) is not None:
            told["txn_id"] = txn_id = int(txn_id)  # the first is 0
        if spans.tracer is not None and (trace_id := spans.trace_id(txn_id)):
            told["trace_id"] = trace_id
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


class Told(logging.Handler):
    """Counts warnings, and what is worse: troubles that mend themselves show in it, as of a storage that is full."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts: Counter[tuple[str, str]] = Counter()
        """Logger and level → how often."""

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[record.name, record.levelname] += 1


TOLD = Told()
"""What this process has told, since `begin`: a process has one log."""
_FORMATTERS = {LogFormat.TEXT: TextLines, LogFormat.JSON: JsonLines}


def begin(process: str, levels: Mapping[str, Level], written: LogFormat) -> None:
    """Has this process log to standard error. `process`: what it is called there; `levels`: as for `set_levels`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATTERS[written](process))
    logging.basicConfig(handlers=[handler, TOLD])
    set_levels(levels)


def set_levels(levels: Mapping[str, Level], before: Mapping[str, Level] = MappingProxyType({})) -> None:
    """The least that is told from now on, by logger: it goes for those below it, too; "" is the one of all.

    `before`: what was set until now.
    """
    for name in before.keys() - levels.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
