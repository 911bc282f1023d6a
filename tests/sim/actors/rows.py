"""How a simulated program reads and writes rows by key: wire requests, and the client library's way to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.sim.actors.books import BOOK_SCHEMA, DELETE, Answer, Rows
from tests.sim.actors.reader import Reader
from tests.sim.actors.transactor import OWNER
from txnclient.formats import arrow
from txnclient.read import row_reads
from txnclient.read.table_files import TableFiles
from txnclient.write.keys import KeyedFiles
from txnstatus.errors import AlreadyExists, Unavailable
from txnstatus.lake import manifest
from txnstatus.lake import rows as row_format
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

FILE = "part.parquet"


class Write(NamedTuple):
    """A write of files, opened."""

    write_id: str
    directory: str
    table_id: str


class RowCaller(Reader):
    # ---- reading

    async def _read_rows(self, table: str, at: Timestamp, txn_id: int | None = None) -> Rows:
        """By a snapshot, or inside a transaction."""
        response = await self._scan_table(table, at, txn_id)
        schema = Schema.from_wire(response.table.schema)
        listed = [manifest.read(ref) for ref in response.manifests]
        files = [file for each in listed for file in each]
        changes = row_reads.RowChanges.of(response, at, [len(each) for each in listed])
        if changes is None:
            found = arrow.read_files(files, schema, None)
        else:
            found = row_reads.read(files, changes, schema, None)
        keys, values = found["k"].to_pylist(), found["v"].to_pylist()
        if len(set(keys)) < len(keys):
            self._ledger.violation("15 keys", f"{table} at {at} has a key twice: {keys}")
        return dict(sorted(zip(keys, values, strict=True)))

    async def _scan_table(self, table: str, at: Timestamp, txn_id: int | None) -> table_pb2.ScanResponse:
        request = table_pb2.ScanRequest(table=table, timestamp=at)
        if txn_id is not None:
            request.txn_id, request.owner = txn_id, OWNER
        return await self._call("txnstatus.Table/Scan", request, table_pb2.ScanResponse)

    # ---- writing

    async def _change_rows(self, txn_id: int, table: str, kind: str, rows: Rows, snapshot: Timestamp) -> Answer:
        """One request; now and then it is made again, as by a client that missed the answer."""
        data = _as_table(rows)
        request = table_pb2.WriteRowsRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=table,
            write_id=self._write_id(),
            change=f"ROW_{kind}",
            snapshot=snapshot,
            rows=row_format.to_ipc(data.select(["k"]) if kind == DELETE else data),
        )
        answers = [
            await self._call("txnstatus.Table/WriteRows", request, table_pb2.WriteRowsResponse)
            for _ in range(self._rng.choice([1, 1, 2]))
        ]
        if answers[0] != answers[-1]:
            self._ledger.violation("12 once", f"{request.write_id} was answered {answers}")
        keys = list(rows)
        return Answer(answers[0].written, answers[0].ignored, tuple(keys[row] for row in answers[0].refused))

    async def _open_write(self, txn_id: int, table: str) -> Write:
        write_id = self._write_id()
        request = table_pb2.OpenWriteRequest(txn_id=txn_id, owner=OWNER, table=table, write_id=write_id)
        opened = await self._call("txnstatus.Table/OpenWrite", request, table_pb2.OpenWriteResponse)
        return Write(write_id, opened.directory, opened.table.table_id)

    async def _add_file(
        self, txn_id: int, table: str, rows: Rows, snapshot: Timestamp, *, overwrites: bool, vouches: bool
    ) -> tuple[Answer, Timestamp]:
        """What came of it, and when its keys were looked for: by the client library's code.

        `snapshot`: what the transaction has read by. `overwrites`: the whole table; else the rows are appended.
        """
        write = await self._open_write(txn_id, table)
        try:
            file, listed = self._write_file(txn_id, write, rows)
        except OSError as error:
            raise Unavailable(str(error)) from error
        at = await self._take_snapshot()
        scanned, seen = [await self._scan_table(table, ts, txn_id) for ts in (at, snapshot)]
        replaced = frozenset([WHOLE_TABLE] if overwrites else [])
        added = KeyedFiles(table, Schema.from_wire(scanned.table.schema), [file], replaced, None)
        try:
            claim = added.vouched(at) if vouches else added.claim_beside(scanned, at, TableFiles.of(seen, snapshot))
        except AlreadyExists as error:
            return Answer(0, refused=tuple(sorted(map(int, error.keys)))), at
        request = table_pb2.AddFilesRequest(
            txn_id=txn_id, owner=OWNER, table=table, write_id=write.write_id, manifest=listed, claim=claim
        )
        if overwrites:
            request.mode, request.read_timestamp = table_pb2.OVERWRITE, snapshot
        await self._call("txnstatus.Table/AddFiles", request, table_pb2.AddFilesResponse)
        return Answer(len(rows)), at

    def _write_file(self, txn_id: int, write: Write, rows: Rows) -> tuple[DataFile, table_pb2.ManifestRef]:
        """Raises OSError."""
        system, directory = self._shared.warehouse.file_system(write.directory)
        system.create_dir(directory, recursive=True)
        data, uri = _as_table(rows), f"{write.directory}/{FILE}"
        pq.write_table(data, f"{directory}/{FILE}", filesystem=system)
        self._shared.warehouse.make_durable([uri])
        size = system.get_file_info(f"{directory}/{FILE}").size
        (file,) = arrow.described([(uri, size)], write.directory, Schema.from_wire(BOOK_SCHEMA))
        listed = {"table_id": write.table_id, "txn_id": txn_id, "write_id": write.write_id}
        return file, manifest.write(write.directory, [file], **listed)  # type: ignore[arg-type]

    def _write_id(self) -> str:
        return f"write{self._id()}".replace("-", "x")


def _as_table(rows: Mapping[int, str]) -> pa.Table:
    fields = [pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())]
    return pa.table([pa.array(rows.keys(), pa.int64()), pa.array(rows.values(), pa.string())], pa.schema(fields))
