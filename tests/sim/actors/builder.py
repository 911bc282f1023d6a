"""A simulated program that makes tables, appends to them, and drops them (see judges/ruins.py)."""

from __future__ import annotations

import asyncio
import random

from tests.sim.actors.rows import RowCaller
from tests.sim.actors.transactor import OWNER
from tests.sim.judges.ruins import RUINS, Added, Named, Refusal, Visit
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, Locked, NotFound, TxnError, Unavailable
from txnstatus.proto import common_pb2, table_pb2
from txnstatus.types import ConflictStrategy, Timestamp

RUIN_SCHEMA = common_pb2.TableSchema(columns=[common_pb2.Column(name="k", type="bigint", nullable=True)])
OF_RUINS = (NotFound, Locked, AlreadyExists)
"""What the service may answer about a table that others drop and make."""


class Builder(RowCaller):
    async def _rebuild(self, expected: tuple[type[TxnError], ...]) -> None:
        """Any of what can be done to a table whose name others have, too, as long as the program runs."""
        acts = [self._build, self._visit, self._visit, self._settle_in, self._settle_in, self._tear_down]
        while not self._shared.stopping:
            name = self._rng.choice(RUINS)
            try:
                await self._rng.choice(acts)(name)
            except expected as error:
                self._log(f"{name}: {type(error).__name__}: {error.message}")
            await asyncio.sleep(self._rng.uniform(0.0, 0.2))

    async def _build(self, name: str) -> None:
        request_id = f"build {self._id()}"
        request = table_pb2.CreateTableRequest(name=name, schema=RUIN_SCHEMA, request_id=request_id)
        if (groups := self._shared.groups) > 1:
            there = [f"group-{number}" for number in range(groups)]
            request.placement = random.Random(f"placement {request_id}").choice([*there, ""])
        for _ in range(self._rng.choice([1, 1, 2])):
            sent_at = self._shared.now()
            try:
                answer = await self._call("txnstatus.Table/CreateTable", request, table_pb2.CreateTableResponse)
            except AlreadyExists:
                self._shared.ruins.refusals.append(Refusal(name, sent_at, self._shared.now()))
                raise
            except (IllegalState, InvalidArgument) as error:  # its name has its place; or a group keeps no tables
                self._log(f"{name} is not to be in {request.placement}: {error.message}")
                return
            for story in self._shared.ruins.made(request_id, answer.table.table_id, name, self._shared.now()):
                self._ledger.violation("drops", story)
        self._log(f"built {name}: {answer.table.table_id}")

    async def _settle_in(self, name: str) -> None:
        for txn_id in await self._begin():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                if self._rng.random() < 0.5:
                    await asyncio.sleep(self._rng.uniform(0.0, 1.0))  # the table may be another one by then
                asked_at = self._shared.now()
                write = await self._open_write(txn_id, name)
                self._shared.ruins.named.append(Named(name, write.table_id, asked_at))
                path = self._shared.warehouse.write(write.directory, "manifest")
                manifest = table_pb2.ManifestRef(path=path, bytes=1, crc32=1, file_count=1, row_count=1, data_bytes=1)
                request = table_pb2.AddFilesRequest(
                    txn_id=txn_id,
                    owner=OWNER,
                    table=name,
                    write_id=write.write_id,
                    mode=table_pb2.APPEND,
                    manifest=manifest,
                )
                await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.3]))
                self._shared.ruins.added.append(Added(txn_id, write.table_id, name, path, asked_at))
                await self._call("txnstatus.Table/AddFiles", request, table_pb2.AddFilesResponse)
                await self._commit(txn_id)
            finally:
                beating.cancel()

    async def _tear_down(self, name: str) -> None:
        """A drop, as txnclient does it; sometimes it is left to expire."""
        for txn_id in await self._begin():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                await self._lock_for(txn_id, name)
                # Before it is locked, others may drop it, and make another one of its name.
                asked_at = self._shared.now()
                table = await self._call(
                    "txnstatus.Table/GetTable", table_pb2.GetTableRequest(name=name), table_pb2.GetTableResponse
                )
                self._shared.ruins.named.append(Named(name, table.table.table_id, asked_at))
                request = table_pb2.DropTableRequest(txn_id=txn_id, owner=OWNER, table=name, wait_millis=500)
                while True:
                    answer = await self._call("txnstatus.Table/DropTable", request, table_pb2.DropTableResponse)
                    if not answer.waits_for or self._shared.stopping:
                        break
                if not answer.waits_for:
                    self._shared.ruins.drops[txn_id] = table.table.table_id
                    if self._rng.random() < 0.85:
                        await self._commit(txn_id)
            finally:
                beating.cancel()

    async def _lock_for(self, txn_id: int, name: str) -> None:
        request = table_pb2.LockRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=name,
            mode=table_pb2.LOCK_X,
            wait_millis=1_000,
            settled_by=self._rng.choice([ConflictStrategy.WAIT, ConflictStrategy.WOUND_WAIT]),
        )
        answer = await self._call("txnstatus.Table/Lock", request, table_pb2.LockResponse)
        if not answer.granted:
            raise Unavailable(f"{name} is locked by others")

    # ---- looking

    async def _visit(self, name: str) -> None:
        """By a new snapshot or one of before."""
        ruins, now = self._shared.ruins, self._shared.now()
        if ruins.taken and self._rng.random() < 0.5:
            at = self._rng.choice(list(ruins.taken))
        else:
            at = int(await self._take_snapshot())
            ruins.taken.setdefault(at, now)
        await self._look_at(name, at)

    async def _look_at(self, name: str, at: int) -> None:
        ruins, sent_at = self._shared.ruins, self._shared.now()
        taken_at = ruins.taken[at]
        request = table_pb2.ScanRequest(table=name, timestamp=Timestamp(at))
        try:
            answer = await self._call("txnstatus.Table/Scan", request, table_pb2.ScanResponse)
        except NotFound:
            ruins.visits.append(Visit(name, at, sent_at, taken_at))
            return
        shown = frozenset(manifest.path for manifest in answer.manifests)
        ruins.visits.append(Visit(name, at, sent_at, taken_at, answer.table.table_id, shown))
