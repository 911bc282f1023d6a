"""Faults in how compactions switch, move and retire, put in on purpose, as in planted.py; in worlds that compact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.sim.planted.faults import CORE, Planted, Seams
from tests.sim.planted.rolls import ROLLS
from txnclient.compact import rewriting
from txnparticipant.leader.reads import Reads
from txnparticipant.shard import compacting
from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import DeleteSet
from txnstatus.lake.dead_rows import NONE
from txnstatus.types import Timestamp


def a_switch_among_what_was_read() -> Seams:
    close = Reads.close_gate

    async def early(self: Reads, table_id: str, now: Timestamp) -> Timestamp:
        return Timestamp(max(1, await close(self, table_id, now) - (1_000_000 << 12)))

    return [("txnparticipant.leader.reads:Reads.close_gate", early)]


def writes_are_not_translated() -> Seams:
    return [("txnparticipant.versions.compactions:Compactions.replacing", lambda *_: iter(()))]


def translated_deletes_are_lost() -> Seams:
    return [("txnparticipant.leader.moving:forward", lambda *_: {})]


def rows_are_moved_as_if_none_had_died() -> Seams:
    def shifted(segment: Any, positions: Any) -> Any:
        within = positions & rewriting_range(segment.first, segment.end)
        return within, segment.output, (within - segment.dead).shift(segment.offset - segment.first)

    return [("txnstatus.lake.lineage:_forward", shifted)]


def rewriting_range(first: int, end: int) -> Any:
    from pyroaring import BitMap

    return BitMap(range(first, end))


def later_deletes_are_not_carried() -> Seams:
    rooms = ("leader.switching", "shard.compacting")
    return [(f"txnparticipant.{room}:later_deletes", lambda *_: []) for room in rooms]


def the_dead_come_back() -> Seams:
    return [
        ("tests.sim.actors.compactor:rewrite", lambda inputs, _dead, *more, **by: rewrite(inputs, NONE, *more, **by)),
        ("txnparticipant.leader.moving:fault", lambda *_: ""),
    ]


rewrite = rewriting.rewrite


def a_diff_shows_what_was_moved() -> Seams:
    from txnclient.read import diff

    def apart(old: Any, new: Any, _lineages: Any) -> Any:
        return {diff.DELETE: diff._rows_only_in(old, new), diff.INSERT: diff._rows_only_in(new, old)}

    return [("txnclient.read.diff:_moved_between", apart)]


def carried_deletes_are_lost_at_the_switch() -> Seams:
    published = compacting._published

    def without(*what: Any) -> Iterator[DeleteSet]:
        return (each for each in published(*what) if each.txn_id != COMPACTIONS)

    return [("txnparticipant.shard.compacting:_published", without)]


SEEN = (*ROLLS, "4 diff", "14 compaction")
PLANTED_COMPACTION: Mapping[str, Planted] = {
    "a switch among what was read": Planted((*SEEN, CORE, "5 repeatable"), "calm", 10, a_switch_among_what_was_read),
    "writes are not translated": Planted((*SEEN, CORE, "nothing"), "calm", 10, writes_are_not_translated),
    "translated deletes are lost": Planted(SEEN, "calm", 10, translated_deletes_are_lost),
    "rows are moved as if none had died": Planted(
        (*SEEN, "nothing"), "calm", 20, rows_are_moved_as_if_none_had_died, first=1
    ),
    "later deletes are not carried": Planted(SEEN, "calm", 10, later_deletes_are_not_carried, first=1),
    "the dead come back": Planted(SEEN, "calm", 10, the_dead_come_back),
    "carried deletes are lost at the switch": Planted(
        (*SEEN, CORE), "calm", 20, carried_deletes_are_lost_at_the_switch
    ),
    "a diff shows what was moved": Planted(("4 diff",), "calm", 10, a_diff_shows_what_was_moved),
}
