"""Slips in how shards go from one log to another, or are split, put in on purpose, as in faults.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.sim.planted.faults import Seams
from txnmanager.savepoints import Savepoints
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus.catalog.catalog import CatalogState
from txnstatus.errors import IllegalState
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.migration import Arrives, Arriving, Migrations
from txnstatus.replicated import Rejected
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.records import TxnRecord
from txnstatus.types import TxnId

MIGRATIONS = "txnstatus.raft.migration:Migrations"
MACHINE = "txnparticipant.leader.machine:ShardMachine"


def what_comes_is_here_for_all() -> Seams:
    def arrives(self: ShardMachine, _apart_below: TxnId) -> None:
        self.shard.apart_below = TxnId(0)

    return [(f"{MACHINE}.arrives", arrives)]


def a_chunk_may_be_missing() -> Seams:
    def arrive(
        self: Migrations, command: Arrives, make: Callable[[str], StateMachine], *, is_here: bool
    ) -> Rejected | Arriving | None:
        if is_here or command.number <= self.numbers.get(command.part, 0):
            return None
        coming = self.arriving.setdefault(command.part, Arriving(command.number, make(command.part)))
        try:
            coming.add(command.data, goes_on=command.goes_on)
            if not command.is_last:
                return None
            coming.finish()
        except ValueError as error:
            return Rejected(IllegalState(str(error)))
        return self.arriving.pop(command.part)

    return [(f"{MIGRATIONS}.arrive", arrive)]


def an_old_catalog_ends_a_migration() -> Seams:
    def has_migrated(self: CatalogState, part: str, number: int) -> bool:
        under_way = self.migrations.get(part)
        return under_way is None or under_way.number != number

    return [("txnstatus.catalog.catalog:CatalogState.has_migrated", has_migrated)]


def who_has_gone_is_asked_by_nobody() -> Seams:
    """In the middle of a phase: the others have answered, and it is neither here nor asked."""
    advance = TxnStatusManager._advance

    def silent(self: TxnStatusManager, record: TxnRecord, now: float, wall_micros: int) -> list[Any]:
        return [effect for effect in advance(self, record, now, wall_micros) if not isinstance(effect, SendOp)]

    return [("txnstatus.status.manager:TxnStatusManager._advance", silent)]


def names_are_parted() -> Seams:
    """Tables that had a name in common go to two shards."""

    def each_alone(tables: Iterable[TableState]) -> Iterator[Sequence[TableState]]:
        return ([table] for table in tables if not table.is_database)

    return [("txnparticipant.shard.dividing:_together", each_alone)]


def what_went_is_nobodys() -> Seams:
    """The shard that a table has left knows of none."""
    divide = ParticipantShard.divide

    def forgetful(self: ParticipantShard, other: ParticipantShard, share: Collection[str]) -> None:
        divide(self, other, share)
        self.gone.clear()

    return [("txnparticipant.shard.shard:ParticipantShard.divide", forgetful)]


def what_is_split_off_holds_nothing() -> Seams:
    async def nobody(_self: Savepoints, _known: set[int]) -> list[int]:
        return []

    return [("txnmanager.savepoints:Savepoints._split_off_since", nobody)]


MIGRATING: Mapping[str, Callable[[], Seams]] = {
    "what comes is here for all": what_comes_is_here_for_all,
    "a chunk may be missing": a_chunk_may_be_missing,
    "who has gone is asked by nobody": who_has_gone_is_asked_by_nobody,
    "an old catalog ends a migration": an_old_catalog_ends_a_migration,
    "names are parted": names_are_parted,
    "what went is nobody's": what_went_is_nobodys,
    "what is split off holds nothing": what_is_split_off_holds_nothing,
}
