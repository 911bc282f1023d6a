"""Stepping aside: synchronous code that gives its loop to others wherever it waits.

It runs in a greenlet, a stack of its own. What it waits for is awaited by the task that runs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import greenlet

P = ParamSpec("P")
T = TypeVar("T")


class _Stack(greenlet.greenlet):
    """One that may step aside: it was begun by `run`."""


async def run(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the work returns or raises. A cancellation is raised in it where it waits, and what it awaits then, as it
    ends what it has begun, is awaited, too."""
    stack = _Stack(work)
    stack.gr_context = greenlet.getcurrent().gr_context
    step: Any = stack.switch(*args, **kwargs)
    while not stack.dead:
        try:
            heard = await step
        except BaseException as error:  # noqa: BLE001 whatever it is, it is raised where the work waits
            step = stack.throw(error)
        else:
            step = stack.switch(heard)
    found: T = step
    return found


def may_wait() -> bool:
    """Whether whoever asks runs in `run`."""
    return isinstance(greenlet.getcurrent(), _Stack)


def wait_for(what: Awaitable[T]) -> T:
    """What it comes to; others have the loop meanwhile. Where `may_wait`."""
    stack = greenlet.getcurrent()
    assert isinstance(stack, _Stack)
    assert stack.parent is not None
    found: T = stack.parent.switch(what)
    return found
