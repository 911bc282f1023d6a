"""A pool of connections."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")


class Pool(Generic[ThingT]):
    """Things of which each is used by one at a time. Who waits longest gets the next one that is free."""

    def __init__(self, things: Sequence[ThingT]) -> None:
        self.things = things
        self._free = list(things)
        self._waiting: deque[asyncio.Future[ThingT]] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[ThingT]:
        if self._free:
            thing = self._free.pop()
        else:
            turn: asyncio.Future[ThingT] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            thing = await turn
        try:
            yield thing
        finally:
            if self._waiting:
                self._waiting.popleft().set_result(thing)
            else:
                self._free.append(thing)
