"""The end of a process that can no longer trust itself."""

from __future__ import annotations

import logging
import os
from typing import NoReturn

log = logging.getLogger(__name__)

REPAIR = (
    "Acknowledged entries may be lost here. With this node stopped, remove its data directory and start it again "
    "with `txnctl node run`: it gets everything from the other replicas, and does not vote before."
)
"""What to do about a directory that no longer holds what was written to it."""


def stop_process(story: str, error: BaseException) -> NoReturn:
    """Acknowledged data is safe, on disk and on the other replicas. To go on with a broken disk or state is not."""
    if isinstance(error, FileNotFoundError):  # every name that a node looks for, it has written itself
        story = f"{story}: {error.filename} was removed or replaced while the node ran. {REPAIR}"
    log.critical("%s; this process ends now", story, exc_info=error)
    logging.shutdown()
    os._exit(70)
