"""What `txnctl doctor` costs: how long a shard's leader is busy with one answer, and a look at a table's storage."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from rich.table import Table as Shown

from benchmarks.suite.options import at_least
from benchmarks.suite.report import table_of
from txndeploy.doctor.places import Table, places
from txndeploy.doctor.storage import StorageAudit
from txndeploy.node import garbage
from txnparticipant.shard.audit import directories as known
from txnparticipant.shard.commands import Adopt, manifest_from_wire
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.upkeep.audit_service import ShardAudit
from txnparticipant.versions.mvcc import FileSet
from txnstatus.lake import manifest
from txnstatus.lake.manifest import DataFile
from txnstatus.proto.audit_pb2 import AuditTableRequest
from txnstatus.proto.table_pb2 import ManifestRef
from txnstatus.schema import Schema
from txnstatus.types import Timestamp, TxnId


def with_directories(location: str, count: int) -> TableState:
    """A table of so many directories, each with the one file of a committed write."""
    table = TableState("0.0", "b.table", location, Schema(()), "")
    ref = ManifestRef(bytes=100, file_count=1)
    for number in range(count):
        txn_id, write_id = TxnId(number), f"write{number:011}"
        ref.path = f"{table.directory(txn_id, write_id)}/_manifest.json"
        table.add([FileSet(write_id, txn_id, "", manifest_from_wire(ref), Timestamp(number))])
    return table


def write(table: TableState) -> None:
    """What the table knows, and nothing else."""
    for file_set in table.file_sets.values():
        directory = table.directory(file_set.txn_id, file_set.write_id)
        path = Path(directory.removeprefix("file://"))
        path.mkdir(parents=True)
        (path / "part-0.parquet").write_bytes(b"12345")
        files = [DataFile(f"{directory}/part-0.parquet", 1, 5)]
        ref = manifest.write(
            directory, files, table_id=table.table_id, txn_id=file_set.txn_id, write_id=file_set.write_id
        )
        file_set.manifest = manifest_from_wire(ref)


async def answered(table: TableState) -> tuple[float, float]:
    """Seconds of CPU: for all pages, and the most between two turns of others."""
    shard = ParticipantShard(0)
    shard._tables[table.table_id] = table
    service, request = ShardAudit(shard, no_proposal, lambda: None), AuditTableRequest(table_id=table.table_id)
    began = last = time.thread_time()
    longest, done = 0.0, False

    async def watch() -> None:
        nonlocal last, longest
        while not done:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    watching = asyncio.create_task(watch())
    while True:
        answer = await service.audit_table(request)
        if not answer.more:
            break
        request.after = answer.directories[-1].name
    done = True
    await watching
    return time.thread_time() - began, longest


async def no_proposal(command: Adopt) -> None:
    raise AssertionError(command)


def measure(
    directories: Annotated[int, at_least(1, "In the table that its leader is asked about.")] = 100_000,
    written: Annotated[int, at_least(1, "In the table whose storage is looked at.")] = 10_000,
) -> Iterator[Shown]:
    garbage.tune()
    took, longest = asyncio.run(answered(with_directories("file:///nowhere", directories)))
    rows = [(f"{directories:,} directories: all answers of the leader", f"{took:.1f} s of CPU")]
    rows.append(("the longest pause meanwhile", f"{longest * 1000:.0f} ms of CPU"))
    with tempfile.TemporaryDirectory() as directory:
        table = with_directories(Path(directory).as_uri(), written)
        write(table)
        (place,), _ = places([Table(0, table.table_id, table.name, table.location)])
        began = time.perf_counter()
        seen = StorageAudit(lambda _: dict(known(table)), lambda _: "ABORTED").look(place)
        seconds = time.perf_counter() - began
        assert seen.is_clean, seen
        rows.append((f"{seen.directories:,} directories and {seen.files:,} files on a local disk", f"{seconds:.1f} s"))
    yield table_of("txnctl doctor", ("what", "measured"), rows)
