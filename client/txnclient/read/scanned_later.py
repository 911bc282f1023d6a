"""A table's files as a dataset that another engine scans when it needs it. To be imported where pyarrow is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from txnstatus.lake import data_files
from txnstatus.lake.manifest import DataFile
from txnstatus.names import double_quoted
from txnstatus.schema import Schema


def called(schema: Schema) -> str:
    """What makes of the columns, as files have them, those of now: a list for a SELECT of DuckDB's."""
    names = ((column.in_files, column.name) for column in schema.columns)
    return ", ".join(f"{double_quoted(in_files)} AS {double_quoted(name)}" for in_files, name in names)


class ScannedLater(ds.FileSystemDataset):  # type: ignore[misc]
    """Says of what it cannot read what `explained` makes of it, and keeps that from becoming garbage.

    DuckDB asks a dataset's class for its `scanner`, and that for a reader.
    """

    def __init__(
        self, dataset: ds.Dataset, files: Sequence[DataFile], explained: Callable[[], AbstractContextManager[None]]
    ) -> None:
        super().__init__(list(dataset.get_fragments()), dataset.schema, dataset.format, dataset.filesystem)
        self._files, self._explained = files, explained

    def scanner(self, **options: Any) -> _Scan:
        inner = super().scanner(**options)

        def batches() -> Iterator[pa.RecordBatch]:
            with self._explained(), data_files.told(self._files):
                yield from inner.to_batches()

        return _Scan(inner.projected_schema, batches)


class _Scan(NamedTuple):
    """As much of a pyarrow Scanner as is asked of it."""

    projected_schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.batches())
