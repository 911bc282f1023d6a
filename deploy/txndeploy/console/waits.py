"""Who waits for whom: transactions that hold locks, below each those that wait for it, below those the next ones. Pure.

A transaction that waits for several is below each of them. Waits that go round in a circle begin with its lowest id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from txnclient import LockInfo


@dataclass(frozen=True, slots=True)
class Wait:
    txn_id: int
    owner: str
    label: str
    behind: int | None
    """The transaction that it waits for; None: for none that is here."""
    depth: int
    """How many are before it, up to the one that waits for none."""
    objects: tuple[str, ...]
    """What it waits for."""
    circle: bool
    """Whether it is before itself: below it the same ones would come again."""


def forest(locks: Sequence[LockInfo], most: int) -> list[Wait]:
    """All that somebody waits for, and all that wait, depth first: at most so many."""
    waiting = [lock for lock in locks if not lock.acquired]
    known: dict[int, LockInfo] = {lock.txn_id: lock for lock in locks}
    behind: defaultdict[int, dict[int, None]] = defaultdict(dict)
    for lock in waiting:
        for other in lock.blocked_by:
            behind[other][lock.txn_id] = None
    waits_for = {lock.txn_id for lock in waiting if lock.blocked_by}
    wanted = _wanted(waiting)
    told: list[Wait] = []
    seen: set[int] = set()
    for root in (*sorted(behind.keys() - waits_for), *sorted(waits_for)):
        if root not in seen:
            _walk(root, behind, wanted, known, told, seen, most)
    return told


def _walk(
    root: int,
    behind: Mapping[int, Iterable[int]],
    wanted: Mapping[int, tuple[str, ...]],
    known: Mapping[int, LockInfo],
    told: list[Wait],
    seen: set[int],
    most: int,
) -> None:
    """From one on, without recursion: chains may be long."""
    stack: list[tuple[int, tuple[int, ...]]] = [(root, ())]
    while stack and len(told) < most:
        txn_id, path = stack.pop()
        seen.add(txn_id)
        lock, circle = known.get(txn_id), txn_id in path
        owner, label = (lock.owner, lock.txn_label) if lock is not None else ("", "")
        before = path[-1] if path else None
        told.append(Wait(txn_id, owner, label, before, len(path), wanted.get(txn_id, ()), circle))
        if not circle:
            stack.extend((each, (*path, txn_id)) for each in sorted(behind.get(txn_id, ()), reverse=True))


def _wanted(waiting: Iterable[LockInfo]) -> dict[int, tuple[str, ...]]:
    found: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for lock in waiting:
        found[lock.txn_id][f"{lock.object} ({lock.mode})"] = None
    return {txn_id: tuple(objects) for txn_id, objects in found.items()}
