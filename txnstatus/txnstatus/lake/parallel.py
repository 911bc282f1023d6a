"""Work on many files, several at a time: most of it is waiting where they are far away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

READERS = 8
"""Threads that look at files which are small and may be far away."""


def each(work: Callable[[T], R], items: Sequence[T], readers: int = READERS) -> list[R]:
    """What `work` answers for each of the items, in their order. Raises what it raises.

    A thread is handed many at once: for files at hand one at a time would take longer than reading them.
    """
    count = min(readers, len(items))
    if count < 2:
        return list(map(work, items))
    with ThreadPoolExecutor(count, "files") as pool:
        parts = list(pool.map(lambda first: [work(item) for item in items[first::count]], range(count)))
    return [parts[number % count][number // count] for number in range(len(items))]
