"""Slips in how shards go from one log to another, put in on purpose, as in faults.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.sim.planted.faults import Seams
from txnparticipant.leader.machine import ShardMachine
from txnstatus.catalog.catalog import CatalogState
from txnstatus.raft.migration import Arrives, Arriving, Migrations
from txnstatus.replicated import Rejected
from txnstatus.types import TxnId

MIGRATIONS = "txnstatus.raft.migration:Migrations"
MACHINE = "txnparticipant.leader.machine:ShardMachine"


def what_comes_is_here_for_all() -> Seams:
    def arrives(self: ShardMachine, _apart_below: TxnId) -> None:
        self.shard.apart_below = TxnId(0)

    return [(f"{MACHINE}.arrives", arrives)]


def a_chunk_may_be_missing() -> Seams:
    def arrive(self: Migrations, command: Arrives, *, is_here: bool) -> Rejected | list[bytes] | None:
        if is_here or command.number <= self.numbers.get(command.part, 0):
            return None
        coming = self.arriving.setdefault(command.part, Arriving(command.number))
        coming.chunks.append(command.data)
        return self.arriving.pop(command.part).chunks if command.is_last else None

    return [(f"{MIGRATIONS}.arrive", arrive)]


def an_old_catalog_ends_a_migration() -> Seams:
    def has_migrated(self: CatalogState, part: str, number: int) -> bool:
        under_way = self.migrations.get(part)
        return under_way is None or under_way.number != number

    return [("txnstatus.catalog.catalog:CatalogState.has_migrated", has_migrated)]


MIGRATING: Mapping[str, Callable[[], Seams]] = {
    "what comes is here for all": what_comes_is_here_for_all,
    "a chunk may be missing": a_chunk_may_be_missing,
    "an old catalog ends a migration": an_old_catalog_ends_a_migration,
}
