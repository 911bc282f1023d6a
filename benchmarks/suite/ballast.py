"""Transactions that are there while something is measured: open ones that beat or need not, and finished ones."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import txnclient
from benchmarks.suite.ours import CALL_SECONDS, MANAGER, OWNER, begin_many, connected
from txndeploy.local.cluster import wait_until
from txnstatus.limits import MAX_BEGIN_COUNT
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.channel import PeerChannel

SILENT_MS = 3_600_000
"""A keep-alive interval within which no run ends."""
AT_ONCE = 4
"""Calls that are under way at once."""
FORGET_SECONDS = 1_800.0


def batches(count: int) -> list[int]:
    """The sizes of the calls that begin so many: full batches, and the rest."""
    full, rest = divmod(count, MAX_BEGIN_COUNT)
    return [MAX_BEGIN_COUNT] * full + [rest] * bool(rest)


async def begin_batches(
    channel: PeerChannel, count: int, keepalive_millis: int, begun: Callable[[Sequence[int]], None] = lambda ids: None
) -> None:
    """Begins so many, a full batch a call; `begun` hears of each batch."""
    left = batches(count)

    async def work() -> None:
        while left:
            begun(await begin_many(channel, left.pop(), keepalive_millis))

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def finish(address: str, addresses: str, count: int, keepalive_millis: int) -> None:
    """Begins so many that nobody keeps alive, and returns when they have expired and are forgotten."""
    async with connected(address) as channel:
        await begin_batches(channel, count, keepalive_millis)
    with txnclient.connect(addresses, timeout=60) as client:
        wait_until(lambda: not client.transactions(limit=1), "all are forgotten", FORGET_SECONDS)


@dataclass
class Beats:
    """What came of them, in a window of time."""

    latencies: list[float] = field(default_factory=list)
    """Seconds, of calls."""
    ids: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)


class Keeper:
    """Open transactions that are kept alive from a thread of its own, a batch a call, as the client library does."""

    def __init__(self, address: str, keepalive_millis: int) -> None:
        self._address, self._keepalive_millis = address, keepalive_millis
        self._period = keepalive_millis / 2000
        self.beats = Beats()
        """Replace it to begin a new window."""
        self.count = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._channel = self._do(self._connect())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, count: int) -> None:
        """More of them; each batch beats from its begin on."""
        self._do(begin_batches(self._channel, count, self._keepalive_millis, self._begun))

    def _begun(self, ids: Sequence[int]) -> None:
        self.count += len(ids)
        self._tasks.append(asyncio.create_task(self._beat(ids)))

    async def _connect(self) -> PeerChannel:
        return PeerChannel(self._address)

    async def _beat(self, ids: Sequence[int]) -> None:
        request = pb.KeepTransactionAliveRequest(txn_ids=ids, owner=OWNER)
        due = time.monotonic() + self._period * random.random()
        while True:
            await asyncio.sleep(due - time.monotonic())
            sent = time.monotonic()
            beats = self.beats
            try:
                answer = await self._channel.call(
                    f"{MANAGER}/KeepTransactionAlive", request, pb.KeepTransactionAliveResponse, CALL_SECONDS
                )
            except txnclient.TxnError as error:
                beats.refused += len(ids)
                beats.errors.append(error.message)
            else:
                refusals = [each.error.message for each in answer.refused]
                beats.latencies.append(time.monotonic() - sent)
                beats.ids += len(ids) - len(refusals)
                beats.refused += len(refusals)
                beats.errors += refusals[:1]
            due = sent + self._period

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
