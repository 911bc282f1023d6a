"""Faults in how a table becomes a participant beside a first write, put in on purpose, as in planted.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.sim.planted.faults import Planted, Seams
from txnparticipant.leader.registering import Key, Registering


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

    The files of such a write are nobody's, which is what shows where the commit does not.
    """

    async def look(_self: Registering, _txn_id: int) -> None:
        return None

    return [("txnparticipant.leader.registering:Registering._look", look)]


def nobody_asks_about_what_is_open() -> Seams:
    def none(_self: Registering) -> Iterator[Key]:
        return iter(())

    return [("txnparticipant.leader.registering:Registering._unsettled", none), *leaders_leave_it_there()]


PLANTED_REGISTERING: Mapping[str, Planted] = {
    "what is open is registered": Planted(("everything", "4"), "deaths", 10, what_is_open_is_registered),
    "withdrawn although listed": Planted(("everything", "4", "10"), "deaths", 10, withdrawn_although_listed, first=5),
    "nobody asks about what is open": Planted(("everything",), "calm", 10, nobody_asks_about_what_is_open),
}
