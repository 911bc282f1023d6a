"""System tables: what the cluster knows of itself, as rows of the database `system` that any engine can query.

They show what is so as they are read, also within a transaction, and are none of its tables.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from txnclient.calls.requests import build
from txnclient.client.client import Client
from txnclient.info import TxnSummary
from txnclient.read import instants
from txnclient.read.table_files import TableFiles
from txnclient.snapshot import Snapshot
from txnstatus.errors import NotFound
from txnstatus.lake.timeline import Past
from txnstatus.names import SYSTEM, fold
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.schema import Column
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnState, time_of

if TYPE_CHECKING:
    import pyarrow as pa

Row = Sequence[object]
TIMES = ("ended", "committed")
"""Columns of times by which less is read."""
COMPARISONS = (">", ">=", "<", "<=")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows a query is about, as far as it lets a table look at less: all, unless something is said here."""

    equal: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Texts of a column, one of which each row has."""
    since: Mapping[str, datetime] = field(default_factory=dict)
    """The times of a column are not before this one."""
    before: Mapping[str, datetime] = field(default_factory=dict)
    """Times of a column are before this one."""

    def among(self, column: str, texts: Iterable[str]) -> Wanted:
        """The same, of rows that have one of the texts."""
        there = frozenset(texts)
        return replace(self, equal={**self.equal, column: there & self.equal.get(column, there)})

    def compared(self, column: str, how: str, micros: int) -> Wanted:
        """The same, of rows whose time compares so, or is that time."""
        if how.startswith(">"):
            at = time_of(micros)
            return replace(self, since={**self.since, column: max(at, self.since.get(column, at))})
        at = time_of(micros + 1)
        return replace(self, before={**self.before, column: min(at, self.before.get(column, at))})

    def only(self, column: str) -> str:
        """The one text that the column has in all rows; empty: it is not known, or they are several."""
        texts = self.equal.get(column, frozenset())
        return next(iter(texts)) if len(texts) == 1 else ""


@dataclass(frozen=True, slots=True)
class SystemTable:
    description: str
    columns: str
    """Names and types of Spark's."""
    rows: Callable[[Client, Wanted], Iterable[Row]]


def is_one(name: str) -> bool:
    """Whether the table of that name is one of the system's, or none."""
    return fold(name.partition(".")[0]) == SYSTEM


def names() -> list[str]:
    return sorted(TABLES)


def named(name: str) -> SystemTable:
    """Raises NotFound."""
    if name not in TABLES:
        raise NotFound(f"there is no table {SYSTEM}.{name}", hint=f"there are {', '.join(names())}")
    return TABLES[name]


def columns(table: SystemTable) -> tuple[Column, ...]:
    from txnclient.formats.schemas import to_columns

    return to_columns(table.columns)


def read(name: str, client: Client, wanted: Wanted) -> pa.Table:
    """The rows, and perhaps others than those which are wanted. Raises NotFound, and what the client's calls raise."""
    import pyarrow as pa

    from txnstatus.lake.arrow_types import to_arrow
    from txnstatus.schema import Schema

    table = named(name)
    schema = to_arrow(Schema(columns(table)))
    rows = list(table.rows(client, wanted))
    arrays = [pa.array([row[number] for row in rows], each.type) for number, each in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


# ---- transactions


def _transactions(client: Client, _: Wanted) -> Iterator[Row]:
    for each in client.transactions([state for state in TxnState if state is not TxnState.COMMITTED]):
        yield _transaction(each)


def _transaction(each: TxnSummary) -> Row:
    began, changed = (time_of(at) for at in (each.begin_micros, each.last_transition_micros))
    why = each.cause.message if each.cause else None
    row = each.txn_id, each.state.name, each.owner, each.label, began, changed
    return *row, ", ".join(each.participants), why


def _timeline(client: Client, wanted: Wanted) -> Iterator[Row]:
    for each in _past(client, wanted, "ended"):
        tables = [dict(zip(_OF_A_CHANGE, astuple(change), strict=True)) for change in each.tables]
        row = each.txn_id, each.state, each.owner, each.label, each.began, each.ended, each.commit_timestamp or None
        why = (text or None for text in (each.abort_code, each.aborted_by, each.abort_reason))
        yield *row, tables, *why, each.winner, list(each.conflicts), each.undoes


_OF_A_CHANGE = ("table_name", "added_rows", "added_files", "deleted_rows", "changed_rows")


def _past(client: Client, wanted: Wanted, time: str) -> list[Past]:
    return client.timeline(
        since=wanted.since.get(time),
        until=wanted.before.get(time),
        table=wanted.only("table_name"),
        label=wanted.only("label"),
    )


def _snapshots(client: Client, wanted: Wanted) -> Iterator[Row]:
    for each in _past(client, wanted, "committed"):
        if each.commit_timestamp:
            for change in each.tables:
                yield change.table, each.commit_timestamp, each.ended, each.txn_id, each.owner, each.label


def _status_table(client: Client, _: Wanted) -> Iterator[Row]:
    for each in client.session.records(build(status_pb.ListTransactionsRequest)):
        told = {
            "state": TxnState(each.state).name,
            "owner": each.owner,
            "label": each.label,
            "keepalive_millis": each.keepalive_millis,
            "begin_micros": each.begin_micros,
            "last_transition_micros": each.last_transition_micros,
            "commit_timestamp": each.commit_timestamp,
        }
        if each.HasField("cause"):
            told["cause"] = {"code": each.cause.code, "message": each.cause.message, "by": each.cause.by}
        yield each.txn_id, _TRANSACTION, "", json.dumps(told)
        for participant in each.participants:
            yield each.txn_id, _PARTICIPANT, participant.participant_id, json.dumps({"name": participant.name})


_TRANSACTION, _PARTICIPANT = 1, 2
"""Kudu's kinds of entries."""


# ---- what is going on


def locks(client: Client, table: str = "", partition: str = "") -> Iterator[Row]:
    """Locks, of all tables or of one."""
    for each in client.locks(table, partition, extended=True):
        state = each.txn_state.name if each.txn_state else None
        blocked_by = ", ".join(map(str, each.blocked_by))
        row = each.object, each.mode, each.acquired, each.txn_id, each.owner, _time(each.since)
        yield *row, blocked_by, state, each.txn_label


def _compactions(client: Client, _: Wanted) -> Iterator[Row]:
    for each in client.compactions():
        row = each.compaction_id, each.table, each.partition, each.kind, each.state, each.worker, _time(each.opened)
        yield *row, _time(each.ended), each.input_rows, each.output_rows, each.reason


def _savepoints(client: Client, _: Wanted) -> Iterator[Row]:
    for each in client.savepoints():
        row = each.name, each.timestamp, each.owner, list(each.tables), each.created
        yield *row, each.expires, each.held_bytes, each.unfinished


def _time(at: Timestamp) -> datetime | None:
    return None if at == NO_TIMESTAMP else instants.to_datetime(at)


# ---- what tables consist of


def _files(client: Client, wanted: Wanted) -> Iterator[Row]:
    for name, found in _tables(client, wanted):
        for each in found.files:
            yield name, each.path, each.partition, each.rows, each.bytes, len(found.dead.get(each.path, ()))


def _partitions(client: Client, wanted: Wanted) -> Iterator[Row]:
    for name, found in _tables(client, wanted):
        files, sums = Counter[str](), defaultdict[str, list[int]](lambda: [0, 0, 0])
        for each in found.files:
            files[each.partition] += 1
            dead = len(found.dead.get(each.path, ()))
            for number, more in enumerate((each.rows - dead, each.bytes, dead)):
                sums[each.partition][number] += more
        for partition in sorted(files):
            yield name, partition, files[partition], *sums[partition]


def _tables(client: Client, wanted: Wanted) -> Iterator[tuple[str, TableFiles]]:
    there = wanted.equal.get("table_name")
    with client.snapshot() as snapshot:
        for each in client.tables():
            if there is None or each.name in there:
                yield from _table(snapshot, each.name)


def _table(snapshot: Snapshot, name: str) -> Iterator[tuple[str, TableFiles]]:
    try:
        yield name, snapshot.table_files(name)
    except NotFound:
        return  # it was dropped, or made, since the tables were listed


TABLES: Mapping[str, SystemTable] = {
    "timeline": SystemTable(
        "Transactions that are over, also those whose records are forgotten, the oldest first.",
        "txn_id bigint, state string, owner string, label string, began timestamp, ended timestamp, "
        "commit_timestamp bigint, tables array<struct<table_name: string, added_rows: bigint, added_files: bigint, "
        "deleted_rows: bigint, changed_rows: bigint>>, abort_code string, aborted_by string, abort_reason string, "
        "winner bigint, conflicts array<string>, undoes bigint",
        _timeline,
    ),
    "transactions": SystemTable(
        "Transactions that are open, are ending, or were aborted, the newest first.",
        "txn_id bigint, state string, owner string, label string, began timestamp, changed timestamp, tables string, "
        "reason string",
        _transactions,
    ),
    "status_table": SystemTable(
        "The records of transactions as Kudu's table of them has them: an entry of type 1 for each transaction, and "
        "of type 2 for each of its participants, whose id is the identifier.",
        "txn_id bigint, entry_type tinyint, identifier string, metadata string",
        _status_table,
    ),
    "snapshots": SystemTable(
        "Versions of tables: the commits that changed them, the oldest first.",
        "table_name string, version bigint, committed timestamp, txn_id bigint, owner string, label string",
        _snapshots,
    ),
    "savepoints": SystemTable(
        "Savepoints that have names.",
        "name string, version bigint, owner string, tables array<string>, created timestamp, expires timestamp, "
        "held_bytes bigint, unfinished boolean",
        _savepoints,
    ),
    "locks": SystemTable(
        "Locks that are held and waited for.",
        "object string, mode string, acquired boolean, txn_id bigint, owner string, since timestamp, "
        "blocked_by string, txn_state string, txn_label string",
        lambda client, _: locks(client),
    ),
    "compactions": SystemTable(
        "Compactions that are wanted, under way, or over, the newest first.",
        "compaction_id string, table_name string, partition string, kind string, state string, worker string, "
        "opened timestamp, ended timestamp, input_rows bigint, output_rows bigint, reason string",
        _compactions,
    ),
    "files": SystemTable(
        "The data files of tables. Rows that were changed by their keys of late are in none.",
        "table_name string, path string, partition string, rows bigint, bytes bigint, deleted_rows bigint",
        _files,
    ),
    "partitions": SystemTable(
        "Partitions of tables, as their files have them: `rows` are those that are not deleted.",
        "table_name string, partition string, files bigint, rows bigint, bytes bigint, deleted_rows bigint",
        _partitions,
    ),
}
"""System tables by their names."""
