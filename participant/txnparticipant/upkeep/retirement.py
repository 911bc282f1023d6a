"""Retirement: on a shard's leader, what was overwritten goes once it is old enough and no leased snapshot needs it.

It only proposes: the replicated command says what nobody can read any more, and only then the cleaner removes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from txnparticipant.shard.commands import Retire
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import TxnError
from txnstatus.types import HybridClock, Timestamp, micros_of, timestamp

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

    def on_leadership(self, leading: bool) -> None:
        self._leading = leading
        self._began = asyncio.get_running_loop().time()
        self._began_micros = micros_of(self._clock.now())
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
        """Hybrid time as it was when this leadership began, carried on by the monotonic clock, less the retention.

        So a wall clock that jumps meanwhile makes nothing old.
        """
        micros = self._began_micros + int((now - self._began) * 1e6) - self._retention_seconds() * 1_000_000
        return timestamp(max(0, micros))
