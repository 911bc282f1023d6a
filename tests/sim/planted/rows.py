"""Faults in the code of row writes, put in on purpose, as in planted.py; in worlds where rows are written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.sim.planted.faults import CORE, Planted, Seams
from txnparticipant.leader.rows import RowService
from txnparticipant.rows.key_places import Changed
from txnparticipant.rows.memrowset import RowSet, RowsView, SeenRows, TableRows
from txnparticipant.shard import key_conflicts
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.table import TableState
from txnparticipant.upkeep import flusher
from txnparticipant.versions.mvcc import Manifest
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import Timestamp


def keys_never_conflict() -> Seams:
    return [("txnparticipant.shard.key_conflicts:_same_keys", lambda *_: None)]


def a_flush_drops_deletes() -> Seams:
    write = flusher._write_file

    def forgetful(table: TableState, flush_id: str, row_sets: Sequence[RowSet]) -> Manifest:
        kept = [replace(each, batches=tuple(batch for batch in each.batches if not batch.deletes)) for each in row_sets]
        return write(table, flush_id, kept)

    return [("txnparticipant.upkeep.flusher:_write_file", forgetful)]


def a_flush_takes_what_is_not_committed() -> Seams:
    write = flusher._write_file

    def eager(table: TableState, flush_id: str, row_sets: Sequence[RowSet]) -> Manifest:
        last = max(row_set.commit_ts for row_set in row_sets)
        open_ones = [
            RowSet(record.txn_id, last, tuple(record.rows.values()))
            for record in table.unfinished.values()
            if record.rows
        ]
        return write(table, flush_id, [*row_sets, *open_ones])

    return [("txnparticipant.upkeep.flusher:_write_file", eager)]


def a_flush_forgets_the_keys() -> Seams:
    """So nobody who was open at the time is told of a conflict with what is in the file."""
    flush = TableRows.flush

    def forgetful(self: TableRows, flush_id: str, manifest: Manifest, txn_ids: Any) -> None:
        flush(self, flush_id, manifest, txn_ids)
        keys, commits = self.keys, list(self.keys)
        keys._commits.clear()
        for commit in commits:
            if commit.txn_id in self.unflushed or commit.ranges:
                keys._commits.append(commit)
            else:
                for key in commit.keys:
                    keys._last.pop(key, None)

    return [("txnparticipant.rows.memrowset:TableRows.flush", forgetful)]


def a_repeated_row_write_is_another_one() -> Seams:
    write = RowService.write
    count = 0

    async def again(self: RowService, request: pb.WriteRowsRequest) -> pb.WriteRowsResponse:
        nonlocal count
        count += 1
        request.write_id += f"x{count}"
        return await write(self, request)

    return [("txnparticipant.leader.rows:RowService.write", again)]


def flushed_rows_are_not_looked_for() -> Seams:
    return [("txnparticipant.leader.row_presence:_flushed", lambda *_: {})]


def an_overwrite_leaves_row_changes() -> Seams:
    return [("txnparticipant.rows.memrowset:TableRows.clear", lambda *_: None)]


def a_scan_forgets_one_flush() -> Seams:
    at = RowsView.at

    def short(self: RowsView, ts: Timestamp, outcomes: Any) -> SeenRows:
        seen = at(self, ts, outcomes)
        return replace(seen, flushes=seen.flushes[1:])

    return [("txnparticipant.rows.memrowset:RowsView.at", short)]


def rows_without_a_limit() -> Seams:
    @asynccontextmanager
    async def welcome(*_: object) -> AsyncIterator[None]:
        yield

    return [("txnparticipant.leader.rows:RowService._room_for", welcome)]


def keys_of_files_are_no_commit() -> Seams:
    return [("txnparticipant.shard.records:added_by", lambda *_: Changed())]


def files_do_not_say_when_they_looked() -> Seams:
    """As if what was committed meanwhile had been seen."""

    def late(table: TableState, txn: TableTxn) -> Iterator[tuple[Changed, Timestamp]]:
        yield from ((changed, max(at, table.rows.keys.newest)) for changed, at in looks(table, txn))

    looks = key_conflicts._looks
    return [("txnparticipant.shard.key_conflicts:_looks", late)]


def row_writes_do_not_see_their_own_files() -> Seams:
    return [("txnparticipant.leader.rows:with_own", lambda seen, _own, _times: seen)]


PLANTED_ROWS: Mapping[str, Planted] = {
    "keys never conflict": Planted(("4", "5", "7", "15", "isolation", CORE), "calm", 10, keys_never_conflict),
    "a flush drops deletes": Planted(("4", "7"), "calm", 10, a_flush_drops_deletes),
    "a flush takes what is not committed": Planted(("4", "5", "7"), "calm", 10, a_flush_takes_what_is_not_committed),
    "a flush forgets the keys": Planted(
        ("4", "5", "7", "isolation", "derived state"), "calm", 20, a_flush_forgets_the_keys
    ),
    "a repeated row write is another one": Planted(("4", "12"), "calm", 10, a_repeated_row_write_is_another_one),
    "flushed rows are not looked for": Planted(("4", "7"), "calm", 10, flushed_rows_are_not_looked_for),
    "an overwrite leaves row changes": Planted(("4", "15"), "calm", 10, an_overwrite_leaves_row_changes),
    "a scan forgets one flush": Planted(("4", "5", "isolation"), "calm", 10, a_scan_forgets_one_flush),
    "keys of files are no commit": Planted(("15", "7", "4"), "calm", 10, keys_of_files_are_no_commit, first=5),
    "files do not say when they looked": Planted(("15", "7", "4"), "calm", 20, files_do_not_say_when_they_looked),
    "row writes do not see their own files": Planted(("4", "15"), "calm", 10, row_writes_do_not_see_their_own_files),
    "rows without a limit": Planted(("memory",), "calm", 10, rows_without_a_limit),
}
