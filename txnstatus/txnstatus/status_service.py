"""The shell of a status partition: RPCs to commands, effects to calls; it decides nothing.

Every leader runs the whole protocol; what is in memory here is a cache that a new leadership builds anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from txnstatus import commands as cmd
from txnstatus.commit_tasks import SendOp
from txnstatus.environment import Environment
from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.failpoints import failpoint
from txnstatus.proto import participant_pb2 as participant_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.rpc.errors import from_detail, to_detail
from txnstatus.status_manager import (
    CommandApplied,
    CommitRequested,
    Decided,
    Effect,
    Event,
    LeadershipGained,
    LeadershipLost,
    ManagerSettings,
    ParticipantAnswered,
    Propose,
    Tick,
    TxnStatusManager,
)
from txnstatus.system_client import TxnSystemClient
from txnstatus.table import Applied, Rejected, TxnStatusTable, to_wire
from txnstatus.types import (
    DECIDED,
    AbortCause,
    AbortCode,
    HybridClock,
    ParticipantId,
    Timestamp,
    TxnId,
    TxnState,
)

log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 2.0
"""A handler waits this long at most; whoever wants to wait longer asks again."""
TICK_SECONDS = 0.1
PARTICIPANT_CALL_SECONDS = 5.0


class StatusMachine:
    """The table as Raft sees it: bytes in, outcome out."""

    def __init__(self, clock: HybridClock) -> None:
        self.table = TxnStatusTable()
        self._clock = clock

    def apply(self, command: bytes) -> Applied | Rejected:
        outcome = self.table.apply(cmd.decode(command))
        self._clock.update(self.table.last_commit_ts)
        return outcome

    def snapshot(self) -> Iterator[bytes]:
        return iter([self.table.snapshot()])

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.table.restore(b"".join(chunks))
        self._clock.update(self.table.last_commit_ts)


class KeepaliveLimits:
    """What a begin may ask for, in milliseconds."""

    def __init__(self, default: int, minimum: int, maximum: int) -> None:
        self.default, self.minimum, self.maximum = default, minimum, maximum

    def choose(self, asked: int) -> int:
        """Raises InvalidArgument outside the limits; 0 asks for the default."""
        if asked == 0:
            return self.default
        if not self.minimum <= asked <= self.maximum:
            raise InvalidArgument(
                f"keep-alive interval {asked} ms is out of range: {self.minimum} to {self.maximum} ms are possible here"
            )
        return asked


class StatusService:
    """Implements the TxnStatus service for one partition."""

    def __init__(
        self,
        machine: StatusMachine,
        environment: Environment,
        clock: HybridClock,
        client: TxnSystemClient,
        settings: ManagerSettings,
        keepalive: KeepaliveLimits,
        cluster_id: str,
    ) -> None:
        self.machine = machine
        self.manager = TxnStatusManager(machine.table, settings)
        self._environment = environment
        self._clock = clock
        self._client = client
        self._keepalive = keepalive
        self._cluster_id = cluster_id
        self._driver: RaftDriver
        self._decisions: defaultdict[TxnId, list[asyncio.Future[None]]] = defaultdict(list)
        self._outbox: defaultdict[int, list[SendOp]] = defaultdict(list)
        self._background: set[asyncio.Task[None]] = set()

    def start(self, driver: RaftDriver) -> None:
        self._driver = driver
        self._spawn(self._tick())

    async def stop(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def on_leadership(self, leading: bool) -> None:
        log.info("%s %s", self._driver.group.group, "leading" if leading else "no longer leading")
        self._handle(LeadershipGained() if leading else LeadershipLost())
        if not leading:
            self._fail_waiters()

    # ---- RPCs

    async def begin_transaction(self, request: pb.BeginTransactionRequest) -> pb.BeginTransactionResponse:
        if not request.owner or not request.request_id:
            raise InvalidArgument("a begin needs an owner and a request id")
        keepalive = self._keepalive.choose(request.keepalive_millis)
        applied = await self._propose(
            cmd.BeginTxns(
                request.request_id,
                request.count or 1,
                request.owner,
                request.label,
                keepalive,
                self._environment.wall_micros(),
            )
        )
        first = self.machine.table.get(applied.txn_ids[0])
        return pb.BeginTransactionResponse(
            txn_ids=applied.txn_ids, keepalive_millis=first.keepalive_millis, cluster_id=self._cluster_id
        )

    async def register_participant(
        self, request: status_pb.RegisterParticipantRequest
    ) -> status_pb.RegisterParticipantResponse:
        participant = request.participant
        if not participant.participant_id:
            raise InvalidArgument("a participant needs an id")
        txn_id = TxnId(request.txn_id)
        await self._propose(
            cmd.RegisterParticipant(txn_id, request.owner, ParticipantId(participant.participant_id), participant.name)
        )
        record = self.machine.table.get(txn_id)
        return status_pb.RegisterParticipantResponse(keepalive_millis=record.keepalive_millis)

    async def commit_transaction(self, request: pb.CommitTransactionRequest) -> pb.CommitTransactionResponse:
        txn_id = TxnId(request.txn_id)
        self._driver.check_lease()
        self.machine.table.get(txn_id)
        self._handle(CommitRequested(txn_id, request.owner))
        await self._propose(cmd.BeginCommit(txn_id, request.owner, self._environment.wall_micros()))
        if request.wait_millis:
            await self._wait_decided(txn_id, request.wait_millis / 1000)
        return pb.CommitTransactionResponse(txn=to_wire(self.machine.table.get(txn_id)))

    async def abort_transaction(self, request: pb.AbortTransactionRequest) -> pb.AbortTransactionResponse:
        txn_id = TxnId(request.txn_id)
        if request.as_operator:
            owner, code, by = None, AbortCode.OPERATOR, f"operator {request.owner}"
        else:
            owner, code, by = request.owner, AbortCode.REQUESTED, request.owner
        cause = AbortCause(code, request.reason or "abort was called", by)
        await self._propose(cmd.BeginAbort(txn_id, owner, cause, self._environment.wall_micros()))
        return pb.AbortTransactionResponse(txn=to_wire(self.machine.table.get(txn_id)))

    async def get_transaction_state(self, request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
        self._driver.check_lease()
        txn_id = TxnId(request.txn_id)
        record = self.machine.table.get(txn_id)
        if request.wait_millis:
            await self._wait_decided(txn_id, request.wait_millis / 1000)
        return pb.GetTransactionStateResponse(txn=to_wire(record))

    async def keep_transaction_alive(self, request: pb.KeepTransactionAliveRequest) -> pb.KeepTransactionAliveResponse:
        self._driver.check_lease()
        if not self.manager.leading:
            raise self._driver.not_the_leader()  # in a moment; what it knows of the living is still being made
        response = pb.KeepTransactionAliveResponse()
        for txn_id in request.txn_ids:
            error = self.manager.keep_alive(TxnId(txn_id), request.owner)
            response.results.add(txn_id=txn_id, error=to_detail(error) if error else None)
        return response

    async def get_snapshot(self, _request: pb.GetSnapshotRequest) -> pb.GetSnapshotResponse:
        self._driver.check_lease()
        return pb.GetSnapshotResponse(timestamp=self.machine.table.last_commit_ts)

    async def get_outcomes(self, request: status_pb.GetOutcomesRequest) -> status_pb.GetOutcomesResponse:
        self._driver.check_lease()
        at = Timestamp(request.timestamp)
        outcomes = [self.machine.table.commit_ts_at(TxnId(txn_id), at) for txn_id in request.txn_ids]
        return status_pb.GetOutcomesResponse(commit_timestamps=outcomes)

    async def list_transactions(self, request: status_pb.ListTransactionsRequest) -> status_pb.ListTransactionsResponse:
        self._driver.check_lease()
        states = {TxnState(state) for state in request.states}
        matching = [
            to_wire(record)
            for record in self.machine.table.records()
            if (not states or record.state in states) and (not request.label or record.label == request.label)
        ]
        return status_pb.ListTransactionsResponse(txns=matching)

    # ---- performing

    async def _propose(self, command: cmd.Command) -> Applied:
        """Raises the table's refusal, NotTheLeader or OutcomeUnknown."""
        name = type(command).__name__
        failpoint(f"status.before.{name}")
        outcome = await self._driver.propose(cmd.encode(command))
        assert isinstance(outcome, Applied | Rejected)
        failpoint(f"status.after.{name}")
        self._handle(CommandApplied(command, outcome))
        if isinstance(outcome, Rejected):
            raise outcome.error
        return outcome

    async def _propose_own(self, command: cmd.Command) -> None:
        """A proposal of the manager itself: a refusal means somebody else was first."""
        try:
            await self._propose(command)
        except Unavailable:
            self.manager.proposal_failed(command)
        except TxnError as error:
            log.info("%s was refused: %s", type(command).__name__, error)

    def _handle(self, event: Event) -> None:
        for effect in self.manager.handle(event, self._environment.monotonic(), self._environment.wall_micros()):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Propose(command):
                self._spawn(self._propose_own(command))
            case Decided(txn_id):
                for waiter in self._decisions.pop(txn_id, ()):
                    if not waiter.done():
                        waiter.set_result(None)
            case SendOp():
                shard = self._client.placement.shard_of_table_id(effect.participant_id)
                if not self._outbox[shard]:
                    # What else this loop turn has for the shard goes in the same call.
                    asyncio.get_running_loop().call_soon(self._flush, shard)
                self._outbox[shard].append(effect)

    def _flush(self, shard: int) -> None:
        self._spawn(self._participate(shard, self._outbox.pop(shard)))

    async def _participate(self, shard: int, sends: list[SendOp]) -> None:
        request = participant_pb.ParticipateRequest(
            shard=shard,
            now=self._clock.now(),
            ops=[
                participant_pb.ParticipantOp(
                    txn_id=send.txn_id,
                    table_id=send.participant_id,
                    type=send.op.name,
                    commit_timestamp=send.commit_ts,
                )
                for send in sends
            ],
        )
        try:
            response = await self._client.call_leader(
                self._client.placement.shard_group(shard),
                "txnstatus.Participant/Participate",
                request,
                participant_pb.ParticipateResponse,
                PARTICIPANT_CALL_SECONDS,
            )
            results = list(response.results)
        except TxnError as error:
            failure = Unavailable(error.message)  # of the call as a whole: no participant has refused anything
            results = [participant_pb.ParticipantOpResult(error=to_detail(failure))] * len(sends)
        for send, result in zip(sends, results, strict=True):
            self._clock.update(Timestamp(result.timestamp))
            self._handle(
                ParticipantAnswered(
                    send.txn_id,
                    send.participant_id,
                    send.op,
                    Timestamp(result.timestamp),
                    from_detail(result.error) if result.HasField("error") else None,
                )
            )

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            # Time in which this leader could not hear its clients does not count against them.
            if self._driver.group.has_lease:
                self._handle(Tick())

    async def _wait_decided(self, txn_id: TxnId, seconds: float) -> None:
        """Returns when the outcome is known here, or the time is over. Raises NotTheLeader."""
        if self.machine.table.get(txn_id).state in DECIDED:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._decisions[txn_id].append(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(seconds, MAX_WAIT_SECONDS)):
                    await waiter
        finally:
            waiters = self._decisions.get(txn_id, [])
            if waiter in waiters:
                waiters.remove(waiter)
                if not waiters:
                    del self._decisions[txn_id]

    def _fail_waiters(self) -> None:
        decisions, self._decisions = self._decisions, defaultdict(list)
        for waiters in decisions.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(self._driver.not_the_leader())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a background task of the status partition failed", exc_info=error)
