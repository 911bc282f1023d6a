"""Named points in the code at which a test makes a process die, fail or wait. Off, each costs a call that does nothing.

Armed by the environment variable TXN_FAILPOINTS: `NAME=ACTION`, several separated by `;`. Actions: `crash` (kill -9 of
itself), `error` (raises what a real fault at that point would), `delay:SECONDS` (blocks the thread that comes there: a
worker at a disk's point, the whole process elsewhere). `ACTION@FILE` happens once: only to whoever creates FILE, which
then holds its process id. An unknown name never fires; docs/testing.md lists the names.

While the process runs, SIGUSR1 makes it arm what the file named by TXN_FAILPOINTS_FILE says, and remove that file.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

VARIABLE = "TXN_FAILPOINTS"
FILE_VARIABLE = "TXN_FAILPOINTS_FILE"

Fault = Callable[[str], Exception]

_armed: dict[str, Callable[[Fault], None]] = {}


def io_error(message: str) -> OSError:
    """What a failing disk raises."""
    return OSError(errno.EIO, message)


def failpoint(name: str, fault: Fault = io_error) -> None:
    """`fault` makes the exception that a real fault here would be."""
    if _armed and (action := _armed.get(name)) is not None:
        action(fault)


def any_armed() -> bool:
    """Whether any is armed, for callers that would pass many at a time."""
    return bool(_armed)


def arm(specification: str) -> None:
    """Replaces what is armed. Raises ValueError, and then arms nothing."""
    _armed.clear()
    armed = {}
    for part in filter(None, specification.split(";")):
        name, separator, action = part.partition("=")
        if not separator:
            raise ValueError(f"{VARIABLE}: {part!r} is not NAME=ACTION")
        armed[name] = _action(name, action)
    _armed.update(armed)


def arm_from_file(path: Path) -> None:
    """Arms what the file says and removes it, which tells whoever wrote it. Raises ValueError or OSError."""
    arm(path.read_text())
    path.unlink()


def _action(name: str, text: str) -> Callable[[Fault], None]:
    what, _, mark = text.partition("@")
    kind, _, argument = what.partition(":")
    act: Callable[[Fault], None]
    match kind:
        case "crash":
            act = _crash
        case "error":

            def act(fault: Fault) -> None:
                raise fault(f"failpoint {name}")

        case "delay" if argument:
            seconds = float(argument)

            def act(_fault: Fault) -> None:
                threading.Event().wait(seconds)  # time.sleep fails with EINVAL under libfaketime

        case _:
            raise ValueError(f"{VARIABLE}: no action {text!r}; there are crash, error and delay:SECONDS")

    def perform(fault: Fault) -> None:
        if not mark or _is_first(mark):
            log.warning("failpoint %s: %s", name, what)
            act(fault)

    return perform


def _is_first(mark: str) -> bool:
    try:
        fd = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    os.write(fd, str(os.getpid()).encode())
    os.close(fd)
    return True


def _crash(_fault: Fault) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
