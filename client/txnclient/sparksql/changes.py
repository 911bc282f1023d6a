"""DELETE, UPDATE and MERGE that Spark has run: what its tasks say, as what any other engine answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txnclient.change.plan import Looked, RowsChanged
from txnclient.read import row_reads
from txnclient.read.table_files import TableFiles
from txnclient.write.files import Written
from txnstatus.errors import IllegalState
from txnstatus.key_ranges import rank_by
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import DELETED, encode_keys
from txnstatus.schema import Column, Schema
from txnstatus.types import Statement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_STATEMENTS = {
    "delete": Statement.DELETE,
    "update": Statement.UPDATE,
    "merge": Statement.MERGE,
    "replace": Statement.MERGE,  # rows for which a condition holds, by others
}
PLACE = "_txn_place"
"""A column in which Spark gets the place of a row: of one that is in no file, its number among these."""
LOOSE = ""
"""The file of rows that are in none."""


def statement_of(request: Mapping[str, Any]) -> Statement | None:
    """The statement by which Spark begins to write; None: it adds rows, or overwrites partitions, and changes none.

    A MERGE that does nothing but insert comes as an append, of rows that it has looked for in the table, and not found.
    """
    mode: str = request["mode"]
    return Statement.MERGE if mode == "append" and request["looks"] else _STATEMENTS.get(mode)


def changed(
    told: Mapping[str, Any] | None, files: Sequence[DataFile], seen: TableFiles, spark: SparkSession | None
) -> RowsChanged:
    """What a statement does to the table that it has seen, given what the tasks say, and the files that there are.

    `told`: of what it does not count, all rows are inserted; None: nothing dies.

    Raises IllegalState where the two do not fit.
    """
    import pyarrow as pa
    from pyroaring import BitMap

    rows = sum(file.rows for file in files)
    told = {"dead": {}, "inserted": rows, "updated": 0, **(told or {})}
    dead = {file: BitMap.deserialize(base64.b64decode(packed)) for file, packed in told["dead"].items()}
    inserted, updated = told["inserted"], told["updated"]
    deleted = sum(map(len, dead.values())) - updated
    if deleted < 0 or rows != inserted + updated:
        raise IllegalState(
            f"the tasks of the statement say {inserted} rows inserted, {updated} updated and {deleted} deleted, and "
            f"there are {rows} rows in their files",
            hint="run it again; a source that gives other rows each time must not be read by tasks that are retried",
        )
    loose = dead.pop(LOOSE, None)
    gone = None if loose is None else _loose_keys(seen).take(pa.array(loose.to_array()))
    return RowsChanged(dead, Written(files, spark) if files else None, inserted, updated, deleted, gone)


def looked(files: Sequence[DataFile], sought: Sequence[str], schema: Schema) -> tuple[Looked, ...]:
    """Where rows were looked for that a MERGE has not found, and so has written to the files, by what these hold.

    `sought`: columns in which they have the values by which they were looked for. One of fractions says nothing: a NaN,
    which is equal to others, is in no range.
    """
    columns = {column.name: column for column in schema.columns}
    found = [_range(files, columns[name]) for name in sought if columns[name].type not in ("float", "double")]
    return tuple(each for each in found if each is not None)


def _range(files: Sequence[DataFile], column: Column) -> Looked | None:
    """None: nothing is known of one of the files."""
    rank = rank_by(column.type)
    ends = [file.columns.get(column.in_files) for file in files]
    known = [each for each in ends if each is not None]
    lowest = [(rank(each.lowest.encode()), each.lowest) for each in known]
    highest = [(rank(each.highest.encode()), each.highest) for each in known]
    if not files or len(known) < len(files) or any(place is None for place, _ in (*lowest, *highest)):
        return None
    return Looked(column.name, min(lowest)[1], max(highest)[1])


def placed(loose: pa.Table, schema: Schema) -> pa.Table:
    """Rows in no file with their places, which are the same each time: their numbers by the order of their keys."""
    import numpy as np
    import pyarrow as pa

    rows = _in_order(loose, schema)
    numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
    return rows.append_column(PLACE, numbers)


def _loose_keys(seen: TableFiles) -> pa.Table:
    """The keys of the rows in no file, by their places."""
    import pyarrow.compute as pc

    assert seen.changes is not None
    latest = row_reads.latest_changes(seen.changes, seen.schema)
    keys = latest.filter(pc.invert(latest[DELETED])).select(list(seen.schema.primary_key))
    return _in_order(keys, seen.schema)


def _in_order(rows: pa.Table, schema: Schema) -> pa.Table:
    import pyarrow.compute as pc

    return rows.take(pc.sort_indices(encode_keys(rows, schema)))
