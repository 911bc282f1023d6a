"""The lock calls of a shard: a request waits here until it is granted, or the caller has waited long enough."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

from txnparticipant import commands as cmd
from txnparticipant.changes import Applied
from txnparticipant.locks import Claim, Lock, Mode, Strategy, Verdict, wounded
from txnparticipant.records import TableState
from txnparticipant.statements import mode_of
from txnparticipant.table_store import ParticipantShard
from txnstatus import lock_requests
from txnstatus.commands import cause_from_wire
from txnstatus.errors import Conflict, Locked, Overloaded, TxnError, aborted
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.status_ranges import StatusRanges
from txnstatus.types import AbortCause, ParticipantState, Statement, Timestamp, TxnId, micros_of

log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 2.0
"""A handler waits this long at most; whoever wants to wait longer asks again."""
MAX_WAITING = 1_000
"""Requests on one participant: each that comes is held against all of them."""


def command_of(table: TableState, request: table_pb.LockRequest, since: Timestamp, *, strict: bool) -> cmd.AcquireLocks:
    """`strict`: a statement that is a transaction by itself locks as where there are none. Raises InvalidArgument."""
    lock_requests.check(request, table.schema)
    names = [f"{table.name}/{partition}" for partition in request.partitions] or [table.name]
    mode = _mode(table, request, strict)
    locks = tuple(Lock(name, mode) for name in sorted(set(names)))
    strategy = Strategy(request.strategy)
    return cmd.AcquireLocks(TxnId(request.txn_id), table.table_id, request.owner, locks, strategy, since)


def _mode(table: TableState, request: table_pb.LockRequest, strict: bool) -> Mode:
    if not request.statement:
        return Mode(request.mode)
    columns = len(table.schema.partition_by)
    known = all(name.count("=") == columns for name in request.partitions or [""])
    return mode_of(Statement(request.statement), alone=request.alone and strict, known=known)


def show(tables: Iterable[TableState], request: table_pb.ShowLocksRequest) -> table_pb.ShowLocksResponse:
    """What is locked of the object and below it; without an object, all."""
    name = f"{request.table}/{request.partition}" if request.partition else request.table
    below = (f"{name}.", f"{name}/")
    rows = [
        (claim, blocked_by, table.txns[claim.txn_id].owner)
        for table in tables
        for claim, blocked_by in table.locks.explained()
        if not name or claim.lock.object == name or claim.lock.object.startswith(below)
    ]
    rows.sort(key=lambda row: (row[0].lock.object, not row[0].granted))
    response = table_pb.ShowLocksResponse()
    for claim, blocked_by, owner in rows:
        response.locks.add(
            object=claim.lock.object,
            mode=f"LOCK_{claim.lock.mode.name}",
            granted=claim.granted,
            txn_id=claim.txn_id,
            owner=owner,
            since=claim.since,
            blocked_by=blocked_by,
        )
    return response


class LockService:
    """One for a shard's replica; what is in memory here is only who waits on this node."""

    def __init__(
        self,
        shard: ParticipantShard,
        ranges: StatusRanges,
        propose: Callable[[cmd.AcquireLocks], Awaitable[Applied]],
    ) -> None:
        self._shard = shard
        self._ranges = ranges
        self._propose = propose
        self._waiters: defaultdict[tuple[str, TxnId], list[asyncio.Future[None]]] = defaultdict(list)

    async def acquire(self, name: str, command: cmd.AcquireLocks, seconds: float) -> bool:
        """Whether the locks are held now; False: the request waits, and keeps its place.

        Raises Locked where it neither is granted nor waits, TxnAborted when the transaction died of it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(seconds, MAX_WAIT_SECONDS)
        while True:
            standing = self._standing(name, command)
            if standing is Verdict.WAITS and command.strategy is Strategy.WOUND_WAIT:
                await self._wound(name, command)
                standing = self._standing(name, command)
            if standing is Verdict.GRANTED:
                return True
            if standing is None or command.strategy is Strategy.NO_WAIT:
                if await self._ask(name, command):
                    return True
                if command.strategy is Strategy.NO_WAIT:
                    raise await self._refusal(name, command)
                continue  # it waits now, or was let in since
            if loop.time() >= deadline:
                return False
            await self._woken(command, deadline)

    def wake(self, table_id: str, txn_ids: Iterable[TxnId]) -> None:
        """Something has changed for these transactions' requests."""
        for txn_id in txn_ids:
            for waiter in self._waiters.get((table_id, txn_id), ()):
                if not waiter.done():
                    waiter.set_result(None)

    def fail(self, error: Callable[[], TxnError]) -> None:
        """For a replica that does not lead any more."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error())

    async def _woken(self, command: cmd.AcquireLocks, deadline: float) -> None:
        """Returns at the deadline at the latest. Raises NotTheLeader."""
        key = command.table_id, command.txn_id
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[key].append(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await waiter
        finally:
            self._waiters[key].remove(waiter)
            if not self._waiters[key]:
                del self._waiters[key]

    def _standing(self, name: str, command: cmd.AcquireLocks) -> Verdict | None:
        """How the request stands by the replicated state; None: it must be asked for."""
        table = self._shard.participant(name)
        record = table.txns.get(command.txn_id)
        if record is None or record.state is not ParticipantState.OPEN or record.owner != command.owner:
            return None
        locks = table.with_parents(command.locks)
        if table.locks.holds(command.txn_id, locks):
            return Verdict.GRANTED
        return Verdict.WAITS if table.locks.waits(command.txn_id, locks) else None

    async def _ask(self, name: str, command: cmd.AcquireLocks) -> bool:
        waiting = len(self._shard.participant(name).locks.queue())
        if waiting >= MAX_WAITING and command.strategy is not Strategy.NO_WAIT:
            raise Overloaded(f"{waiting} requests already wait for locks of {name}")
        try:
            return (await self._propose(command)).granted
        except Conflict as death:
            raise await self._die(command, death) from death

    async def _wound(self, name: str, command: cmd.AcquireLocks) -> None:
        """Aborts the younger transactions that are in the way. One that has prepared stays, and is waited for."""
        table = self._shard.participant(name)
        blockers = table.locks.blockers(command.txn_id, table.with_parents(command.locks))
        for txn_id in wounded(command.txn_id, blockers):
            record = table.txns[txn_id]
            if record.state is ParticipantState.OPEN:
                reason = f"transaction {command.txn_id} is older, and wants what it has of {name}: wound-wait"
                try:
                    await self._abort(txn_id, record.owner, reason)
                except TxnError as error:
                    # Committed meanwhile, or nobody answered: the next turn sees what is left of it.
                    log.info("transaction %s is not wounded: %s", txn_id, error.message)

    async def _die(self, command: cmd.AcquireLocks, death: Conflict) -> TxnError:
        """Ends the transaction for good: its other locks must not keep an older one waiting."""
        return aborted(command.txn_id, await self._abort(command.txn_id, command.owner, death.message))

    async def _abort(self, txn_id: TxnId, owner: str, reason: str) -> AbortCause:
        request = manager_pb.AbortTransactionRequest(txn_id=txn_id, owner=owner, reason=reason)
        answer = await self._ranges.call(txn_id, "AbortTransaction", request, manager_pb.AbortTransactionResponse)
        return cause_from_wire(answer.txn.cause)

    async def _refusal(self, name: str, command: cmd.AcquireLocks) -> Locked:
        table = self._shard.participant(name)
        wanted = ", ".join(map(str, command.locks[:3])) + (", ..." if len(command.locks) > 3 else "")
        claims = table.locks.blockers(command.txn_id, table.with_parents(command.locks))
        why = await self._told(claims) if claims else "somebody held it until a moment ago"
        message = f"transaction {command.txn_id} does not get {wanted}: {why}"
        return Locked(message, txn_id=command.txn_id, hint="ask for it again later, or end this transaction")

    async def _told(self, claims: tuple[Claim, ...]) -> str:
        first, others = claims[0], len({claim.txn_id for claim in claims}) - 1
        since = datetime.fromtimestamp(micros_of(first.since) / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
        does = "holds" if first.granted else "was first to wait for"
        more = f", and {others} more are in its way" if others else ""
        who = f"transaction {first.txn_id}{await self._label(first.txn_id)}"
        return f"{who} {does} {first.lock}, asked for at {since} UTC{more}"

    async def _label(self, txn_id: TxnId) -> str:
        """For people: without an answer it is left out."""
        request = manager_pb.GetTransactionStateRequest(txn_id=txn_id)
        try:
            answer = await self._ranges.call(
                txn_id, "GetTransactionState", request, manager_pb.GetTransactionStateResponse
            )
        except TxnError:
            return ""
        return f" ({answer.txn.label!r} of {answer.txn.owner})" if answer.txn.label else f" of {answer.txn.owner}"
