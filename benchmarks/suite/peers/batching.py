"""Batching on the client's side: steps of many transactions leave together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

StepT = TypeVar("StepT")
AnswerT = TypeVar("AnswerT")


class Batcher(Generic[StepT, AnswerT]):
    """What waits while `parallel` batches are under way leaves as the next one: nobody waits for a batch to fill."""

    def __init__(
        self, send: Callable[[Sequence[StepT]], Awaitable[Sequence[AnswerT]]], *, most: int, parallel: int = 1
    ) -> None:
        """`send` answers one for each step, or raises for all of them."""
        self._send = send
        self._most = most
        self._free = parallel
        self._waiting: list[tuple[StepT, asyncio.Future[AnswerT]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def step(self, step: StepT) -> AnswerT:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[AnswerT] = loop.create_future()
        if self._free and not self._waiting:
            loop.call_soon(self._leave)  # with what else comes in this turn of the loop
        self._waiting.append((step, future))
        return await future

    def _leave(self) -> None:
        while self._free and self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            self._free -= 1
            task = asyncio.create_task(self._deliver(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, batch: Sequence[tuple[StepT, asyncio.Future[AnswerT]]]) -> None:
        try:
            answers = await self._send([step for step, _ in batch])
        except Exception as error:  # noqa: BLE001 it is everybody's in the batch
            for _, future in batch:
                future.set_exception(error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)
        finally:
            self._free += 1
            self._leave()
