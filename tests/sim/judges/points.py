"""What savepoints promise: a name is one's alone; what is made is held and listed until it is let go, not longer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.sim.judges.ledger import NEVER, Ledger
from txnstatus.proto import savepoint_pb2 as pb
from txnstatus.types import Timestamp

SURE_SECONDS = 0.3
"""What was answered by then was asked for once: nothing of it is on its way any more."""


@dataclass(slots=True)
class Point:
    """A savepoint, as a program knows of it; times in true seconds."""

    savepoint_id: str
    name: str
    timestamp: Timestamp
    tables: frozenset[str]
    """Tables that it keeps, of those that were there for sure."""
    asked_at: float
    made_at: float = NEVER
    """When it was acknowledged."""
    let_go_at: float = NEVER
    """When somebody began to release it, or its making failed."""
    gone_at: float = NEVER
    """When its release was acknowledged."""

    @property
    def is_kept(self) -> bool:
        return self.made_at < self.let_go_at == NEVER


@dataclass
class Points:
    all: list[Point] = field(default_factory=list)

    def made(self, point: Point, ledger: Ledger) -> None:
        for other in self.all:
            if other is not point and other.name == point.name and other.made_at < point.asked_at and other.is_kept:
                ledger.violation("savepoints", f"{point} was made, and {other} has the name")

    def listed(self, there: Iterable[pb.SavepointInfo], asked_at: float, ledger: Ledger) -> None:
        found = {each.savepoint_id: each for each in there}
        for point in self.all:
            if not point.is_kept or point.made_at > asked_at:
                continue
            info = found.get(point.savepoint_id)
            if info is None or info.unfinished or (info.name, info.timestamp) != (point.name, point.timestamp):
                ledger.violation("savepoints", f"{point} is listed as {info}")

    def judge(self, held: Mapping[str, Collection[str]], *, exact: bool) -> Iterator[str]:
        """In the end. `held`: ids of savepoints by shard. `exact`: no request was late, or carried out twice."""
        for point in self.all:
            holders = [shard for shard, ids in held.items() if point.savepoint_id in ids]
            if point.is_kept and not holders:
                yield f"{point} is held by nobody"
            is_gone = point.gone_at < NEVER and point.made_at - point.asked_at < SURE_SECONDS
            if exact and is_gone and holders:
                yield f"{point} was released, and {holders} hold it"
