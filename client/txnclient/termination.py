"""SIGTERM, as supervisors and clusters send it to a driver: it ends `with` blocks as Ctrl-C does, which aborts.

Without this the process ends at once, and what it had begun holds its locks until it expires. A handler that the
program has installed is its own: then nothing is done here.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import NoReturn

EXIT_CODE = 128 + signal.SIGTERM
"""The exit code that a shell gives a program that the signal has ended."""


class Terminated(SystemExit):
    """The process got SIGTERM. Raised in the main thread, inside a `with` block of a transaction."""

    def __init__(self) -> None:
        super().__init__(EXIT_CODE)

    def __str__(self) -> str:
        return "SIGTERM"


class Terminations:
    """The signal is ours while the main thread is inside blocks."""

    def __init__(self) -> None:
        self._blocks = 0
        self._pid = 0

    def enter(self) -> None:
        """A block begins. In other threads than the main one, no signal arrives."""
        if not _in_main_thread():
            return
        if not self._blocks and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._pid = os.getpid()
            signal.signal(signal.SIGTERM, self._terminated)
        self._blocks += 1

    def leave(self) -> None:
        """A block that began ends."""
        if not _in_main_thread() or not self._blocks:
            return
        self._blocks -= 1
        if not self._blocks:
            self._give_back()

    def _give_back(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminated(self, _number: int, _frame: FrameType | None) -> NoReturn:
        self._give_back()  # whoever is impatient sends it twice
        if os.getpid() != self._pid:
            os.kill(os.getpid(), signal.SIGTERM)  # a fork's: the transaction is its parent's to abort
        raise Terminated


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


terminations = Terminations()
