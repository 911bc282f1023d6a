"""Turns: how many calls of each user begin in one turn of the loop, so that nobody's wait behind one user's many."""

from __future__ import annotations

import asyncio

from txnstatus.security.principals import Principal

FEW = 4
"""Calls of one user that begin in a turn while others have some: some tenths of a millisecond of a node's time."""
PRESENT_SECONDS = 1.0
"""How long a user counts as one who has some after the last."""


class Turns:
    """Fair among users, whatever connections they have. A process of the cluster, and who is not known, is no user:
    such a connection begins as many as a turn has."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}
        """Calls that have begun in this turn, by user."""
        self._present: dict[str, float] = {}
        """Users who had some of late, and until when they count; who had the last is the last."""

    def take(self, caller: Principal | None, waiting: int, most: int) -> int:
        """How many of those that wait begin now. `most`: as many as a turn has."""
        if caller is None or caller.is_process:
            return min(waiting, most)
        loop, user = asyncio.get_running_loop(), caller.owner
        if not self._begun:
            loop.call_soon(self._begun.clear)
        count = min(waiting, self.room(user, most, loop.time()))
        self._begun[user] = self._begun.get(user, 0) + count
        return count

    def room(self, user: str, most: int, now: float) -> int:
        """How many more of a user's may begin in this turn; it is there from now on."""
        self._present.pop(user, None)
        while self._present and self._present[first := next(iter(self._present))] < now:
            del self._present[first]
        is_alone = not self._present
        self._present[user] = now + PRESENT_SECONDS
        return max(0, (most if is_alone else FEW) - self._begun.get(user, 0))
