"""The end of a process that can no longer trust itself."""

from __future__ import annotations

import logging
import os
from typing import NoReturn

log = logging.getLogger(__name__)


def stop_process(story: str, error: BaseException) -> NoReturn:
    """Acknowledged data is safe, on disk and on the other replicas. To go on with a broken disk or state is not."""
    log.critical("%s; this process ends now", story, exc_info=error)
    logging.shutdown()
    os._exit(70)
