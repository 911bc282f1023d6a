"""The timeline's files: what is kept of transactions for good, in Parquet, beside the tables' databases.

A file has transactions that ended one after the other in one status range, and is named by the first and the last of
these times, so that a reader of a time opens no others. A transaction may be in two files: a new leader writes once
more what a former one may not have written.
"""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from txnstatus.lake.storage import file_system, make_durable, put_whole
from txnstatus.types import AbortCause, time_of

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = ".txnstatus/timeline"
"""The folder of the warehouse, by a name that no database has."""
_NAME = re.compile(r"(\d{20})-(\d{20})-(\d+)-[0-9a-f]{8}\.parquet")


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a transaction did to one table. None: nobody knew any more when it was written down."""

    table: str
    added_rows: int | None = None
    """Rows of files."""
    added_files: int | None = None
    deleted_rows: int | None = None
    """Rows that it deleted by their positions in files: an update deletes, too."""
    changed_rows: int | None = None
    """Rows that it changed by their keys, and that were still in memory."""

    def __str__(self) -> str:
        counts = {"added": self.added_rows, "deleted": self.deleted_rows, "changed": self.changed_rows}
        said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return f"{self.table} ({said})" if said else self.table


@dataclass(frozen=True, slots=True)
class Past:
    """One transaction that is over."""

    txn_id: int
    state: str
    """COMMITTED or ABORTED."""
    owner: str
    label: str
    began: datetime
    ended: datetime
    commit_timestamp: int
    """0: it did not commit, or nobody took part."""
    tables: tuple[TableChange, ...]
    abort_code: str
    """CONFLICT, say; empty: it committed."""
    aborted_by: str
    abort_reason: str
    winner: int | None
    """A CONFLICT's: the transaction that was first."""
    conflicts: tuple[str, ...]
    """A CONFLICT's: what both had changed."""
    undoes: int | None = None
    """An undo's: the transaction that it takes back."""


@dataclass(slots=True)
class Changes:
    """What transactions did to tables, as a file has it: a list for each field of `TableChange`."""

    table: list[str] = field(default_factory=list)
    added_rows: list[int | None] = field(default_factory=list)
    added_files: list[int | None] = field(default_factory=list)
    deleted_rows: list[int | None] = field(default_factory=list)
    changed_rows: list[int | None] = field(default_factory=list)

    def add(
        self,
        table: str,
        added_rows: int | None = None,
        added_files: int | None = None,
        deleted_rows: int | None = None,
        changed_rows: int | None = None,
    ) -> None:
        self.table.append(table)
        self.added_rows.append(added_rows)
        self.added_files.append(added_files)
        self.deleted_rows.append(deleted_rows)
        self.changed_rows.append(changed_rows)


@dataclass(slots=True)
class Chapter:
    """Transactions that are over, as a file has them: a list for each field of `Past`, times as they are kept."""

    txn_id: list[int] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    owner: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    began: list[int] = field(default_factory=list)
    """Microseconds since 1970; `ended` likewise."""
    ended: list[int] = field(default_factory=list)
    commit_timestamp: list[int] = field(default_factory=list)
    tables: Changes = field(default_factory=Changes)
    """Changes of all transactions, one after the other."""
    changed: list[int] = field(default_factory=lambda: [0])
    """How many of `tables` are of the transactions before each one; and, in the end, of all."""
    abort_code: list[str] = field(default_factory=list)
    aborted_by: list[str] = field(default_factory=list)
    abort_reason: list[str] = field(default_factory=list)
    winner: list[int | None] = field(default_factory=list)
    conflicts: list[tuple[str, ...]] = field(default_factory=list)
    undoes: list[int | None] = field(default_factory=list)

    def add(
        self,
        txn_id: int,
        state: str,
        owner: str,
        label: str,
        began: int,
        ended: int,
        commit_timestamp: int,
        cause: AbortCause | None,
        undoes: int | None,
    ) -> None:
        """One that ended after those before it. What it did to tables is in `tables` by then."""
        self.txn_id.append(txn_id)
        self.state.append(state)
        self.owner.append(owner)
        self.label.append(label)
        self.began.append(began)
        self.ended.append(ended)
        self.commit_timestamp.append(commit_timestamp)
        self.changed.append(len(self.tables.table))
        code, by, reason, winner, conflicts = why(cause)
        self.abort_code.append(code)
        self.aborted_by.append(by)
        self.abort_reason.append(reason)
        self.winner.append(winner)
        self.conflicts.append(conflicts)
        self.undoes.append(undoes)


def why(cause: AbortCause | None) -> tuple[str, str, str, int | None, tuple[str, ...]]:
    """What of `Past` tells why it was aborted: fields of it, in their order."""
    return (cause.code.name, cause.by, cause.message, cause.winner, cause.objects) if cause else ("", "", "", None, ())


def write(warehouse: str, range_number: int, chapter: Chapter) -> str:
    """Returns the file's URI; it is durable then. Raises OSError. `chapter`: some transactions, one at least."""
    import pyarrow.parquet as pq

    first, last = min(chapter.ended), max(chapter.ended)
    sink = io.BytesIO()
    pq.write_table(_table(chapter), sink, compression="zstd")
    day = time_of(last).strftime("%Y-%m-%d")
    name = f"{first:020}-{last:020}-{range_number}-{uuid.uuid4().hex[:8]}.parquet"
    uri = f"{warehouse.rstrip('/')}/{FOLDER}/{day}/{name}"
    put_whole(uri, sink.getvalue())
    make_durable([uri])
    return uri


def _table(chapter: Chapter) -> pa.Table:
    import pyarrow as pa

    schema = _schema()
    struct = schema.field("tables").type.value_type
    changes = [pa.array(getattr(chapter.tables, each.name), each.type) for each in struct]
    tables = pa.ListArray.from_arrays(
        pa.array(chapter.changed, pa.int32()), pa.StructArray.from_arrays(changes, fields=list(struct))
    )
    columns = [tables if each.name == "tables" else pa.array(getattr(chapter, each.name), each.type) for each in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def files(warehouse: str, since_micros: int, until_micros: int) -> list[str]:
    """URIs of those that have transactions which ended in that time, in the order of their names. Raises OSError."""
    from pyarrow import fs

    location = f"{warehouse.rstrip('/')}/{FOLDER}"
    system, root = file_system(location)
    found = []
    for day in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        if day.type is not fs.FileType.Directory or not _may_have(day.base_name, since_micros):
            continue
        for info in system.get_file_info(fs.FileSelector(day.path, allow_not_found=True)):
            match = _NAME.fullmatch(info.base_name)
            if match and int(match[2]) >= since_micros and int(match[1]) < until_micros:
                found.append((info.base_name, f"{location}/{day.base_name}/{info.base_name}"))
    return [uri for _, uri in sorted(found)]


def last_written(warehouse: str, range_number: int, since_micros: int) -> int:
    """The last end among the transactions of a range that are in files, of those from a time on; 0: there are none.

    Raises OSError.
    """
    found = (_NAME.fullmatch(uri.rpartition("/")[2]) for uri in files(warehouse, since_micros, 1 << 63))
    return max((int(match[2]) for match in found if match and int(match[3]) == range_number), default=0)


def read(uris: Iterable[str]) -> list[Past]:
    """The transactions, each once, by their ids. Raises OSError."""
    import pyarrow.parquet as pq

    found: dict[int, Past] = {}
    for uri in uris:
        system, path = file_system(uri)
        for row in pq.read_table(path, filesystem=system, schema=_schema()).to_pylist():
            past = _past(row)
            known = found.get(past.txn_id)
            if known is None or _known(past) > _known(known):
                found[past.txn_id] = past
    return [found[txn_id] for txn_id in sorted(found)]


def find(uri: str, txn_id: int) -> Past | None:
    """A transaction, if it is in the file. Raises OSError."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    system, path = file_system(uri)
    with system.open_input_file(path) as source:
        file = pq.ParquetFile(source)
        ids = file.metadata.row_group(0).column(0).statistics
        if not ids.min <= txn_id <= ids.max:
            return None
        for row in file.read().filter(pc.field("txn_id") == txn_id).to_pylist():
            return _past(row)
    return None


def _past(row: dict[str, Any]) -> Past:
    tables = tuple(TableChange(**each) for each in row.pop("tables"))
    return Past(tables=tables, conflicts=tuple(row.pop("conflicts")), **row)


def _known(past: Past) -> int:
    """How much is known of what it did: less, the later it was written down."""
    return sum(each.added_rows is not None for each in past.tables)


def _may_have(day: str, since_micros: int) -> bool:
    """Whether a folder may have what ended from then on: it is called by the day of the last in each of its files."""
    return day >= time_of(since_micros).strftime("%Y-%m-%d")


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, number, time = pa.string(), pa.int64(), pa.timestamp("us", "UTC")
    change = [(each.name, text if each.name == "table" else number) for each in fields(Changes)]
    return pa.schema(
        [
            ("txn_id", number),
            ("state", text),
            ("owner", text),
            ("label", text),
            ("began", time),
            ("ended", time),
            ("commit_timestamp", pa.uint64()),
            ("tables", pa.list_(pa.struct(change))),
            ("abort_code", text),
            ("aborted_by", text),
            ("abort_reason", text),
            ("winner", number),
            ("conflicts", pa.list_(text)),
            ("undoes", number),
        ]
    )
