"""Retirement: on a shard's leader, what was overwritten goes once it is old enough and no leased snapshot needs it.

It only proposes: the replicated command says what nobody can read any more, and only then the cleaner removes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from txnparticipant.shard.commands import Retire
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import TxnError
from txnstatus.types import NO_TIMESTAMP, HybridClock, Timestamp, micros_of, timestamp

READINGS = 64
"""Readings of the hybrid clock in a retention: what is overwritten stays longer by the time between two, at most."""

log = logging.getLogger(__name__)


class Retirement:
    def __init__(
        self,
        shard: ParticipantShard,
        leases: Leases,
        propose: Callable[[Retire], Awaitable[object]],
        clock: HybridClock,
        retention_seconds: Callable[[], int],
    ) -> None:
        self._shard = shard
        self._leases = leases
        self._propose = propose
        self._clock = clock
        self._retention_seconds = retention_seconds
        self._leading = False
        self._began = 0.0
        self._began_micros = 0
        self._readings: deque[tuple[float, Timestamp]] = deque([(0.0, NO_TIMESTAMP)])
        """What the hybrid clock showed at some times of this leadership: the last of before the retention began, and
        those since."""

    def on_leadership(self, leading: bool) -> None:
        self._leading = leading
        self._began = asyncio.get_running_loop().time()
        self._readings = deque([(self._began, self._clock.now())])
        self._began_micros = micros_of(self._readings[0][1])
        self._leases.begin(self._began)

    async def run_once(self) -> None:
        """To be called again and again while this replica leads with a lease."""
        if not self._leading:
            return
        now = asyncio.get_running_loop().time()
        self._leases.advance(now, self._horizon(now))
        if not self._leases.complete:
            return
        for table in list(self._shard.tables()):
            up_to = self._leases.retirable(table)
            if not up_to:
                continue
            self._leases.retires(table, up_to)
            try:
                await self._propose(Retire(table.table_id, up_to))
            except TxnError as error:
                log.info("what was overwritten in %s up to %s is retired later: %s", table.name, up_to, error.message)

    def _horizon(self, now: float) -> Timestamp:
        """Hybrid time as it was when this leadership began, carried on by the monotonic clock, less the retention; and
        no later than what the hybrid clock showed so long ago.

        So a wall clock that jumps meanwhile makes nothing old. Nor does another's clock that is ahead, which this one
        follows: hybrid time stands still until the wall clock has come to it, and what is prepared then is new.
        """
        seconds, readings = self._retention_seconds(), self._readings
        if now - readings[-1][0] >= seconds / READINGS:
            readings.append((now, self._clock.now()))
        while len(readings) > 1 and readings[1][0] <= now - seconds:
            readings.popleft()
        micros = self._began_micros + int((now - self._began) * 1e6) - seconds * 1_000_000
        return min(timestamp(max(0, micros)), readings[0][1])
