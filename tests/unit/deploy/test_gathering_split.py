"""A shard that was split, in logs that end at different moments: each table is in one shard."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.unit.harness.shards import create, ok
from txndeploy.backup.gathering import gathered
from txndeploy.node.machines import group_machine
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.placement import Migration
from txnstatus.errors import PlacedElsewhere
from txnstatus.id_sets import NO_IDS, below
from txnstatus.raft.migration import Arrives, Splits
from txnstatus.raft.parts import Parts, address, arriving, opening, releasing, splitting
from txnstatus.replicated import Rejected
from txnstatus.types import HybridClock, Timestamp, TxnId

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


def split(machine: Parts, *share: str) -> None:
    wanted = Splits("shard-1", NUMBER, "shard-3", share or ("1.1",))
    assert machine.apply([releasing("shard-1", NUMBER), splitting(wanted)]) == [None, None]


def move(groups: dict[str, Parts]) -> None:
    """What was split off goes to the other group."""
    groups[FIRST].apply([releasing("shard-3", NUMBER + 2)])
    chunk, is_last = 0, False
    while not is_last:
        data, is_last, goes_on = groups[FIRST].migrations.released["shard-3"].chunk(chunk)
        groups[SECOND].apply([arriving(Arrives("shard-3", NUMBER + 2, chunk, data, is_last, goes_on))])
        chunk += 1


def shard(groups: dict[str, Parts], part: str) -> ParticipantShard:
    (found,) = (machine.machines[part] for machine in groups.values() if part in machine.machines)
    assert isinstance(found, ShardMachine)
    return found.shard


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
    move(groups)
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


def test_a_table_that_a_late_log_has_not_heard_of_is_found_by_its_id_and_its_names() -> None:
    late, groups = logs(), logs()
    ok(shard(groups, "shard-1"), create("air.late", "made later", "file:///lake/late"))
    ok(shard(groups, "shard-1"), shard_cmd.RenameTable("1.2", "air.later", Timestamp(10), "renamed", NO_IDS))
    split(groups[FIRST], "1.2")
    move(groups)
    both = {FIRST: late[FIRST], SECOND: groups[SECOND]}
    after = gathered(catalog(), both)
    assert tables(both) == {"shard-0": [], "shard-1": ["1.0", "1.1"], "shard-2": [], "shard-3": ["1.2"]}
    whole, cluster = shard(both, "shard-1"), ClusterMap(after)
    for name in ("air.late", "air.later"):
        home = shard(both, shard_group(cluster.shard_by_hash(name)))
        for ask in (partial(home.table, name), partial(whole.table_by_id, "1.2")):
            with pytest.raises(PlacedElsewhere) as told:
                ask()
            assert told.value.shard == 3
    assert ok(whole, create("air.c", "another", "file:///lake/c")).table_id == "1.3", "no two tables have one id"
    assert gathered(after, both) == after


def test_a_table_that_shared_its_name_with_one_that_is_gone_since_is_in_one_shard() -> None:
    late, groups = logs(), logs()
    txn_id, locks = TxnId(5), (Lock("air.a", Mode.X),)
    for each in (shard(late, "shard-1"), shard(groups, "shard-1")):
        ok(each, shard_cmd.AcquireLocks(txn_id, "1.0", "ada", locks, Otherwise.REFUSED, Timestamp(1), begins=True))
        ok(each, shard_cmd.DropTable(txn_id, "1.0", "ada", NO_IDS), shard_cmd.BeginCommit(txn_id, "1.0", Timestamp(50)))
        ok(each, shard_cmd.FinalizeCommit(txn_id, "1.0", Timestamp(60)))
        ok(each, create("air.a", "anew", "file:///lake/anew"))
    retired = shard_cmd.Retire("1.0", Timestamp(70))
    ok(shard(groups, "shard-1"), shard_cmd.ForgetTxns(below(TxnId(6))), retired, shard_cmd.ForgetTable("1.0"))
    split(groups[FIRST], "1.2")
    move(groups)
    both = {FIRST: late[FIRST], SECOND: groups[SECOND]}
    after = gathered(catalog(), both)
    assert tables(both) == {"shard-0": [], "shard-1": ["1.1"], "shard-2": [], "shard-3": ["1.2"]}
    with pytest.raises(PlacedElsewhere):
        shard(both, "shard-1").table("air.a")
    assert gathered(after, both) == after
