"""Which replicas move where: whatever the placement is, each step keeps what must be kept, and the end is even."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from hypothesis import given, settings
from hypothesis import strategies as st

from txnstatus.catalog.placement import Move, Placement, after, emptying, moved, plan

NODES = [f"n{number}" for number in range(7)]


def same(nodes: Set[str], groups: Mapping[str, Sequence[str]], leaving: Set[str] = frozenset()) -> Placement:
    """Every node may have a replica of each group."""
    return Placement(groups, dict.fromkeys(groups, nodes - leaving), leaving, 3)


@st.composite
def placements(draw: st.DrawFn, *, leave: bool = True) -> Placement:
    nodes = draw(st.sets(st.sampled_from(NODES), min_size=3))
    size = st.integers(1 if leave else 3, 3)
    groups = {
        f"group-{number}": tuple(draw(st.permutations(sorted(nodes))))[: draw(size)]
        for number in range(draw(st.integers(1, 9)))
    }
    leaving = draw(st.sets(st.sampled_from(sorted(nodes)), max_size=len(nodes) - 3)) if leave else frozenset[str]()
    return same(nodes, groups, leaving)


def held(groups: Mapping[str, Sequence[str]], nodes: Set[str]) -> list[int]:
    counts = Counter(member for members in groups.values() for member in members)
    return [counts[node] for node in sorted(nodes)]


@settings(max_examples=300)
@given(placements())
def test_each_move_keeps_a_groups_size_and_one_replica_to_a_node(placement: Placement) -> None:
    groups = {group: tuple(members) for group, members in placement.groups.items()}
    for move in plan(placement):
        before = groups[move.group]
        assert move.new_node not in before
        assert move.old_node in (*before, "")
        assert move.new_node in placement.able[move.group]
        groups[move.group] = moved(before, move)
        assert len(set(groups[move.group])) == len(groups[move.group]) == len(before) + (not move.old_node)
    assert groups == after(placement.groups, plan(placement))


@settings(max_examples=300)
@given(placements())
def test_at_the_end_groups_are_whole_and_nodes_have_as_many_as_each_other(placement: Placement) -> None:
    groups = after(placement.groups, plan(placement))
    assert all(len(members) == 3 for members in groups.values())
    assert not any(set(members) & placement.leaving for members in groups.values())
    counts = held(groups, placement.able["group-0"])
    assert max(counts) - min(counts) <= 1
    again = Placement(groups, placement.able, placement.leaving, placement.size)
    assert plan(again) == [], "what is even stays as it is"


@settings(max_examples=300)
@given(placements(leave=False))
def test_no_fewer_moves_would_do(placement: Placement) -> None:
    """What a node has above its part has to go: those that have most may keep one more than the others."""
    counts = sorted(held(placement.groups, placement.able["group-0"]), reverse=True)
    part, more = divmod(sum(counts), len(counts))
    needed = sum(max(0, count - part - (number < more)) for number, count in enumerate(counts))
    assert len(plan(placement)) == needed


@given(placements())
def test_a_node_that_leaves_gives_away_what_it_has_and_nobody_else_does(placement: Placement) -> None:
    moves = emptying(placement)
    assert sorted((move.group, move.old_node) for move in moves) == sorted(
        (group, node) for group, members in placement.groups.items() for node in members if node in placement.leaving
    )


def test_a_replica_stays_where_no_other_node_may_have_it() -> None:
    placement = same({"a", "b", "c"}, {"group-0": ("a", "b", "c")}, leaving={"a"})
    assert plan(placement) == []


def test_nodes_of_another_role_get_nothing() -> None:
    groups = {f"group-{number}": ("a", "b", "c") for number in range(3)}
    able = {"group-0": {"a", "b", "c"}, "group-1": {"a", "b", "c", "d"}, "group-2": {"a", "b", "c", "d"}}
    moves = plan(Placement(groups, able, frozenset(), 3))
    assert [move.group for move in moves] == ["group-1", "group-2"]


def test_a_node_that_may_get_nothing_keeps_what_it_has() -> None:
    groups = {f"group-{number}": ("a", "b", "c") for number in range(4)}
    able = {group: {"b", "c", "d"} for group in groups}
    assert all(move.old_node in ("b", "c") for move in plan(Placement(groups, able, frozenset(), 3)))


def test_who_comes_has_the_place_of_who_goes() -> None:
    assert moved(("a", "b", "c"), Move("g", "b", "d")) == ("a", "d", "c")
    assert moved(("a", "b"), Move("g", "", "d")) == ("a", "b", "d")


def test_what_is_taken_back_is_as_it_was() -> None:
    assert moved(("a", "b", "c"), Move("g", "d", "b")) == ("a", "b", "c")
    assert moved(("a", "b"), Move("g", "d", "")) == ("a", "b")
