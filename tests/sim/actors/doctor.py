"""The simulated doctor: examines the storage while everything goes on, and gives anything it sees up for adoption.

What it finds must be nothing, at any time; and however recklessly it asks, nothing that is in use may go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tests.sim.actors.caller import Caller
from tests.sim.judges import checks
from txnparticipant.shard.audit import Known, findings, from_wire
from txnparticipant.versions.directories import WriteDirectory, directory_named
from txnstatus.errors import Forgotten, NotFound, Unavailable
from txnstatus.findings import Finding, Kind, confirmed
from txnstatus.proto import audit_pb2 as pb
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2
from txnstatus.types import TERMINAL, TxnState


class Doctor(Caller):
    async def examine(self, shards: int, grace_seconds: float) -> None:
        """Until the world tells it to stop."""
        while not self._shared.stopping:
            shard = self._rng.randrange(shards)
            try:
                answer = await self._call(
                    "txnstatus.Audit/AuditShard", pb.AuditShardRequest(shard=shard), pb.AuditShardResponse
                )
                tables = [each.info for each in answer.participants if each.info.location]
                if tables:
                    await self._examine_table(self._rng.choice(tables), grace_seconds)
            except (Unavailable, NotFound) as error:  # nobody answers, or the table has been dropped meanwhile
                self._log(f"sees nothing of shard {shard}: {error.message}")
            await asyncio.sleep(self._rng.uniform(0.0, 0.3))

    async def _examine_table(self, table: common.TableInfo, grace_seconds: float) -> None:
        first = await self._look(table)
        second = await self._look(table)
        for found in confirmed(first, second):
            if checks.is_amiss(found, table.location, self._ledger, self._shared.warehouse, grace_seconds):
                self._ledger.violation("10 files", f"{found.where}, {found.what}: {found.kind.label}: {found.story}")
        there = sorted(self._shared.warehouse.listing(table.location))
        wanted = [each.what for each in second if each.what in there]
        wanted += self._rng.sample(there, min(len(there), self._rng.randint(0, 3)))
        request = pb.AdoptDirectoriesRequest(table_id=table.table_id, names=wanted)
        answer = await self._call("txnstatus.Audit/AdoptDirectories", request, pb.AdoptDirectoriesResponse)
        for name, result in zip(wanted, answer.results, strict=True):
            self._log(f"adoption of {name} of {table.name}: {result.error.message or 'done'}")

    async def _look(self, table: common.TableInfo) -> list[Finding]:
        listing = self._shared.warehouse.listing(table.location)
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.5]))
        known = await self._known(table)
        found = findings(table.name, table.location, known, listing, {})
        return [each for each in found if not await self._is_under_way(each)]

    async def _is_under_way(self, found: Finding) -> bool:
        """As txnctl doctor asks, of what a table does not know: a begin may have claimed it."""
        directory = directory_named(found.what)
        if not isinstance(directory, WriteDirectory) or found.kind not in (Kind.ORPHAN, Kind.WHOLE_WRITE):
            return False
        request = txn_manager_pb2.GetTransactionStateRequest(txn_id=directory.txn_id)
        response = txn_manager_pb2.GetTransactionStateResponse
        try:
            answer = await self._call("txnstatus.TxnManager/GetTransactionState", request, response)
        except (Forgotten, NotFound):
            return False
        return TxnState(answer.txn.state) not in TERMINAL

    async def _known(self, table: common.TableInfo) -> Mapping[str, Known]:
        request = pb.AuditTableRequest(table_id=table.table_id)
        answer = await self._call("txnstatus.Audit/AuditTable", request, pb.AuditTableResponse)
        return {each.name: from_wire(each) for each in answer.directories}
