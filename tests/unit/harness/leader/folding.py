"""Compactions of a keyed table, by the library's own code, in a shard's harness."""

from __future__ import annotations

from functools import partial

from tests.unit.harness.leader.compactions import MAJOR
from tests.unit.harness.leader.rows import TABLE, Shard
from txnclient.compact.rewriting import rewrite
from txnclient.compact.worker import made_durable, rewritten
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp


def leased(shard: Shard, kind: pb.CompactionKind = MAJOR) -> pb.CompactionTask | None:
    """The task of a compaction that is asked for now; None: there is nothing to do."""
    service = shard.service.compactions
    shard.run(service.request_compaction(pb.RequestCompactionRequest(table=TABLE, kind=kind)))
    answer = shard.run(service.lease_compaction(pb.LeaseCompactionRequest(worker="w", lease_id="lease")))
    shard.shard.check_invariants()
    return answer.task if answer.HasField("task") else None


def worked(task: pb.CompactionTask, target_bytes: int = 1 << 20) -> pb.CompleteCompactionRequest:
    """What a worker hands in."""
    write = partial(
        rewrite, schema=Schema.from_wire(task.table.schema), directory=task.directory, target_bytes=target_bytes
    )
    done = made_durable(task, rewritten(task, write))
    done.table_id, done.compaction_id, done.lease_id = task.table.table_id, task.compaction_id, "lease"
    return done


def completed(shard: Shard, done: pb.CompleteCompactionRequest) -> Timestamp:
    """When readers see it."""
    answer = shard.run(shard.service.compactions.complete_compaction(done))
    shard.shard.check_invariants()
    return Timestamp(answer.switched)


def folded(shard: Shard, kind: pb.CompactionKind = MAJOR) -> Timestamp:
    """From request to switch."""
    task = leased(shard, kind)
    assert task is not None
    return completed(shard, worked(task))
