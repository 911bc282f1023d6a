"""A scenario file fails when its story is another one, and when it tells none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.harness.scenarios import Story, check

GOOD = "# It counts.\n\ncount 2\ncount 1 by=10\n----\n1\n2\n10\n\ncount 0\n----\nnothing\n"


class Counting(Story):
    def count(self, up_to: str, by: str = "1") -> Iterable[str]:
        return (str(number * int(by)) for number in range(1, int(up_to) + 1))


def test_a_story_that_is_told_rightly(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text(GOOD)
    check(path, Counting())


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("\n10\n", "\n11\n", "tells another story"),
        ("\n10\n", "\n", "tells another story"),
        ("nothing\n", "", "tells another story"),
        ("# It counts.\n\n", "", "begins with its promise"),
        ("\n----\nnothing", "", "no ----"),
        ("count 0", "discount 0", "no command 'discount'"),
        ("count 0", "_count 0", "no command '_count'"),
        ("count 0", "count 0 from=1", "count 0 from=1: .*unexpected keyword"),
        ("count 0", "count many", "count many: invalid literal"),
    ],
)
def test_a_story_that_is_not(
    right: str, wrong: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REWRITE", raising=False)
    path = tmp_path / "story.txt"
    path.write_text(GOOD.replace(right, wrong))
    with pytest.raises(AssertionError, match=says):
        check(path, Counting())


def test_what_comes_out_is_written_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "story.txt"
    path.write_text(GOOD.replace("\n10\n", "\n").replace("nothing", ""))
    monkeypatch.setenv("REWRITE", "1")
    check(path, Counting())
    assert path.read_text() == GOOD
