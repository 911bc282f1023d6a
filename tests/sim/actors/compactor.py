"""A simulated worker: leases compactions and does them by the library's code, or dies, fails, comes late, or steals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.sim.actors.caller import Caller
from tests.sim.actors.rolls import PARTED_ROLL, PARTS, ROLLS
from txnclient.compact.rewriting import rewrite
from txnclient.compact.worker import made_durable, read_again
from txnstatus.errors import IllegalState, NotFound, Unavailable
from txnstatus.lake import dead_rows, manifest
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.schema import Schema

FATES = {"completes": 8, "twice": 2, "dies": 1, "fails": 1, "late": 1, "stolen": 1}
"""What becomes of a task, and how often."""
COMPACTIONS = "txnstatus.Compactions"


class Compactor(Caller):
    async def _compact(self) -> None:
        if self._rng.random() < 0.5:
            await self._ask_for_compaction()
        lease_id = self._id()
        request = pb.LeaseCompactionRequest(worker=self._name, lease_id=lease_id, table=self._rng.choice(ROLLS))
        answer = await self._call(f"{COMPACTIONS}/LeaseCompaction", request, pb.LeaseCompactionResponse)
        if not answer.HasField("task"):
            return
        fate = self._rng.choices(list(FATES), list(FATES.values()))[0]
        self._log(f"{answer.task.compaction_id} of {answer.task.table.name} {answer.task.partition}: {fate}")
        try:
            await self._do_task(answer.task, lease_id, fate)
        except NotFound as error:
            self._log(f"{answer.task.compaction_id} is over for long: {error.message}")

    async def _ask_for_compaction(self) -> None:
        table = self._rng.choice(ROLLS)
        partition = f"p={self._rng.choice(PARTS)}" if table == PARTED_ROLL and self._rng.random() < 0.5 else ""
        kind = self._rng.choice([pb.COMPACTION_MINOR, pb.COMPACTION_MAJOR])
        request = pb.RequestCompactionRequest(table=table, partition=partition, kind=kind)
        await self._call(f"{COMPACTIONS}/RequestCompaction", request, pb.RequestCompactionResponse)

    async def _do_task(self, task: pb.CompactionTask, lease_id: str, fate: str) -> None:
        key = {"table_id": task.table.table_id, "compaction_id": task.compaction_id, "lease_id": lease_id}

        async def renew() -> None:
            request = pb.RenewCompactionRequest(**key)
            await self._call(f"{COMPACTIONS}/RenewCompaction", request, pb.RenewCompactionResponse)

        await self._pass_time(renew)
        if fate == "dies":
            return
        if fate == "fails":
            failed = pb.FailCompactionRequest(**key, reason="a whim", returned=self._rng.random() < 0.5)
            await self._call(f"{COMPACTIONS}/FailCompaction", failed, pb.FailCompactionResponse)
            return
        done = self._rewritten(task)
        await self._pass_time(renew)
        if fate == "late":
            await asyncio.sleep(3 * task.lease_millis / 1000)
        if fate == "stolen":
            await self._steal_task(key, done)
        done.table_id, done.compaction_id, done.lease_id = key.values()
        for _ in range(2 if fate == "twice" else 1):
            answer = await self._call(f"{COMPACTIONS}/CompleteCompaction", done, pb.CompleteCompactionResponse)
            self._log(f"{task.compaction_id} is seen from {answer.switched} on")

    async def _pass_time(self, renew: Callable[[], Awaitable[None]]) -> None:
        for _ in range(self._rng.choice([0, 0, 1, 3])):
            await asyncio.sleep(self._rng.uniform(0.0, 0.5))
            await renew()

    def _rewritten(self, task: pb.CompactionTask) -> pb.CompleteCompactionRequest:
        """As txnclient.compact.worker.Worker. Raises Unavailable where the store fails, or inputs are overwritten."""
        named = [*(ref.path for ref in task.inputs), *(ref.path for ref in task.dead)]
        if gone := [path for path in named if not self._shared.warehouse.exists(path)]:
            raise Unavailable(f"{gone} are gone: the task is nobody's any more")
        inputs = [file for ref in task.inputs for file in manifest.read(ref)]
        dead = dead_rows.union(map(dead_rows.read, task.dead))
        # Few or many outputs, whatever the service would like.
        target = self._rng.choice([1_500, 1 << 20])
        done = rewrite(inputs, dead, Schema.from_wire(task.table.schema), task.directory, target_bytes=target)
        try:
            request = made_durable(task, done)
        except OSError as error:
            raise Unavailable(str(error)) from error
        read_again(done)
        return request

    async def _steal_task(self, key: dict[str, str], done: pb.CompleteCompactionRequest) -> None:
        """Another worker, with a lease of its own making."""
        request = pb.CompleteCompactionRequest(manifest=done.manifest, lineage=done.lineage)
        request.table_id, request.compaction_id, _ = key.values()
        request.lease_id = self._id()
        try:
            await self._call(f"{COMPACTIONS}/CompleteCompaction", request, pb.CompleteCompactionResponse)
        except (IllegalState, NotFound):
            return
        self._ledger.violation("12 once", f"{key['compaction_id']} was completed by one who has not leased it")
