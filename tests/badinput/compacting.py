"""What stands in right requests about compactions: a table of its own for each, with two small files."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txnclient.compact.rewriting import rewrite
from txnclient.compact.worker import made_durable
from txnstatus.lake import dead_rows, manifest
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.schema import Schema

if TYPE_CHECKING:
    from tests.badinput.world import World

SERVICE = "txnstatus.Compactions"


class Compacting:
    """For one request."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._table = ""
        self._lease_id = uuid.uuid4().hex
        self._leased: pb.CompactionTask | None = None
        self._done: pb.CompleteCompactionRequest | None = None

    def makers(self) -> dict[str, Callable[[], Any]]:
        """What makes a field's value, by the field's full name."""
        found: dict[str, Callable[[], Any]] = {
            "RequestCompactionRequest.table": self.table,
            "RequestCompactionRequest.kind": lambda: pb.COMPACTION_MINOR,
            "LeaseCompactionRequest.worker": lambda: "a worker",
            "LeaseCompactionRequest.lease_id": lambda: self._lease_id,
            "LeaseCompactionRequest.table": self.asked_for,
            "CompleteCompactionRequest.manifest": lambda: self.done().manifest,
            "CompleteCompactionRequest.lineage": lambda: self.done().lineage,
        }
        for request in ("RenewCompactionRequest", "CompleteCompactionRequest", "FailCompactionRequest"):
            found[f"{request}.table_id"] = lambda: self.task().table.table_id
            found[f"{request}.compaction_id"] = lambda: self.task().compaction_id
            found[f"{request}.lease_id"] = lambda: self._lease_id
        return {f"txnstatus.{name}": maker for name, maker in found.items()}

    def table(self) -> str:
        """The name of a table that is worth compacting."""
        if not self._table:
            self._table = self._world.new_table()
            for number in range(2):
                self._world.client.write(pa.table({"id": pa.array([number], pa.int64())}), self._table)
        return self._table

    def asked_for(self) -> str:
        """The name of a table of which a compaction is asked for."""
        request = pb.RequestCompactionRequest(table=self.table(), kind=pb.COMPACTION_MINOR)
        answer = self._world.client.call(f"{SERVICE}/RequestCompaction", request, pb.RequestCompactionResponse)
        assert answer.compaction_ids
        return self.table()

    def task(self) -> pb.CompactionTask:
        """The task of a worker."""
        if self._leased is None:
            request = pb.LeaseCompactionRequest(worker="a worker", lease_id=self._lease_id, table=self.asked_for())
            answer = self._world.client.call(f"{SERVICE}/LeaseCompaction", request, pb.LeaseCompactionResponse)
            assert answer.HasField("task")
            self._leased = answer.task
        return self._leased

    def done(self) -> pb.CompleteCompactionRequest:
        """What the worker has written."""
        if self._done is None:
            task = self.task()
            inputs = [file for ref in task.inputs for file in manifest.read(ref)]
            dead, schema = dead_rows.union(map(dead_rows.read, task.dead)), Schema.from_wire(task.table.schema)
            done = rewrite(inputs, dead, schema, task.directory, target_bytes=task.target_file_bytes)
            self._done = made_durable(task, done)
        return self._done
