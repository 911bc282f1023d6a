"""Attempts: what was tried before a call is given up, and what each that was asked said last.

The reason is with whoever answered: a full queue, a group without a leader, a full disk. Silence does not replace it.
"""

from __future__ import annotations

from txnstatus.errors import Overloaded, TxnError, Unavailable
from txnstatus.rpc.errors import clip

MAX_SAID_BYTES = 480
"""Bytes of what one of them said that the error repeats: with three of them it still fits in one."""


class NoAnswer(Unavailable):
    """Whoever was asked said nothing: it cannot be reached, or took too long."""


class Attempts:
    """It keeps texts only: an exception would keep its frames, and through them handles that are to be garbage."""

    def __init__(self) -> None:
        self._count = 0
        self._said: dict[str, str] = {}
        self._silent: dict[str, str] = {}
        self._overloaded: dict[str, str] = {}
        """Whoever was overloaded when last heard, with the hint."""

    def failed(self, who: str, error: TxnError) -> None:
        self._count += 1
        words = error.message.removeprefix(f"{who}: ").removeprefix(f"{who} ")
        if isinstance(error, NoAnswer):
            self._silent[who] = words
            return
        self._silent.pop(who, None)
        self._said[who] = words
        self._overloaded.pop(who, None)
        if isinstance(error, Overloaded):
            self._overloaded[who] = error.hint

    def error(self, what: str, hint: str = "") -> Unavailable:
        """Overloaded where somebody was, else Unavailable. `what`: what was not done, and within which time."""
        times = "1 attempt" if self._count == 1 else f"{self._count} attempts"
        told = "; ".join(f"{who}: {self._told(who)}" for who in dict.fromkeys((*self._said, *self._silent)))
        kind = Overloaded if self._overloaded else Unavailable
        hint = next((each for each in self._overloaded.values() if each), hint)
        return kind(f"{what}, in {times}; {told}", hint=hint)

    def _told(self, who: str) -> str:
        said, silent = self._said.get(who), self._silent.get(who)
        words = f"{said}; then {silent}" if said and silent else said or silent or ""
        return clip(words, MAX_SAID_BYTES)
