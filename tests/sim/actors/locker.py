"""A simulated program that locks tables and partitions, waits for others, and ends (see judges/exclusion.py)."""

from __future__ import annotations

import asyncio

from tests.sim.actors.transactor import OWNER, Transactor
from tests.sim.judges.exclusion import Had
from txnstatus.errors import Locked
from txnstatus.proto import table_pb2
from txnstatus.types import ConflictStrategy

LOCKED_TABLE, PARTITIONS = "bank.south", ("", "p=4", "p=5")
MODES = ("S", "SHARED_WRITE", "X")
STRATEGIES = (
    ConflictStrategy.NO_WAIT,
    ConflictStrategy.WAIT,
    ConflictStrategy.WAIT,
    ConflictStrategy.WAIT_DIE,
    ConflictStrategy.WOUND_WAIT,
)


class Locker(Transactor):
    async def _lock_things(self) -> None:
        for txn_id in await self._begin():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                for _ in range(self._rng.randint(1, 2)):
                    await self._lock(txn_id)
                await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.1]))
                if self._rng.random() < 0.8:
                    await self._commit(txn_id)
            except Locked as error:
                self._log(error.message)
            finally:
                beating.cancel()

    async def _lock(self, txn_id: int) -> None:
        partition, mode = self._rng.choice(PARTITIONS), self._rng.choice(MODES)
        request = table_pb2.LockRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=LOCKED_TABLE,
            partitions=[partition] if partition else [],
            mode=f"LOCK_{mode}",
            wait_millis=self._rng.choice([0, 300, 2_000]),
            settled_by=self._rng.choice(STRATEGIES),
        )
        answer = await self._call("txnstatus.Table/Lock", request, table_pb2.LockResponse)
        if answer.granted:
            name = f"{LOCKED_TABLE}/{partition}" if partition else LOCKED_TABLE
            self._shared.had.append(Had(txn_id, name, mode, self._shared.now()))
