"""Sets of transaction ids: spans of ids, such as those that are forgotten, or that began before something happened.

Each group gives out ids of ranges of its own, so ids of two groups say nothing about which transaction was first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from txnstatus.proto import common_pb2 as pb
from txnstatus.types import TxnId
from txnstatus.values import value


@value
class IdSet:
    """As few spans as it takes, so that equal sets are equal."""

    bounds: tuple[int, ...] = ()
    """The first id of a span and the one behind its last, span by span: they rise."""

    def __contains__(self, txn_id: int) -> bool:
        return bisect_right(self.bounds, txn_id) % 2 == 1

    def __or__(self, other: IdSet) -> IdSet:
        return of_spans([*self.spans(), *other.spans()])

    def __le__(self, other: IdSet) -> bool:
        return self | other == other

    def spans(self) -> Iterator[tuple[TxnId, TxnId]]:
        """Each span's first id, and the one behind its last."""
        return zip(map(TxnId, self.bounds[::2]), map(TxnId, self.bounds[1::2]), strict=True)

    def to_wire(self) -> pb.IdSet:
        return pb.IdSet(bounds=self.bounds)

    @classmethod
    def from_wire(cls, wire: pb.IdSet) -> IdSet:
        """Raises ValueError for bounds that are not a set's."""
        bounds = tuple(wire.bounds)
        if len(bounds) % 2 or any(first >= second for first, second in pairwise(bounds)):
            raise ValueError(f"{len(bounds)} bounds of ids that are not pairs, or do not rise")
        return cls(bounds)


NO_IDS = IdSet()
NOBODYS = IdSet((-(2**63), 0))
"""Ids that no transaction can have."""


def below(end: int) -> IdSet:
    """All ids below one."""
    return IdSet((0, end)) if end > 0 else NO_IDS


def of_spans(spans: Iterable[tuple[int, int]]) -> IdSet:
    """All ids of spans, in any order, each by its first id and the one behind its last; empty ones have none."""
    bounds: list[int] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += [first, end]
    return IdSet(tuple(bounds))


def below_without(end: int, spans: Iterable[tuple[int, int]]) -> IdSet:
    """All ids below one that are in none of the spans."""
    holes = of_spans(spans).bounds
    gaps = zip((0, *holes[1::2]), (*holes[::2], end), strict=True)
    return of_spans((first, min(behind, end)) for first, behind in gaps)
