"""What a fork leaves behind: a child has the memory of its parent, and none of its threads.

A lock that another thread held stays locked for ever in the child, and the parent's connections are not the child's. So
whoever has a lock or a connection registers here, and starts afresh in a child.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Runs in the child, before anything else does: nothing may be waited for."""


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register(what: Forkable) -> None:
    """`what.after_fork()` is called in every child forked from now on. It is held weakly."""
    _registered.add(what)


def _after_fork() -> None:
    for what in list(_registered):
        what.after_fork()


os.register_at_fork(after_in_child=_after_fork)
