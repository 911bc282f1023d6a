"""Delta tables, as delta-rs reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txnclient.incoming.source import Source, SourceFile, required
from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

LOG = "_delta_log"


def look(root: str) -> Source:
    """The table at its current version. Raises InvalidArgument for one that delta-rs does not read."""
    import pyarrow as pa

    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise required("deltalake") from error
    try:
        table = DeltaTable(root)
        added = pa.table(table.get_add_actions(flatten=True))
        partitioned = table.metadata().partition_columns
        unlike = _unlike(table)
        schema = pa.schema(table.schema().to_arrow())
    except DeltaError as error:
        raise InvalidArgument(f"the Delta table at {root} does not read: {error}") from error
    names = [f"partition.{name}" for name in partitioned]
    places = added.select(["path", *names]).to_pylist()
    files = [
        SourceFile(
            each["path"] if "://" in each["path"] else f"{root}/{each['path']}",
            {name: _text(each[f"partition.{name}"]) for name in partitioned},
        )
        for each in places
    ]
    return Source("delta", root, files, schema, lambda: _rows(table), unlike)


def _unlike(table: DeltaTable) -> str:
    import pyarrow as pa

    if pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all().num_rows:
        return "rows of them are deleted by deletion vectors"
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        return "columns are called otherwise in them (delta.columnMapping.mode)"
    return ""


def _text(value: object) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _rows(table: DeltaTable) -> pa.RecordBatchReader:
    import pyarrow as pa
    from deltalake import QueryBuilder

    found = QueryBuilder().register("source", table).execute("SELECT * FROM source")
    return pa.RecordBatchReader.from_stream(found)
