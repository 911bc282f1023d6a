"""Answers that are kept for a moment: however many ask for the same, the cluster is asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from txnstatus.errors import Overloaded

AnswerT = TypeVar("AnswerT")
KeyT = TypeVar("KeyT")


REFUSED_SECONDS = 1.0
"""Time for which a refusal is kept at most: what could not be had may be there again."""


@dataclass(frozen=True, slots=True)
class _Entry(Generic[AnswerT]):
    answer: asyncio.Task[AnswerT]
    asked: float
    """The loop's time."""
    seconds: float

    def is_over(self, now: float) -> bool:
        if not self.answer.done():
            return False
        refused = self.answer.cancelled() or self.answer.exception() is not None
        return now >= self.asked + (min(self.seconds, REFUSED_SECONDS) if refused else self.seconds)


class Kept(Generic[KeyT, AnswerT]):
    def __init__(self, most: int) -> None:
        """`most`: answers that are kept, or waited for, at one time."""
        self._most = most
        self._entries: dict[KeyT, _Entry[AnswerT]] = {}

    async def get(self, key: KeyT, seconds: float, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """The answer of `ask`, which is not asked again for so long, nor while it has not answered.

        Raises what it raises; Overloaded where too many others are kept.
        """
        now = asyncio.get_running_loop().time()
        entry = self._entries.get(key)
        if entry is None or entry.is_over(now):
            self._entries = {known: each for known, each in self._entries.items() if not each.is_over(now)}
            if len(self._entries) >= self._most:
                raise Overloaded("the console is asked for too much at one time")
            entry = self._entries[key] = _Entry(asyncio.ensure_future(ask()), now, seconds)
        return await asyncio.shield(entry.answer)
