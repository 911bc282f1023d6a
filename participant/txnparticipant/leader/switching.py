"""Switch: on a shard's leader, from when on readers see what a compaction has written.

Scans at or above the timestamp of the switch wait from the moment at which it is chosen until the command has applied:
so what a reader at one timestamp sees never changes. What was deleted of the inputs meanwhile is moved to the output
before; if more of it is prepared while the command is under way, the command is refused and the rest is moved, too.
From the third time on, those who want to prepare wait as well. Nobody is refused, and nobody waits for long.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from txnparticipant.leader import moving
from txnparticipant.leader.reads import Reads
from txnparticipant.leader.waiters import Waiters
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.compacting import held, later_deletes, output_ids, prepared_deletes
from txnparticipant.shard.table import TableState
from txnparticipant.versions.compactions import Compaction, Switched
from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import DeadRowsRef, DeleteSet, HiddenRows, LineageRef, Manifest, Moved
from txnstatus.errors import OutcomeUnknown, Unavailable
from txnstatus.limits import MAX_WAIT_SECONDS
from txnstatus.process.failpoints import failpoint
from txnstatus.rpc.deadlines import time_left
from txnstatus.types import NO_TIMESTAMP, HybridClock, Timestamp, TxnId

FREE_TRIES = 2
MAX_TRIES = 20


@dataclass(slots=True)
class _Carried:
    """What has been moved to an output so far."""

    delete_sets: dict[str, DeadRowsRef] = field(default_factory=dict)
    """Ids of delete sets, and their files."""
    ref: DeadRowsRef | None = None
    """The file with their rows, by where they are in the output."""
    moved: dict[tuple[TxnId, str], Moved] = field(default_factory=dict)
    """Writes of transactions that were prepared."""


@dataclass(slots=True)
class Switching:
    """One for a shard, on its leader."""

    reads: Reads
    propose: Callable[[cmd.Command], Awaitable[ShardApplied]]
    clock: HybridClock
    blocking: Executor
    _held: Waiters[str] = field(default_factory=Waiters)
    _holding: set[str] = field(default_factory=set)
    """Tables on which nobody prepares for a moment."""

    def holds(self, table_id: str) -> bool:
        """Whether nobody prepares on the table for a moment."""
        return table_id in self._holding

    async def admit(self, table_id: str) -> None:
        """Returns when it is time to prepare on the table: at once, nearly always. Raises Unavailable."""
        deadline = asyncio.get_running_loop().time() + time_left(MAX_WAIT_SECONDS)
        while table_id in self._holding:
            if asyncio.get_running_loop().time() >= deadline:
                raise Unavailable("the table is being switched to what a compaction has written")
            await self._held.wait(table_id, deadline)

    async def switch(
        self,
        table: TableState,
        wanted: str,
        lease_id: str,
        output: Manifest,
        lineage: LineageRef,
        hidden: HiddenRows | None = None,
    ) -> Timestamp:
        """The timestamp from which on readers see the output. It has been found to be right.

        Raises IllegalState where nothing can come of it any more, Unavailable.
        """
        async with self.reads.turn:
            if done := table.compactions.switched.get(wanted):
                return done.switch_ts
            compaction, carried = held(table, wanted, lease_id), _Carried()
            through = Switched(wanted, NO_TIMESTAMP, lineage, compaction.inputs, output_ids(wanted, output))
            await self._carry(table, compaction, through, carried)
            failpoint("compaction.before_switch", OSError)
            is_known = True
            try:
                at = await self.reads.close_gate(table.table_id, self.clock.now())
                return await self._commit(table, compaction, through, output, hidden, at, carried)
            except OutcomeUnknown:
                # It may apply yet, if this replica does not lead any more. If it does, it is known by now.
                is_known = wanted in table.compactions.switched
                raise
            finally:
                if is_known:
                    self.reads.open_gate(table.table_id)
                self._holding.discard(table.table_id)
                self._held.wake(table.table_id)

    async def _commit(
        self,
        table: TableState,
        wanted: Compaction,
        through: Switched,
        output: Manifest,
        hidden: HiddenRows | None,
        at: Timestamp,
        carried: _Carried,
    ) -> Timestamp:
        for tries in range(1, MAX_TRIES + 1):
            if tries > FREE_TRIES:
                self._holding.add(table.table_id)
            await self._carry(table, wanted, through, carried, at)
            held(table, wanted.compaction_id, wanted.lease_id)
            command = cmd.CommitCompaction(
                table.table_id,
                wanted.compaction_id,
                wanted.lease_id,
                output,
                through.lineage,
                at,
                cmd.CarriedDeletes(tuple(carried.delete_sets), carried.ref),
                tuple(cmd.MovedWrite(*whose, moved) for whose, moved in carried.moved.items()),
                self.clock.now(),
                hidden,
            )
            try:
                return (await self.propose(command)).timestamp
            except Unavailable as error:
                if type(error) is not Unavailable or tries == MAX_TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _carry(
        self, table: TableState, wanted: Compaction, through: Switched, carried: _Carried, at: Timestamp | None = None
    ) -> None:
        """Moves what was deleted, or is about to be, since the last time. `at`: the timestamp of the switch, once it is
        chosen. What has committed above it is seen from its own commit on."""
        known = carried.moved.keys()
        later = [
            each
            for each in later_deletes(table, wanted)
            if each.id not in carried.delete_sets and (each.txn_id, each.write_id) not in known
        ]
        above: defaultdict[tuple[TxnId, str], list[DeleteSet]] = defaultdict(list)
        for each in later:
            if at is not None and each.commit_ts > at:
                above[each.txn_id, each.write_id].append(each)
        new = [each for each in later if (each.txn_id, each.write_id) not in above]
        prepared = [
            (txn_id, moving.sources(write, through, lambda id_: table.file_sets[id_].manifest))
            for txn_id, write in prepared_deletes(table, wanted)
            if (txn_id, write.write_id) not in known
        ]
        prepared += [(txn_id, moving.sources_of(found, through)) for (txn_id, _), found in above.items()]
        if not new and not prepared:
            return
        loop = asyncio.get_running_loop()
        directory = table.directory(COMPACTIONS, wanted.compaction_id)

        first, *names = (f"_deletes_{self.clock.now():016x}.parquet" for _ in range(1 + len(prepared)))
        refs = [*carried.delete_sets.values(), *(each.ref for each in new)]

        def work() -> tuple[DeadRowsRef | None, list[Moved]]:
            moved = [
                moving.move(source, table.location, directory, name)
                for (_, source), name in zip(prepared, names, strict=True)
            ]
            return _all_carried(through, refs, directory, first), moved

        with moving.patient():
            ref, moved = await loop.run_in_executor(self.blocking, work)
        carried.delete_sets.update((each.id, each.ref) for each in new)
        carried.ref = ref
        carried.moved.update(
            ((txn_id, source.write_id), each) for (txn_id, source), each in zip(prepared, moved, strict=True)
        )


def _all_carried(through: Switched, refs: list[DeadRowsRef], directory: str, name: str) -> DeadRowsRef | None:
    rows = moving.forward(moving.read_lineage(through.lineage), refs)
    return moving.written(rows, directory, name) if rows else None
