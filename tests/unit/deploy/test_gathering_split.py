"""A shard that was split, in logs that end at different moments: each table is in one shard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.harness.shards import create
from txndeploy.backup.gathering import gathered
from txndeploy.node.machines import group_machine
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard import commands as shard_cmd
from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.catalog.placement import Migration
from txnstatus.raft.migration import Arrives, Splits
from txnstatus.raft.parts import Parts, address, arriving, opening, releasing, splitting
from txnstatus.replicated import Rejected
from txnstatus.types import HybridClock

FIRST, SECOND = "group-0", "group-1"
NUMBER = 7


def catalog() -> CatalogState:
    parts = {"status-0": FIRST, shard_group(0): FIRST, shard_group(1): FIRST, shard_group(2): SECOND}
    groups = {"catalog": ("n1",), FIRST: ("n1",), SECOND: ("n1",)}
    return CatalogState(100, {}, groups, parts, 1, 2, version=NUMBER - 1)


def under_way(state: CatalogState) -> CatalogState:
    return replace(
        state,
        version=NUMBER,
        parts={**state.parts, shard_group(3): FIRST},
        migrations={shard_group(1): Migration(FIRST, NUMBER, 3)},
        origins={3: 1},
    )


def group(*parts: str) -> Parts:
    machine = group_machine(lambda: 100, HybridClock(lambda: 0))
    machine.apply([opening(part) for part in parts])
    return machine


def logs() -> dict[str, Parts]:
    groups = {FIRST: group("status-0", "shard-0", "shard-1"), SECOND: group("shard-2")}
    for name in ("air.a", "air.b"):
        made = create(name, f"made {name}", f"file:///lake/{name}")
        (outcome,) = groups[FIRST].apply([address("shard-1") + shard_cmd.encode(made)])
        assert not isinstance(outcome, Rejected)
    return groups


def split(machine: Parts) -> None:
    wanted = Splits("shard-1", NUMBER, "shard-3", ("1.1",))
    assert machine.apply([releasing("shard-1", NUMBER), splitting(wanted)]) == [None, None]


def tables(groups: dict[str, Parts]) -> dict[str, list[str]]:
    """Shard → the tables that it has, over all groups."""
    found: dict[str, list[str]] = {}
    for machine in groups.values():
        for part, each in machine.machines.items():
            if isinstance(each, ShardMachine):
                assert part not in found, f"{part} is in two logs"
                found[part] = sorted(table.table_id for table in each.shard.tables())
    return found


@pytest.mark.parametrize("left", [False, True])
def test_one_that_was_to_be_split_and_is_not_stays_whole(left: bool) -> None:
    groups = logs()
    if left:
        groups[FIRST].apply([releasing("shard-1", NUMBER)])
    after = gathered(under_way(catalog()), groups)
    assert not after.migrations
    assert after.parts["shard-3"] == FIRST, "it begins with nothing"
    assert tables(groups)["shard-1"] == ["1.0", "1.1"]
    assert gathered(after, groups) == after


@pytest.mark.parametrize("knows", [False, True])
def test_one_that_a_log_has_split_is_split(knows: bool) -> None:
    groups = logs()
    split(groups[FIRST])
    after = gathered(under_way(catalog()) if knows else catalog(), groups)
    assert (after.parts["shard-3"], after.origins, after.migrations) == (FIRST, {3: 1}, {})
    assert tables(groups) == {"shard-0": [], "shard-1": ["1.0"], "shard-2": [], "shard-3": ["1.1"]}
    assert after.version > NUMBER
    assert gathered(after, groups) == after


@pytest.mark.parametrize("left", [False, True])
def test_where_the_other_half_is_in_another_log_by_now_a_late_log_splits_it_too(left: bool) -> None:
    late, groups = logs(), logs()
    split(groups[FIRST])
    groups[FIRST].apply([releasing("shard-3", NUMBER + 2)])
    chunk, is_last = 0, False
    while not is_last:
        data, is_last, goes_on = groups[FIRST].migrations.released["shard-3"].chunk(chunk)
        groups[SECOND].apply([arriving(Arrives("shard-3", NUMBER + 2, chunk, data, is_last, goes_on))])
        chunk += 1
    if left:
        late[FIRST].apply([releasing("shard-1", NUMBER)])
    both = {FIRST: late[FIRST], SECOND: groups[SECOND]}
    after = gathered(catalog(), both)
    assert tables(both) == {"shard-0": [], "shard-1": ["1.0"], "shard-2": [], "shard-3": ["1.1"]}
    assert after.parts["shard-3"] == SECOND
    whole = both[FIRST].machines["shard-1"]
    assert isinstance(whole, ShardMachine)
    assert whole.shard.gone["1.1"].shard == 3
    assert gathered(after, both) == after
