"""Faults in undo, restore and savepoints, put in on purpose, as in planted.py; in worlds where programs look back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tests.sim.planted.faults import CORE, Planted, Seams
from tests.sim.planted.rolls import ROLLS
from txnclient.history import effects
from txnclient.history.effects import Inverse
from txnparticipant.shard import savepoints
from txnparticipant.shard.commands import Savepoint
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.translation import removed_until
from txnstatus.types import NO_TIMESTAMP, Timestamp

INVERSE = "tests.sim.actors.historian:inverse"
inverse = effects.inverse


def judged_as_of_now() -> Seams:
    """So what others have changed since is not in the way."""
    from tests.sim.actors.historian import Historian

    take_back = Historian._take_table_back

    async def late(self: Historian, entry: Any, table: str, span: Any) -> None:
        entry.snapshot = await self._take_snapshot()
        await take_back(self, entry, table, span)

    return [("tests.sim.actors.historian:Historian._take_table_back", late)]


def what_comes_back_is_not_named_where_it_is_dead() -> Seams:
    def unnamed(before: Any, after: Any) -> Inverse:
        found = inverse(before, after)
        copied = {copy.file.path for copy in found.copies}
        return replace(found, dead={path: rows for path, rows in found.dead.items() if path not in copied})

    return [(INVERSE, unnamed)]


def copies_forget_dead_rows() -> Seams:
    def alive(before: Any, after: Any) -> Inverse:
        return inverse(replace(before, dead={}), after)

    return [(INVERSE, alive)]


def what_came_since_stays() -> Seams:
    def left(before: Any, after: Any) -> Inverse:
        known = {file.path for file in before.files}
        found = inverse(before, after)
        return replace(found, dead={path: rows for path, rows in found.dead.items() if path in known})

    return [(INVERSE, left)]


def deleted_rows_do_not_come_back() -> Seams:
    def without(before: Any, after: Any) -> Inverse:
        found = inverse(before, after)
        known = {file.path for file in before.files}
        dead = {path: rows for path, rows in found.dead.items() if path not in known}
        return replace(found, copies=tuple(found.copies_in(replaced=True)), dead=dead)

    return [(INVERSE, without)]


def what_was_overwritten_stays_so() -> Seams:
    def without(before: Any, after: Any) -> Inverse:
        found = inverse(before, after)
        return replace(found, replaced=frozenset(), copies=tuple(found.copies_in(replaced=False)))

    return [(INVERSE, without)]


def savepoints_hold_no_table() -> Seams:
    return [
        ("txnparticipant.shard.shard:savepoints.covered", lambda *_: iter(())),
        ("txnparticipant.shard.shard:savepoints.held_at", lambda *_: Counter()),
    ]


def savepoints_are_not_restored() -> Seams:
    restore = ParticipantShard.restore

    def forgetful(self: ParticipantShard, data: bytes) -> None:
        restore(self, data)
        self._savepoints.clear()
        for table in self.tables():
            table.held_at.clear()

    return [("txnparticipant.shard.shard:ParticipantShard.restore", forgetful)]


def what_they_hold_is_not_restored() -> Seams:
    restore = ParticipantShard.restore

    def forgetful(self: ParticipantShard, data: bytes) -> None:
        restore(self, data)
        for table in self.tables():
            table.held_at.clear()

    return [("txnparticipant.shard.shard:ParticipantShard.restore", forgetful)]


def released_ones_still_hold() -> Seams:
    async def drop(*_: object) -> Any:
        from txnstatus.proto import savepoint_pb2 as pb

        return pb.DropSavepointResponse()

    return [("txnparticipant.leader.savepoints:SavepointService.drop_savepoint", drop)]


def names_are_taken_twice() -> Seams:
    refusal = savepoints.refusal

    def free(held: Mapping[str, Savepoint], wanted: Savepoint, tables: Any) -> Any:
        return refusal({id_: each for id_, each in held.items() if each.name != wanted.name}, wanted, tables)

    return [("txnparticipant.shard.shard:savepoints.refusal", free)]


def those_for_ever_expire() -> Seams:
    def at_once(held: Iterable[Savepoint], now: Timestamp) -> list[Savepoint]:
        return [each for each in held if each.expires <= now]

    return [("txnparticipant.leader.savepoints:savepoints.expired", at_once)]


def new_readers_are_refused_at_savepoints() -> Seams:
    def refuse(self: Leases, table: Any, at: Timestamp) -> None:
        self._check(table, at, removed_until(table, self.horizon))

    return [("txnparticipant.shard.leases:Leases.check_new_reader", refuse)]


def what_is_retired_can_be_read() -> Seams:
    def welcome(_self: Leases, _table: Any, _at: Timestamp, _bound: Timestamp = NO_TIMESTAMP) -> None:
        pass

    return [("txnparticipant.shard.leases:Leases._check", welcome)]


SEEN = (*ROLLS, "4 diff", CORE)
HELD = ("savepoints", "derived state", "nothing", "10 files", "5 repeatable", CORE)
PLANTED_HISTORY: Mapping[str, Planted] = {
    "an undo is judged as of now": Planted(SEEN, "calm", 10, judged_as_of_now),
    "what comes back is not named where it is dead": Planted(
        SEEN, "calm", 10, what_comes_back_is_not_named_where_it_is_dead
    ),
    "copies forget dead rows": Planted(SEEN, "calm", 10, copies_forget_dead_rows),
    "what came since stays": Planted(SEEN, "calm", 10, what_came_since_stays),
    "deleted rows do not come back": Planted(SEEN, "calm", 10, deleted_rows_do_not_come_back),
    "what was overwritten stays so": Planted(SEEN, "calm", 10, what_was_overwritten_stays_so),
    "savepoints hold no table": Planted(HELD, "calm", 10, savepoints_hold_no_table),
    "savepoints are not restored": Planted((*HELD, "11 replicas"), "calm", 10, savepoints_are_not_restored),
    "what savepoints hold is not restored": Planted((*HELD, "11 replicas"), "calm", 10, what_they_hold_is_not_restored),
    "released savepoints still hold": Planted(HELD, "calm", 10, released_ones_still_hold),
    "names of savepoints are taken twice": Planted(HELD, "calm", 10, names_are_taken_twice),
    "savepoints for ever expire": Planted(HELD, "calm", 10, those_for_ever_expire),
    "new readers are refused at savepoints": Planted(HELD, "calm", 10, new_readers_are_refused_at_savepoints),
    "what is retired can be read": Planted((*SEEN, *HELD, "10"), "calm", 10, what_is_retired_can_be_read),
}
