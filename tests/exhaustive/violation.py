"""What the search looks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

OWN_CHECKS = "each core's own check"
TOTAL = "a core never raises"


class Violation(Exception):
    """A rule is broken."""

    def __init__(self, rule: str, story: str) -> None:
        super().__init__(f"{rule}: {story}")
        self.rule = rule
        self.story = story
        self.then: list[tuple[object, ...]] = []
        """The steps without further faults that led to it."""


def require(holds: object, rule: str, story: str) -> None:
    if not holds:
        raise Violation(rule, story)


@contextlib.contextmanager
def guarded(whose: str) -> Iterator[None]:
    """A core raises nothing, whatever it is asked; its own check raises AssertionError."""
    try:
        yield
    except Violation:
        raise
    except AssertionError as error:
        raise Violation(OWN_CHECKS, f"{whose}: {error}") from error
    except Exception as error:
        raise Violation(TOTAL, f"{whose} raised {error!r}") from error
