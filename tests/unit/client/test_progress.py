"""Progress: who is shown what, and that showing it is never in the way of the work."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable

import IPython.display
import pytest

from txnclient import progress
from txnclient.progress import Notebook, Place, Progress, Terminal, hidden, shown

DEADLINE = 30.0


class Looked:
    """A place that remembers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.shares: list[float | None] = []
        self.drawn, self.closed = threading.Event(), False

    def draw(self, progress: Progress) -> None:
        self.texts.append(progress.text())
        self.shares.append(progress.share)
        self.drawn.set()

    def close(self, progress: Progress) -> None:
        self.draw(progress)
        self.closed = True


Looks = Callable[[Place | None], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Somebody looks there."""
    return lambda where: monkeypatch.setattr(progress, "place", lambda: where)


def test_work_is_drawn_until_it_is_over(at: Looks) -> None:
    at(looked := Looked())
    with shown("t.a is written", "rows", 4_000, after=0) as bar:
        assert looked.drawn.wait(DEADLINE)
        bar.at(1_000)
        looked.drawn.clear()
        assert looked.drawn.wait(DEADLINE)
        bar.at(4_000, said="in one file")
    assert looked.texts[0] == "t.a is written: 0 of 4,000 rows, 0 s"
    assert 0.25 in looked.shares
    assert looked.texts[-1].startswith("t.a is written: 4,000 of 4,000 rows, in one file, took ")
    assert (looked.shares[-1], looked.closed) == (1.0, True)


def test_work_that_fails_says_so_and_raises(at: Looks) -> None:
    at(looked := Looked())

    def fail() -> None:
        with shown("t.a is written", "rows", after=0):
            assert looked.drawn.wait(DEADLINE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert looked.texts[-1].startswith("t.a is written: failed after ")


def test_what_is_over_soon_is_not_drawn(at: Looks) -> None:
    at(looked := Looked())
    with shown("t.a is written", "rows", after=DEADLINE):
        pass
    assert (looked.texts, looked.closed) == ([], False)


def test_one_at_a_time_is_drawn_and_none_that_is_told_in_another_way(at: Looks) -> None:
    at(looked := Looked())
    with shown("outer", "files", after=0), shown("inner", "rows", after=0):
        assert looked.drawn.wait(DEADLINE)
    assert {text.partition(":")[0] for text in looked.texts} == {"outer"}
    looked.texts.clear()
    with hidden(), shown("inner", "rows", after=0) as bar:
        bar.at(1)
    assert not looked.texts
    with shown("next", "rows", after=DEADLINE):
        assert any(each.name == "txn-progress" for each in threading.enumerate())


def test_where_nobody_looks_nothing_is_begun(at: Looks) -> None:
    at(None)
    before = threading.enumerate()
    with shown("t.a is written", "rows", after=0) as bar:
        bar.at(1)
        assert threading.enumerate() == before


def test_a_place_that_fails_is_not_in_the_way(at: Looks) -> None:
    class Broken(Looked):
        def draw(self, progress: Progress) -> None:
            super().draw(progress)
            raise OSError("the terminal is gone")

    at(broken := Broken())
    with shown("t.a is written", "rows", after=0):
        assert broken.drawn.wait(DEADLINE)
    assert len(broken.texts) == 1


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_in_one_line_which_is_empty_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    tty = Tty()
    monkeypatch.setattr(sys, "stderr", tty)
    where = progress.place()
    assert isinstance(where, Terminal)
    half = Progress("t.a is written", "rows", 2)
    half.at(1)
    where.draw(half)
    where.close(half)
    line, last = tty.getvalue().split("\x1b[K")[:2]
    assert line.startswith("\r" + "█" * 12 + "░" * 12 + " t.a is written: 1 of 2 rows")
    assert last == "\r"
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress.place() is None


def test_a_notebook_has_one_output_in_which_nothing_is_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[dict[str, str]] = []

    class Handle:
        def update(self, shown: dict[str, str], **_: object) -> None:
            displayed.append(shown)

    def display(shown: dict[str, str], **_: object) -> Handle:
        displayed.append(shown)
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    where, bar = Notebook(), Progress("<b>", "rows", None)
    where.draw(bar)
    bar.at(3, 4)
    where.close(bar)
    assert displayed[0]["text/html"] == "<div><progress></progress> &lt;b&gt;: 0 s</div>"
    assert displayed[1]["text/html"].startswith('<div><progress value="0.750"></progress> &lt;b&gt;: 3 of 4 rows')
