"""A simulated program that works in a foreign participant and in a table, in one transaction (see world/foreign.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.sim.actors.transactor import OWNER, Transactor
from txnstatus.errors import NotFound
from txnstatus.proto import txn_manager_pb2 as pb

TILL = "till"


class Seller(Transactor):
    async def _sell(self, write: Callable[[int, str], Awaitable[None]]) -> None:
        """`write`: to a table, in the transaction."""
        for txn_id in await self._begin():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                await self._sell_in(txn_id, write)
            except NotFound as error:
                self._log(f"{txn_id}: {error.message}")  # its host is not known yet
            finally:
                beating.cancel()

    async def _sell_in(self, txn_id: int, write: Callable[[int, str], Awaitable[None]]) -> None:
        request = pb.EnlistRequest(txn_id=txn_id, owner=OWNER, participant=TILL)
        await self._call("txnstatus.TxnManager/Enlist", request, pb.EnlistResponse)
        if self._rng.random() < 0.6:
            await write(txn_id, self._rng.choice(self._shared.tables))
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.5]))
        how = self._rng.random()
        if how > 0.2:
            self._shared.work(txn_id)
            if self._shared.lingers:
                await asyncio.sleep(self._rng.choice([0.0, 1.0, 4.5]))
        if how > 0.35 or how < 0.15:  # what was never prepared cannot be committed
            await self._commit(txn_id)
        elif how > 0.25:
            await self._abort(txn_id)
            if self._shared.lingers:
                self._shared.work(txn_id)  # of a task that nobody has told
