"""Several state machines in one log: commands and chunks find theirs, and parts come and go with the log."""

from __future__ import annotations

import pytest

from tests.unit.harness.notes import Notes, restored, told
from txnstatus.errors import IllegalState
from txnstatus.raft.parts import Parts, address, closing, opening, split
from txnstatus.replicated import Rejected


def made(*parts: str) -> Parts:
    group = Parts(lambda _part: Notes())
    assert group.apply([opening(part) for part in parts]) == [None] * len(parts)
    return group


def test_a_command_reaches_the_part_that_it_is_addressed_to() -> None:
    group = made("shard-0", "range-0")
    assert group.apply([address("range-0") + b"one", address("shard-0") + b"two"]) == [1, 1]
    assert told(group) == {"shard-0": [b"two"], "range-0": [b"one"]}


def test_what_is_for_no_part_is_refused_and_changes_nothing() -> None:
    group = made("shard-0")
    (outcome,) = group.apply([address("shard-1") + b"one"])
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.error, IllegalState)
    assert told(group) == {"shard-0": []}


def test_a_part_opens_once_whoever_asks_how_often() -> None:
    group = made("range-0")
    group.apply([address("range-0") + b"one"])
    assert group.apply([opening("range-0")]) == [None]
    assert told(group) == {"range-0": [b"one"]}


def test_a_part_that_was_closed_never_begins_anew() -> None:
    """A leader whose map is old would open it again, and ids would be given out twice."""
    group = made("range-0", "range-1")
    assert group.apply([closing("range-0"), closing("range-0")]) == [None, None]
    (again,) = group.apply([opening("range-0")])
    assert isinstance(again, Rejected)
    assert told(group) == {"range-1": []}
    assert group.apply([opening("range-2"), opening("shard-0")]) == [None, None], "others do"


def test_whoever_serves_the_parts_hears_that_some_came_or_went() -> None:
    group, heard = Parts(lambda _part: Notes()), list[list[str]]()
    group.on_change = lambda: heard.append(list(group.machines))
    group.apply([opening("range-0"), opening("range-0"), opening("range-1"), closing("range-0")])
    assert heard == [["range-0"], ["range-0", "range-1"], ["range-1"]]


def test_a_snapshot_holds_all_parts_and_those_that_never_come_again() -> None:
    group = made("range-0", "shard-0", "range-1")
    group.apply([address("range-1") + b"one", closing("range-0"), address("shard-0") + b"two"])
    other = restored(Parts(lambda _part: Notes()), list(group.snapshot()))
    assert told(other) == told(group)
    assert list(other.snapshot()) == list(group.snapshot())
    (again,) = other.apply([opening("range-0")])
    assert isinstance(again, Rejected)


def test_a_snapshot_is_the_state_as_of_when_it_was_asked_for() -> None:
    group = made("range-0")
    chunks = group.snapshot()
    group.apply([address("range-0") + b"late", opening("range-1")])
    assert told(restored(Parts(lambda _part: Notes()), list(chunks))) == {"range-0": []}


def test_parts_that_stay_keep_their_machines_when_a_snapshot_is_restored() -> None:
    """Their services hold on to them."""
    leader = made("range-0", "range-1", "range-2")
    leader.apply([address("range-1") + b"one", closing("range-0")])
    follower = made("range-0", "range-1")
    before = follower.machines["range-1"]
    restored(follower, list(leader.snapshot()))
    assert follower.machines["range-1"] is before
    assert told(follower) == told(leader)


def test_a_part_that_opens_while_a_snapshot_with_it_is_restored_has_the_state_of_the_snapshot() -> None:
    """A replica may have entries to apply while a snapshot that has more comes."""
    leader, follower = made("range-0", "range-1"), made("range-0")
    leader.apply([address("range-1") + b"one"])
    restoring, (header, *rest) = follower.restoring(), leader.snapshot()
    restoring.add(header)
    follower.apply([opening("range-1"), address("range-1") + b"early"])
    served = follower.machines["range-1"]
    for chunk in rest:
        restoring.add(chunk)
    restoring.finish()
    assert follower.machines["range-1"] is served
    assert told(follower) == told(leader)


def test_until_a_snapshot_is_whole_the_state_is_what_it_was() -> None:
    leader, follower = made("range-0", "range-1"), made("range-0")
    leader.apply([address("range-0") + b"one"])
    restoring = follower.restoring()
    for chunk in leader.snapshot():
        restoring.add(chunk)
    assert told(follower) == {"range-0": []}


@pytest.mark.parametrize("chunks", [[b""], [address("range-0") + b"x"], [address("") + b"\x08\x63"], []])
def test_what_is_no_groups_snapshot_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"."):
        restored(made("range-0"), chunks)


def test_a_chunk_for_a_part_that_the_snapshot_does_not_have_is_refused() -> None:
    restoring = made("range-0").restoring()
    restoring.add(next(made("range-0").snapshot()))
    with pytest.raises(ValueError, match="range-7"):
        restoring.add(address("range-7") + b"x")


def test_an_address_is_what_split_takes_off() -> None:
    assert split(address("status-12") + b"rest") == ("status-12", b"rest")
    assert split(address("") + b"rest") == ("", b"rest")
