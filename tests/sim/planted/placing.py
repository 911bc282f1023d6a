"""Faults in groups with ranges of their own, and in what is placed there, put in on purpose, as in planted.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.sim.planted.faults import CORE, Planted, Seams
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.catalog import changes
from txnstatus.catalog.catalog import FIRST_GROUP, CatalogState
from txnstatus.id_sets import IdSet, below
from txnstatus.proto import participant_pb2 as pb
from txnstatus.status import commands as cmd
from txnstatus.status.all_ranges import AllRanges
from txnstatus.status.commit.together import Together
from txnstatus.status.records import Step, TxnRecord
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId, TxnState

RANGES = "txnstatus.status.all_ranges:AllRanges"


def one_entry_decides_for_those_elsewhere() -> Seams:
    """Whoever is in the record's log has prepared: that is enough."""
    go_on = Together._go_on

    def decided(self: Together, record: TxnRecord, own: Any, command: Any, steps: list[Step]) -> TxnRecord:
        record = go_on(self, record, own, command, steps)
        if not (isinstance(command, cmd.BeginCommit) and own and record.state is TxnState.COMMIT_IN_PROGRESS):
            return record
        at = max([NO_TIMESTAMP, *(step.timestamp for step in steps)])
        record = self._move(cmd.FinalizeCommit(record.txn_id, at, command.now_micros, len(record.participants)))
        steps += [keeper.publish(record.txn_id, each.participant_id, record.commit_ts) for each, keeper in own]
        return self._move(cmd.CompleteCommit(record.txn_id, command.now_micros))

    return [("txnstatus.status.commit.together:Together._go_on", decided)]


def floors_of_the_first_group_do_not_rise() -> Seams:
    raise_floors = AllRanges._raise_floors

    async def raised(self: AllRanges, numbers: Sequence[int], timestamp: Timestamp) -> dict[int, Any]:
        first = set(self._state.ranges_of[FIRST_GROUP])
        answers = await raise_floors(self, [number for number in numbers if number in first], NO_TIMESTAMP)
        return answers | await raise_floors(self, [number for number in numbers if number not in first], timestamp)

    return [(f"{RANGES}._raise_floors", raised)]


def a_group_begins_with_ids_of_another() -> Seams:
    """The range of a group that joins is counted to be the first group's next one, too."""
    add_range = changes._add_range

    def counted_once(state: CatalogState, after: int) -> CatalogState:
        added = add_range(state, after)
        return added if added is state else replace(added, next_range=state.next_range + 1)

    return [("txnstatus.catalog.changes:_add_range", counted_once)]


def a_group_that_joins_began_alone() -> Seams:
    """What began near its tables before it had ranges is not looked for."""
    begins_in = CatalogState.begins_in

    def own(self: CatalogState, group: str) -> Sequence[int]:
        return self.ranges_of.get(group) or begins_in(self, group)

    return [("txnstatus.catalog.catalog:CatalogState.begins_in", own)]


def placements_are_not_restored() -> Seams:
    restore = ParticipantShard.restore

    def without(self: ParticipantShard, data: bytes) -> None:
        wire = pb.ShardSnapshot.FromString(data)
        wire.ClearField("placed")
        restore(self, wire.SerializeToString())

    return [("txnparticipant.shard.shard:ParticipantShard.restore", without)]


def who_is_older_is_told_by_ids_alone() -> Seams:
    async def by_id(_self: AllRanges, txn_id: TxnId) -> IdSet:
        return below(txn_id)

    return [(f"{RANGES}.older_than", by_id)]


SPREAD = 2
"""Groups where each has ranges and a shard: transactions are decided where they begin, and span both."""
PLANTED_PLACING: Mapping[str, Planted] = {
    "one entry decides for those elsewhere": Planted(
        ("4", "ended", "everything", CORE), "calm", 10, one_entry_decides_for_those_elsewhere
    ),
}
PLACING: Mapping[str, Callable[[], Seams]] = {
    "floors of the first group do not rise": floors_of_the_first_group_do_not_rise,
    "a group begins with ids of another": a_group_begins_with_ids_of_another,
    "a group that joins began alone": a_group_that_joins_began_alone,
    "placements are not restored": placements_are_not_restored,
    "who is older is told by ids alone": who_is_older_is_told_by_ids_alone,
}
