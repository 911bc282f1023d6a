"""Parts that leave one log for another: each state is in one of them, whatever is asked for twice, or too late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.harness.lines import PART, Lines, chunks_of, written
from tests.unit.harness.notes import restored, told
from txnstatus.errors import IllegalState, Unavailable
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.machine import Restoring, StateMachine
from txnstatus.raft.migration import Arrives
from txnstatus.raft.parts import PartDriver, Parts, address, arriving, forgetting, opening, releasing
from txnstatus.raft.replica import MAX_BATCH_BYTES
from txnstatus.replicated import Rejected


def empty() -> Parts:
    return Parts(lambda _part: Lines())


def a_group(*parts: str) -> Parts:
    group = empty()
    group.apply([opening(part) for part in parts])
    return group


def migrate(source: Parts, target: Parts, number: int) -> None:
    assert source.apply([releasing(PART, number)]) == [None]
    for command in chunks_of(source, number):
        assert target.apply([command]) == [None]


def error(outcomes: Sequence[object]) -> Exception:
    (outcome,) = outcomes
    assert isinstance(outcome, Rejected)
    return outcome.error


def test_a_part_goes_with_all_that_it_has() -> None:
    source, target = written(a_group("shard-0", PART), b"one", b"two"), a_group("shard-2")
    migrate(source, target, 5)
    assert told(source) == {"shard-0": []}
    assert told(target) == {"shard-2": [], PART: [b"one", b"two"]}
    written(target, b"three")
    assert told(target)[PART] == [b"one", b"two", b"three"]


def test_what_is_for_a_part_that_has_left_is_to_be_asked_elsewhere() -> None:
    source = written(a_group(PART), b"one")
    source.apply([releasing(PART, 5)])
    assert type(error(source.apply([address(PART) + b"late"]))) is Unavailable
    assert source.migrations.released[PART].chunk(1) == (b"one", True, False), "and changes nothing"


def test_a_part_does_not_leave_again_by_what_was_asked_before() -> None:
    source, target = written(a_group("shard-0", PART), b"one"), a_group("shard-2")
    migrate(source, target, 5)
    migrate(target, source, 8)
    assert source.apply([releasing(PART, 5)]) == [None]
    assert told(source)[PART] == [b"one"]
    assert target.apply(chunks_of(target, 5)[:1]) == [None]
    assert PART not in target.machines, "nor does it come again"


def test_a_part_is_opened_by_its_last_chunk_alone() -> None:
    source, target = written(a_group(PART), b"one", b"two"), a_group("shard-2")
    source.apply([releasing(PART, 5)])
    first, second, third = chunks_of(source, 5)
    heard = list[list[str]]()
    target.on_change = lambda: heard.append(list(target.machines))
    assert target.apply([first, second]) == [None, None]
    assert type(error(target.apply([address(PART) + b"early"]))) is IllegalState
    assert target.apply([third]) == [None]
    assert heard == [["shard-2", PART]]


def test_a_leader_that_goes_on_begins_anew() -> None:
    source, target = written(a_group(PART), b"one", b"two"), a_group("shard-2")
    source.apply([releasing(PART, 5)])
    first, second, third = chunks_of(source, 5)
    target.apply([first, second])
    target.apply([first])
    assert type(error(target.apply([third]))) is IllegalState, "one is missing"
    assert target.apply([second, third]) == [None, None]
    assert told(target)[PART] == [b"one", b"two"]
    assert target.apply([first]) == [None]
    assert told(target)[PART] == [b"one", b"two"], "what comes twice changes nothing"


def test_a_part_that_comes_never_takes_the_place_of_one_that_is_there() -> None:
    target = written(a_group(PART), b"own")
    outcome = target.apply([arriving(Arrives(PART, 5, 0, b"lines", is_last=True))])
    assert type(error(outcome)) is IllegalState
    assert told(target)[PART] == [b"own"]


def test_a_state_that_cannot_be_read_is_refused_and_may_come_again() -> None:
    source, target = written(a_group(PART), b"one"), a_group("shard-2")
    source.apply([releasing(PART, 5)])
    wrong = arriving(Arrives(PART, 5, 0, b"of a later version", is_last=True))
    assert type(error(target.apply([wrong]))) is IllegalState
    assert PART not in target.machines
    assert target.apply(chunks_of(source, 5)) == [None, None]
    assert told(target)[PART] == [b"one"]


def test_an_old_leader_opens_no_empty_part_in_place_of_one_that_left_or_came() -> None:
    source, target = written(a_group(PART), b"one"), a_group("shard-0")
    migrate(source, target, 5)
    assert type(error(source.apply([opening(PART)]))) is IllegalState
    assert target.apply([opening(PART)]) == [None]
    assert told(target)[PART] == [b"one"]


def test_what_is_left_behind_is_kept_until_it_is_there() -> None:
    source = written(a_group(PART), b"one")
    source.apply([releasing(PART, 5), forgetting(PART, 4)])
    assert PART in source.migrations.released
    source.apply([forgetting(PART, 5), forgetting(PART, 5)])
    assert not source.migrations.released
    assert source.apply([releasing(PART, 5)]) == [None], "it has left, by that"


def test_who_serves_hears_that_a_part_came_before_anything_applies_to_it() -> None:
    source, heard = written(a_group(PART), b"one"), list[list[bytes]]()

    def arrives(machine: StateMachine) -> None:
        assert isinstance(machine, Lines)
        heard.append(list(machine.told))

    target = Parts(lambda _part: Lines(), arrives)
    migrate(source, target, 5)
    assert heard == [[b"one"]]


@pytest.mark.parametrize("come", [0, 1, 2, 3])
def test_a_snapshot_has_what_is_on_its_way(come: int) -> None:
    source, target = (
        written(a_group("shard-0", PART), b"one", b"two"),
        written(a_group("shard-2"), b"x", part="shard-2"),
    )
    source.apply([releasing(PART, 5)])
    commands = chunks_of(source, 5)
    target.apply(commands[:come])
    source, target = (restored(empty(), list(each.snapshot())) for each in (source, target))
    assert chunks_of(source, 5) == commands, "it can be read from where it was"
    target.apply(commands[come:])
    assert told(target) == {"shard-2": [b"x"], PART: [b"one", b"two"]}
    assert list(restored(empty(), list(target.snapshot())).snapshot()) == list(target.snapshot())


def test_a_replica_that_lags_gives_up_a_part_by_a_snapshot() -> None:
    source, behind = written(a_group("shard-0", PART), b"one"), written(a_group("shard-0", PART), b"one")
    target, ahead = a_group("shard-2"), a_group("shard-2")
    migrate(source, target, 5)
    heard = list[list[str]]()
    behind.on_change = lambda: heard.append(list(behind.machines))
    restored(behind, list(source.snapshot()))
    restored(ahead, list(target.snapshot()))
    assert heard == [["shard-0"]]
    assert told(ahead)[PART] == [b"one"]


def test_a_part_that_comes_while_a_snapshot_is_restored_is_one() -> None:
    """A replica may have entries to apply while a snapshot that has more comes: who serves the part keeps it."""
    source, leader, follower = written(a_group(PART), b"one"), a_group("shard-2"), a_group("shard-2")
    source.apply([releasing(PART, 5)])
    commands = chunks_of(source, 5)
    leader.apply(commands)
    written(leader, b"two")
    restoring, (header, *rest) = follower.restoring(), leader.snapshot()
    restoring.add(header)
    follower.apply(commands)
    serves = follower.machines[PART]
    for chunk in rest:
        restoring.add(chunk)
    restoring.finish()
    assert follower.machines[PART] is serves
    assert told(follower) == told(leader)


@pytest.mark.parametrize("size", [MAX_BATCH_BYTES - 1, MAX_BATCH_BYTES, 3 * MAX_BATCH_BYTES + 1])
def test_a_chunk_that_no_entry_has_room_for_comes_in_pieces(size: int) -> None:
    """Rows in memory are one chunk: a shard that had a megabyte of them left, and never arrived."""
    large = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    source, target = written(a_group(PART), b"one", large, b"", b"two"), a_group("shard-2")
    source.apply([releasing(PART, 5)])
    commands = chunks_of(source, 5)
    assert max(map(len, commands)) <= MAX_BATCH_BYTES
    for command in commands:
        assert target.apply([command]) == [None]
        target = restored(empty(), list(target.snapshot()))
    assert told(target)[PART] == [b"one", large, b"", b"two"]


@pytest.mark.parametrize("applied", [1, 2, 3, 4])
def test_a_part_that_goes_and_comes_back_while_a_snapshot_is_restored_has_the_snapshots_state(applied: int) -> None:
    """Where entries had taken it away, the node died; where they had brought it back, what followed was lost."""
    leader, follower, other = written(a_group(PART), b"one"), written(a_group(PART), b"one"), a_group("shard-2")
    leader.apply([releasing(PART, 5)])
    other.apply(chunks_of(leader, 5))
    other.apply([releasing(PART, 8)])
    entries = [releasing(PART, 5), *chunks_of(other, 8)]
    leader.apply(entries[1:])
    written(leader, b"two")
    restoring, (header, *rest) = follower.restoring(), leader.snapshot()
    restoring.add(header)
    for entry in entries[:applied]:
        follower.apply([entry])
    for chunk in rest:
        restoring.add(chunk)
    restoring.finish()
    assert told(follower) == told(leader) == {PART: [b"one", b"two"]}
    written(follower, b"three")
    assert told(follower) == {PART: [b"one", b"two", b"three"]}, "by its address, too"


class Leading:
    """A group's driver that leads, and proposes nothing."""

    group = SimpleNamespace(group="group-0")
    not_the_leader = unsettled_seconds = None

    def __init__(self) -> None:
        self.submitted: list[bytes] = []

    def check_lease(self) -> None: ...

    def submit(self, commands: Sequence[bytes], _ended: Callable[..., None], *, linger: bool = False) -> None:
        self.submitted += commands


def test_who_served_a_part_before_it_went_and_came_back_answers_and_proposes_nothing_more() -> None:
    """A call that waits for another group meanwhile would go on with what the part was before."""
    group, other, leading = written(a_group(PART), b"one"), a_group("shard-2"), Leading()
    before = PartDriver(cast(RaftDriver, leading), PART, group)
    before.check_lease()
    migrate(group, other, 5)
    with pytest.raises(Unavailable, match="shard-1"):
        before.check_lease()
    migrate(other, group, 8)
    after = PartDriver(cast(RaftDriver, leading), PART, group)
    with pytest.raises(Unavailable, match="shard-1"):
        before.check_lease()
    ended: Any = None
    with pytest.raises(Unavailable, match="shard-1"):
        before.submit([b"late"], ended)
    after.check_lease()
    after.submit([b"two"], ended)
    assert leading.submitted == [address(PART) + b"two"]


def test_what_comes_is_taken_over_as_it_comes_and_not_all_at_its_end() -> None:
    """Nothing else of the group applies while an entry does: the last one would take as long as all together."""
    source, taken = written(a_group(PART), b"one", b"two", b"three"), list[int]()

    class Counting(Lines):
        def restoring(self) -> Restoring:
            inner, chunks = super().restoring(), count(1)

            class Told:
                def add(self, chunk: bytes) -> None:
                    taken.append(next(chunks))
                    inner.add(chunk)

                def finish(self) -> None:
                    inner.finish()

            return Told()

    target = Parts(lambda _part: Counting())
    source.apply([releasing(PART, 5)])
    for number, command in enumerate(chunks_of(source, 5), 1):
        target.apply([command])
        assert taken == [*range(1, number + 1)]
    assert told(target)[PART] == [b"one", b"two", b"three"]


def test_a_chunk_that_cannot_be_read_ends_it_at_once() -> None:
    source, target = written(a_group(PART), b"one"), a_group("shard-2")
    source.apply([releasing(PART, 5)])
    wrong = arriving(Arrives(PART, 5, 0, b"of a later version", is_last=False))
    assert type(error(target.apply([wrong]))) is IllegalState
    assert not target.migrations.arriving
    assert target.apply(chunks_of(source, 5)) == [None, None]
