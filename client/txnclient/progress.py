"""Progress of what takes a while: a bar in a notebook, one on a terminal, and nothing where nobody looks.

A thread draws it, in programs that somebody looks at and in no others. Of several at once, or one within another, the
first is shown: what else goes on is part of it, or has no line of its own.
"""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol

log = logging.getLogger(__name__)

SOON_SECONDS = 0.5
"""Time after which what goes on is shown: what is over before needs no bar."""
REDRAW_SECONDS = 0.2
WIDTH = 24
"""Characters of a terminal's bar."""
_shown = threading.Lock()


class Progress:
    """How far one work is. Of any thread."""

    def __init__(self, what: str, unit: str, total: int | None) -> None:
        """`total`: how many of the unit there are; None: nobody knows."""
        self.what, self.unit, self.total = what, unit, total
        self.done = 0
        self.said = ""
        """What else there is to say."""
        self.end = ""
        """How it has ended; empty: it has not."""
        self._began = time.monotonic()

    def at(self, done: int, total: int | None = None, said: str = "") -> None:
        """Tells how many of the unit are done."""
        self.done, self.total, self.said = done, self.total if total is None else total, said

    def text(self) -> str:
        """In words, without the bar."""
        of = "" if self.total is None else f" of {self.total:,}"
        counted = f"{self.done:,}{of} {self.unit}" if self.total is not None or self.done else ""
        passed = f"{self.end}{time.monotonic() - self._began:.0f} s"
        return f"{self.what}: {', '.join(each for each in (counted, self.said, passed) if each)}"

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None: nobody knows."""
        return min(1.0, self.done / self.total) if self.total else None


class Place(Protocol):
    """Where somebody looks."""

    def draw(self, progress: Progress) -> None: ...
    def close(self, progress: Progress) -> None:
        """It is over, and was drawn."""
        ...


class Notebook:
    """An output of the cell that runs; it stays there, and tells at last how long it took."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, progress: Progress) -> None:
        from IPython.display import display

        share = progress.share
        value = "" if share is None else f' value="{share:.3f}"'
        text = progress.text()
        shown = {"text/plain": text, "text/html": f"<div><progress{value}></progress> {escape(text)}</div>"}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown, raw=True)

    def close(self, progress: Progress) -> None:
        self.draw(progress)


class Terminal:
    """The line on which the cursor is, which is empty again in the end."""

    def draw(self, progress: Progress) -> None:
        share = progress.share
        filled = 0 if share is None else round(share * WIDTH)
        bar = "" if share is None else f"{'█' * filled}{'░' * (WIDTH - filled)} "
        _tell(f"\r{bar}{progress.text()}\x1b[K")

    def close(self, progress: Progress) -> None:
        _tell("\r\x1b[K")


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def place() -> Place | None:
    """Where somebody looks; None: nobody does, or at something else."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return Notebook()
    return Terminal() if sys.stderr is not None and sys.stderr.isatty() else None


@contextmanager
def shown(
    what: str,
    unit: str,
    total: int | None = None,
    *,
    after: float = SOON_SECONDS,
    look: Callable[[Progress], None] = lambda _: None,
) -> Iterator[Progress]:
    """Shows how far the block's work is, once it takes longer than `after` seconds.

    `look`: asked before each drawing, by the thread that draws. Nothing that it raises, nor what drawing raises, ends
    the work: it is not drawn any more then.
    """
    progress, where = Progress(what, unit, total), place()
    if where is None or not _shown.acquire(blocking=False):
        yield progress
        return
    over = threading.Event()
    drawing = contextvars.copy_context().run  # a notebook knows its cell by that
    thread = threading.Thread(
        target=drawing, args=(_draw, progress, where, over, after, look), name="txn-progress", daemon=True
    )
    thread.start()
    try:
        yield progress
        progress.end = "took "
    except BaseException:
        progress.end = "failed after "
        raise
    finally:
        over.set()
        thread.join()
        _shown.release()


@contextmanager
def hidden() -> Iterator[None]:
    """What the block does is not shown: whoever does it tells of it in another way."""
    ours = _shown.acquire(blocking=False)
    try:
        yield
    finally:
        if ours:
            _shown.release()


def _draw(
    progress: Progress, where: Place, over: threading.Event, after: float, look: Callable[[Progress], None]
) -> None:
    try:
        if over.wait(after):
            return
        while True:
            look(progress)
            where.draw(progress)
            if over.wait(REDRAW_SECONDS):
                break
        where.close(progress)
    except Exception as error:  # noqa: BLE001 whatever is wrong with the place, the work goes on
        log.debug("progress is not shown any more: %s", error)
