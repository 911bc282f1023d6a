"""The lock calls of a shard: a request waits here until it is granted, or the caller has waited long enough."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter

from msgspec.structs import replace

from txnparticipant.leader.aborts import Aborts
from txnparticipant.leader.waiters import Waiters
from txnparticipant.locks.locks import Claim, Lock, Mode, Otherwise, Verdict
from txnparticipant.locks.statements import mode_of
from txnparticipant.locks.strategies import BUILT_IN, Contender, Die, InTurn, Refuse, Settlement, Strategy, Wait, judged
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus import lock_requests
from txnstatus.errors import InternalError, InvalidArgument, Locked, NotFound, Overloaded, TxnError, aborted
from txnstatus.limits import MAX_LISTED, MAX_WAIT_SECONDS
from txnstatus.pages import first_page
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.rpc.deadlines import time_left
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import ParticipantState, Statement, Timestamp, TxnId, micros_of

log = logging.getLogger(__name__)

COMPENSATING = "compensating"
"""A strategy of those who lose as they commit: nobody is asked about it here."""
MAX_WAITING = 1_000
"""Requests on one participant: each that comes is held against all of them."""
MAX_LABELS = 10_000
"""Labels that are remembered."""
MAX_REASON = 1_000
"""Characters of what a strategy says."""


def command_of(table: TableState, request: table_pb.LockRequest, since: Timestamp, *, strict: bool) -> cmd.AcquireLocks:
    """`strict`: a statement that is a transaction by itself locks as where there are none. Raises InvalidArgument."""
    lock_requests.check(request, table.schema)
    names = [f"{table.name}/{partition}" for partition in request.partitions] or [table.name]
    mode = _mode(table, request, strict)
    locks = tuple(Lock(name, mode) for name in sorted(set(names)))
    return cmd.AcquireLocks(TxnId(request.txn_id), table.table_id, request.owner, locks, Otherwise.WAITS, since)


def _mode(table: TableState, request: table_pb.LockRequest, strict: bool) -> Mode:
    if not request.statement:
        return Mode(request.mode)
    columns = len(table.schema.partition_by)
    known = all(name.count("=") == columns for name in request.partitions or [""])
    return mode_of(Statement(request.statement), alone=request.alone and strict, known=known)


def show(shard: ParticipantShard, request: table_pb.ShowLocksRequest) -> table_pb.ShowLocksResponse:
    """What is locked of the object and below it; without an object, all. As many as one answer may have."""
    name = f"{request.table}/{request.partition}" if request.partition else request.table
    below = (f"{name}.", f"{name}/")
    after = request.after.object, request.after.since, request.after.txn_id
    rows = [
        (place, claim, blocked_by, table.txns[claim.txn_id].owner)
        for table in shard.tables()
        for claim, blocked_by in table.locks.explained()
        if (place := (claim.lock.object, claim.since, claim.txn_id)) > after
        and (not name or claim.lock.object == name or claim.lock.object.startswith(below))
    ]
    rows.sort(key=itemgetter(0))
    page, more = first_page([_info(*row[1:]) for row in rows[: MAX_LISTED + 1]])
    return table_pb.ShowLocksResponse(locks=page, more=more, given_to=shard.given_to)


def _info(claim: Claim, blocked_by: Sequence[TxnId], owner: str) -> table_pb.LockInfo:
    return table_pb.LockInfo(
        object=claim.lock.object,
        mode=f"LOCK_{claim.lock.mode.name}",
        granted=claim.granted,
        txn_id=claim.txn_id,
        owner=owner,
        since=claim.since,
        blocked_by=blocked_by,
    )


class LockService:
    """One for a shard's replica; what is in memory here is only who waits on this node."""

    def __init__(
        self,
        shard: ParticipantShard,
        ranges: StatusRanges,
        propose: Callable[[cmd.AcquireLocks], Awaitable[ShardApplied]],
        strategies: Mapping[str, Strategy],
    ) -> None:
        self._shard = shard
        self._ranges = ranges
        self._propose = propose
        self._strategies = strategies
        self._labels: dict[TxnId, str] = {}
        self._waiters: Waiters[tuple[str, TxnId]] = Waiters()
        self._aborts = Aborts(ranges)

    def check_strategy(self, name: str) -> None:
        """Raises InvalidArgument for a strategy that this node does not have."""
        if name not in self._strategies:
            of_losers = "who may lose chooses it, and no table: client.run(work, compensating=rule)"
            own = "one of your own is named in [conflict_strategies] of every node's configuration"
            raise InvalidArgument(
                f"no conflict strategy {name[:100]!r}; there are {', '.join(self._strategies)}",
                hint=of_losers if name == COMPENSATING else own,
            )

    def tell_of_missing_strategies(self) -> None:
        """To the operator: this node leads now. Requests that need one are refused; nothing else is concerned."""
        for table in self._shard.tables():
            if table.conflicts not in self._strategies:
                log.error(
                    "the locks of %s cannot be settled: this node has no conflict strategy %r; name it in "
                    "[conflict_strategies] of its configuration, and restart it",
                    table.name,
                    table.conflicts,
                )

    @property
    def waiting_count(self) -> int:
        """Transactions that wait for a lock of a table, once for each table."""
        return len(self._waiters)

    async def acquire(self, name: str, command: cmd.AcquireLocks, settled_by: str, seconds: float) -> bool:
        """Whether the locks are held now; False: the request waits, and keeps its place.

        Raises Locked where it neither is granted nor waits, TxnAborted when the transaction died of it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + time_left(min(seconds, MAX_WAIT_SECONDS))
        while True:
            if command.txn_id in self._aborts:
                raise aborted(command.txn_id, await self._aborts.join(command.txn_id))
            if self._standing(name, command) is Verdict.GRANTED:
                return True
            try:
                settlement = await self._settled(name, command, settled_by)
            except InternalError:
                log.exception("the locks of %s", name)
                if await self._leave(command):
                    return True
                raise
            match settlement:
                case Refuse():
                    if await self._leave(command):
                        return True
                    raise await self._refusal(name, command)
                case Die(reason):
                    raise await self._die(command, reason)
                case Wait(abort, in_circles):
                    if self._standing(name, command) is None:
                        if await self._ask(name, command, in_circles):
                            return True
                        continue  # it waits now: judged again, by what is in its way now
                    self._abort_all(name, command, abort, settled_by)
            if self._standing(name, command) is not Verdict.WAITS:
                continue
            await self._waiters.wait((command.table_id, command.txn_id), deadline)
            if loop.time() >= deadline and self._standing(name, command) is Verdict.WAITS:
                return False

    def wake(self, table_id: str, txn_ids: Iterable[TxnId]) -> None:
        """Something has changed for these transactions' requests."""
        for txn_id in txn_ids:
            self._waiters.wake((table_id, txn_id))

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for a lock here."""
        return bool(self._waiters)

    def fail(self, error: Callable[[], TxnError]) -> None:
        """For a replica that does not lead any more."""
        self._waiters.fail(error)
        self._aborts.fail(error)

    async def stop(self) -> None:
        await self._aborts.stop()

    def _standing(self, name: str, command: cmd.AcquireLocks) -> Verdict | None:
        """How the request stands by the replicated state; None: it must be asked for."""
        table = self._shard.participant(name)
        if not self._may_ask(table, command):
            return None
        locks = table.with_parents(command.locks)
        if table.locks.holds(command.txn_id, locks):
            return Verdict.GRANTED
        return Verdict.WAITS if table.locks.waits(command.txn_id, locks) else None

    def _may_ask(self, table: TableState, command: cmd.AcquireLocks) -> bool:
        record = table.txns.get(command.txn_id)
        if record is None:
            return command.begins
        return record.state is ParticipantState.OPEN and record.owner == command.owner

    async def _ask(self, name: str, command: cmd.AcquireLocks, in_circles: bool) -> bool:
        waiting = len(self._shard.participant(name).locks.queue())
        if waiting >= MAX_WAITING:
            raise Overloaded(f"{waiting} requests already wait for locks of {name}")
        otherwise = Otherwise.WAITS_IN_CIRCLES if in_circles else Otherwise.WAITS
        return (await self._propose(replace(command, otherwise=otherwise))).granted

    async def _leave(self, command: cmd.AcquireLocks) -> bool:
        """Out of the queue; whether it was granted instead."""
        return (await self._propose(replace(command, otherwise=Otherwise.REFUSED))).granted

    async def _settled(self, name: str, command: cmd.AcquireLocks, settled_by: str) -> Settlement:
        """What the strategy says, if anybody is in the way. Raises InternalError for one that is broken."""
        strategy = self._strategies[settled_by]
        if isinstance(strategy, InTurn):
            return Wait()  # whoever is in the way; to look for them all would cost more than they
        table = self._shard.participant(name)
        locks = table.with_parents(command.locks)
        if not self._may_ask(table, command):
            return Wait()  # the proposal is refused, and says why
        while claims := table.locks.blockers(command.txn_id, locks):
            unknown = {command.txn_id, *(claim.txn_id for claim in claims)} - self._labels.keys()
            if settled_by in BUILT_IN or not unknown:
                label = self._labels.get(command.txn_id, "")
                asked = [
                    Contender(command.txn_id, command.owner, label, lock.object, lock.mode, holds=False, prepared=False)
                    for lock in locks
                ]
                return judged(settled_by, strategy, asked, self._contenders(table, claims))
            if len(self._labels) > MAX_LABELS:
                self._labels.clear()
            for txn_id in unknown:
                self._labels[txn_id] = await self._label(txn_id)
            if not self._may_ask(table, command):
                break
        return Wait()

    def _contenders(self, table: TableState, claims: Iterable[Claim]) -> list[Contender]:
        return [
            Contender(
                claim.txn_id,
                table.txns[claim.txn_id].owner,
                self._labels.get(claim.txn_id, ""),
                claim.lock.object,
                claim.lock.mode,
                claim.granted,
                table.txns[claim.txn_id].state is ParticipantState.COMMIT_IN_PROGRESS,
            )
            for claim in claims
        ]

    def _abort_all(self, name: str, command: cmd.AcquireLocks, victims: Iterable[TxnId], settled_by: str) -> None:
        """One that has prepared stays. All are waited for like anybody else who is in the way."""
        table = self._shard.participant(name)
        for txn_id in victims:
            record = table.txns.get(txn_id)
            if record is not None and record.state is ParticipantState.OPEN:
                reason = f"transaction {command.txn_id} wants what it has of {name}: {settled_by}"
                self._aborts.start(txn_id, record.owner, reason)

    async def _die(self, command: cmd.AcquireLocks, reason: str) -> TxnError:
        """Ends the transaction for good: its other locks must not keep others waiting."""
        return aborted(command.txn_id, await self._aborts.abort(command.txn_id, command.owner, reason[:MAX_REASON]))

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
        who = f"transaction {first.txn_id}{await self._named(first.txn_id)}"
        return f"{who} {does} {first.lock}, asked for at {since} UTC{more}"

    async def _named(self, txn_id: TxnId) -> str:
        """For people: without an answer it is left out."""
        try:
            txn = await self._look(txn_id)
        except TxnError:
            return ""
        return f" ({txn.label!r} of {txn.owner})" if txn.label else f" of {txn.owner}"

    async def _label(self, txn_id: TxnId) -> str:
        """The label of a transaction; empty: it is forgotten, so it has ended. Raises Unavailable."""
        try:
            return (await self._look(txn_id)).label
        except NotFound:
            return ""

    async def _look(self, txn_id: TxnId) -> common.TxnInfo:
        request = manager_pb.GetTransactionStateRequest(txn_id=txn_id)
        answer = await self._ranges.call(txn_id, "GetTransactionState", request, manager_pb.GetTransactionStateResponse)
        return answer.txn
