"""HeartbeatSchedule: when to beat for which handle, and what an answer means. It has no clock, thread or socket.

The shell (heartbeat.py) asks `due(now)`, sends what it says, and tells what came of it. Times are seconds of one
monotonic clock. Kudu's rhythm: a beat every half keep-alive interval, each call given up after a quarter of it; so a
call that hangs leaves time for another one elsewhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from txnstatus.limits import MAX_KEEP_ALIVE_IDS

MAX_PAUSE_SECONDS = 1.0
"""Longest pause between attempts that fail; usually it is an eighth of the interval."""


@dataclass(frozen=True, slots=True)
class Call:
    """One KeepTransactionAlive call to make now."""

    keys: tuple[int, ...]
    timeout: float
    """Seconds."""


@dataclass(slots=True)
class _Beat:
    keepalive: float
    heard: float
    """The time at which the last beat that was answered, or the begin, was sent: the service has heard of us since."""
    due: float
    silent: bool = False

    @property
    def period(self) -> float:
        return self.keepalive / 2


class HeartbeatSchedule:
    """Keys stand for handles. `jitter` returns factors a little below 1, so that clients do not beat in step."""

    def __init__(self, jitter: Callable[[], float] = lambda: 1.0) -> None:
        self._jitter = jitter
        self._beats: dict[int, _Beat] = {}
        self._queue: list[tuple[float, int]] = []
        """A heap of (due, key). An entry whose `due` is not its beat's any more counts for nothing."""

    def __len__(self) -> int:
        return len(self._beats)

    def __contains__(self, key: int) -> bool:
        return key in self._beats

    def add(self, key: int, keepalive: float, heard: float) -> None:
        """`heard`: when the call that began the transaction was sent. The first beat is due one period later."""
        self._beats[key] = beat = _Beat(keepalive, heard, heard)
        self._put(key, beat, heard + beat.period * self._jitter())

    def remove(self, key: int) -> None:
        self._beats.pop(key, None)

    def next_due(self) -> float | None:
        """When `due` will have a call; None: never, as things are."""
        while self._queue:
            at, key = self._queue[0]
            if self._is_current(at, key):
                return at
            heapq.heappop(self._queue)
        return None

    def due(self, now: float) -> Call | None:
        """The next call to make, or None. Its keys come up again only after `answered` or `failed`.

        Whoever would be due within half a period goes along. Two groups of an interval are never further apart than
        that, so handles that began one by one end up in the same call, and soon.
        """
        first = self.next_due()
        if first is None or first > now:
            return None
        keys: list[int] = []
        keepalive = float("inf")
        horizon = now
        while len(keys) < MAX_KEEP_ALIVE_IDS and (at := self.next_due()) is not None and at <= horizon:
            _, key = heapq.heappop(self._queue)
            beat = self._beats[key]
            beat.due = float("inf")
            keys.append(key)
            keepalive = min(keepalive, beat.keepalive)
            horizon = now + keepalive / 4
        return Call(tuple(keys), keepalive / 4)

    def answered(self, keys: Iterable[int], sent: float, now: float) -> None:
        """The service has these alive: the next beat follows one period after this one was sent."""
        for key in keys:
            if beat := self._beats.get(key):
                beat.heard = sent
                beat.silent = False
                self._put(key, beat, max(now, sent + beat.period * self._jitter()))

    def failed(self, keys: Iterable[int], sent: float, now: float) -> list[tuple[int, float]]:
        """No answer for these: the next attempt follows soon.

        Returns those that have by now been silent for longer than their interval, with the seconds, each once: what
        became of them is not known. They go on beating: a service that was down expires nobody for that.
        """
        silent = []
        for key in keys:
            if beat := self._beats.get(key):
                if not beat.silent and now - beat.heard > beat.keepalive:
                    beat.silent = True
                    silent.append((key, now - beat.heard))
                pause = min(beat.keepalive / 8, MAX_PAUSE_SECONDS)
                self._put(key, beat, max(now, sent + pause * self._jitter()))
        return silent

    def check_invariants(self) -> None:
        """Raises AssertionError."""
        queued = {key for at, key in self._queue if self._is_current(at, key)}
        under_way = {key for key, beat in self._beats.items() if beat.due == float("inf")}
        assert queued | under_way == set(self._beats), "a handle that will never beat again"
        assert not queued & under_way, "a handle that beats twice at once"

    def _put(self, key: int, beat: _Beat, at: float) -> None:
        beat.due = at
        heapq.heappush(self._queue, (at, key))

    def _is_current(self, at: float, key: int) -> bool:
        beat = self._beats.get(key)
        return beat is not None and beat.due == at
