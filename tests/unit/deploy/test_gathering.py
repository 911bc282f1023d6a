"""Shards in logs that end at different moments, as a node has them that is left alone: each is in one log again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.harness.lines import PART, Lines, chunks_of, written
from tests.unit.harness.notes import Notes, told
from txndeploy.backup.gathering import gathered
from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.catalog.placement import Migration
from txnstatus.raft.parts import Parts, forgetting, opening, releasing

OTHER = "shard-2"
FIRST, SECOND = "group-0", "group-1"
NUMBER = 7


def catalog(*, version: int = NUMBER - 2) -> CatalogState:
    """As of before the migration."""
    parts = {"status-0": FIRST, shard_group(0): FIRST, PART: FIRST, OTHER: SECOND}
    groups = {"catalog": ("n1",), FIRST: ("n1",), SECOND: ("n1",)}
    return CatalogState(100, {}, groups, parts, 1, 2, version=version)


def logs() -> dict[str, Parts]:
    groups = {FIRST: Parts(lambda _part: Lines()), SECOND: Parts(lambda _part: Lines())}
    groups[FIRST].apply([opening("shard-0"), opening(PART)])
    groups[SECOND].apply([opening(OTHER)])
    written(groups[FIRST], b"one", b"two")
    return groups


def migrate(source: Parts, target: Parts, *, number: int = NUMBER, come: int = 10) -> None:
    source.apply([releasing(PART, number)])
    target.apply(chunks_of(source, number)[:come])


def under_way(state: CatalogState) -> CatalogState:
    return replace(state, version=NUMBER, migrations={PART: Migration(SECOND, NUMBER)})


def check(state: CatalogState, groups: dict[str, Parts], where: str, *lines: bytes) -> None:
    after = gathered(state, groups)
    assert after.parts == {**state.parts, PART: where}
    assert after.migrations == {}
    assert [name for name, machine in groups.items() if PART in machine.machines] == [where]
    assert told(groups[where])[PART] == list(lines)
    assert after.version > max(groups[name].migrations.numbers.get(PART, 0) for name in groups)
    assert gathered(after, groups) == after


@pytest.mark.parametrize("knows", [False, True])
@pytest.mark.parametrize("come", [0, 1, 2])
def test_one_that_has_left_and_has_not_come_comes_back(knows: bool, come: int) -> None:
    """A catalog that had not heard of it would have it forgotten as one that is there."""
    groups, state = logs(), catalog()
    migrate(groups[FIRST], groups[SECOND], come=come)
    check(under_way(state) if knows else state, groups, FIRST, b"one", b"two")


@pytest.mark.parametrize("knows", [False, True])
def test_one_that_has_come_is_there(knows: bool) -> None:
    groups, state = logs(), catalog()
    migrate(groups[FIRST], groups[SECOND])
    written(groups[SECOND], b"three")
    check(under_way(state) if knows else state, groups, SECOND, b"one", b"two", b"three")


def test_one_that_a_late_log_still_has_is_where_it_has_come_to() -> None:
    groups, ahead, state = logs(), logs(), catalog()
    migrate(ahead[FIRST], groups[SECOND])
    written(groups[FIRST], b"acknowledged by nobody")
    check(state, groups, SECOND, b"one", b"two")


def test_one_that_the_catalog_has_elsewhere_is_where_the_last_of_it_is() -> None:
    """The log that it came to ends before it came."""
    groups = logs()
    state = replace(catalog(version=NUMBER + 1), parts={**catalog().parts, PART: SECOND})
    after = gathered(state, groups)
    assert after.parts[PART] == FIRST
    groups[FIRST].apply([releasing(PART, NUMBER)])
    check(state, groups, FIRST, b"one", b"two")


def test_where_nothing_is_amiss_nothing_changes() -> None:
    groups, state = logs(), catalog()
    assert gathered(state, groups) is state
    migrate(groups[FIRST], groups[SECOND])
    groups[FIRST].apply([forgetting(PART, NUMBER)])
    there = replace(state, parts={**state.parts, PART: SECOND}, version=NUMBER + 1)
    assert gathered(there, groups) is there


def test_one_of_which_nothing_is_left_stays_where_the_catalog_has_it() -> None:
    groups = {SECOND: Parts(lambda _part: Notes())}
    state = under_way(catalog())
    assert gathered(state, groups).parts == state.parts
