"""Whether two transactions had locks at once that exclude each other; by a table of its own, written down again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

from tests.sim.judges.ledger import Ledger
from txnparticipant.locks.locks import LockTable

TOGETHER = {("S", "S"), ("S", "SHARED_WRITE"), ("SHARED_WRITE", "S")}


@dataclass(frozen=True, slots=True)
class Had:
    """A lock that was granted, as its program was told."""

    txn_id: int
    object: str
    mode: str
    told_at: float


def clashes(had: list[Had], ledger: Ledger) -> Iterator[str]:
    """A lock is had from when its program was told until its transaction is decided."""
    for one, other in combinations(had, 2):
        ends = [ledger.txns[each.txn_id].decided_at for each in (one, other)]
        at_once = max(one.told_at, other.told_at) < min(ends)
        if at_once and one.txn_id != other.txn_id and _exclude(one, other):
            yield f"{one} until {ends[0]:.3f} and {other} until {ends[1]:.3f}"


def held_together(locks: LockTable) -> Iterator[str]:
    """What a participant holds that excludes each other, by the same table."""
    held = [(txn_id, claim.lock) for txn_id in locks.txn_ids() for claim in locks.held_by(txn_id)]
    for (txn_id, lock), (other, too) in combinations(held, 2):
        if txn_id != other and lock.object == too.object and (lock.mode.name, too.mode.name) not in TOGETHER:
            yield f"{txn_id} holds {lock}, and {other} {too}"


def _exclude(one: Had, other: Had) -> bool:
    pairs = product(_with_parent(one), _with_parent(other))
    return any(name == name_too and (mode, too) not in TOGETHER for (name, mode), (name_too, too) in pairs)


def _with_parent(had: Had) -> list[tuple[str, str]]:
    """Objects and modes: what a partition is part of is locked in S with it."""
    table, slash, _ = had.object.partition("/")
    return [(had.object, had.mode), *([(table, "S")] if slash else [])]
