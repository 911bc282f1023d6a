"""Begins that come again, where there are several groups: what one has begun is found in whichever it is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.unit.harness.calls import answered
from tests.unit.harness.ranges import World, run
from txnstatus import features
from txnstatus.errors import InvalidArgument, Unavailable
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.status.ranges import StatusRanges

OWNER = "ada"


async def begun(ranges: StatusRanges, request_id: str, group: str, *, again: bool = True, owner: str = OWNER) -> int:
    request = pb.BeginTransactionRequest(request_id=request_id, owner=owner, count=1, is_retry=again)
    answer = await answered(partial(ranges.begin, group=group), request)
    found: int = answer.txn_ids[0]
    return found


def test_it_is_found_in_whichever_group_it_has_begun() -> None:
    async def scenario() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        first = {group: await begun(ranges, f"in {group}", group, again=False) for group in ("group-0", "group-1")}
        for number in range(4):
            await begun(ranges, f"more {number}", "group-1", again=False)  # its range is full, and has a successor
        for group in first:
            for other in first:
                assert await begun(ranges, f"in {group}", other) == first[group]
        old = world.ranges(knows=world.initial)
        last = await begun(ranges, "last", "group-1", again=False)
        assert await begun(old, "last", "group-0") == last, "also in a range of which this manager had not heard"

    run(scenario())


def test_one_that_has_begun_nothing_begins_where_it_says() -> None:
    async def scenario() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        txn_id = await begun(ranges, "new", "group-1")
        assert world.group_of_range[txn_id // 3] == "group-1"
        assert await begun(ranges, "new", "group-0") == txn_id
        with pytest.raises(InvalidArgument, match="another user's"):
            await begun(ranges, "new", "group-0", owner="bob")

    run(scenario())


def test_where_a_range_does_not_say_nothing_begins() -> None:
    async def scenario() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        world.unavailable = {"status-1"}
        with pytest.raises(Unavailable):
            await begun(ranges, "unknown", "group-0")
        assert not list(world.tables[0].records())
        assert await begun(ranges, "for the first time", "group-0", again=False) == 0

    run(scenario())


def test_below_the_level_of_shards_that_move_nobody_looks() -> None:
    """A version that does not know the question would begin a transaction for it."""

    async def scenario() -> None:
        world = World(span=3, groups=2)
        old = replace(world.initial, level=features.PLACES - 1)
        ranges = world.ranges(knows=old)
        world.unavailable = {"status-1"}
        assert await begun(ranges, "new", "group-0") == 0

    run(scenario())
