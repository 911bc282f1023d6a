"""Where the simulation takes the place of the world: every name of another module that it replaces, in one list.

Everything else is handed in (Environment, Disk). These are left: globals of pysyncobj, the end of the process, and the
file system of the tables.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def replaced(seams: Sequence[tuple[str, Any]]) -> Iterator[None]:
    """Each seam is `module:NAME` or `module:CLASS.NAME`, and what stands there meanwhile."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for path, stand_in in seams:
            module, _, name = path.partition(":")
            __import__(module)
            owner: Any = sys.modules[module]
            *outer, name = name.split(".")
            for part in outer:
                owner = getattr(owner, part)
            undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, stand_in)
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


def everywhere(name: str, original: object, stand_in: object) -> list[tuple[str, Any]]:
    """The seams of all modules that have imported the original by this name."""
    modules = sorted(module for module in sys.modules if module.startswith(("txn", "pysyncobj")))
    return [(f"{module}:{name}", stand_in) for module in modules if vars(sys.modules[module]).get(name) is original]


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """No cycle collection meanwhile: it would finalise coroutines of the dead at moments of its own."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The service's log costs more than the service."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
