"""Subtle faults that were drawn up before judges were tuned, and tuned to by none: how much else the worlds see."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from tests.sim.planted.faults import Seams
from txnparticipant.leader.reads import Reads
from txnparticipant.locks.locks import Claim, LockTable, Request
from txnparticipant.rows.memrowset import RowsView, SeenRows
from txnparticipant.shard import compacting
from txnparticipant.shard.table import TableState
from txnparticipant.versions.compactions import Compaction
from txnstatus.id_sets import IdSet, of_spans
from txnstatus.proto import raft_pb2
from txnstatus.raft.catch_up import CatchUp
from txnstatus.raft.journal import Journal
from txnstatus.status.finished import Finished
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.records import TxnRecord
from txnstatus.types import Timestamp, TxnId


def a_switch_closes_no_gate() -> Seams:
    close_gate = Reads.close_gate

    async def open_still(self: Reads, table_id: str, now: Timestamp) -> Timestamp:
        at = await close_gate(self, table_id, now)
        self.open_gate(table_id)
        return at

    return [("txnparticipant.leader.reads:Reads.close_gate", open_still)]


def what_was_seen_is_not_settled() -> Seams:
    """Writes are judged by what is finalised here; what was decided a moment ago is not waited for."""

    async def decided(_self: Reads, _table: TableState, _at: Timestamp) -> list[tuple[TxnId, Timestamp]]:
        return []

    return [("txnparticipant.leader.reads:Reads.decided", decided)]


def a_long_log_needs_no_snapshot() -> Seams:
    """Whatever its entries say."""

    def has(self: CatchUp, index: int, _term: int) -> bool:
        return index <= self._journal[-1].idx

    return [("txnstatus.raft.catch_up:CatchUp._has", has)]


def a_vote_is_not_remembered() -> Seams:
    def vote(self: Journal) -> Any:
        return raft_pb2.JournalRecord.Vote(term=self._term, voted_for="")

    return [("txnstatus.raft.journal:Journal._vote", vote)]


def rows_of_an_overwrite_go_with_what_it_replaces() -> Seams:
    at = RowsView.at

    def strictly(self: RowsView, ts: Timestamp, outcomes: Mapping[TxnId, Timestamp]) -> SeenRows:
        seen = at(self, ts, outcomes)
        return replace(seen, row_sets=tuple(each for each in seen.row_sets if each.commit_ts > seen.above))

    return [("txnparticipant.rows.memrowset:RowsView.at", strictly)]


def it_ended_when_it_began() -> Seams:
    """What is old enough to be forgotten goes by when a transaction began."""
    oldest = Finished.__dict__["oldest"].fget

    def by_begin(self: Finished) -> TxnRecord | None:
        record = oldest(self)
        return record and structs.replace(record, last_transition_micros=record.begin_micros)

    return [("txnstatus.status.finished:Finished.oldest", property(by_begin))]


def a_weaker_lock_takes_the_place_of_a_stronger_one() -> Seams:
    def grant(self: LockTable, request: Request) -> None:
        for lock in request.locks:
            holders = self._held.setdefault(lock.object, {})
            if request.txn_id not in holders:
                self._objects.setdefault(request.txn_id, []).append(lock.object)
            holders[request.txn_id] = Claim(request.txn_id, lock, request.since, granted=True)

    return [("txnparticipant.locks.locks:LockTable._grant", grant)]


def who_abstains_answers_at_once() -> Seams:
    def may_hear(self: Any, leader: str, term: int) -> bool:
        if self._journal.abstaining and self._granted.get(leader) == term:
            self.took_part()
        return True

    return [("txnstatus.raft.elections:Elections.may_hear", may_hear)]


def a_switch_forgets_who_is_prepared() -> Seams:
    def nobody(_table: TableState, _wanted: Compaction) -> Any:
        return itertools.chain()

    modules = (compacting.__name__, "txnparticipant.leader.switching")
    return [(f"{module}:prepared_deletes", nobody) for module in modules]


def forgotten_up_to_and_with() -> Seams:
    forgotten = StatusRanges.forgotten

    async def one_more(self: StatusRanges) -> IdSet:
        spans = (await forgotten(self)).spans()
        return of_spans([(first, end + 1) for first, end in spans] or [(0, 1)])

    return [("txnstatus.status.ranges:StatusRanges.forgotten", one_more)]


FRESH: Mapping[str, Callable[[], Seams]] = {
    "a switch closes no gate": a_switch_closes_no_gate,
    "what was seen is not settled": what_was_seen_is_not_settled,
    "a long log needs no snapshot": a_long_log_needs_no_snapshot,
    "a vote is not remembered": a_vote_is_not_remembered,
    "rows of an overwrite go with what it replaces": rows_of_an_overwrite_go_with_what_it_replaces,
    "it ended when it began": it_ended_when_it_began,
    "a weaker lock takes the place of a stronger one": a_weaker_lock_takes_the_place_of_a_stronger_one,
    "who abstains answers at once": who_abstains_answers_at_once,
    "a switch forgets who is prepared": a_switch_forgets_who_is_prepared,
    "forgotten up to and with": forgotten_up_to_and_with,
}
