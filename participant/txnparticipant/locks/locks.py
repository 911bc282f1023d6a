"""LockTable: who holds and who waits for which lock on one participant.

An object is a database (`air`), a table (`air.flights`) or a partition of one (`air.flights/month=1/day=2`). A request
is a set of locks that is granted as a whole or waits as a whole. Requests wait first in, first out: nobody overtakes an
earlier request for the same object that it is not compatible with. Locks go only when their transaction ends.

What becomes of a request that is not granted at once is decided elsewhere (strategies.py), and said by the request.
"""

from __future__ import annotations

import enum
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId
from txnstatus.values import value

MAX_NAMED = 10


class Mode(enum.IntEnum):
    """A higher one excludes whatever a lower one does."""

    S = 1
    SHARED_WRITE = 2
    X = 3


COMPATIBLE: Mapping[tuple[Mode, Mode], bool] = {
    (Mode.S, Mode.S): True,
    (Mode.S, Mode.SHARED_WRITE): True,
    (Mode.S, Mode.X): False,
    (Mode.SHARED_WRITE, Mode.S): True,
    (Mode.SHARED_WRITE, Mode.SHARED_WRITE): False,
    (Mode.SHARED_WRITE, Mode.X): False,
    (Mode.X, Mode.S): False,
    (Mode.X, Mode.SHARED_WRITE): False,
    (Mode.X, Mode.X): False,
}
"""Whether two transactions may hold these on one object. Shared-write: one writer, while others read."""


class Otherwise(enum.IntEnum):
    """What becomes of a request that cannot be granted at once."""

    REFUSED = 0
    """The request does not wait, and leaves the queue if it did."""
    WAITS = 1
    """The request waits, unless it would close a circle of waits on this participant."""
    WAITS_IN_CIRCLES = 2
    """The request waits; somebody else opens circles of waits."""


@dataclass(frozen=True, slots=True, order=True)
class Lock:
    object: str
    mode: Mode

    def __str__(self) -> str:
        return f"{self.mode.name} on {self.object}"


@value
class Claim:
    """A lock that somebody holds or waits for."""

    txn_id: TxnId
    lock: Lock
    since: Timestamp
    """The time at which it was asked for."""
    granted: bool


@value
class Request:
    """Locks of one transaction that wait to be granted together."""

    txn_id: TxnId
    locks: tuple[Lock, ...]
    since: Timestamp


def _claims(request: Request) -> list[Claim]:
    return [Claim(request.txn_id, lock, request.since, granted=False) for lock in request.locks]


class Verdict(enum.Enum):
    GRANTED = enum.auto()
    WAITS = enum.auto()
    REFUSED = enum.auto()
    """The request is not in the queue (any more)."""
    CIRCLE = enum.auto()
    """The request would wait for somebody who waits for its transaction. Nothing has changed."""


@value
class Answer:
    verdict: Verdict
    let_in: tuple[TxnId, ...] = ()
    """Other transactions, whose requests were granted because this one left the queue."""


def parent_of(name: str) -> str | None:
    """The object whose lock in S goes with a lock on this one."""
    for separator in "/.":
        parent, found, _ = name.rpartition(separator)
        if found:
            return parent
    return None


def with_parents(locks: Iterable[Lock]) -> tuple[Lock, ...]:
    """The locks and their parents in S, in the order of acquisition: sorted, one an object, in the highest mode."""
    modes: dict[str, Mode] = {}
    for lock in locks:
        modes[lock.object] = max(lock.mode, modes.get(lock.object, lock.mode))
        parent = parent_of(lock.object)
        while parent is not None and parent not in modes:  # else those above are there, too
            modes[parent] = Mode.S
            parent = parent_of(parent)
    return tuple(Lock(name, modes[name]) for name in sorted(modes))


Modes = defaultdict[str, set[Mode]]
"""Object → the modes in which some transactions have it."""
Ahead = defaultdict[str, defaultdict[Mode, set[TxnId]]]
"""Object → mode → the transactions that wait for it earlier than somebody."""


class LockTable:
    """The locks of one participant; everything in it is in a determined order."""

    def __init__(self) -> None:
        self._held: dict[str, dict[TxnId, Claim]] = {}
        self._objects: dict[TxnId, list[str]] = {}
        """Transaction → the objects that it holds, in the order in which they were granted."""
        self._queue: list[Request] = []

    def acquire(self, txn_id: TxnId, locks: Iterable[Lock], otherwise: Otherwise, since: Timestamp) -> Answer:
        """A repeated request keeps its place in the queue; what the transaction holds already does not count.

        A stronger lock on an object that the transaction holds (an upgrade) waits for the other holders, and not for
        the earlier requests that wait for this transaction's own lock.
        """
        request = Request(txn_id, tuple(sorted(locks)), since)
        if self.holds(txn_id, request.locks):
            return Answer(Verdict.GRANTED)
        queued = self._position(request)
        if queued is not None:
            if otherwise is not Otherwise.REFUSED:
                return Answer(Verdict.WAITS)
            del self._queue[queued]
            return Answer(Verdict.REFUSED, self._let_in())
        blockers = {claim.txn_id for claim in self.blockers(txn_id, request.locks)}
        if not blockers:
            self._grant(request)
            return Answer(Verdict.GRANTED)
        if otherwise is Otherwise.REFUSED:
            return Answer(Verdict.REFUSED)
        if otherwise is Otherwise.WAITS and blockers & self._waiting_for(txn_id):
            return Answer(Verdict.CIRCLE)
        self._queue.append(request)
        return Answer(Verdict.WAITS)

    def release(self, txn_id: TxnId) -> tuple[TxnId, ...]:
        """The transaction has ended. Returns those whose requests that grants, in the queue's order."""
        names = self._objects.pop(txn_id, ())
        for name in names:
            del self._held[name][txn_id]
            if not self._held[name]:
                del self._held[name]
        return self._let_in() if self._leaves_queue(txn_id) or names else ()

    def stop_waiting(self, txn_id: TxnId) -> tuple[TxnId, ...]:
        """Takes the transaction's requests out of the queue, and returns as `release` does."""
        return self._let_in() if self._leaves_queue(txn_id) else ()

    # ---- questions

    def holds(self, txn_id: TxnId, locks: Iterable[Lock]) -> bool:
        """Whether it holds each of them, or a stronger one on the object."""
        return all((self._mode_of(txn_id, lock.object) or 0) >= lock.mode for lock in locks)

    def waits(self, txn_id: TxnId, locks: Iterable[Lock]) -> bool:
        return self._position(Request(txn_id, tuple(sorted(locks)), NO_TIMESTAMP)) is not None

    def blockers(self, txn_id: TxnId, locks: Iterable[Lock]) -> tuple[Claim, ...]:
        """The locks that the request waits for, or would: holders' first, then those that wait before it."""
        request = Request(txn_id, tuple(sorted(locks)), NO_TIMESTAMP)
        earlier = itertools.islice(self._queue, self._position(request))
        return tuple(self._blockers(txn_id, request.locks, itertools.chain.from_iterable(map(_claims, earlier))))

    def held_by(self, txn_id: TxnId) -> list[Claim]:
        return [self._held[name][txn_id] for name in self._objects.get(txn_id, ())]

    def txn_ids(self) -> set[TxnId]:
        """The transactions that hold something, or wait."""
        return {*self._objects, *(request.txn_id for request in self._queue)}

    def queue(self) -> Sequence[Request]:
        """The requests that wait: first in, first out."""
        return tuple(self._queue)

    def explained(self) -> Iterator[tuple[Claim, tuple[TxnId, ...]]]:
        """Every lock, and for whom it waits: those held, by object and transaction; then the queue in its order.

        Of those that it waits for the first ten are named. A lock that waits for nobody was asked for together with
        one that waits.
        """
        for name in sorted(self._held):
            for txn_id in sorted(self._held[name]):
                yield self._held[name][txn_id], ()
        ahead: defaultdict[str, list[Claim]] = defaultdict(list)
        for request in self._queue:
            waits = _claims(request)
            for claim in waits:
                earlier = ahead.get(claim.lock.object, ())
                blockers = itertools.islice(self._blockers(claim.txn_id, (claim.lock,), earlier), MAX_NAMED)
                yield claim, tuple(dict.fromkeys(blocker.txn_id for blocker in blockers))
            for claim in waits:
                ahead[claim.lock.object].append(claim)

    def check_invariants(self, live: Collection[TxnId]) -> None:
        """`live`: the transactions that may have locks. Raises AssertionError."""
        for txn_id, names in self._objects.items():
            assert txn_id in live, f"locks of transaction {txn_id}, which has ended: {names}"
            for name in names:
                parent = parent_of(name)
                assert parent is None or "/" not in name or txn_id in self._held[parent], f"{name} without {parent}"
        for name, holders in self._held.items():
            for claim in holders.values():
                others = [other for other in holders.values() if other.txn_id != claim.txn_id]
                clash = [other for other in others if not COMPATIBLE[claim.lock.mode, other.lock.mode]]
                assert not clash, f"two hold {name}: {claim} and {clash}"
                assert name in self._objects[claim.txn_id], f"not indexed: {claim}"
        for position, request in enumerate(self._queue):
            assert request.txn_id in live, f"transaction {request.txn_id} has ended and waits"
            assert request.locks, f"waits for nothing: {request}"
            earlier = itertools.chain.from_iterable(map(_claims, self._queue[:position]))
            blocked = any(True for _ in self._blockers(request.txn_id, request.locks, earlier))
            assert blocked, f"could be granted, and waits: {request}"

    # ---- restoring

    def restore_held(self, claim: Claim) -> None:
        self._held.setdefault(claim.lock.object, {})[claim.txn_id] = claim
        self._objects.setdefault(claim.txn_id, []).append(claim.lock.object)

    def restore_queue(self, queue: Iterable[Request]) -> None:
        self._queue = list(queue)

    # ---- inside

    def _leaves_queue(self, txn_id: TxnId) -> bool:
        """Whether it was in the queue."""
        if not self._queue:
            return False
        waited = len(self._queue)
        self._queue = [request for request in self._queue if request.txn_id != txn_id]
        return len(self._queue) < waited

    def _let_in(self) -> tuple[TxnId, ...]:
        """Grants what waits for nobody any more."""
        let_in: dict[TxnId, None] = {}
        ahead: Ahead = defaultdict(lambda: defaultdict(set))
        waiting: list[Request] = []
        for request in self._queue:
            if self._is_free(request, ahead):
                self._grant(request)
                let_in[request.txn_id] = None
            else:
                waiting.append(request)
                for lock in request.locks:
                    ahead[lock.object][lock.mode].add(request.txn_id)
        self._queue = waiting
        return tuple(let_in)

    def _mode_of(self, txn_id: TxnId, name: str) -> Mode | None:
        claim = self._held.get(name, {}).get(txn_id)
        return claim.lock.mode if claim else None

    def _position(self, request: Request) -> int | None:
        for position, queued in enumerate(self._queue):
            if queued.txn_id == request.txn_id and queued.locks == request.locks:
                return position
        return None

    def _blockers(self, txn_id: TxnId, locks: Iterable[Lock], earlier: Iterable[Claim]) -> Iterator[Claim]:
        for lock in locks:
            for other, claim in sorted(self._held.get(lock.object, {}).items()):
                if other != txn_id and not COMPATIBLE[lock.mode, claim.lock.mode]:
                    yield claim
        wanted = {lock.object: lock.mode for lock in locks}
        for claim in earlier:
            mode = wanted.get(claim.lock.object)
            if mode is not None and claim.txn_id != txn_id and self._stands_before(txn_id, mode, claim.lock):
                yield claim

    def _stands_before(self, txn_id: TxnId, mode: Mode, earlier: Lock) -> bool:
        """Whether a request for the object in `mode` waits for an earlier one of another transaction."""
        held = self._mode_of(txn_id, earlier.object)
        return not COMPATIBLE[mode, earlier.mode] and (held is None or COMPATIBLE[held, earlier.mode])

    def _is_free(self, request: Request, ahead: Ahead) -> bool:
        """As `not _blockers`, in a time that does not grow with the queue."""
        for lock in request.locks:
            for txn_id, claim in self._held.get(lock.object, {}).items():
                if txn_id != request.txn_id and not COMPATIBLE[lock.mode, claim.lock.mode]:
                    return False
            for mode, waiting in ahead.get(lock.object, {}).items():
                others = len(waiting) > 1 or request.txn_id not in waiting
                if others and self._stands_before(request.txn_id, lock.mode, Lock(lock.object, mode)):
                    return False
        return True

    def _waiting_for(self, txn_id: TxnId) -> set[TxnId]:
        """Itself, and those that wait for it, directly or by way of others. The time hardly grows with the queue."""
        if txn_id not in self._objects and not any(request.txn_id == txn_id for request in self._queue):
            return {txn_id}  # it has nothing that anybody could wait for
        found: set[TxnId] = set()
        held: Modes = defaultdict(set)

        def add(other: TxnId) -> None:
            found.add(other)
            for claim in self.held_by(other):
                held[claim.lock.object].add(claim.lock.mode)

        add(txn_id)
        while True:
            before = len(found)
            ahead: Modes = defaultdict(set)
            for request in self._queue:
                if request.txn_id not in found and self._is_behind(request, held, ahead):
                    add(request.txn_id)
                if request.txn_id in found:
                    for lock in request.locks:
                        ahead[lock.object].add(lock.mode)
            if len(found) == before:
                return found

    def _is_behind(self, request: Request, held: Modes, ahead: Modes) -> bool:
        """Whether it waits for others who hold, or wait before it for, these."""
        return any(
            any(not COMPATIBLE[lock.mode, mode] for mode in held.get(lock.object, ()))
            or any(
                self._stands_before(request.txn_id, lock.mode, Lock(lock.object, mode))
                for mode in ahead.get(lock.object, ())
            )
            for lock in request.locks
        )

    def _grant(self, request: Request) -> None:
        for lock in request.locks:
            holders = self._held.setdefault(lock.object, {})
            held = holders.get(request.txn_id)
            if held is None:
                self._objects.setdefault(request.txn_id, []).append(lock.object)
            elif held.lock.mode >= lock.mode:
                continue  # another request of the transaction was granted meanwhile, in a higher mode
            holders[request.txn_id] = Claim(request.txn_id, lock, request.since, granted=True)
