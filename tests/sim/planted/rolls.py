"""Faults in how rows without a key change, put in on purpose, as in planted.py; in worlds where rows change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyroaring import BitMap

from tests.sim.planted.faults import CORE, Planted, Seams
from tests.sim.planted.shard import restored
from txnclient.read import diff
from txnclient.read.table_files import TableFiles
from txnclient.write import deletes as writing
from txnparticipant.versions.deletes import DeleteSets, visible_deletes
from txnparticipant.versions.mvcc import DeadRowsRef, DeleteSet
from txnstatus.types import Timestamp, TxnId


def rows_never_conflict() -> Seams:
    return [("txnparticipant.shard.changes:delete_conflict", lambda *_: None)]


def deletes_are_seen_too_early() -> Seams:
    def all_of_them(delete_sets: Any, prepared: Any, outcomes: Any, _ts: Timestamp, seen: Any) -> Iterator[DeadRowsRef]:
        return visible_deletes(delete_sets, prepared, outcomes, Timestamp(2**63), seen)

    return [("txnparticipant.leader.reads:visible_deletes", all_of_them)]


def own_deletes_are_not_seen() -> Seams:
    return [("txnparticipant.leader.reads:own_deletes", lambda _writes: iter(()))]


def a_file_of_deletes_keeps_no_directory() -> Seams:
    """A write that only deletes has no file sets by which its directory is known to be in use."""
    from txnparticipant.shard.table import TableState

    def add(self: TableState, deleted: DeleteSet) -> None:
        deleted.file_sets.intersection_update(self.file_sets)
        if deleted.file_sets:
            self.deletes.add(deleted)

    def leave(self: TableState, directory: tuple[TxnId, str], parts: int = 1) -> None:
        if directory in self.used:
            self.used[directory] -= min(parts, self.used[directory])
            if not self.used[directory]:
                del self.used[directory]
                self.leave_to_cleaner(*directory)

    return [
        ("txnparticipant.shard.table:TableState.add_deletes", add),
        ("txnparticipant.shard.table:TableState._leave", leave),
    ]


def ranges_that_touch_do_not_meet() -> Seams:
    return [
        (
            "txnparticipant.versions.additions:_reaches",
            lambda low, high: low is None or high is None or low < high,
        )
    ]


def only_the_first_part_is_deleted() -> Seams:
    parts = writing.parts_of

    def first(dead: Mapping[str, BitMap]) -> Iterator[dict[str, BitMap]]:
        yield from [*parts(dead)][:1]

    return [("tests.sim.actors.registrar:parts_of", first)]


def a_diff_shows_what_was_dead_before() -> Seams:
    only_in = diff._rows_only_in

    def dead_or_not(one: TableFiles, other: TableFiles) -> TableFiles:
        return only_in(replace(one, dead={}), other)

    return [("txnclient.read.diff:_rows_only_in", dead_or_not)]


def merges_look_for_nothing() -> Seams:
    return [("txnparticipant.shard.delete_conflicts:_added", lambda *_: None)]


def deletes_are_not_restored() -> Seams:
    return restored(lambda table: setattr(table, "deletes", DeleteSets()))


def a_write_that_only_deletes_goes_with_the_next() -> Seams:
    return [("txnparticipant.versions.mvcc:PendingWrite.is_left", property(lambda self: bool(self.partitions)))]


ROLLS = ("4 rolls", "7 rolls")
PLANTED_ROLLS: Mapping[str, Planted] = {
    "rows never conflict": Planted((*ROLLS, CORE), "calm", 10, rows_never_conflict),
    "deletes are seen too early": Planted((*ROLLS, "4 diff"), "calm", 10, deletes_are_seen_too_early),
    "own deletes are not seen": Planted(ROLLS, "calm", 10, own_deletes_are_not_seen),
    "a file of deletes keeps no directory": Planted(
        (*ROLLS, "10", "nothing", "derived state", CORE), "calm", 10, a_file_of_deletes_keeps_no_directory
    ),
    "ranges that touch do not meet": Planted(("7 rolls",), "calm", 20, ranges_that_touch_do_not_meet),
    "a diff shows what was dead before": Planted(("4 diff",), "calm", 10, a_diff_shows_what_was_dead_before),
    "merges look for nothing": Planted(("7 rolls",), "calm", 20, merges_look_for_nothing),
    "deletes are not restored": Planted(
        (*ROLLS, "derived state", "nothing", CORE), "calm", 10, deletes_are_not_restored
    ),
    "a write that only deletes goes with the next": Planted(
        (*ROLLS, "4 diff", CORE), "calm", 10, a_write_that_only_deletes_goes_with_the_next
    ),
    "only the first part is deleted": Planted((*ROLLS, "4 diff"), "calm", 10, only_the_first_part_is_deleted),
}
