"""Whether a history of list appends is snapshot isolated, after Elle (Kingsbury and Alvaro, VLDB 2021).

Every transaction reads lists as of one snapshot, and appends elements of its own to some of them. What was read tells
the order of the appends to each list, and so who depends on whom:

- ww: both appended to a list, one next after the other;
- wr: one read what the other appended last;
- rw: one read a list before the other's append, the next one, was in it;
- rt: one was acknowledged before the other began.

Snapshot isolation allows a cycle of these only where two rw edges are next to each other: write skew (Cerone and
Gotsman, JACM 2018). Adya's names: G0 has ww edges only, G1c wr too, G-single one rw edge; G-nonadjacent has more.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

Key = str
Element = int
MAX_CYCLES = 20
"""Cycles that are told: one stale read is part of very many."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A transaction as its client saw it; `committed` None: it never learnt the outcome."""

    name: str
    committed: bool | None
    reads: Mapping[Key, Sequence[Element]]
    appends: Mapping[Key, Sequence[Element]] = field(default_factory=dict)
    """Elements in order; each is appended once in a history."""
    began_at: float = 0.0
    ended_at: float = float("inf")


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: str
    story: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.story}"


def anomalies(history: Sequence[Observed]) -> list[Anomaly]:
    """What no snapshot isolated store can have shown; empty = nothing was found."""
    writers = {element: (txn, key) for txn in history for key, added in txn.appends.items() for element in added}
    found = [anomaly for txn in history for anomaly in _of_reads(txn, writers)]
    orders, forks = _orders(history)
    found += forks
    if found:
        return found  # without one order of each list there are no edges
    return _lost(history, orders) + _cycles(_edges(history, orders, writers))


_Writers = Mapping[Element, tuple[Observed, Key]]


def _of_reads(txn: Observed, writers: _Writers) -> Iterator[Anomaly]:
    for key, elements in txn.reads.items():
        seen = set(elements)
        if len(seen) < len(elements):
            yield Anomaly("duplicate", f"{txn.name} read {list(elements)} of {key}")
        for element in elements:
            writer, written = writers.get(element, (None, ""))
            if writer is None or written != key:
                yield Anomaly("garbage", f"{txn.name} read {element} of {key}, which nobody appended there")
            elif writer.committed is False:
                yield Anomaly("G1a", f"{txn.name} read {element} of {key}, appended by {writer.name}, which aborted")
            elif writer is not txn and not seen.issuperset(writer.appends[key]):
                yield Anomaly("G1b", f"{txn.name} read {element} of {key}, not all that {writer.name} appended")


def _orders(history: Sequence[Observed]) -> tuple[dict[Key, list[Element]], list[Anomaly]]:
    """The longest of each list that was read; all others must be first parts of it."""
    longest: dict[Key, list[Element]] = defaultdict(list)
    for txn in history:
        for key, elements in txn.reads.items():
            if len(elements) > len(longest[key]):
                longest[key] = list(elements)
    forks = [
        Anomaly("incompatible order", f"{txn.name} read {list(elements)} of {key}, somebody else {longest[key]}")
        for txn in history
        for key, elements in txn.reads.items()
        if list(elements) != longest[key][: len(elements)]
    ]
    return dict(longest), forks


def _lost(history: Sequence[Observed], orders: Mapping[Key, Sequence[Element]]) -> list[Anomaly]:
    """What was acknowledged before somebody read the list for whom it is not there."""
    last_read: dict[Key, float] = {}
    for txn in history:
        for key in txn.reads:
            last_read[key] = max(last_read.get(key, 0.0), txn.began_at)
    return [
        Anomaly("lost update", f"{txn.name} appended {element} to {key}, and a later reader has {list(orders[key])}")
        for txn in history
        if txn.committed
        for key, added in txn.appends.items()
        for element in added
        if key in orders and element not in orders[key] and txn.ended_at < last_read[key]
    ]


Edges = dict[str, dict[str, str]]
"""Start → end → the kind of the edge."""


def _edges(
    history: Sequence[Observed], orders: Mapping[Key, Sequence[Element]], writers: _Writers
) -> tuple[Edges, Edges]:
    """What surely happened before what, and the anti-dependencies (rw)."""
    before: Edges = defaultdict(dict)
    anti: Edges = defaultdict(dict)
    for elements in orders.values():
        for earlier, later in pairwise(writers[element][0].name for element in elements):
            if earlier != later:
                before[earlier][later] = "ww"
    for txn in history:
        if txn.committed is False:
            continue
        for key, elements in txn.reads.items():
            order = orders[key]
            if elements and (writer := writers[elements[-1]][0]) is not txn:
                before[writer.name].setdefault(txn.name, "wr")
            if len(elements) < len(order) and (following := writers[order[len(elements)]][0]) is not txn:
                anti[txn.name][following.name] = "rw"
    for first, second in _one_after_the_other(history):
        before[first.name].setdefault(second.name, "rt")
    return before, anti


def _one_after_the_other(history: Sequence[Observed]) -> Iterator[tuple[Observed, Observed]]:
    """Pairs of one that was acknowledged before the other began, without what follows from other pairs: nearly all."""
    told = [txn for txn in history if txn.committed and txn.ended_at < float("inf")]
    begins = [(txn.began_at, False, number) for number, txn in enumerate(history) if txn.committed is not False]
    ends = [(txn.ended_at, True, number) for number, txn in enumerate(told)]
    last: list[Observed] = []
    """What was acknowledged, without those that were acknowledged before one of them began."""
    for _, has_ended, number in sorted(begins + ends):
        if has_ended:
            last = [txn for txn in last if txn.ended_at >= told[number].began_at] + [told[number]]
        else:
            yield from ((earlier, history[number]) for earlier in last)


def _cycles(edges: tuple[Edges, Edges]) -> list[Anomaly]:
    """A shortest one through each transaction, each cycle once, until there are enough."""
    before, anti = edges
    steps: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    """One edge of `before`, and perhaps one of `anti` after it: no two of those are next to each other."""
    for one, nexts in before.items():
        for other, kind in nexts.items():
            steps[one][other] = (kind, other)
    for one, nexts in before.items():
        for middle, kind in nexts.items():
            for other in anti.get(middle, ()):
                steps[one].setdefault(other, (kind, middle, "rw", other))
    found: dict[frozenset[str], Anomaly] = {}
    left = _around_cycles(steps)
    for start in sorted(left):
        path = _way_back(start, left)
        if path is not None and frozenset(path[::2]) not in found:
            found[frozenset(path[::2])] = Anomaly(_kind(path[1::2]), " ".join(path))
            if len(found) == MAX_CYCLES:
                break
    return list(found.values())


def _around_cycles(steps: Mapping[str, Mapping[str, tuple[str, ...]]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """What is left of the steps without those that neither lead to a cycle nor come from one: often nothing."""
    graph = {one: set(nexts) for one, nexts in steps.items()}
    for _ in range(2):
        graph = _turned_round(graph, _stuck(graph))
    return {one: {other: steps[one][other] for other in nexts} for one, nexts in graph.items()}


def _stuck(graph: Mapping[str, set[str]]) -> set[str]:
    """The names from which a way leads to a cycle."""
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError:
        left = graph.keys() | {other for nexts in graph.values() for other in nexts}
        while ready := sorter.get_ready():
            left.difference_update(ready)
            sorter.done(*ready)
        return left
    return set()


def _turned_round(graph: Mapping[str, set[str]], among: set[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in among}
    for one in among:
        for other in graph.get(one, set()) & among:
            found[other].add(one)
    return found


def _way_back(start: str, steps: Mapping[str, Mapping[str, tuple[str, ...]]]) -> list[str] | None:
    """Names and edges in turn, from the start to the start."""
    came_from: dict[str, tuple[str, ...]] = {}
    queue = deque([start])
    while queue:
        one = queue.popleft()
        for other, step in steps.get(one, {}).items():
            if other == start:
                path = [*step]
                while one != start:
                    path = [*came_from[one][1:], *path]
                    one = came_from[one][0]
                return [start, *path]
            if other not in came_from:
                came_from[other] = (one, *step)
                queue.append(other)
    return None


def _kind(edges: Sequence[str]) -> str:
    skew = edges.count("rw")
    name = "G-nonadjacent" if skew > 1 else "G-single" if skew else "G1c" if "wr" in edges else "G0"
    return f"{name}-realtime" if "rt" in edges else name
