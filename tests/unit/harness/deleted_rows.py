"""A table with rows that are deleted by position, as a scan of it answers; and the rows that there should be."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from txnclient.formats import arrow
from txnclient.read.table_files import TableFiles
from txnstatus.lake import dead_rows, manifest
from txnstatus.lake.manifest import DataFile
from txnstatus.proto import table_pb2 as pb
from txnstatus.proto.common_pb2 import TableInfo
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp

SCHEMA = Schema((Column("id", "bigint", nullable=False), Column("grö ße", "string"), Column("v", "int")), ("grö ße",))
_numbers = itertools.count(1)


def rows(ids: range) -> pa.Table:
    """In a partition whose name needs escapes, or in another; `v` is null now and then."""
    values = [None if each % 7 == 0 else each % 5 for each in ids]
    names = pa.array(["a b/%ü=" if ids.start % 2 else "b"] * len(ids))
    return pa.table({"id": pa.array(ids), "grö ße": names, "v": pa.array(values, pa.int32())})


class Table:
    """Every call is a write of its own."""

    def __init__(self, directory: Path, schema: Schema = SCHEMA) -> None:
        self.directory, self.schema = directory, schema
        self.response = pb.ScanResponse(table=TableInfo(name="a.t", schema=schema.to_wire()))
        self.files: list[tuple[DataFile, pa.Table]] = []

    def write(self, data: pa.Table) -> DataFile:
        """To one file."""
        directory = self._directory()
        (file,) = arrow.write_files(data, directory, self.schema, "a.t")
        self.response.manifests.append(manifest.write(directory, [file], table_id="0.0", txn_id=1, write_id="w"))
        self.files.append((file, data))
        return file

    def delete(self, dead: dict[str, BitMap]) -> None:
        self.response.dead.append(dead_rows.write(self._directory(), dead))

    def _directory(self) -> str:
        return (self.directory / f"delta_{next(_numbers)}_w").as_uri()

    def read(self) -> TableFiles:
        return TableFiles.of(self.response, Timestamp(1))

    def now(self) -> pb.ScanResponse:
        """What a scan answers, to be compared with a later one."""
        found = pb.ScanResponse()
        found.CopyFrom(self.response)
        return found

    def expected(self, dead: dict[str, set[int]]) -> list[dict[str, Any]]:
        """All rows but those at these positions of files, by their ids."""
        found = [
            row
            for file, data in self.files
            for position, row in enumerate(data.to_pylist())
            if position not in dead.get(file.path, ())
        ]
        return sorted(found, key=lambda row: row["id"])


def by_id(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: row["id"])
