"""A shard's shell with real files, a Raft group of one and a status table of a few lines; for tests of row writes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.leader.shard_service import Log, Status, shard_service
from txnclient.formats import arrow
from txnclient.read import diff
from txnclient.read.table_files import TableFiles
from txnclient.snapshot import Snapshot
from txnclient.write.keys import KeyedFiles
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.table import TableState
from txnstatus.lake import manifest
from txnstatus.lake import rows as row_format
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.table_properties import Property
from txnstatus.types import Timestamp, TxnId

TABLE, TABLE_ID, OWNER = "air.log", "0.0", "ada"
SCHEMA = Schema((Column("id", "bigint"), Column("v", "string")), primary_key=("id",))
CHANGES = {
    "insert": pb.ROW_INSERT,
    "insert_ignore": pb.ROW_INSERT_IGNORE,
    "upsert": pb.ROW_UPSERT,
    "update": pb.ROW_UPDATE,
    "delete": pb.ROW_DELETE,
}


class Shard:
    """One table in one shard; every call returns when it is done."""

    def __init__(self, directory: Path, schema: Schema = SCHEMA, properties: Sequence[Property] = ()) -> None:
        self.status, self.log = Status(), Log()
        self._runner = asyncio.Runner()
        self._blocking = ThreadPoolExecutor(1)
        self._numbers = itertools.count(1)
        self.service = shard_service(
            self.status,
            self.log,
            creates=cmd.CreateTable(TABLE, schema, (directory / "log").as_uri(), "r", properties=tuple(properties)),
            warehouse=directory.as_uri(),
            disk=self._blocking,
            zombie_grace_seconds=0.0,
        )
        self.shard = self.service.shard

    def __enter__(self) -> Shard:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()
        self._blocking.shutdown()

    @property
    def table(self) -> TableState:
        return self.shard.table(TABLE)

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def apply(self, command: cmd.Command) -> ShardApplied:
        (outcome,) = self.log.machine.apply([cmd.encode(command)])
        self.shard.check_invariants()
        if isinstance(outcome, Rejected):
            raise outcome.error
        assert isinstance(outcome, ShardApplied)
        return outcome

    def begin(self, txn_id: TxnId) -> None:
        self.apply(begin_txn(txn_id, TABLE_ID, OWNER))

    def request(self, txn_id: int, change: str, rows: pa.Table, snapshot: int) -> pb.WriteRowsRequest:
        return pb.WriteRowsRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=TABLE,
            write_id=f"write{next(self._numbers):04}",
            change=CHANGES[change],
            snapshot=snapshot,
            rows=row_format.to_ipc(rows),
        )

    def write(self, txn_id: int, change: str, rows: dict[int, str], snapshot: int) -> pb.WriteRowsResponse:
        data = table_of(rows)
        request = self.request(txn_id, change, data.select(["id"]) if change == "delete" else data, snapshot)
        return self.send(request)

    def send(self, request: pb.WriteRowsRequest) -> pb.WriteRowsResponse:
        answer = self.run(self.service.write_rows(request))
        self.shard.check_invariants()
        assert isinstance(answer, pb.WriteRowsResponse)
        return answer

    def write_files(
        self,
        txn_id: TxnId,
        rows: dict[int, str] | pa.Table,
        *,
        overwrite: str | None = None,
        read_at: Timestamp | None = None,
        keys_are_new: bool = False,
    ) -> None:
        """As a client does, which looks for the keys; and commits nothing.

        `overwrite`: a partition. `read_at`: of the snapshot that the transaction has read; None: it has read nothing.
        """
        self.add(self.files_request(txn_id, rows, overwrite=overwrite, read_at=read_at, keys_are_new=keys_are_new))

    def files_request(
        self,
        txn_id: TxnId,
        rows: dict[int, str] | pa.Table,
        *,
        overwrite: str | None = None,
        read_at: Timestamp | None = None,
        keys_are_new: bool = False,
    ) -> pb.AddFilesRequest:
        """For files that are written, and whose keys were looked for."""
        write_id, schema = f"files{next(self._numbers):04}", self.table.schema
        self.begin(txn_id)
        self.apply(cmd.OpenWrite(txn_id, TABLE_ID, OWNER, write_id))
        directory = self.table.directory(txn_id, write_id)
        files = arrow.write_files(rows if isinstance(rows, pa.Table) else table_of(rows), directory, schema, TABLE)
        overwrites = frozenset(() if overwrite is None else (overwrite,))
        handle: Any = Handle(self, txn_id, read_at)
        request = pb.AddFilesRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=TABLE,
            write_id=write_id,
            mode=pb.APPEND if overwrite is None else pb.OVERWRITE,
            manifest=manifest.write(directory, files, table_id=TABLE_ID, txn_id=txn_id, write_id=write_id),
            overwrites=overwrites - {WHOLE_TABLE},
        )
        if files and schema.primary_key:
            added = KeyedFiles(TABLE, schema, files, overwrites, None)
            request.claim.CopyFrom(added.claim(handle, keys_are_new=keys_are_new))
        if overwrite is not None:
            request.read_timestamp = self.status.last if read_at is None else read_at
        return request

    def add(self, request: pb.AddFilesRequest) -> None:
        self.run(self.service.add_files(request))
        self.shard.check_invariants()

    def prepare(self, txn_id: TxnId) -> None:
        self.apply(cmd.BeginCommit(txn_id, TABLE_ID, self.service._clock.now()))

    def decide(self, txn_id: TxnId) -> Timestamp:
        """At the status table: this shard does not hear of it."""
        commit_ts = max(self.table.txns[txn_id].prepare_ts, Timestamp(self.status.last + 1))
        self.status.commits[txn_id] = commit_ts
        return commit_ts

    def finalize(self, txn_id: TxnId) -> None:
        self.apply(cmd.FinalizeCommit(txn_id, TABLE_ID, self.status.commits[txn_id]))

    def commit(self, txn_id: TxnId) -> Timestamp:
        self.prepare(txn_id)
        commit_ts = self.decide(txn_id)
        self.finalize(txn_id)
        return commit_ts

    def abort(self, txn_id: TxnId) -> None:
        self.apply(cmd.AbortTxn(txn_id, TABLE_ID))

    def flush(self) -> None:
        """All that is committed."""
        self.service._rows.wants_room.set()
        self.run(self.service._flusher.run_once())
        self.shard.check_invariants()

    def restart(self) -> None:
        self.shard.restore(self.shard.snapshot())

    def scan(self, at: int, txn_id: int | None = None, lineages_above: int | None = None) -> pb.ScanResponse:
        """`txn_id`: of the transaction that the reader is inside."""
        owner = "" if txn_id is None else OWNER
        request = pb.ScanRequest(table=TABLE, timestamp=at, txn_id=txn_id, owner=owner, lineages_above=lineages_above)
        answer = self.run(self.service.scan(request))
        assert isinstance(answer, pb.ScanResponse)
        return answer

    def read(self, at: int, txn_id: int | None = None) -> list[tuple[int, str]]:
        """As a client reads; rows that come twice come twice."""
        found = TableFiles.of(self.scan(at, txn_id), Timestamp(at)).to_arrow()
        return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))

    def diff(self, since: int, until: int) -> pa.Table:
        """As a client compares two snapshots."""
        after = self.scan(until, lineages_above=since)
        between = Timestamp(since), Timestamp(until)
        return diff.between(self.scan(since), after, *between, self.scan).to_arrow()


class Handle:
    """As much of a client's handle and session as the search for keys uses."""

    def __init__(self, shard: Shard, txn_id: TxnId, read_at: Timestamp | None) -> None:
        self._shard, self.id, self.read_at = shard, txn_id, read_at
        self.session: Any = self
        self.owner = OWNER
        self.leases: Any = SimpleNamespace(add=lambda *_: 0, remove=lambda *_: None)

    @property
    def snapshot(self) -> Snapshot:
        assert self.read_at is not None
        return Snapshot(self.session, self.read_at, self.id)

    def last_commit(self) -> Timestamp:
        return self._shard.status.last

    def call(self, method: str, request: pb.ScanRequest, _response: object) -> pb.ScanResponse:
        assert method == "txnstatus.Table/Scan"
        answer = self._shard.run(self._shard.service.scan(request))
        assert isinstance(answer, pb.ScanResponse)
        return answer


def table_of(rows: dict[int, str]) -> pa.Table:
    return pa.table({"id": pa.array(rows.keys(), pa.int64()), "v": pa.array(rows.values(), pa.string())})
