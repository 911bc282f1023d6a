"""Named points in the code at which a test makes a process die or stall. Off, each costs one look-up.

Armed by the environment variable TXN_FAILPOINTS: `NAME=ACTION`, several separated by `;`. Actions: `crash` (kill -9 of
itself), `crash_once:FILE` (only whoever creates FILE dies, so one process of a cluster), `stall:SECONDS` (blocks the
whole process, as a slow disk or a long pause does). An unknown name never fires; docs/testing.md lists the names.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

VARIABLE = "TXN_FAILPOINTS"

_armed: dict[str, Callable[[], None]] = {}


def failpoint(name: str) -> None:
    action = _armed.get(name)
    if action is not None:
        action()


def arm(specification: str) -> None:
    """Replaces what is armed. Raises ValueError."""
    _armed.clear()
    for part in filter(None, specification.split(";")):
        name, separator, action = part.partition("=")
        if not separator:
            raise ValueError(f"{VARIABLE}: {part!r} is not NAME=ACTION")
        _armed[name] = _action(action)


def _action(text: str) -> Callable[[], None]:
    kind, _, argument = text.partition(":")
    match kind:
        case "crash":
            return _crash
        case "crash_once" if argument:
            return lambda: _crash_once(argument)
        case "stall" if argument:
            seconds = float(argument)
            return lambda: time.sleep(seconds)
        case _:
            raise ValueError(f"{VARIABLE}: no action {text!r}; there are crash, crash_once:FILE and stall:SECONDS")


def _crash_once(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    _crash()


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
