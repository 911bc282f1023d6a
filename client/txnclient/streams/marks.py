"""Marks: how far a source has been taken.

A mark is a row of an ordinary table with a primary key. So it commits with what was taken, outlives the records of
transactions, is replicated and compacted, and of two who move it at once the first to commit wins.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from txnclient.calls.requests import build
from txnclient.handle import Handle
from txnclient.read.row_reads import RowChanges
from txnclient.session import Session
from txnclient.snapshot import Snapshot
from txnclient.write.rows import RowWrites
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound
from txnstatus.lake.rows import from_ipc
from txnstatus.names import OWN_DATABASE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema
from txnstatus.types import NO_TIMESTAMP, TxnId

if TYPE_CHECKING:
    import pyarrow as pa

MARKS = f"{OWN_DATABASE}.marks"
"""The table, which the first mark of a cluster makes. A database that begins with `_` is nobody's by accident."""
Position: TypeAlias = str | int | float | bool | Sequence[Any] | Mapping[str, Any]
"""What JSON can say: an offset, or offsets by partition, `{"0": 17, "1": 22}`."""
MAX_SOURCE_CHARACTERS = 200
MAX_POSITION_CHARACTERS = 64 << 10
"""Characters of a position as JSON: as many fit into one row, with room for more."""
MAX_NAMED = 10
"""Sources that an error names."""
_SCHEMA = Schema(
    (
        Column("source", "string", comment="what is taken from"),
        Column("position", "string", nullable=False, comment="how far, as JSON"),
        Column("txn_id", "bigint", nullable=False, comment="the transaction that came there"),
        Column("owner", "string", nullable=False, comment="whose it was"),
        Column("written", "timestamp", nullable=False, comment="when, by the writer's clock"),
    ),
    primary_key=("source",),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a source has been taken."""

    source: str
    position: Any
    """What `Transaction.mark` was given."""
    txn_id: TxnId
    """The transaction that took it there."""
    owner: str
    written: datetime
    """When that was, by its program's clock."""


def encode(position: object) -> str:
    """The position as JSON, the same for positions that are the same. Raises InvalidArgument."""
    try:
        text = json.dumps(position, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"a position, a {type(position).__name__}, cannot be said in JSON: {error}") from None
    if position is None or json.loads(text) != position:
        raise InvalidArgument(
            f"position {_short(position)} is not what is read back: {text:.100}",
            hint="text, numbers, lists, and dicts by text are possible",
        )
    if len(text) > MAX_POSITION_CHARACTERS:
        raise InvalidArgument(f"a position of {len(text)} characters: {MAX_POSITION_CHARACTERS} are possible")
    return text


def check_source(source: object) -> str:
    """Raises InvalidArgument."""
    is_name = isinstance(source, str) and 0 < len(source) <= MAX_SOURCE_CHARACTERS
    if not isinstance(source, str) or not is_name or not source.isprintable() or source != source.strip():
        raise InvalidArgument(
            f"source {_short(source)}: 1 to {MAX_SOURCE_CHARACTERS} printable characters are possible, without spaces "
            "around them"
        )
    return source


def require(source: str, found: Mark | None, expected: object | None) -> None:
    """Raises IllegalState where the source is not where it is expected. None: nobody has taken from it."""
    wanted = None if expected is None else encode(expected)
    if (None if found is None else encode(found.position)) == wanted:
        return
    there = (
        "it has no mark"
        if found is None
        else f"it is at {_short(found.position)}, where transaction {found.txn_id} of {found.owner} took it at "
        f"{found.written.isoformat(timespec='seconds')}"
    )
    asked = "to have no mark" if expected is None else f"to be at {_short(expected)}"
    raise IllegalState(
        f"source {source!r} was expected {asked}: {there}",
        hint=f"somebody else takes from it, or this was taken before: client.mark({source!r}) says from where to go on",
    )


def find(snapshot: Snapshot, source: str) -> Mark | None:
    """The mark that the snapshot sees, leased with it."""
    import pyarrow.compute as pc

    try:
        found = snapshot.table_files(MARKS)
    except NotFound:
        return None
    with snapshot.explained(MARKS):
        rows = _last_change(found.changes, source) if found.changes else None
        if rows is None:
            rows = found.to_arrow(where=pc.field("source") == source)
    return next(_marks(rows), None)


def all_of(snapshot: Snapshot) -> list[Mark]:
    """Every mark that the snapshot sees, by source."""
    try:
        found = snapshot.to_arrow(MARKS)
    except NotFound:
        return []
    return sorted(_marks(found), key=lambda each: each.source)


def write(handle: Handle, rows: RowWrites, source: str, position: Position) -> None:
    """Has the source be there when the transaction has committed. What it is compared with is found before that."""
    import pyarrow as pa

    row = {
        "source": source,
        "position": encode(position),
        "txn_id": handle.id,
        "owner": handle.owner,
        "written": datetime.now(UTC),
    }
    names = [column.name for column in _SCHEMA.columns]
    data = pa.table({name: [row[name]] for name in names})
    try:
        rows.write(pb.ROW_UPSERT, MARKS, data)
    except NotFound:
        _create(handle.session)
        rows.write(pb.ROW_UPSERT, MARKS, data)


def key_of(source: str) -> pa.Table:
    """The source as the key of its row."""
    import pyarrow as pa

    return pa.table({"source": [source]})


def not_found(source: str, there: Iterable[Mark]) -> NotFound:
    named = [repr(each.source) for each in there]
    others = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return NotFound(f"source {source!r} has no mark; there are: {', '.join(named[:MAX_NAMED]) or 'none'}{others}")


def _last_change(changes: RowChanges, source: str) -> pa.Table | None:
    """What the last change in memory has made of the source's row, none if that has deleted it; None: none is known.

    Each move of a mark is such a change until it is flushed: to look at all of them takes the longer, the more there
    are.
    """
    import pyarrow.compute as pc

    newest = max(changes.file_times, default=NO_TIMESTAMP)
    for change in reversed(changes.batches):
        if change.commit_ts < newest:
            return None  # a file that came later may have the row
        rows = from_ipc(change.rows) if change.rows else None
        if rows is not None and (own := rows.filter(pc.field("source") == source)).num_rows:
            return own.slice(0, 0) if change.deletes else own.slice(own.num_rows - 1)
    return None


def _marks(found: pa.Table) -> Iterator[Mark]:
    for row in found.to_pylist():
        position, written = json.loads(row["position"]), row["written"].astimezone(UTC)
        yield Mark(row["source"], position, TxnId(row["txn_id"]), row["owner"], written)


def _create(session: Session) -> None:
    """Creates the table, unless another program has: of those that write the first mark at once one does."""
    request = build(pb.CreateTableRequest, name=MARKS, schema=_SCHEMA.to_wire(), request_id=uuid.uuid4().hex)
    with contextlib.suppress(AlreadyExists):
        session.call("txnstatus.Table/CreateTable", request, pb.CreateTableResponse)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
