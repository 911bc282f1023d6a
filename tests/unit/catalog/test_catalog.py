"""The catalog: every change, asked for once, again, and where it may not be; and its wire form."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.harness.catalogs import asked, draining, joining, move, ok, refused, spread, swap
from tests.unit.harness.cluster import BOTH, new_catalog
from txnstatus import features
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CATALOG, CatalogState, Replacement, from_wire, to_wire
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.founding import founding_id, initial, name_in, placed
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.placement import Move
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.replicated import Rejected
from txnstatus.revocation import MAX_REVOKED
from txnstatus.types import Timestamp, TxnId

KEY = b"0123456789abcdef" * 2


def follow(after: int) -> pb.CatalogCommand.AddRange:
    return pb.CatalogCommand.AddRange(after=after)


def drop(number: int, last_commit: int = 0) -> pb.CatalogCommand.DropRange:
    return pb.CatalogCommand.DropRange(number=number, last_commit_ts=last_commit)


# ---- the beginning


def test_a_cluster_begins_with_a_catalog_one_range_and_its_shards() -> None:
    state = new_catalog().state
    assert set(state.groups) == {CATALOG, "group-0"}
    assert state.parts_of("group-0") == [*(f"shard-{shard}" for shard in range(5)), "status-0"]
    assert (state.ranges, state.next_range, state.floor, state.version) == ((0,), 1, 0, 1)
    assert state.replacement is None


def test_every_node_computes_the_same_beginning() -> None:
    assert to_wire(new_catalog().state) == to_wire(new_catalog().state)


def test_groups_go_to_the_nodes_that_have_the_role() -> None:
    nodes = {"s": NodeInfo("s:1", ("status",)), "p": NodeInfo("p:1", ("participant",)), "m": NodeInfo("m:1", ())}
    state = initial(nodes, participant_shards=2, replication=3, range_span=100, options=Options())
    assert state.groups == {CATALOG: ("s",), "group-0": ("s",), "group-1": ("p",)}
    assert state.parts == {"status-0": "group-0", "shard-0": "group-1", "shard-1": "group-1"}


@pytest.mark.parametrize(
    ("groups", "parts"),
    [
        (1, [["shard-0", "shard-1", "status-0"]]),
        (2, [["shard-1", "status-0"], ["shard-0", "status-1"]]),
        (3, [["status-0"], ["shard-1"], ["shard-0"]]),
    ],
)
def test_shards_are_spread_over_the_groups_from_the_last_one_on(groups: int, parts: list[list[str]]) -> None:
    state = initial(
        {f"n{number}": NodeInfo(f"n{number}:1", BOTH) for number in range(3)},
        participant_shards=2,
        replication=3,
        range_span=100,
        options=Options(),
        groups=groups,
    )
    assert [state.parts_of(f"group-{number}") for number in range(groups)] == parts
    assert {state.replicas(part) for part in state.parts_of("group-0")} == {state.groups["group-0"]}


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 40))
def test_replicas_and_first_members_spread_evenly(nodes: int, replication: int, groups: int) -> None:
    names = [f"n{number}" for number in range(nodes)]
    members = [placed(names, number, replication) for number in range(groups)]
    for each in members:
        assert len(each) == len(set(each)) == min(replication, nodes)
    for counts in (
        [sum(each[0] == name for each in members) for name in names],
        [sum(name in each for each in members) for name in names],
    ):
        assert max(counts) - min(counts) <= min(replication, nodes)
    firsts = [sum(each[0] == name for each in members) for name in names]
    assert max(firsts) - min(firsts) <= 1


# ---- groups


def test_each_group_has_ranges_of_its_own_which_follow_each_other() -> None:
    catalog = spread(2, shards=4)
    assert catalog.state.ranges_of == {"group-0": (0,), "group-1": (1,)}
    state = ok(catalog, add_range=follow(0))
    state = ok(catalog, add_range=follow(1))
    assert state.ranges_of == {"group-0": (0, 2), "group-1": (1, 3)}
    assert state.last_ranges == {"group-0": 2, "group-1": 3}
    assert state.begins_in("group-1") == (1, 3)
    assert type(refused(catalog, drop_range=drop(2))) is IllegalState, "the last of its group"
    assert ok(catalog, drop_range=drop(1)).begins_in("group-1") == (3,)


def test_a_group_that_is_added_has_shards_and_gets_ranges_with_the_next_one_of_the_first_group() -> None:
    catalog = spread(2, shards=4)
    state = ok(catalog, add_group={"name": "group-2"})
    assert state.parts_of("group-2") == ["shard-4", "shard-5"]
    assert state.groups["group-2"] == ("n2", "n0", "n1"), "another node leads it than the groups before"
    assert state.begins_in("group-2") == (0,), "until then transactions begin in the first"
    assert ok(catalog, add_range=follow(1)).begins_in("group-2") == (0,)
    state = ok(catalog, add_range=follow(0))
    assert state.ranges_of == {"group-0": (0, 3), "group-1": (1, 2), "group-2": (4,)}
    assert state.begins_in("group-2") == [0, 4], "what began meanwhile is found, and nothing begins before 0 is full"
    state = ok(catalog, add_range=follow(3))
    assert state.begins_in("group-2") == [0, 4]
    ok(catalog, drop_range=drop(0))
    assert ok(catalog, add_range=follow(4)).begins_in("group-2") == [4, 6]


def test_a_group_is_added_once_and_under_the_next_name() -> None:
    catalog = spread(2, shards=4)
    for name in ("group-3", "group-02", "group", "", CATALOG):
        assert type(refused(catalog, add_group={"name": name})) is InvalidArgument
    ok(catalog, add_group={"name": "group-2"})
    ok(catalog, changes=False, add_group={"name": "group-2"})
    ok(catalog, changes=False, add_group={"name": "group-0"})
    ok(catalog, replace_node=swap("n2", "n9"))
    assert type(refused(catalog, add_group={"name": "group-3"})) is IllegalState


def test_a_database_is_placed_in_a_group_that_has_shards() -> None:
    catalog = spread(3, shards=2)
    for group in ("group-0", "group-9", CATALOG):
        error = refused(catalog, place_database={"database": "air", "group": group})
        assert type(error) is InvalidArgument
        assert "group-1, group-2" in error.message
    for name in ("air.flights", "", "a/b"):
        assert type(refused(catalog, place_database={"database": name, "group": "group-1"})) is InvalidArgument
    assert ok(catalog, place_database={"database": "air", "group": "group-1"}).placements == {"air": "group-1"}
    ok(catalog, changes=False, place_database={"database": "air", "group": "group-1"})
    assert ok(catalog, place_database={"database": "air", "group": "group-2"}).placements == {"air": "group-2"}
    assert ok(catalog, place_database={"database": "air", "group": ""}).placements == {}
    ok(catalog, changes=False, place_database={"database": "air"})


def test_a_group_that_is_added_where_ranges_are_kept_apart_has_none() -> None:
    catalog = spread(3, shards=2)
    ok(catalog, add_group={"name": "group-3"})
    state = ok(catalog, add_range=follow(0))
    assert state.ranges_of == {"group-0": (0, 1)}
    assert state.parts_of("group-3") == ["shard-2"]


# ---- ranges


def test_ranges_are_added_one_after_the_other_each_once() -> None:
    catalog = new_catalog()
    assert ok(catalog, add_range=follow(0)).ranges == (0, 1)
    ok(catalog, changes=False, add_range=follow(0))
    error = refused(catalog, add_range=follow(2))
    assert type(error) is IllegalState
    assert "the next one is 2" in error.message
    state = ok(catalog, add_range=follow(1))
    assert state.parts["status-2"] == state.parts["status-0"], "in the log of the ranges before it"


def test_a_dropped_range_leaves_its_last_commit_and_its_number() -> None:
    catalog = new_catalog()
    for number in (0, 1, 2):
        ok(catalog, add_range=follow(number))
    assert ok(catalog, drop_range=drop(1, 500)).floor == 500
    state = ok(catalog, drop_range=drop(0, 300))
    assert (state.ranges, state.floor) == ((2, 3), 500), "the highest of them"
    assert [state.range_was_dropped(number) for number in range(5)] == [True, True, False, False, False]
    for number in (0, 1):
        ok(catalog, changes=False, drop_range=drop(number, 9000))
        ok(catalog, changes=False, add_range=follow(number))


@pytest.mark.parametrize("number", [1, 2, 2**32 - 1])
def test_the_last_range_stays_and_so_does_what_is_not_there(number: int) -> None:
    """Something must always be able to begin."""
    catalog = new_catalog()
    ok(catalog, add_range=follow(0))
    assert type(refused(catalog, drop_range=drop(number))) is IllegalState


@pytest.mark.parametrize(("txn_id", "number"), [(0, 0), (99, 0), (100, 1), (2**62, 2**62 // 100), (-1, -1)])
def test_the_range_follows_from_the_id(txn_id: int, number: int) -> None:
    assert new_catalog().state.range_of(TxnId(txn_id)) == number


# ---- options


def test_an_option_is_set_for_good() -> None:
    catalog = new_catalog()
    option = pb.CatalogCommand.SetOption(name="retention_ms", value=5)
    assert ok(catalog, set_option=option).options.retention_ms == 5
    ok(catalog, changes=False, set_option=option)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("retention", 5, NotFound),
        ("retention_ms", -1, InvalidArgument),
        ("retention_ms", 2**63 - 1, InvalidArgument),
        ("keepalive_min_ms", 30_001, InvalidArgument),
    ],
)
def test_an_option_that_cannot_be_is_refused(name: str, value: int, kind: type[TxnError]) -> None:
    error = refused(new_catalog(), set_option=pb.CatalogCommand.SetOption(name=name, value=value))
    assert type(error) is kind
    assert name in error.message


# ---- replacing a node


def test_a_replacement_from_beginning_to_end() -> None:
    catalog = new_catalog(groups=3)
    before = catalog.state
    state = ok(catalog, replace_node=swap("n2", "n9"))
    assert state.replacement == Replacement("n2", "n9")
    assert state.nodes == {**before.nodes, "n9": NodeInfo("host9:7051", BOTH)}
    assert state.groups == before.groups, "nothing has moved"
    affected = [name for name, members in state.groups.items() if "n2" in members]
    assert len(affected) > 2
    for group in affected:
        assert state.replicas(group) == (*before.groups[group], "n9"), "each of them may lead it"
        error = refused(catalog, finish_replacement={})
        assert type(error) is IllegalState
        assert group in error.message
        moved = ok(catalog, move_replica=move(group)).groups[group]
        assert moved == tuple("n9" if member == "n2" else member for member in before.groups[group])
        ok(catalog, changes=False, move_replica=move(group))
    state = ok(catalog, finish_replacement={})
    assert state.replacement is None
    assert list(state.nodes) == ["n1", "n3", "n4", "n9"]
    assert not any("n2" in members for members in state.groups.values())
    ok(catalog, changes=False, finish_replacement={})


def test_one_replacement_at_a_time() -> None:
    catalog = new_catalog()
    ok(catalog, replace_node=swap("n2", "n9"))
    ok(catalog, changes=False, replace_node=swap("n2", "n9"))
    for other in (swap("n3", "n8", "host8:7051"), swap("n2", "n8", "host8:7051")):
        error = refused(catalog, replace_node=other)
        assert type(error) is IllegalState
        assert "n9 is still taking the place of n2" in error.message
        assert error.hint


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (swap("n7", "n9"), NotFound),
        (swap("n2", "n3"), AlreadyExists),
        (swap("n2", "n2"), AlreadyExists),
        (swap("n2", "n9", "host3:7051"), AlreadyExists),
        (swap("n2", "n9", ""), InvalidArgument),
    ],
)
def test_a_replacement_that_cannot_be_is_refused(wanted: pb.CatalogCommand.ReplaceNode, kind: type[TxnError]) -> None:
    assert type(refused(new_catalog(), replace_node=wanted)) is kind


def test_the_new_node_may_have_the_old_ones_address() -> None:
    assert ok(new_catalog(), replace_node=swap("n2", "n9", "host2:7051")).nodes["n9"].address == "host2:7051"


def test_nothing_moves_without_a_replacement_or_a_group() -> None:
    catalog = new_catalog()
    assert type(refused(catalog, move_replica=move(CATALOG))) is IllegalState
    ok(catalog, replace_node=swap("n2", "n9"))
    assert type(refused(catalog, move_replica=move("group-77"))) is IllegalState


def test_what_comes_late_of_one_replacement_moves_nothing_in_the_next() -> None:
    """A node that had been asked for its place was taken for one that had left, and closed its replica."""
    catalog = new_catalog()
    ok(catalog, replace_node=swap("n2", "n9"))
    for group in [name for name, members in catalog.state.groups.items() if "n2" in members]:
        ok(catalog, move_replica=move(group))
    ok(catalog, finish_replacement={})
    ok(catalog, replace_node=swap("n9", "n8", "host8:7051"))
    error = refused(catalog, move_replica=move(CATALOG))
    assert type(error) is IllegalState
    assert "n2 by n9" in error.message


# ---- whatever comes

NAMES = st.sampled_from(["n1", "n2", "n8", "n9"])
GROUPS = st.sampled_from([CATALOG, "group-0", "status-0", "nothing"])
COMMANDS = st.one_of(
    st.builds(lambda number: pb.CatalogCommand(add_range=follow(number)), st.integers(0, 4)),
    st.builds(
        lambda number, ts: pb.CatalogCommand(drop_range=drop(number, ts)), st.integers(0, 4), st.integers(0, 1000)
    ),
    st.builds(
        lambda name, value: pb.CatalogCommand(set_option=pb.CatalogCommand.SetOption(name=name, value=value)),
        st.sampled_from(["retention_ms", "keepalive_min_ms", "nothing"]),
        st.integers(-5, 2000),
    ),
    st.builds(lambda old, new: pb.CatalogCommand(replace_node=swap(old, new, f"{new}:1")), NAMES, NAMES),
    st.builds(lambda group, old, new: pb.CatalogCommand(move_replica=move(group, old, new)), GROUPS, NAMES, NAMES),
    st.just(pb.CatalogCommand(finish_replacement={})),
    st.builds(lambda node: pb.CatalogCommand(add_node=joining(node)), NAMES),
    st.builds(lambda node, drain: pb.CatalogCommand(drain_node=draining(node, drain)), NAMES, st.integers(0, 2)),
    st.builds(lambda node: pb.CatalogCommand(remove_node={"node_id": node}), NAMES),
    st.builds(lambda stops: pb.CatalogCommand(rebalance={"stops": stops}), st.booleans()),
    st.builds(
        lambda name: pb.CatalogCommand(add_group={"name": name}), st.sampled_from(["group-1", "group-2", CATALOG, ""])
    ),
).map(cmd.from_wire)


@settings(max_examples=200)
@given(st.lists(COMMANDS, max_size=40))
def test_replicas_agree_and_the_catalog_stays_whole_whatever_is_asked(commands: list[cmd.Command]) -> None:
    """The second replica is made anew from the first one's wire form at every step."""
    one = new_catalog(3, shards=2)
    two = new_catalog(3, shards=2)
    floor = Timestamp(0)
    for command in commands:
        before = one.state
        outcome = one.apply(command)
        assert _told(outcome) == _told(two.apply(command))
        state = one.state
        assert state.version - before.version == (state != before)
        assert state.floor >= floor
        floor = state.floor
        assert all(state.begins_in(group) for group in state.groups), "something can always begin"
        assert state.ranges_of.keys() >= {before.parts[part] for part in before.parts if part.startswith("status-")}
        for members in state.groups.values():
            assert len(members) == len(set(members)) == 3
            assert set(members) <= set(state.nodes)
        assert set(state.parts.values()) <= state.groups.keys()
        data = to_wire(state).SerializeToString(deterministic=True)
        two.restore(data)
        assert two.state == state
        assert to_wire(two.state).SerializeToString(deterministic=True) == data


def _told(outcome: object) -> object:
    """What makes two outcomes alike; the order of a mapping does not."""
    return outcome if isinstance(outcome, CatalogState) else str(outcome)


def test_a_command_of_a_newer_release_is_refused() -> None:
    with pytest.raises(ValueError, match="no CatalogCommand of this version"):
        asked()


# ---- identity


def test_the_first_founding_says_which_cluster_this_is_for_good() -> None:
    drawn = [
        replace(replace(new_catalog().state, version=0), cluster_id=founding_id("local", number)) for number in (1, 2)
    ]
    catalog = Catalog(replace(new_catalog().state, version=0))
    for state in drawn:
        catalog.apply(cmd.Found(state))
    assert catalog.state.cluster_id == f"local.{1:032x}"
    assert name_in(catalog.state.cluster_id) == "local"


def test_what_another_cluster_says_is_not_taken_for_news() -> None:
    mine, other = (
        replace(replace(new_catalog().state, version=0), cluster_id=founding_id("local", number)) for number in (1, 2)
    )
    cluster = ClusterMap(mine)
    with pytest.raises(InvalidArgument, match=rf"{other.cluster_id}.*{mine.cluster_id}"):
        cluster.update(replace(other, version=99))
    assert cluster.state is mine


# ---- keys of tickets


def test_a_key_of_tickets_follows_another_once_and_the_last_two_count() -> None:
    catalog = new_catalog()
    assert catalog.state.ticket_key == 0
    assert ok(catalog, turn_ticket_key={"after": 0, "key": KEY}).ticket_keys == {1: KEY}
    ok(catalog, changes=False, turn_ticket_key={"after": 0, "key": bytes(32)})
    for number in (1, 2):
        state = ok(catalog, turn_ticket_key={"after": number, "key": bytes([number]) * 32})
        assert (state.ticket_key, len(state.ticket_keys)) == (number + 1, 2)
    assert catalog.state.ticket_keys == {2: b"\1" * 32, 3: b"\2" * 32}
    assert type(refused(catalog, turn_ticket_key={"after": 7, "key": KEY})) is IllegalState
    assert type(refused(catalog, turn_ticket_key={"after": 3, "key": b"short"})) is InvalidArgument


def test_what_everybody_may_see_has_no_key_and_is_completed_by_who_may_see_it() -> None:
    catalog = new_catalog()
    known = ok(catalog, turn_ticket_key={"after": 0, "key": KEY})
    newer = ok(catalog, turn_ticket_key={"after": 1, "key": bytes(32)})
    assert KEY not in to_wire(newer.public()).SerializeToString()
    assert "ticket_keys" not in repr(newer)
    assert "key" not in repr(asked(turn_ticket_key={"after": 0, "key": KEY})).lower().replace("ticketkey", "")
    cluster = ClusterMap(known)
    cluster.update(newer.public())
    assert (cluster.state.version, cluster.state.ticket_keys) == (newer.version, known.ticket_keys)
    cluster.update(newer)
    assert cluster.state is newer
    cluster.update(newer.public())
    assert cluster.state is newer


# ---- what counts no more


def test_what_is_revoked_counts_again_when_that_is_said() -> None:
    catalog = new_catalog()
    assert ok(catalog, distrust={"what": "user/alice"}).revoked == {"user/alice"}
    ok(catalog, changes=False, distrust={"what": "user/alice"})
    assert ok(catalog, distrust={"what": "serial/5F3A"}).revoked == {"user/alice", "serial/5F3A"}
    assert ok(catalog, distrust={"what": "user/alice", "restores": True}).revoked == {"serial/5F3A"}
    ok(catalog, changes=False, distrust={"what": "user/alice", "restores": True})
    for what in ("", "alice", "user/", "admin/x", "serial/5f3a", "serial/0A", "serial/" + "F" * 41, "user/a\n"):
        assert type(refused(catalog, distrust={"what": what})) is InvalidArgument
    assert type(refused(catalog, distrust={"what": "node/n1"})) is IllegalState


def test_no_more_is_revoked_than_there_is_room_for() -> None:
    catalog = new_catalog()
    catalog.state = replace(
        catalog.state, revoked=frozenset(f"serial/{number:X}" for number in range(1, MAX_REVOKED + 1))
    )
    assert type(refused(catalog, distrust={"what": "user/alice"})) is InvalidArgument
    ok(catalog, distrust={"what": "serial/1", "restores": True})
    ok(catalog, distrust={"what": "user/alice"})


def test_a_node_that_was_replaced_counts_no_more() -> None:
    catalog = new_catalog()
    ok(catalog, replace_node=swap("n2", "n9"))
    assert not catalog.state.revoked
    for group in list(catalog.state.groups):
        if "n2" in catalog.state.groups[group]:
            ok(catalog, move_replica=move(group))
    assert ok(catalog, finish_replacement={}).revoked == {"node/n2"}


# ---- wire


def test_a_state_with_everything_in_it_comes_back_as_it_was() -> None:
    catalog = new_catalog()
    ok(catalog, add_range=follow(0))
    ok(catalog, drop_range=drop(0, 2**62))
    ok(catalog, set_option=pb.CatalogCommand.SetOption(name="max_lifetime_ms", value=7))
    ok(catalog, add_group={"name": "group-1"})
    ok(catalog, add_range=follow(1))
    ok(catalog, place_database={"database": "air", "group": "group-1"})
    ok(catalog, grant={"object": "air", "identity": "ada", "role": "reader"})
    ok(catalog, replace_node=swap("n2", "n9"))
    ok(catalog, register_foreign=place())
    ok(catalog, turn_ticket_key={"after": 0, "key": KEY})
    ok(catalog, distrust={"what": "user/alice"})
    ok(catalog, set_limit={"identity": "alice", "name": "user_lock_waits", "value": 7})
    ok(catalog, drain_node=draining("n3", 1))
    reserved = {"number": "1", "owner": "ada", "table": "a.t", "place": ["s3", "b"], "leads_to": ["s3", "b"]}
    ok(catalog, reserve_place={"wanted": reserved})
    ok(catalog, migrate_shard={"shard": 0, "group": "group-1"})
    ok(catalog, split_shard={"shard": 1, "new_shard": catalog.state.shards[-1] + 1})
    moves = (Move("group-0", "n1", "n4"), Move("group-1", "", "n4"))
    catalog.state = replace(catalog.state, cluster_id=founding_id("local", 7), is_public=True, moves=moves)
    wire = pb.CatalogState.FromString(to_wire(catalog.state).SerializeToString())
    assert from_wire(wire) == catalog.state
    names = {field.name for field, _ in wire.ListFields()}
    assert names == {field.name for field in wire.DESCRIPTOR.fields}, "a field is not carried"


def test_a_catalog_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 4"):
        from_wire(pb.CatalogState(format=4))


@pytest.mark.parametrize(
    "part", ["", "shard", "shard-", "shard-01", "shard--1", "status-1\n", "shard-\u0661", "table-1"]
)
def test_a_part_that_is_neither_a_range_nor_a_shard_is_refused(part: str) -> None:
    wire = to_wire(new_catalog().state)
    wire.groups[1].parts.append(part)
    with pytest.raises(ValueError, match="no part of a group"):
        from_wire(wire)


def test_options_of_another_release_are_passed_over_and_missing_ones_have_their_defaults() -> None:
    wire = to_wire(new_catalog().state)
    del wire.options[:]
    wire.options.add(name="boredom_ms", value=3)
    wire.options.add(name="retention_ms", value=4)
    assert from_wire(wire).options == Options(retention_ms=4)


def test_nothing_changes_before_the_first_leader_has_founded_the_catalog_and_then_once() -> None:
    founded, other = new_catalog().state, Catalog(replace(new_catalog().state, version=0, participant_shards=9))
    early = other.apply(cmd.AddRange(0))
    assert isinstance(early, Rejected)
    assert isinstance(early.error, Unavailable)
    assert other.apply(cmd.Found(founded)) == founded
    again = replace(founded, participant_shards=7)
    assert other.apply(cmd.Found(again)) == founded


# ---- what no sane caller sends


@pytest.mark.parametrize(
    "wanted",
    [
        swap("n2", "n9", "host9:7051\n"),
        swap("n2", "n9", "host9:\u0667"),
        swap("n2", "n9", "host9:123456"),
        swap("n2", "n9", "http://host9:7051"),
        swap("n2", "n9", "a host:7051"),
        swap("n2", "n9", "x" * 300 + ":1"),
        swap("n2", "../n9"),
        swap("n2", "n9\0"),
        swap("n2", "n" * 64),
        swap("n2", "a'node"),
    ],
)
def test_a_name_or_address_that_no_configuration_could_have_is_refused(wanted: pb.CatalogCommand.ReplaceNode) -> None:
    """It would stand in the catalog of every node until somebody starts a node of that name."""
    assert type(refused(new_catalog(), replace_node=wanted)) is InvalidArgument


@pytest.mark.parametrize("last_commit", [1 << 63, (1 << 64) - 1])
def test_a_floor_that_leaves_no_timestamps_is_refused(last_commit: int) -> None:
    """All commits to come would be above it: past what 64 bits hold, where applying them ends the process."""
    catalog = new_catalog()
    ok(catalog, add_range={"after": 0})
    drop = pb.CatalogCommand.DropRange(number=0, last_commit_ts=last_commit)
    assert type(refused(catalog, drop_range=drop)) is InvalidArgument


# ---- foreign participants


def place(name: str = "billing", address: str = "host9:7060", identity: str = "") -> pb.CatalogCommand.RegisterForeign:
    return pb.CatalogCommand.RegisterForeign(name=name, address=address, identity=identity)


def gone(name: str = "billing") -> pb.CatalogCommand.RemoveForeign:
    return pb.CatalogCommand.RemoveForeign(name=name)


def test_a_foreign_participant_registers_moves_and_is_removed_for_good() -> None:
    catalog = new_catalog()
    assert ok(catalog, register_foreign=place()).foreign == {"billing": "host9:7060"}
    ok(catalog, changes=False, register_foreign=place())
    assert ok(catalog, register_foreign=place(address="host8:7060")).foreign == {"billing": "host8:7060"}
    assert ok(catalog, remove_foreign=gone()).foreign == {"billing": ""}
    ok(catalog, changes=False, remove_foreign=gone())
    assert isinstance(refused(catalog, register_foreign=place()), IllegalState)
    assert from_wire(to_wire(catalog.state)) == catalog.state


@pytest.mark.parametrize(
    "wanted",
    [place(""), place("@billing"), place("a.b"), place("x" * 64), place("a/b"), place(address=""), place(address="h")],
)
def test_a_foreign_participant_needs_a_name_and_an_address(wanted: pb.CatalogCommand.RegisterForeign) -> None:
    assert isinstance(refused(new_catalog(), register_foreign=wanted), InvalidArgument)


def test_a_second_system_under_one_name_is_refused() -> None:
    """It would be asked to publish what another one has prepared."""
    catalog = new_catalog()
    ok(catalog, register_foreign=place())
    assert ok(catalog, register_foreign=place(identity="database one")).identities == {"billing": "database one"}
    ok(catalog, changes=False, register_foreign=place(identity="database one"))
    for other in ("database two", ""):
        error = refused(catalog, register_foreign=place(address="host8:7060", identity=other))
        assert isinstance(error, IllegalState)
        for named in ("billing is database one", "host9:7060", other or "does not name", "host8:7060"):
            assert named in error.message
    moved = ok(catalog, register_foreign=place(address="host8:7060", identity="database one"))
    assert moved.foreign == {"billing": "host8:7060"}
    assert from_wire(to_wire(moved)).identities == {"billing": "database one"}


@pytest.mark.parametrize("identity", ["x" * 201, "a\nb", "\0"])
def test_an_identity_that_nobody_can_read(identity: str) -> None:
    assert isinstance(refused(new_catalog(), register_foreign=place(identity=identity)), InvalidArgument)


def test_nobody_can_remove_a_foreign_participant_that_never_was() -> None:
    assert isinstance(refused(new_catalog(), remove_foreign=gone()), NotFound)


# ---- feature levels


@pytest.fixture
def catalog() -> Catalog:
    return new_catalog()


def registering(node: str, oldest: int, newest: int) -> pb.CatalogCommand.RegisterNode:
    return pb.CatalogCommand.RegisterNode(node_id=node, version="1", oldest_level=oldest, newest_level=newest)


def raising(level: int) -> pb.CatalogCommand.RaiseLevel:
    return pb.CatalogCommand.RaiseLevel(level=level)


def test_a_new_cluster_is_at_the_newest_level(catalog: Catalog) -> None:
    assert catalog.state.level == features.OWN.newest


def test_the_level_only_goes_up(catalog: Catalog) -> None:
    level = catalog.state.level
    ok(catalog, changes=False, raise_level=raising(level))
    for node in catalog.state.nodes:
        ok(catalog, register_node=registering(node, 1, level + 1))
    assert ok(catalog, raise_level=raising(level + 1)).level == level + 1
    error = refused(catalog, raise_level=raising(level))
    assert isinstance(error, IllegalState)
    assert "only goes up" in error.message


def test_the_level_is_raised_once_all_nodes_have_said_that_they_do_it(catalog: Catalog) -> None:
    level = catalog.state.level
    first, *others = catalog.state.nodes
    for node in others:
        ok(catalog, register_node=registering(node, 1, level + 1))
    assert f"nobody knows what {first} does" in refused(catalog, raise_level=raising(level + 1)).message
    ok(catalog, register_node=registering(first, 1, level))
    assert f"{first} does 1 to {level}" in refused(catalog, raise_level=raising(level + 1)).message
    ok(catalog, register_node=registering(first, 1, level + 1))
    ok(catalog, changes=False, register_node=registering(first, 1, level + 1))
    ok(catalog, raise_level=raising(level + 1))
    error = refused(catalog, register_node=registering(first, 1, level))
    assert f"does feature levels 1 to {level}, and the cluster is at {level + 1}" in error.message


def test_from_the_first_level_on_nodes_have_said_nothing(catalog: Catalog) -> None:
    """Nodes of before know no command to say it: whoever proposes the second level has asked them."""
    catalog.state = replace(catalog.state, level=features.FIRST)
    assert ok(catalog, raise_level=raising(features.REGISTERED)).level == features.REGISTERED


def test_who_takes_a_place_has_said_nothing_yet(catalog: Catalog) -> None:
    ok(catalog, register_node=registering("n2", features.OWN.oldest, features.OWN.newest))
    ok(catalog, replace_node=swap("n2", "n9"))
    assert catalog.state.nodes["n9"].levels is None
    assert isinstance(
        refused(catalog, register_node=registering("n7", features.OWN.oldest, features.OWN.newest)), NotFound
    )


def test_a_state_of_the_first_level_is_written_as_before() -> None:
    first = replace(new_catalog().state, level=features.FIRST)
    assert not to_wire(first).level
    assert not {option.name for option in to_wire(first).options} & features.OPTIONS.keys()
    assert from_wire(to_wire(first)).level == features.FIRST


def test_what_a_newer_version_has_written_does_not_read(catalog: Catalog) -> None:
    """Neither a kind of command, nor a field of one, nor a field of a snapshot, at any depth."""
    unknown = b"\xfa\x7d\x01x"  # field 2015, of one byte
    known = cmd.encode(cmd.AddRange(0))
    assert cmd.decode(known) == cmd.AddRange(0)
    with pytest.raises(ValueError, match="no CatalogCommand of this version"):
        cmd.decode(unknown)
    inside = pb.CatalogCommand.AddRange(after=0).SerializeToString() + unknown
    with pytest.raises(ValueError, match="of a newer version"):
        cmd.decode(bytes([10, len(inside)]) + inside)
    before = catalog.state
    snapshot = to_wire(before).SerializeToString()
    with pytest.raises(ValueError, match="of a newer version"):
        catalog.restore(snapshot + unknown)
    assert catalog.state is before
    catalog.restore(snapshot)
