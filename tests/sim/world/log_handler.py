"""What the service logs, as a part of the world's story."""

from __future__ import annotations

import logging
from collections.abc import Callable


class LogHandler(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(f"{record.levelname} {record.name}: {record.getMessage()}")
