"""Savepoints: timestamps at which tables of a shard stay readable, whoever leads it, until they are released.

Each shard that has tables of a savepoint holds it; one shard, its home, also has its name for it. The home comes last
when a savepoint is made: one that is there is held everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from txnparticipant.shard.commands import Savepoint
from txnparticipant.shard.table import TableState
from txnstatus.errors import AlreadyExists, LimitReached, SnapshotTooOld, TxnError
from txnstatus.types import NO_TIMESTAMP, Timestamp

MAX_SAVEPOINTS = 1_000
"""Savepoints that one shard holds."""


def covers(savepoint: Savepoint, table: TableState) -> bool:
    """Whether the table is as it was for readers at the savepoint. What came later is not held for its sake."""
    if table.is_database or table.created > savepoint.timestamp:
        return False
    return not savepoint.tables or table.table_id in savepoint.table_ids


def covered(savepoint: Savepoint, tables: Mapping[str, TableState]) -> Iterator[TableState]:
    """The tables of a shard that a savepoint holds. `tables`: by their ids."""
    named = (tables[id_] for id_ in savepoint.table_ids if id_ in tables)
    return (table for table in (named if savepoint.tables else tables.values()) if covers(savepoint, table))


def held_at(savepoints: Iterable[Savepoint], table: TableState) -> Counter[Timestamp]:
    """The timestamps of the savepoints that hold the table, each with how many these are."""
    return Counter(each.timestamp for each in savepoints if covers(each, table))


def hold(held: dict[str, Savepoint], wanted: Savepoint, tables: Mapping[str, TableState]) -> TxnError | None:
    """Holds one more, which may be held already. Returns the refusal, if there is one; then nothing has changed."""
    if wanted.savepoint_id in held:
        return None
    if refused := refusal(held, wanted, tables):
        return refused
    held[wanted.savepoint_id] = wanted
    for table in covered(wanted, tables):
        table.held_at[wanted.timestamp] += 1
    return None


def release(held: dict[str, Savepoint], savepoint_id: str, tables: Mapping[str, TableState]) -> None:
    """Ends one, if it is held."""
    if (gone := held.pop(savepoint_id, None)) is not None:
        for table in covered(gone, tables):
            table.held_at[gone.timestamp] -= 1
            table.held_at = +table.held_at


def split_off(held: Mapping[str, Savepoint]) -> dict[str, Savepoint]:
    """What a new shard holds, with what it has got of the one that holds these: the home of the names stays."""
    return {each: replace(savepoint, is_home=False) for each, savepoint in held.items()}


def refusal(held: Mapping[str, Savepoint], wanted: Savepoint, tables: Mapping[str, TableState]) -> TxnError | None:
    """Why the shard cannot hold one more savepoint."""
    if len(held) >= MAX_SAVEPOINTS:
        return LimitReached(
            f"there are {MAX_SAVEPOINTS} savepoints, which is as many as there may be",
            hint="release some: txnctl savepoint list, txnctl savepoint release NAME",
        )
    there = next((each for each in held.values() if each.name == wanted.name and each.is_home), None)
    if there is not None and wanted.is_home:
        return AlreadyExists(
            f"savepoint {wanted.name!r} exists already, of {there.owner}, at {there.timestamp}",
            hint="take another name, or release that one first",
        )
    for table in covered(wanted, tables):
        if table.readable_from > wanted.timestamp and not _gone(table, wanted.timestamp):
            return SnapshotTooOld(
                f"{table.name} cannot be kept as it was at {wanted.timestamp}: what was visible then is removed, "
                f"up to {table.readable_from}",
                hint="make it of a later time, or of now, or without that table",
            )
    return None


def _gone(table: TableState, at: Timestamp) -> bool:
    return table.dropped is not None and table.dropped.commit_ts <= at


def expired(savepoints: Iterable[Savepoint], now: Timestamp) -> list[Savepoint]:
    return [each for each in savepoints if NO_TIMESTAMP < each.expires <= now]


def held_bytes(savepoint: Savepoint, tables: Iterable[TableState]) -> int:
    """Bytes of data files that readers at the savepoint see, and nobody who reads now: about.

    A write to several partitions counts as a whole as soon as one of them is overwritten.
    """
    at = savepoint.timestamp
    files = {
        file_set.manifest.path: file_set.manifest.data_bytes
        for table in tables
        if covers(savepoint, table)
        for _, id_ in table.replaced[table.replaced_until(at) :]
        if (file_set := table.file_sets[id_]).visible_at(at)
    }
    return sum(files.values())
