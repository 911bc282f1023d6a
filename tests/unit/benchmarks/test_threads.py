"""Load by threads: what they did is counted together, and a writer that cannot begin fails the run."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from benchmarks.suite.threads import in_threads


def test_threads_count_what_they_did_together() -> None:
    def writer() -> Callable[[], None]:
        turns = itertools.count()

        def operation() -> None:
            if next(turns) == 1:
                raise ValueError("the second")

        return operation

    tally = in_threads(writer, 3, 0.05)
    assert tally.failures == 3
    assert tally.count > 3
    assert tally.errors == ["ValueError: the second"] * 3
    assert tally.seconds >= 0.05


def test_a_writer_that_cannot_begin_fails_the_run() -> None:
    def writer() -> Callable[[], None]:
        raise ValueError("no such table")

    with pytest.raises(RuntimeError, match="ValueError: no such table"):
        in_threads(writer, 2, 0.05)
