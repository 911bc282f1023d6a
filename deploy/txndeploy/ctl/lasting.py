"""Imports of a command, which stay until it ends: to look for garbage among them took a quarter of a command's time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Has what the block imports never looked through for garbage; what comes later is, as ever."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
