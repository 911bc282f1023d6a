"""Locks of a transaction: what its program asks for, and what its writes take by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from txnclient.calls.requests import build, checked_seconds
from txnclient.handle import Handle
from txnclient.session import Session
from txnclient.showing import Shown
from txnstatus.errors import InvalidArgument
from txnstatus.limits import MAX_LOCK_PARTITIONS
from txnstatus.partitions import WHOLE_TABLE, above
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import ConflictStrategy, Statement, Timestamp, TxnId, TxnState

LockMode = Literal["S", "shared-write", "X"]

METHOD = "txnstatus.Table/Lock"
MODES: Mapping[str, pb.LockMode] = {"S": pb.LOCK_S, "shared-write": pb.LOCK_SHARED_WRITE, "X": pb.LOCK_X}
NO_WAIT = ConflictStrategy.NO_WAIT
DEFAULT_LOCK_SECONDS = 60.0
"""Seconds for which a request for locks waits, unless its caller or its client says other."""
SLEEP_BETWEEN_RETRIES = 60.0
FIRST_WAIT_SECONDS = 0.1


class Locks:
    def __init__(self, handle: Handle, *, alone: bool = False) -> None:
        """`alone`: the transaction is one write and nothing else."""
        self._handle = handle
        self._alone = alone

    @contextlib.contextmanager
    def waiting(self, lock_timeout: float | None) -> Iterator[None]:
        """What asks for locks in the block waits so many seconds; None: as ever. Raises InvalidArgument."""
        handle, usual = self._handle, self._handle.lock_timeout
        handle.lock_timeout = usual if lock_timeout is None else checked_timeout(lock_timeout)
        try:
            yield
        finally:
            handle.lock_timeout = usual

    def patience(
        self, numretries: int | None = None, sleep_between_retries: float = SLEEP_BETWEEN_RETRIES
    ) -> Iterator[float]:
        """The waits of a request: once as long as the handle's do, or by Hive's two parameters."""
        if numretries is None:
            return iter([self._handle.lock_timeout])
        return waits(numretries, sleep_between_retries)

    def acquire(
        self,
        table: str,
        partition: str | Sequence[str] | None,
        strategy: str,
        patience: Iterator[float],
        turn_seconds: float | None = None,
        **what: Any,
    ) -> pb.LockResponse:
        """`what`: the mode, or the statement. `patience`: waits before each retry. Raises InvalidArgument, Locked."""
        handle = self._handle
        handle.require_writable()
        request = build(
            pb.LockRequest,
            txn_id=handle.id,
            owner=handle.owner,
            table=table,
            partitions=[partition] if isinstance(partition, str) else partition,
            settled_by=strategy,
            alone=self._alone,
            **what,
        )
        # Said for each: waits for locks have a time of their own.
        ask = partial(handle.ask, timeout=handle.session.timeout)
        return acquire(request, ask, patience, turn_seconds or handle.session.turn_seconds())


class WriteLocks:
    """The locks of one write, on a table that settles conflicts by locks. Nothing is asked for twice."""

    def __init__(self, locks: Locks, statement: Statement, table: str, strategy: str) -> None:
        self._locks, self._statement, self._table, self._strategy = locks, statement, table, strategy
        self._held: dict[str, bool] = {}
        """Parts that are locked → whether that excludes everybody else."""

    def take(self, names: Collection[str]) -> None:
        """Locks these parts, unless the table takes none, or they are locked. Raises as `Transaction.lock`."""
        if self._strategy == ConflictStrategy.FIRST_COMMITTER_WINS:
            return
        wanted = sorted(name for name in set(names) if not self._has(name))
        for start in range(0, len(wanted), MAX_LOCK_PARTITIONS):
            part = wanted[start : start + MAX_LOCK_PARTITIONS]
            named = [] if part == [WHOLE_TABLE] else part
            patience = self._locks.patience()
            got = self._locks.acquire(self._table, named, self._strategy, patience, statement=self._statement)
            self._held |= dict.fromkeys(part, got.mode == pb.LOCK_X)

    def _has(self, name: str) -> bool:
        """A shared lock on what is above does not do: it keeps nobody off this part of it."""
        return name in self._held or any(self._held.get(each, False) for each in above(name))


def checked_timeout(lock_timeout: object) -> float:
    """Raises InvalidArgument."""
    return checked_seconds(lock_timeout, "lock_timeout", "; with 0 nobody is waited for")


def waits(numretries: int, sleep_between_retries: float) -> Iterator[float]:
    """How long a request waits before each retry, as Hive's: doubling from 0.1 s, capped."""
    wait = FIRST_WAIT_SECONDS
    for _ in range(numretries):
        yield min(wait, sleep_between_retries)
        wait *= 2


def mode_of(mode: str) -> pb.LockMode:
    """Raises InvalidArgument."""
    if mode not in MODES:
        raise InvalidArgument(f"lock mode {mode!r}: {', '.join(map(repr, MODES))} are possible")
    return MODES[mode]


def acquire(
    request: pb.LockRequest,
    ask: Callable[[str, pb.LockRequest, type[pb.LockResponse]], pb.LockResponse],
    patience: Iterator[float],
    turn_seconds: float,
) -> pb.LockResponse:
    """Asks until the locks are granted, or the last retry is over; then the request leaves the queue.

    It waits on the server and keeps its place in the queue from retry to retry: sleeping here would only bring the
    news later. `turn_seconds`: how long one call may wait.

    Raises Locked.
    """
    for wait in patience if request.settled_by != NO_WAIT else ():
        while wait > 0:
            request.wait_millis = max(1, int(min(wait, turn_seconds) * 1000))
            answer = ask(METHOD, request, pb.LockResponse)
            if answer.granted:
                return answer
            wait -= turn_seconds
    request.wait_millis, request.settled_by = 0, NO_WAIT
    return ask(METHOD, request, pb.LockResponse)


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock that a transaction holds or waits for."""

    object: str
    """`database`, `database.table`, or `database.table/column=value/...`"""
    mode: str
    acquired: bool
    """A lock that is not acquired is waited for."""
    txn_id: TxnId
    owner: str
    since: Timestamp
    """The time at which the lock was asked for."""
    blocked_by: tuple[TxnId, ...]
    """The transactions that it waits for, ten at most; none where only what it was asked for together with waits."""
    txn_state: TxnState | None = None
    """The transaction's state; it and the label only if `extended` was asked for, and it is not forgotten."""
    txn_label: str = ""


def shown(session: Session, table: str = "", partition: str = "", *, extended: bool = False) -> list[LockInfo]:
    """What `Client.locks` says."""
    request = build(pb.ShowLocksRequest, table=table, partition=partition, extended=extended)
    found: list[LockInfo] = Shown("Locks", "object mode acquired txn_id owner blocked_by", ())
    more = True
    while more:
        answer = session.call("txnstatus.Table/ShowLocks", request, pb.ShowLocksResponse)
        found += map(_info, answer.locks)
        if more := answer.more:
            last = answer.locks[-1]
            request.after.CopyFrom(pb.LockPlace(object=last.object, since=last.since, txn_id=last.txn_id))
    found.sort(key=lambda lock: (lock.object, not lock.acquired))
    return found


def _info(wire: pb.LockInfo) -> LockInfo:
    known = wire.HasField("txn")
    return LockInfo(
        wire.object,
        next(name for name, mode in MODES.items() if mode == wire.mode),
        wire.granted,
        TxnId(wire.txn_id),
        wire.owner,
        Timestamp(wire.since),
        tuple(map(TxnId, wire.blocked_by)),
        TxnState(wire.txn.state) if known else None,
        wire.txn.label,
    )
