"""Faults in how a table becomes a participant beside a first write, put in on purpose, as in planted.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.sim.planted.faults import Planted, Seams
from txnparticipant.leader.registering import Key, Registering
from txnparticipant.shard.table import TableState
from txnstatus.status.commit.tasks import CommitTask, SendOp
from txnstatus.types import TxnId


def what_is_open_is_registered() -> Seams:
    """Also when its registration failed, or whoever led before died in the middle of it."""
    passes = Registering._passes

    def trusting(self: Registering, key: Key) -> bool:
        return passes(self, key) or (self._is_open(key) and not self._dispatcher.is_busy(key))

    return [("txnparticipant.leader.registering:Registering._passes", trusting), *leaders_leave_it_there()]


def leaders_leave_it_there() -> Seams:
    """As if each died before it withdraws a write whose registration failed. By itself it is no fault."""

    async def leave(*_: object) -> None:
        pass

    return [
        ("txnparticipant.leader.registering:Registering._withdraw_own", leave),
        # Of a leader that died nobody asks whether what it refused is gone; these live.
        ("tests.sim.judges.shards:WatchedShardService._is_there", lambda *_: False),
    ]


def withdrawn_although_listed() -> Seams:
    """A new leader withdraws what its predecessor registered, once the transaction is not OPEN any more.

    The files of such a write are nobody's, which is what shows where the commit does not; and rows that it has changed
    are others' to change.
    """

    async def look(_self: Registering, _txn_id: int) -> None:
        return None

    return [("txnparticipant.leader.registering:Registering._look", look)]


def nobody_asks_about_what_is_open() -> Seams:
    def none(_self: Registering) -> Iterator[Key]:
        return iter(())

    return [("txnparticipant.leader.registering:Registering._unsettled", none), *leaders_leave_it_there()]


def ends_tell_of_no_first_write() -> Seams:
    """Nobody removes the directories that begins have claimed."""

    def due(self: CommitTask, now: float) -> Iterator[SendOp]:
        return (replace(send, first_write="") for send in sends(self, now))

    sends = CommitTask.due
    return [("txnstatus.status.commit.tasks:CommitTask.due", due)]


def files_begin_where_nobody_is_asked() -> Seams:
    """As if whatever comes first to a table had been carried by its transaction's begin."""
    write = Registering.write

    async def unasked(
        self: Registering, table: TableState, txn_id: TxnId, owner: str, write_id: str, work: Callable[[bool], Any]
    ) -> Any:
        if self._shard.record(table.table_id, txn_id) is None and not self._dispatcher.is_busy(
            (table.table_id, txn_id)
        ):
            return await work(True)
        return await write(self, table, txn_id, owner, write_id, work)

    return [("txnparticipant.leader.registering:Registering.write", unasked)]


CARRYING = ("ends tell of no first write", "files begin where nobody is asked")
"""Faults that show where begins carry first writes."""
PLANTED_REGISTERING: Mapping[str, Planted] = {
    "what is open is registered": Planted(("everything", "4"), "deaths", 10, what_is_open_is_registered),
    "withdrawn although listed": Planted(
        ("everything", "4", "7", "10"), "deaths", 10, withdrawn_although_listed, first=5
    ),
    "ends tell of no first write": Planted(("10",), "deaths", 10, ends_tell_of_no_first_write, first=2),
    "files begin where nobody is asked": Planted(
        ("everything", "4", "5", "8"), "deaths", 10, files_begin_where_nobody_is_asked
    ),
    "nobody asks about what is open": Planted(("everything",), "calm", 10, nobody_asks_about_what_is_open),
}
