"""Where replicas are to be: the moves that lead there. A function of the placement: the same moves on every node.

A group never has fewer replicas than before, and no node has two of one group: a move lets a node in before another
one goes. At the end no node that may have more has two replicas fewer than another one from which it could get one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from txnstatus.values import value


@value
class Move:
    """In one group, `new_node` takes the place of `old_node`."""

    group: str
    old_node: str
    """Empty: the group gets one more replica."""
    new_node: str
    """Empty: it gets one fewer, that it was to get."""


@value
class Migration:
    """A shard is on its way to a group's log; or it is split, and stays in its own."""

    group: str
    number: int
    """The version of the catalog that said so first."""
    new_shard: int | None = None
    """The shard that gets a half of its tables."""

    def __str__(self) -> str:
        return f"on its way to {self.group}" if self.new_shard is None else "being split in two"


@value
class Placement:
    groups: Mapping[str, Sequence[str]]
    """Members of each. Moves come in this order."""
    able: Mapping[str, Set[str]]
    """Nodes that may get a replica of a group, by its name."""
    leaving: Set[str]
    """Nodes that are to have none."""
    size: int
    """Replicas that a group is to have."""


def after(groups: Mapping[str, Sequence[str]], moves: Sequence[Move]) -> dict[str, tuple[str, ...]]:
    """The groups' members once the moves are done."""
    found = {group: tuple(members) for group, members in groups.items()}
    for move in moves:
        found[move.group] = moved(found[move.group], move)
    return found


def moved(members: Sequence[str], move: Move) -> tuple[str, ...]:
    """A group's members once the move is done; whoever comes has the place of whoever goes."""
    if not move.new_node or move.new_node in members:
        return tuple(member for member in members if member != move.old_node)
    if move.old_node not in members:
        return (*members, move.new_node)
    return tuple(move.new_node if member == move.old_node else member for member in members)


def plan(placement: Placement) -> list[Move]:
    """Replicas leave the nodes that are to have none, groups get as many as they are to have, and all is made even."""
    planning = _Planning(placement)
    planning.empty()
    planning.fill()
    planning.even()
    return planning.moves


def emptying(placement: Placement) -> list[Move]:
    """The first part of it: replicas leave the nodes that are to have none, as far as others may have them."""
    planning = _Planning(placement)
    planning.empty()
    return planning.moves


class _Planning:
    """The moves so far, and where they lead."""

    def __init__(self, placement: Placement) -> None:
        self.moves: list[Move] = []
        self._of = placement
        self._groups = {group: tuple(members) for group, members in placement.groups.items()}
        held = [member for members in self._groups.values() for member in members]
        self._counts = {node: held.count(node) for node in set(held).union(*placement.able.values())}

    def empty(self) -> None:
        for group, members in list(self._groups.items()):
            for old in [member for member in members if member in self._of.leaving]:
                if (new := self._emptiest(group)) is not None:
                    self._add(Move(group, old, new))

    def fill(self) -> None:
        for group in self._groups:
            while len(self._groups[group]) < self._of.size and (new := self._emptiest(group)) is not None:
                self._add(Move(group, "", new))

    def even(self) -> None:
        while (move := next(self._gains(), None)) is not None:
            self._add(move)

    def _gains(self) -> Iterator[Move]:
        """Moves from a node to one that has two fewer at least; those between the two that differ most come first."""
        counts = self._counts
        pairs = [(counts[new] - counts[old], old, new) for old in counts for new in counts]
        for difference, old, new in sorted(pairs):
            if difference > -2:
                return
            for group, members in self._groups.items():
                able = self._of.able[group]
                if old in able and old in members and new in able and new not in members:
                    yield Move(group, old, new)

    def _emptiest(self, group: str) -> str | None:
        """The node with the fewest replicas, of those that may get one of the group."""
        there = [node for node in self._of.able[group] if node not in self._groups[group]]
        return min(there, key=lambda node: (self._counts[node], node), default=None)

    def _add(self, move: Move) -> None:
        self.moves.append(move)
        self._groups[move.group] = moved(self._groups[move.group], move)
        self._counts[move.new_node] += 1
        if move.old_node:
            self._counts[move.old_node] -= 1
