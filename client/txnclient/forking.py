"""What a fork leaves behind: a child has the memory of its parent, and none of its threads.

A lock that another thread held stays locked for ever in the child, and the parent's gRPC channels are of no use there.
So whoever has a lock or a channel registers here, and starts afresh in a child.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

HINT = (
    "this process was forked from one that used gRPC, which may not survive that: start processes with the 'spawn' "
    "method, or leave GRPC_ENABLE_FORK_SUPPORT at its default"
)


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Runs in the child, before anything else does: nothing may be waited for."""


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()
_kept: list[object] = []
_forked = False


def register(what: Forkable) -> None:
    """`what.after_fork()` is called in every child forked from now on. It is held weakly."""
    _registered.add(what)


def keep(what: object) -> None:
    """For gRPC objects of the parent: in a child, even letting go of them can wait for ever."""
    _kept.append(what)


def is_mute() -> bool:
    """Whether a gRPC call in this process would never return: its parent used gRPC, told not to care about forks."""
    return bool(_kept) and os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in ("0", "no", "false")


def is_forked() -> bool:
    """Whether this process was forked after this package was loaded."""
    return _forked


def _after_fork() -> None:
    global _forked
    _forked = True
    for what in list(_registered):
        what.after_fork()


os.register_at_fork(after_in_child=_after_fork)
