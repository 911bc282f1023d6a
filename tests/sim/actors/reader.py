"""What a simulated program reads: at new and old timestamps, and for some time under a lease."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

from tests.sim.actors.transactor import Transactor
from txnstatus.errors import SnapshotTooOld, TxnError
from txnstatus.proto import table_pb2
from txnstatus.rpc.errors import from_detail
from txnstatus.types import Timestamp

LEASE_SECONDS = 1.0
"""Time for which a scan or a renewal keeps what it reads, from when it was sent."""
TRIES = 3


class Reader(Transactor):
    async def _read(self) -> None:
        if self._shared.snapshots and self._rng.random() < 0.3:
            timestamp = self._rng.choice(self._shared.snapshots)
        else:
            timestamp = await self._take_snapshot()
            self._shared.snapshots.append(timestamp)
        tables = self._rng.sample(self._shared.tables, self._rng.randint(1, len(self._shared.tables)))
        for table in tables * self._rng.choice([1, 2]):
            await self._scan(table, timestamp)

    async def read_everything(self) -> None:
        for table in self._ledger.tables:
            for timestamp in set(self._shared.snapshots):
                with contextlib.suppress(SnapshotTooOld):
                    await self._scan(table, timestamp)
            await self._read_newest(table, partial(self._scan, table))

    async def _read_newest(self, table: str, read: Callable[[Timestamp], Awaitable[object]]) -> None:
        """At a snapshot that is taken now. It may be too old when a shard without a leader answers at last."""
        for _ in range(TRIES):
            newest = await self._take_snapshot()
            try:
                await read(newest)
            except SnapshotTooOld as error:
                refused = error
            else:
                return
        self._ledger.refused_read(table, newest, refused.message)

    async def _scan(self, table: str, timestamp: int, lease_id: str = "", *, leased: bool = False) -> None:
        sent_at = self._shared.now()
        request = table_pb2.ScanRequest(table=table, timestamp=timestamp, lease_id=lease_id, leased=leased)
        try:
            answer = await self._call("txnstatus.Table/Scan", request, table_pb2.ScanResponse)
        except SnapshotTooOld as error:
            self._shared.refused(table, error.message)
            self._ledger.refused_lease(lease_id, table, error.message)
            raise
        manifests = [manifest.path for manifest in answer.manifests]
        self._ledger.scanned(table, timestamp, manifests, sent_at)
        if lease_id:
            self._ledger.leased(lease_id, table, manifests, sent_at + LEASE_SECONDS)
            gone = [manifest for manifest in manifests if not self._shared.warehouse.exists(manifest)]
            self._ledger.read_files(lease_id, table, gone)

    # ---- under a lease

    async def _hold_snapshots(self, expected: tuple[type[TxnError], ...]) -> None:
        """One after the other, as long as the program runs."""
        while not self._shared.stopping:
            try:
                await self._hold_snapshot()
            except expected as error:
                self._log(f"a snapshot ends: {type(error).__name__}: {error.message}")
            await asyncio.sleep(self._rng.uniform(0.0, 0.5))

    async def _hold_snapshot(self) -> None:
        """Reads tables again and again, and renews meanwhile, as txnclient does."""
        timestamp = await self._take_snapshot()
        lease_id = self._id()
        tables = self._rng.sample(self._shared.tables, self._rng.randint(1, len(self._shared.tables)))
        for table in tables:
            await self._scan(table, timestamp, lease_id)
        leases = [
            table_pb2.SnapshotLease(
                lease_id=lease_id, table=table, timestamp=timestamp, lease_millis=int(LEASE_SECONDS * 1000)
            )
            for table in tables
        ]
        end = self._shared.now() + self._rng.uniform(0.0, 6.0)
        while leases and self._shared.now() < end and not self._shared.stopping:
            await asyncio.sleep(LEASE_SECONDS / 3)
            leases = await self._renew(leases)
            if leases and self._rng.random() < 0.3:
                await self._scan(self._rng.choice(leases).table, timestamp, lease_id, leased=True)

    async def _renew(self, leases: list[table_pb2.SnapshotLease]) -> list[table_pb2.SnapshotLease]:
        """Returns those that are not lost."""
        sent_at, kept = self._shared.now(), []
        answer = await self._call(
            "txnstatus.Table/RenewLeases",
            table_pb2.RenewLeasesRequest(leases=leases),
            table_pb2.RenewLeasesResponse,
            timeout=LEASE_SECONDS / 2,
        )
        for lease, result in zip(leases, answer.results, strict=True):
            error = from_detail(result.error) if result.HasField("error") else None
            if error is None:
                self._ledger.renewed(lease.lease_id, lease.table, sent_at + LEASE_SECONDS)
            elif isinstance(error, SnapshotTooOld):
                self._ledger.refused_lease(lease.lease_id, lease.table, error.message)
                continue
            kept.append(lease)
        return kept
