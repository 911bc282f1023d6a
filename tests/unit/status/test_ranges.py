"""StatusRanges: the calls that concern several ranges, from clients whose maps are as old as they may be."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Coroutine
from itertools import starmap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.harness.calls import answered
from tests.unit.harness.ranges import World, run
from txnstatus.catalog.catalog import CATALOG, status_group
from txnstatus.catalog.options import Options
from txnstatus.errors import Forgotten, InvalidArgument, LimitReached, NotAuthorized, NotFound, TxnError, Unavailable
from txnstatus.id_sets import NO_IDS, IdSet, below, of_spans
from txnstatus.limits import MAX_LISTED
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.rpc.errors import from_detail
from txnstatus.status import commands as cmd
from txnstatus.status.manager import Tick
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import NO_TIMESTAMP, AbortCause, AbortCode, Participant, ParticipantId, Timestamp, TxnId, TxnState

OWNER = "ada"
TABLE = ParticipantId("0.0")
CAUSE = AbortCause(AbortCode.REQUESTED, "the program said so", OWNER)


def begin(request_id: str, count: int = 1, *, is_retry: bool = False) -> pb.BeginTransactionRequest:
    return pb.BeginTransactionRequest(request_id=request_id, owner=OWNER, count=count, is_retry=is_retry)


def prepare(world: World, txn_id: int) -> None:
    number = txn_id // world.state.range_span
    world.apply(number, cmd.RegisterParticipants(TxnId(txn_id), OWNER, (Participant(TABLE, "air.flights"),)))
    world.apply(number, cmd.BeginCommit(TxnId(txn_id), OWNER, 1))


def decide(world: World, txn_id: int, prepare_ts: int) -> Timestamp:
    number = txn_id // world.state.range_span
    (record,) = world.apply(number, cmd.FinalizeCommit(TxnId(txn_id), Timestamp(prepare_ts), 1, 1)).records
    return record.commit_ts


def commit(world: World, txn_id: int, prepare_ts: int) -> Timestamp:
    prepare(world, txn_id)
    commit_ts = decide(world, txn_id, prepare_ts)
    world.apply(txn_id // world.state.range_span, cmd.CompleteCommit(TxnId(txn_id), 1))
    return commit_ts


def forget(world: World, number: int) -> None:
    world.apply(number, cmd.Forget(2))


async def begun(ranges: StatusRanges, count: int, prefix: str = "r") -> list[int]:
    return [(await answered(ranges.begin, begin(f"{prefix}{number}"))).txn_ids[0] for number in range(count)]


async def dropped_range(world: World, ranges: StatusRanges) -> list[int]:
    """Range 0 comes and goes: its transactions have committed at 10, 20, ... and are forgotten."""
    ids = await begun(ranges, world.state.range_span)
    for txn_id in ids:
        commit(world, txn_id, 10 * (txn_id + 1))
    await begun(ranges, 1, "later")
    forget(world, 0)
    world.services[0]._tend_range()
    await asyncio.sleep(0.1)
    assert 0 not in world.services
    return ids


# ---- begin


def test_ids_go_on_from_range_to_range_and_ranges_are_added_when_they_are_needed() -> None:
    async def main() -> None:
        world = World(span=3)
        assert await begun(world.ranges(), 8) == list(range(8))
        assert world.state.ranges == (0, 1, 2)

    run(main())


def test_a_begin_that_does_not_fit_goes_to_the_next_range_as_a_whole() -> None:
    async def main() -> None:
        world = World(span=5)
        ranges = world.ranges()
        await begun(ranges, 3)
        assert list((await answered(ranges.begin, begin("many", 3))).txn_ids) == [5, 6, 7]
        assert await begun(world.ranges(), 1, "another") == [8], "another client finds the first range full, too"

    run(main())


def test_a_request_id_of_another_user_is_refused() -> None:
    """Pins: it was answered with the other one's transaction, of which every later call was NOT_AUTHORIZED."""

    async def main() -> None:
        world = World(span=5)
        ranges = world.ranges()
        for number in range(2):
            assert (await answered(ranges.begin, begin("nightly"))).txn_ids == [0]
            request = pb.BeginTransactionRequest(request_id="nightly", owner="bob", is_retry=bool(number))
            with pytest.raises(InvalidArgument, match="request id 'nightly' is that of another user's begin"):
                await answered(ranges.begin, request)

    run(main())


def test_a_begin_that_no_range_could_hold_adds_no_ranges() -> None:
    async def main() -> None:
        world = World(span=3)
        with pytest.raises(InvalidArgument, match="1 to 3"):
            await answered(world.ranges().begin, begin("many", 4))
        assert world.state.ranges == (0,)

    run(main())


def test_what_is_known_to_be_full_is_not_asked_again() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        await begun(ranges, 5)
        world.calls.clear()
        await begun(ranges, 1, "later")
        assert world.calls == ["txnstatus.TxnStatus/BeginInRange"]

    run(main())


def test_a_retry_finds_what_was_begun_in_a_range_that_has_filled_up_since() -> None:
    async def main() -> None:
        world = World(span=2)
        one, other = world.ranges(), world.ranges()
        first = await answered(one.begin, begin("asked"))
        await begun(other, 3)
        assert not first.begun_before
        first.begun_before = True
        for client in (one, other, world.ranges()):
            assert await answered(client.begin, begin("asked", is_retry=True)) == first
        assert await begun(one, 1, "later") == [4], "and nothing was begun"

    run(main())


def test_a_retry_that_overtakes_its_original_is_found_by_it() -> None:
    """The original waits between two ranges, while its retry begins in the second, and that one fills up."""

    async def main() -> None:
        world = World(span=2, stepped=True)
        one, other = world.ranges(), world.ranges()
        original = asyncio.create_task(answered(one.begin, begin("asked")))
        await asyncio.sleep(0.01)
        held = world.pending.pop()
        world.stepped = False
        await begun(other, 2)
        first = await answered(other.begin, begin("asked", is_retry=True))
        assert (list(first.txn_ids), first.begun_before) == ([2], False)
        await begun(one, 2, "more")
        assert world.tables[1].full
        held.go_on()
        first.begun_before = True
        assert await original == first

    run(main())


def test_a_client_that_missed_several_ranges_passes_none_of_them_by() -> None:
    """Nothing may begin in a range before all before it are full: a snapshot looks no further than the first such."""

    async def main() -> None:
        world = World(span=5)
        late, other = world.ranges(), world.ranges()
        await begun(other, 5 + 4)
        world.services[1]._tend_range()  # nearly full: the next range is added before it is needed
        await asyncio.sleep(0.1)
        assert world.state.ranges == (0, 1, 2)
        assert await begun(late, 1, "late") == [9]
        assert await begun(late, 1, "later") == [10]

    run(main())


def test_a_client_that_missed_a_whole_life_of_ranges_begins_in_the_last_with_its_floor() -> None:
    async def main() -> None:
        world = World(span=2)
        late, other = world.ranges(), world.ranges()
        await dropped_range(world, other)
        late._client.cluster.update(world.state)
        assert await begun(late, 1) == [3]
        assert world.tables[1].last_commit_ts >= 20
        assert commit(world, 3, prepare_ts=1) == 21

    run(main())


def test_the_options_of_the_cluster_hold_in_every_range() -> None:
    async def main() -> None:
        world = World(span=2, options=Options(max_open_transactions=1))
        ranges = world.ranges()
        await begun(ranges, 1)
        with pytest.raises(LimitReached):
            await answered(ranges.begin, begin("one too many"))
        assert world.state.ranges == (0,)

    run(main())


# ---- snapshots


def test_a_snapshot_is_not_below_a_commit_of_any_range_and_below_all_to_come() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        await begun(ranges, 6)
        assert commit(world, 0, 50) == 50
        assert commit(world, 4, 70) == 70
        for txn_id in (1, 2, 5):
            prepare(world, txn_id)
        assert await world.ranges().snapshot() == 70
        assert [decide(world, txn_id, 3) for txn_id in (1, 2, 5)] == [71, 71, 71]

    run(main())


def test_a_snapshot_of_an_empty_cluster() -> None:
    async def main() -> None:
        world = World()
        assert await world.ranges().snapshot() == NO_TIMESTAMP
        assert world.calls == ["txnstatus.TxnStatus/RaiseFloor"]

    run(main())


def test_a_snapshot_is_below_the_commits_of_ranges_that_are_added_later() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        await begun(ranges, 2)
        assert commit(world, 0, 500) == 500
        assert await world.ranges().snapshot() == 500
        (txn_id,) = await begun(world.ranges(), 1, "later")
        assert commit(world, txn_id, 3) > 500

    run(main())


def test_a_snapshot_is_not_below_the_commits_of_a_range_that_was_dropped() -> None:
    async def main() -> None:
        world = World(span=2)
        await dropped_range(world, world.ranges())
        assert world.state.ranges == (1,)
        assert world.state.floor == 20
        assert await world.ranges(knows=world.state).snapshot() == 20
        late = world.ranges()
        asking = asyncio.create_task(late.snapshot())
        await asyncio.sleep(1.0)
        late._client.cluster.update(world.state)  # it asks for a range that is gone, until it hears so
        assert await asking == 20
        assert commit(world, 2, 3) > 20

    run(main())


def test_the_floor_of_a_dropped_range_counts_though_nobody_saw_it_full() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        await begun(ranges, 1)
        assert commit(world, 0, 500) == await world.ranges().snapshot() == 500
        await begun(ranges, 1, "later")
        world.apply(0, cmd.BeginAbort(TxnId(1), None, CAUSE, 1))
        forget(world, 0)
        for _ in range(2):
            world.services[0]._tend_range()  # adds the next range, then drops this one
            await asyncio.sleep(0.1)
        assert world.state.ranges == (1,)
        assert await begun(world.ranges(knows=world.state), 1, "late") == [2]
        assert commit(world, 2, 3) > 500

    run(main())


def test_a_settled_range_costs_a_snapshot_no_log_entry() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        await begun(ranges, 3)
        for txn_id, prepare_ts in ((0, 10), (1, 20), (2, 90)):
            commit(world, txn_id, prepare_ts)
        entries: list[int] = []
        world.on_apply = lambda number, _command, _table: entries.append(number)
        assert await ranges.snapshot() == 90
        assert entries == []
        assert (await ranges.outcomes([TxnId(0), TxnId(1)], Timestamp(90))) == {0: 10, 1: 20}

    run(main())


def test_a_snapshot_needs_every_range() -> None:
    """One that does not answer may have acknowledged a commit: to go on without it would be to overlook that."""

    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        await begun(ranges, 3)
        for group in ("status-0", "status-1"):
            world.unavailable = {group}
            with pytest.raises(Unavailable, match=group):
                await ranges.snapshot()

    run(main())


# ---- several groups


async def begun_in(ranges: StatusRanges, group: str, count: int, prefix: str) -> list[int]:
    return [
        (await answered(lambda calls: ranges.begin(calls, group), begin(f"{prefix}{number}"))).txn_ids[0]
        for number in range(count)
    ]


def test_transactions_begin_in_the_ranges_of_their_group() -> None:
    async def main() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        assert await begun_in(ranges, "group-1", 5, "one") == [3, 4, 5, 6, 7]
        assert await begun(ranges, 5) == [0, 1, 2, 9, 10]
        assert world.state.ranges_of == {"group-0": (0, 3), "group-1": (1, 2)}
        again = await answered(lambda calls: world.ranges().begin(calls, "group-1"), begin("one0", is_retry=True))
        assert (list(again.txn_ids), again.begun_before) == ([3], True)

    run(main())


def test_a_snapshot_is_below_all_that_is_to_come_in_every_group() -> None:
    async def main() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        (one,) = await begun_in(ranges, "group-1", 1, "one")
        assert commit(world, one, 50) == 50
        assert await world.ranges().snapshot() == 50
        (other,) = await begun(ranges, 1)
        assert commit(world, other, 3) == 51

    run(main())


def test_transactions_begin_in_an_added_group_once_the_range_before_is_full() -> None:
    async def main() -> None:
        world = World(span=3, groups=1)
        late, other = world.ranges(), world.ranges()
        before = await begun_in(late, "group-1", 1, "before")
        assert before == [0], "there is no such group: the first has its transactions"
        assert commit(world, 0, 500) == 500
        world.add_group("group-1")
        other._client.cluster.update(world.state)
        assert await begun_in(other, "group-1", 1, "early") == [1], "it has no range"
        await other.move_on()
        assert world.state.ranges_of == {"group-0": (0, 1), "group-1": (2,)}
        assert await begun_in(late, "group-1", 1, "late") == [6], "found full, the range tells of the next ones"
        assert commit(world, 6, 3) > 500
        for name, txn_id in (("before0", 0), ("early0", 1), ("late0", 6)):
            for each in (world.ranges(), other):  # one that has not heard of the group, and one that has
                request = begin(name, is_retry=True)
                again = await answered(lambda calls: each.begin(calls, "group-1"), request)  # noqa: B023
                assert (list(again.txn_ids), again.begun_before) == ([txn_id], True)

    run(main())


def test_a_begin_may_know_of_a_table_in_a_group_of_which_its_range_has_not_heard() -> None:
    """The group was added a moment ago: the range's leader asks the catalog before it says that there is no such id."""

    async def main() -> None:
        world = World(groups=1)
        ranges, before = world.ranges(), world.cluster.state
        world.add_group("group-1")
        world.cluster.state = before
        for name, tables, expected in (("new", ["1.0", "0.0"], {"1.0", "0.0"}), ("none", ["0.0", "2.0"], None)):
            participants = [common.ParticipantInfo(participant_id=each, name=each) for each in tables]
            asking = answered(lambda calls: ranges.begin(calls, participants={calls[0]: participants}), begin(name))  # noqa: B023
            if expected is None:
                with pytest.raises(InvalidArgument, match=r"'2\.0' is no participant's id"):
                    await asking
            else:
                txn_id = (await asking).txn_ids[0]
                assert world.tables[0].get(txn_id).participants.keys() == expected

    run(main())


def test_who_knows_nothing_of_a_group_gives_no_snapshot_without_it() -> None:
    async def main() -> None:
        world = World(span=3, groups=1)
        late, other = world.ranges(), world.ranges()
        world.add_group("group-1")
        other._client.cluster.update(world.state)
        await other.move_on()
        (txn_id,) = await begun_in(other, "group-1", 1, "one")
        assert commit(world, txn_id, 700) == 700
        assert await late.snapshot() == 700

    run(main())


def test_what_is_forgotten_is_told_group_by_group() -> None:
    async def main() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        await begun(ranges, 2)
        for txn_id in await begun_in(ranges, "group-1", 4, "one"):
            commit(world, txn_id, 10)
        assert await ranges.forgotten() == NO_IDS
        forget(world, 1)
        assert await ranges.forgotten() == of_spans([(3, 6)]), "all ids of the range: it is full"
        commit(world, 0, 20)
        forget(world, 0)
        forget(world, 2)
        assert await ranges.forgotten() == of_spans([(0, 1), (3, 6)]), "range by range, in a group"
        await ranges.drop_range(1, Timestamp(11))
        assert await ranges.forgotten() == of_spans([(0, 1), (3, 7)])

    run(main())


def test_which_transactions_began_before_one_is_told_by_ids_and_of_other_groups_as_of_now() -> None:
    async def main() -> None:
        world = World(span=3, groups=2)
        late, ranges = world.ranges(), world.ranges()
        assert await late.older_than(TxnId(1)) == below(1)
        assert world.calls == 2 * ["txnstatus.TxnStatus/RaiseFloor"], "in both groups"
        await begun(ranges, 2)
        await begun_in(ranges, "group-1", 5, "one")
        assert world.state.ranges_of == {"group-0": (0,), "group-1": (1, 2)}
        assert await late.older_than(TxnId(1)) == of_spans([(0, 1), (3, 8)])
        assert await late.older_than(TxnId(6)) == of_spans([(0, 2), (3, 6)])

    run(main())


def test_nobody_is_older_who_begins_later_in_a_range_that_is_followed_already() -> None:
    """A range's leader has the next one added before it is full. Its ids to come were taken for older than a drop:
    whoever began with one was refused the table that came after it."""

    async def main() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        await begun(ranges, 1)
        await begun_in(ranges, "group-1", 2, "one")
        await ranges.add_range(1)
        assert world.state.ranges_of == {"group-0": (0,), "group-1": (1, 2)}
        older = await ranges.older_than(TxnId(0))
        assert older == of_spans([(3, 5)])
        (new,) = await begun_in(ranges, "group-1", 1, "two")
        assert TxnId(new) not in older

    run(main())


def test_who_has_begun_by_now_is_told_range_by_range_and_no_id_that_is_to_come() -> None:
    async def main() -> None:
        world = World(span=3, groups=2)
        late, ranges = world.ranges(), world.ranges()
        assert TxnId(0) not in await late.begun()
        await begun(ranges, 2)
        await begun_in(ranges, "group-1", 5, "one")
        for number in range(3):
            found = await late.begun()
            assert number or found == of_spans([(0, 2), (3, 8)])
            (new,) = await begun(ranges, 1, f"more{number}")
            assert TxnId(new) not in found, "it began later"
            assert TxnId(new) in await late.begun()

    run(main())


def test_with_one_group_ids_tell_which_transactions_began_before() -> None:
    async def main() -> None:
        world = World(span=3)
        ranges = world.ranges()
        await begun(ranges, 5)
        world.calls.clear()
        assert await ranges.older_than(TxnId(4)) == below(4)
        assert world.calls == ["txnstatus.TxnStatus/RaiseFloor"], "another group may have joined"

    run(main())


# ---- one transaction


def state(txn_id: int) -> pb.GetTransactionStateRequest:
    return pb.GetTransactionStateRequest(txn_id=txn_id)


async def state_of(ranges: StatusRanges, txn_id: int) -> pb.GetTransactionStateResponse:
    return await ranges.call(txn_id, "GetTransactionState", state(txn_id), pb.GetTransactionStateResponse)


def test_a_transaction_of_a_range_that_another_client_added_is_found() -> None:
    async def main() -> None:
        world = World(span=2)
        late = world.ranges()
        ids = await begun(world.ranges(), 5)
        assert (await state_of(late, ids[-1])).txn.txn_id == 4
        assert world.calls.count("txnstatus.Catalog/GetCatalog") == 1
        await state_of(late, ids[-2])
        assert world.calls.count("txnstatus.Catalog/GetCatalog") == 1, "and then it knows"

    run(main())


@pytest.mark.parametrize(
    ("txn_id", "says"),
    [
        (-1, "cannot exist"),
        (-(2**63), "cannot exist"),
        (1, "the highest id given out is 0"),
        (2, "no id above 1 can have been given out"),
        (2**63 - 1, "no id above 1 can have been given out"),
    ],
)
def test_an_id_that_nobody_has_is_not_found(txn_id: int, says: str) -> None:
    async def main() -> None:
        world = World(span=2)
        await begun(world.ranges(), 1)
        with pytest.raises(NotFound, match=says) as raised:
            await state_of(world.ranges(), txn_id)
        assert type(raised.value) is NotFound
        assert raised.value.txn_id == txn_id

    run(main())


def test_a_transaction_of_a_range_that_is_gone_is_forgotten() -> None:
    async def main() -> None:
        world = World(span=2)
        ids = await dropped_range(world, world.ranges())
        ranges = world.ranges(knows=world.state)
        world.calls.clear()
        for txn_id in ids:
            with pytest.raises(Forgotten) as raised:
                await state_of(ranges, txn_id)
            assert raised.value.txn_id == txn_id
        assert world.calls == [], "no question is needed"

    run(main())


def test_a_range_that_goes_while_it_is_asked_has_forgotten() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        await dropped_range(world, world.ranges())
        asking = asyncio.create_task(state_of(ranges, 0))
        await asyncio.sleep(1.0)
        ranges._client.cluster.update(world.state)
        with pytest.raises(Forgotten):
            await asking

    run(main())


def test_a_range_that_does_not_answer_is_unavailable() -> None:
    async def main() -> None:
        world = World(span=2)
        await begun(world.ranges(), 1)
        world.unavailable = {"status-0"}
        with pytest.raises(Unavailable, match="status-0"):
            await state_of(world.ranges(), 0)

    run(main())


# ---- outcomes


def test_outcomes_come_from_every_range_at_once() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        ids = await begun(ranges, 6)
        commits = {txn_id: commit(world, txn_id, 10 * txn_id + 10) for txn_id in ids[:-1]}
        prepare(world, ids[-1])
        at = await ranges.snapshot()
        assert at == max(commits.values())
        asked = list(map(TxnId, reversed(ids)))
        assert await ranges.outcomes(asked, at) == {**commits, ids[-1]: NO_TIMESTAMP}
        assert await ranges.outcomes(asked, Timestamp(30)) == {
            txn_id: commits[txn_id] if txn_id < 3 else NO_TIMESTAMP for txn_id in ids
        }
        assert await ranges.outcomes([], at) == {}

    run(main())


def test_the_outcome_of_what_is_gone_is_none() -> None:
    """Whoever took part in such a commit had finished it before it was forgotten, and does not ask."""

    async def main() -> None:
        world = World(span=2)
        ids = list(map(TxnId, await dropped_range(world, world.ranges())))
        for knows in (world.initial, world.state):
            ranges = world.ranges(knows=knows)
            asking = asyncio.create_task(ranges.outcomes(ids, Timestamp(20)))
            await asyncio.sleep(1.0)
            ranges._client.cluster.update(world.state)
            assert await asking == dict.fromkeys(ids, NO_TIMESTAMP)

    run(main())


def test_an_id_that_was_never_given_out_stops_no_reader() -> None:
    """A stray message may have prepared it; whoever reads the table asks about it with the others."""

    async def main() -> None:
        world = World(span=2)
        ids = await begun(world.ranges(), 1)
        commit_ts = commit(world, ids[0], 70)
        asked = [TxnId(2**63 - 2), TxnId(ids[0]), TxnId(-1)]
        at = await world.ranges().snapshot()
        assert await world.ranges().outcomes(asked, at) == {2**63 - 2: 0, ids[0]: commit_ts, -1: 0}

    run(main())


def test_outcomes_in_a_range_that_another_client_added_are_found() -> None:
    """Whoever leads a shard after a failover may hear of the range for the first time from a prepared transaction."""

    async def main() -> None:
        world = World(span=2)
        ids = await begun(world.ranges(), 5)
        commit_ts = commit(world, ids[4], 70)
        at = await world.ranges().snapshot()
        assert await world.ranges().outcomes([TxnId(ids[4])], at) == {4: commit_ts}

    run(main())


# ---- keep-alive


async def keep_alive(ranges: StatusRanges, *txn_ids: int, owner: str = OWNER) -> list[TxnError | None]:
    response = await ranges.keep_alive(pb.KeepTransactionAliveRequest(txn_ids=txn_ids, owner=owner))
    refused = {each.txn_id: from_detail(each.error) for each in response.refused}
    assert len(refused) == len(response.refused), "nobody is refused twice"
    assert refused.keys() <= set(txn_ids)
    return [refused.get(txn_id) for txn_id in txn_ids]


def leading(world: World) -> None:
    for service in world.services.values():
        service.on_leadership(True)


def test_a_begin_that_is_repeated_is_a_sign_of_life() -> None:
    """Whoever is answered only the second time knows of no earlier moment from which its interval could run."""

    async def main() -> None:
        world = World(options=Options(keepalive_default_ms=10_000))
        (txn_id,) = await begun(world.ranges(), 1)
        leading(world)

        async def silence(seconds: int) -> TxnState:
            for _ in range(seconds):
                await asyncio.sleep(1.0)
                world.services[0]._handle([Tick()])
            await asyncio.sleep(0.1)
            return world.tables[0].get(TxnId(txn_id)).state

        await silence(8)
        assert list((await answered(world.ranges().begin, begin("r0", is_retry=True))).txn_ids) == [txn_id]
        assert await silence(8) is TxnState.OPEN
        assert await silence(4) is TxnState.ABORTED

    run(main())


def test_a_beat_reaches_every_range() -> None:
    async def main() -> None:
        world = World(span=2)
        ids = await begun(world.ranges(), 5)
        leading(world)
        assert await keep_alive(world.ranges(), *reversed(ids)) == [None] * 5

    run(main())


def test_a_range_that_does_not_answer_fails_only_its_own_beats() -> None:
    async def main() -> None:
        world = World(span=2)
        await begun(world.ranges(), 6)
        leading(world)
        world.unavailable = {"status-1"}
        answers = await keep_alive(world.ranges(), 4, 3, 0, 2, 5)
        assert list(map(type, answers)) == [type(None), Unavailable, type(None), Unavailable, type(None)]

    run(main())


def test_each_beat_has_its_own_answer() -> None:
    async def main() -> None:
        world = World(span=2)
        await dropped_range(world, world.ranges())
        await begun(world.ranges(knows=world.state), 2, "more")
        world.apply(1, cmd.BeginCommit(TxnId(3), OWNER, 1))
        forget(world, 1)
        leading(world)
        ranges = world.ranges(knows=world.state)
        answers = await keep_alive(ranges, 4, 0, 3, 99, -1, 2, 5, 4)
        assert list(map(type, answers)) == [
            type(None),  # open
            Forgotten,  # of a range that is gone
            Forgotten,  # of one that is there
            NotFound,  # of no range
            NotFound,
            type(None),
            NotFound,  # not given out yet
            type(None),  # asked for twice
        ]
        assert list(map(type, await keep_alive(ranges, 4, 0, owner="bob"))) == [NotAuthorized, Forgotten]

    run(main())


def test_beats_of_one_range_go_there_as_they_are() -> None:
    async def main() -> None:
        world = World(span=10)
        await begun(world.ranges(), 3)
        leading(world)
        answers = await keep_alive(world.ranges(), 2, 0, 5, 2)
        assert list(map(type, answers)) == [type(None), type(None), NotFound, type(None)]
        assert world.calls.count("txnstatus.TxnManager/KeepTransactionAlive") == 1
        world.unavailable = {"status-0"}
        assert list(map(type, await keep_alive(world.ranges(), 1, 0))) == [Unavailable, Unavailable]

    run(main())


def test_beats_in_a_range_that_is_gone_are_told_so() -> None:
    async def main() -> None:
        world = World(span=2)
        await dropped_range(world, world.ranges())
        assert list(map(type, await keep_alive(world.ranges(knows=world.state), 0, 1))) == [Forgotten, Forgotten]

    run(main())


def test_ids_of_no_range_cost_the_other_beats_one_question() -> None:
    """A client that sends rubbish does not make the catalog's leader work, nor others wait."""

    async def main() -> None:
        world = World(span=2)
        await begun(world.ranges(), 1)
        leading(world)
        answers = await keep_alive(world.ranges(), *range(100, 200), 0)
        assert answers[-1] is None
        assert world.calls.count("txnstatus.Catalog/GetCatalog") == 1

    run(main())


def test_without_the_catalog_beats_in_known_ranges_arrive_at_once() -> None:
    async def main() -> None:
        world = World(span=2)
        await begun(world.ranges(), 1)
        leading(world)
        world.unavailable = {"catalog"}
        asking = asyncio.create_task(keep_alive(world.ranges(), 0, 77))
        await asyncio.sleep(0.1)
        assert "txnstatus.TxnManager/KeepTransactionAlive" in world.calls
        assert list(map(type, await asking)) == [type(None), Unavailable]

    run(main())


# ---- lists


async def listed(ranges: StatusRanges, **fields: Any) -> tuple[list[int], bool]:
    response = await ranges.listed(status_pb.ListTransactionsRequest(**fields))
    return [txn.txn_id for txn in response.txns], response.more


async def listed_by_pages(ranges: StatusRanges, limit: int) -> list[int]:
    found: list[int] = []
    request = status_pb.ListTransactionsRequest(limit=limit)
    while True:
        page = await ranges.listed(request)
        assert len(page.txns) <= limit
        found += [txn.txn_id for txn in page.txns]
        if not page.more:
            return found
        assert page.txns
        request.ClearField("below")
        request.below.extend(page.next)


def test_a_list_goes_through_the_ranges_from_the_newest_down() -> None:
    async def main() -> None:
        world = World(span=3)
        ranges = world.ranges()
        await begun(ranges, 8)
        assert await listed(ranges) == ([7, 6, 5, 4, 3, 2, 1, 0], False)
        assert await listed(ranges, limit=4) == ([7, 6, 5, 4], True)
        assert await listed(ranges, limit=4, below_txn_id=4) == ([3, 2, 1, 0], False)
        assert await listed(ranges, limit=8) == ([7, 6, 5, 4, 3, 2, 1, 0], False)
        world.apply(1, cmd.BeginCommit(TxnId(4), OWNER, 1))
        assert await listed(ranges, states=[TxnState.COMMITTED]) == ([4], False)
        assert await listed(ranges, txn_ids=[1, 99, 7, 1, 4]) == ([7, 4, 1], False)
        assert await listed(ranges, txn_ids=[1, 7, 4], limit=2) == ([7, 4], True)
        assert await listed(ranges, txn_ids=[1, 7, 4], below_txn_id=4) == ([1], False)
        assert await listed(ranges, txn_ids=[1, 4], states=[TxnState.COMMITTED]) == ([4], False)
        assert await listed(ranges, txn_ids=[99]) == ([], False)
        assert await listed(ranges, begun_by="mallory") == ([], False)
        assert await listed(ranges, begun_by=OWNER, limit=1) == ([7], True)

    run(main())


def test_a_list_has_what_is_in_ranges_of_which_its_node_has_not_heard() -> None:
    """It was without the newest transactions, and the timeline without the last that had ended."""

    async def main() -> None:
        world = World(span=3)
        await begun(world.ranges(), 8)
        ranges = world.ranges()
        assert await listed(ranges) == ([7, 6, 5, 4, 3, 2, 1, 0], False)
        assert await listed(world.ranges(), txn_ids=[7, 1]) == ([7, 1], False)
        asked = world.calls.count("txnstatus.Catalog/GetCatalog")
        assert await listed(ranges, txn_ids=[7, 1]) == ([7, 1], False)
        assert world.calls.count("txnstatus.Catalog/GetCatalog") == asked, "it knows where these are"

    run(main())


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_page_by_page_a_list_is_whole(limit: int) -> None:
    async def main() -> None:
        world = World(span=3)
        ranges = world.ranges()
        await begun(ranges, 8)
        assert await listed_by_pages(ranges, limit) == [7, 6, 5, 4, 3, 2, 1, 0]

    run(main())


@pytest.mark.parametrize("limit", [1, 2, 3, 20])
def test_a_list_over_groups_is_by_the_times_of_begins(limit: int) -> None:
    """It was by ids: what one group had begun last came behind all that another one had."""

    async def main() -> None:
        world = World(span=3, groups=2)
        ranges = world.ranges()
        begun_in_turn: list[int] = []
        for number, group in enumerate("11001110001"):
            begun_in_turn += await begun_in(ranges, f"group-{group}", 1, f"turn {number}")
            await asyncio.sleep(0.001)
            world.wall_micros += 1_000  # which ranges that are added begin with
        assert begun_in_turn != sorted(begun_in_turn)
        assert await listed_by_pages(ranges, limit) == begun_in_turn[::-1]

    run(main())


def test_no_answer_holds_more_than_it_may() -> None:
    async def main() -> None:
        world = World(span=MAX_LISTED)
        ranges = world.ranges()
        await answered(ranges.begin, begin("many", MAX_LISTED))
        await answered(ranges.begin, begin("more", 5))
        page, more = await listed(ranges, limit=10 * MAX_LISTED)
        assert (len(page), more) == (MAX_LISTED, True)

    run(main())


def test_a_range_that_goes_while_it_is_listed_is_empty() -> None:
    async def main() -> None:
        world = World(span=2)
        other = world.ranges()
        ids = await begun(other, 3)
        late = world.ranges(knows=world.state)
        for txn_id in ids[:2]:
            commit(world, txn_id, 10)
        forget(world, 0)
        await other.drop_range(0, Timestamp(11))
        asking = asyncio.create_task(listed(late))
        await asyncio.sleep(1.0)
        late._client.cluster.update(world.state)
        assert await asking == ([2], False)

    run(main())


# ---- whatever comes


class Story:
    """Everything that can happen to some ranges and clients, one thing at a time, as chance has it."""

    CLIENTS = 3

    def __init__(self, chance: random.Random, span: int) -> None:
        self.chance = chance
        self.world = World(span, stepped=True, groups=chance.choice([1, 1, 2, 3]))
        self.world.on_apply = self.applied
        self.clients = [self.world.ranges() for _ in range(self.CLIENTS)]
        self.requests: list[tuple[pb.BeginTransactionRequest, str]] = []
        """Requests, with the group in which each begins."""
        self.answers: dict[str, list[int]] = {}
        self.open: list[int] = []
        self.prepared: list[int] = []
        self.decided: list[int] = []
        self.commits: dict[int, Timestamp] = {}
        self.snapshots: set[Timestamp] = set()
        self.looks: list[IdSet] = []
        """Transactions that had begun when somebody looked."""
        self.acknowledged = NO_TIMESTAMP
        self.running: set[asyncio.Task[None]] = set()

    async def tell(self, steps: int) -> None:
        deeds = [self.go_on] * 10 + [self.go_on_for_long] * 4 + [self.begin] * 3 + [self.retry, self.news]
        deeds += [self.prepare] * 2 + [self.decide] * 2 + [self.complete] * 2 + [self.abort] * 2
        deeds += [self.snapshot] * 3 + [self.forget] * 2 + [self.tend] * 2 + [self.look_back] * 2
        deeds += [self.add_group, self.move_on] if self.chance.random() < 0.4 else []
        try:
            for _ in range(steps):
                self.chance.choice(deeds)()
                await asyncio.sleep(self.chance.choice([0.001] * 30 + [1.0, 4.0]))
                self.check_running()
            self.world.stepped = False
            while self.world.pending:
                self.world.pending.pop().go_on()
            await asyncio.gather(*self.running, return_exceptions=True)
            self.check_running()
            await self.check_outcomes()
        finally:
            for service in self.world.services.values():
                await service.stop()
            for task in self.running:
                task.cancel()

    # ---- what must hold

    def applied(self, number: int, command: cmd.Command, table: TxnStatusTable) -> None:
        if isinstance(command, cmd.BeginTxns):
            group = self.world.state.parts[status_group(number)]
            before = [each for each in self.world.state.begins_in(group) if each < number]
            assert all(self.world.tables[each].full for each in before), f"begun in {number} too early"
        if isinstance(command, cmd.FinalizeCommit):
            commit_ts = table.get(command.txn_id).commit_ts
            assert self.commits.setdefault(command.txn_id, commit_ts) == commit_ts
            assert commit_ts > max(self.snapshots, default=-1), f"{command} is within a snapshot that was returned"

    def check_running(self) -> None:
        for task in [task for task in self.running if task.done()]:
            self.running.remove(task)
            with contextlib.suppress(Unavailable):  # a deadline that passed is an answer, too
                task.result()

    async def check_outcomes(self) -> None:
        """Every snapshot sees exactly what was committed below it, unless that is forgotten."""
        ids = [TxnId(txn_id) for txn_ids in self.answers.values() for txn_id in txn_ids]
        assert len(set(ids)) == len(ids), "an id was given out twice"
        for at in self.snapshots:
            found = await self.world.ranges(knows=self.world.state).outcomes(ids, at)
            expected = {txn_id: self.commits.get(txn_id, NO_TIMESTAMP) for txn_id in ids if self.is_kept(txn_id)}
            assert {txn_id: found[txn_id] for txn_id in expected} == {
                txn_id: commit_ts if commit_ts <= at else NO_TIMESTAMP for txn_id, commit_ts in expected.items()
            }

    def is_kept(self, txn_id: int) -> bool:
        return self.world.tables[self.range_of(txn_id)].find(TxnId(txn_id)) is not None

    def range_of(self, txn_id: int) -> int:
        return txn_id // self.world.state.range_span

    # ---- what can happen

    def go_on(self) -> None:
        if self.world.pending:
            self.world.pending.pop(self.chance.randrange(len(self.world.pending))).go_on()

    def go_on_for_long(self) -> None:
        self.start(self.many_steps())

    async def many_steps(self) -> None:
        for _ in range(10):
            if self.world.pending:
                self.world.pending.pop(0).go_on()
                await asyncio.sleep(0.0001)

    def begin(self) -> None:
        count = min(self.chance.choice([1, 1, 1, 2, 3]), self.world.state.range_span)
        group = self.chance.choice([name for name in self.world.state.groups if name != CATALOG])
        self.requests.append((begin(f"request-{len(self.requests)}", count), group))
        self.start(self.begins(self.client(), *self.requests[-1]))

    def retry(self) -> None:
        if self.requests:
            again = pb.BeginTransactionRequest()
            first, group = self.chance.choice(self.requests)
            again.MergeFrom(first)
            again.is_retry = True
            self.start(self.begins(self.client(), again, group))

    async def begins(self, client: StatusRanges, request: pb.BeginTransactionRequest, group: str) -> None:
        looks = tuple(self.looks)
        answer = list((await answered(lambda calls: client.begin(calls, group), request)).txn_ids)
        if not request.is_retry:
            assert not any(each in older for older in looks for each in answer), "it began later"
        first = self.answers.setdefault(request.request_id, answer)
        if first is answer:
            self.open += answer
        elif all(map(self.is_kept, first)):
            assert first == answer, f"{request.request_id} took effect twice"

    def prepare(self) -> None:
        if self.open:
            txn_id = self.taken(self.open)
            prepare(self.world, txn_id)
            self.prepared.append(txn_id)

    def decide(self) -> None:
        """The prepare timestamp is some participant's clock, which may be far behind."""
        if self.prepared:
            txn_id = self.taken(self.prepared)
            commit_ts = decide(self.world, txn_id, self.chance.randrange(1, 60))
            self.acknowledged = max(self.acknowledged, commit_ts)
            self.decided.append(txn_id)

    def complete(self) -> None:
        if self.decided:
            txn_id = self.taken(self.decided)
            self.world.apply(self.range_of(txn_id), cmd.CompleteCommit(TxnId(txn_id), 1))

    def abort(self) -> None:
        if self.open:
            txn_id = self.taken(self.open)
            self.world.apply(self.range_of(txn_id), cmd.BeginAbort(TxnId(txn_id), None, CAUSE, 1))

    def forget(self) -> None:
        forget(self.world, self.chance.choice(sorted(self.world.services)))

    def tend(self) -> None:
        """The leader of a range looks whether one is to be added after it, or it is to be dropped."""
        self.world.services[self.chance.choice(sorted(self.world.services))]._tend_range()

    def add_group(self) -> None:
        if len(self.world.state.groups) < 5:
            self.world.add_group(f"group-{len(self.world.state.groups) - 1}")

    def move_on(self) -> None:
        self.start(self.client().move_on())

    def look_back(self) -> None:
        if self.open:
            self.start(self.looks_back(self.client(), TxnId(self.chance.choice(self.open))))

    async def looks_back(self, client: StatusRanges, txn_id: TxnId) -> None:
        """Transactions of other groups that had begun are older, none that begins later; none is forgotten early."""
        before = [each for ids in self.answers.values() for each in ids]
        try:
            older, forgotten = await client.older_than(txn_id), await client.forgotten()
        except Forgotten:
            return
        for each in before:
            beside = self.group_of(each) != self.group_of(txn_id)
            assert each in older or not (beside or each < txn_id), f"{each} had begun before {txn_id}"
        kept = [each for each in before if self.is_kept(each)]
        younger = [each for each in kept if each >= txn_id and self.group_of(each) == self.group_of(txn_id)]
        assert not any(each in older for each in younger)
        assert not any(each in forgotten for each in kept), "it is not forgotten"
        self.looks.append(older)

    def group_of(self, txn_id: int) -> str:
        return self.world.group_of_range[self.range_of(txn_id)]

    def news(self) -> None:
        self.client()._client.cluster.update(self.world.state)

    def snapshot(self) -> None:
        self.start(self.takes_snapshot(self.client()))

    async def takes_snapshot(self, client: StatusRanges) -> None:
        at_least = max(self.acknowledged, *self.snapshots, 0)
        at = await client.snapshot()
        assert at >= at_least, "it misses a commit that was acknowledged before, or is below an earlier snapshot"
        self.snapshots.add(at)

    def client(self) -> StatusRanges:
        """Some hear of everything late, because they seldom ask."""
        return self.clients[self.chance.choice([0] * 8 + [1] * 3 + [2])]

    def taken(self, some: list[int]) -> int:
        return some.pop(self.chance.randrange(len(some)))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.running.add(asyncio.create_task(work))


def tell(seed: int) -> Story:
    """One story. To look for more of them: `for seed in range(10_000): tell(seed)`."""
    chance = random.Random(seed)

    async def main() -> Story:
        story = Story(chance, chance.choice([1, 2, 3, 5]))
        await story.tell(chance.choice([100, 200, 400]))
        return story

    return run(main())


@settings(deadline=None, max_examples=150)
@given(st.randoms(use_true_random=False))
def test_snapshots_are_whole_and_begins_take_effect_once_whatever_the_order(chance: random.Random) -> None:
    async def main() -> None:
        await Story(chance, chance.choice([1, 2, 3])).tell(80)

    run(main())


def test_who_began_before_one_whose_range_goes_meanwhile_is_not_told_by_ids_of_another_group() -> None:
    chance = random.Random(965)

    async def main() -> None:
        await Story(chance, chance.choice([1, 2, 3])).tell(80)

    run(main())


def test_the_same_in_long_stories() -> None:
    seen: defaultdict[str, int] = defaultdict(int)
    for seed in range(60):
        story = tell(seed)
        seen["snapshots"] += len(story.snapshots)
        seen["commits"] += len(story.commits)
        seen["ranges added"] += len(story.world.tables) - 1
        seen["ranges dropped"] += len(story.world.tables) - len(story.world.services)
    assert min(seen.values()) >= 20, f"too little happened: {dict(seen)}"


# ---- registrations


def registering(calls: list[str]) -> int:
    return calls.count("txnstatus.TxnStatus/RegisterParticipants")


def test_registrations_of_one_moment_are_one_call_and_each_is_answered() -> None:
    async def main() -> None:
        world = World()
        ranges = world.ranges()
        ids = list(map(TxnId, await begun(ranges, 3)))
        world.calls.clear()
        asked = [ranges.register(txn_id, OWNER, "0.0", "air.flights") for txn_id in ids]
        others = ranges.register(ids[0], "bob", "0.0", "air.flights"), ranges.register(ids[0], OWNER, "7.0", "what")
        answers = await asyncio.gather(*asked, *others)
        assert answers[:3] == [None, None, None]
        assert isinstance(answers[3], NotAuthorized)
        assert isinstance(answers[4], InvalidArgument)
        assert registering(world.calls) == 1
        assert [list(world.tables[0].get(txn_id).participants) for txn_id in ids] == [["0.0"]] * 3
        assert await ranges.register(ids[0], OWNER, "0.0", "air.flights") is None
        assert registering(world.calls) == 2

    run(main())


def test_tables_that_join_a_transaction_at_one_moment_are_one_command() -> None:
    """Whoever asks for another owner is refused alone, and what is listed already costs nothing."""

    async def main() -> None:
        world = World()
        ranges = world.ranges()
        (txn_id,) = map(TxnId, await begun(ranges, 1))
        commands: list[cmd.Command] = []
        world.on_apply = lambda _number, command, _table: commands.append(command)
        assert await ranges.register(txn_id, OWNER, "0.0", "air.flights") is None
        names = {"0.0": "air.flights", "0.1": "air.weather", "0.2": "air.planes"}
        asked = [ranges.register(txn_id, OWNER, *each) for each in names.items()]
        *answers, refused = await asyncio.gather(*asked, ranges.register(txn_id, "bob", "0.3", "air.lines"))
        assert answers == [None, None, None]
        assert isinstance(refused, NotAuthorized)
        _, joined, _ = commands
        assert joined == cmd.RegisterParticipants(txn_id, OWNER, tuple(starmap(Participant, list(names.items())[1:])))
        assert world.tables[0].get(txn_id).participants == {
            each: Participant(each, name) for each, name in names.items()
        }

    run(main())


def test_registrations_with_other_ranges_are_other_calls() -> None:
    async def main() -> None:
        world = World(span=2)
        ranges = world.ranges()
        ids = list(map(TxnId, await begun(ranges, 4)))
        world.calls.clear()
        answers = await asyncio.gather(*(ranges.register(txn_id, OWNER, "0.0", "air.flights") for txn_id in ids))
        assert answers == [None] * 4
        assert registering(world.calls) == 2
        unknown = await asyncio.gather(
            ranges.register(TxnId(99), OWNER, "0.0", "air.flights"),
            ranges.register(ids[0], OWNER, "0.0", "air.flights"),
        )
        assert isinstance(unknown[0], NotFound)
        assert unknown[1] is None

    run(main())


def test_a_registration_that_is_given_up_takes_no_other_with_it() -> None:
    async def main() -> None:
        world = World()
        ranges = world.ranges()
        one, two = map(TxnId, await begun(ranges, 2))
        given_up = ranges.register(one, OWNER, "0.0", "air.flights")
        kept = ranges.register(two, OWNER, "0.0", "air.flights")
        await asyncio.sleep(0)
        given_up.cancel()
        assert await kept is None
        assert list(world.tables[0].get(two).participants) == ["0.0"]

    run(main())


def test_a_range_whose_leader_does_not_answer_fails_the_registrations_with_it() -> None:
    async def main() -> None:
        world = World()
        ranges = world.ranges()
        (txn_id,) = map(TxnId, await begun(ranges, 1))
        world.unavailable = {"status-0"}
        for answer in await asyncio.gather(
            *(ranges.register(txn_id, OWNER, f"0.{number}", "air.flights") for number in range(2)),
        ):
            assert isinstance(answer, Unavailable)
        assert not world.tables[0].get(txn_id).participants

    run(main())
