"""The shell of a status range: RPCs to commands, effects to calls; it decides nothing.

Every leader runs the whole protocol; what is in memory here is a cache that a new leadership builds anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from txnstatus.catalog.catalog import CatalogState, status_group
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.limits import (
    MAX_KEEP_ALIVE_IDS,
    MAX_LISTED,
    MAX_OPS_PER_CALL,
    MAX_OUTCOMES,
    MAX_REASON_CHARACTERS,
    MAX_STATES,
    check_count,
    check_length,
)
from txnstatus.process.background import Tasks
from txnstatus.process.environment import Environment, SteadyWall
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.raft.parts import PartDriver
from txnstatus.raft.proposer import Proposer
from txnstatus.replicated import Rejected
from txnstatus.rpc.calls import Call, takes_calls
from txnstatus.rpc.errors import to_detail
from txnstatus.status import commands as cmd
from txnstatus.status import listing
from txnstatus.status.begin_calls import BeginCalls
from txnstatus.status.commit.beginning import BeginCommits, ServicesHere
from txnstatus.status.commit.calls import CommitCalls
from txnstatus.status.commit.last_writes import LastWrites
from txnstatus.status.commit.participant_calls import ParticipantCalls
from txnstatus.status.commit.phases import Phases
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.events import (
    CommandApplied,
    Decided,
    Effect,
    Event,
    LeadershipGained,
    LeadershipLost,
    Propose,
    Tick,
)
from txnstatus.status.machine import StatusMachine
from txnstatus.status.manager import ManagerSettings, TxnStatusManager
from txnstatus.status.measuring import measure
from txnstatus.status.outcomes import Outcomes
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.records import TxnRecord, to_wire
from txnstatus.status.registrations import joining_by
from txnstatus.status.table import StatusApplied
from txnstatus.tracing import spans
from txnstatus.types import AbortCause, AbortCode, HybridClock, TxnId, TxnState
from txnstatus.wire import checked_timestamp

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
TAKE_OVER_SECONDS = 0.01
"""Time between two ticks of a leader that still takes over what the one before it has left."""
STAMPED_SECONDS = 1.0
"""Less than this before it is submitted a command is given its time."""
LOOKED_AT_ONCE = 500
"""Transactions that a listing looks at before others have their turn."""


class StatusService:
    """Answers for one range, on a node that holds a replica."""

    def __init__(
        self,
        number: int,
        machine: StatusMachine,
        driver: PartDriver,
        environment: Environment,
        clock: HybridClock,
        client: TxnSystemClient,
        here: ServicesHere,
    ) -> None:
        """`here`: the services of participants that are in the same log."""
        self.number = number
        self.table = machine.table
        self.manager = TxnStatusManager(machine.table, is_here=here.has)
        self._here = here
        self._driver = driver
        self._environment = environment
        self._wall = SteadyWall(environment)
        """Wall time, anew in each leadership: within one, records age as time passes, whatever becomes of the clock."""
        self._clock = clock
        self._client = client
        self._ranges = StatusRanges(client)
        self._outcomes = Outcomes()
        self._tasks = Tasks(f"the background of {status_group(number)} failed")
        self._phases = Phases(status_group(number))
        self._calls = ParticipantCalls(client, clock, self._handle, self._tasks.spawn, self._phases.asks)
        self._proposer: Proposer[cmd.Command, StatusApplied] = Proposer(
            "status", driver, cmd.encode, lambda: client.cluster.state.level, self._act_on
        )
        beginning = BeginCommits(machine.table, here, self._proposer.propose, lambda: self._wall.micros(), clock)
        self._begins = BeginCalls(
            self.manager,
            driver,
            self._proposer,
            client,
            self._ranges,
            lambda: self._options,
            lambda: self._wall.micros(),
            environment.monotonic,
            self._tasks.spawn,
        )
        writes, handle = LastWrites(client, here), self._handle
        self._commits = CommitCalls(
            self.manager, driver, self._proposer, self._outcomes, handle, beginning, writes, self._tasks.spawn
        )
        self._tending: asyncio.Task[None] | None = None
        self.configure(client.cluster.state)

    def configure(self, catalog: CatalogState) -> None:
        """Takes up the cluster's options, at the start and whenever they change."""
        options = self._options = catalog.options
        self.manager.configure(
            ManagerSettings(
                staleness_check_seconds=options.staleness_interval_ms / 1000,
                retention_seconds=options.retention_ms / 1000,
                max_lifetime_seconds=options.max_lifetime_ms / 1000,
            )
        )

    def start(self) -> None:
        self._tasks.spawn(self._tick())

    async def stop(self) -> None:
        await self._tasks.stop()

    def on_leadership(self, leading: bool) -> None:
        log.info("%s %s", status_group(self.number), "leading" if leading else "no longer leading")
        self._wall = SteadyWall(self._environment)
        self._handle([LeadershipGained() if leading else LeadershipLost()])
        if not leading:
            self._phases.forget("another node leads")
            self._outcomes.fail(self._driver.not_the_leader)

    # ---- RPCs

    @takes_calls
    def begin_in_range(self, calls: Sequence[Call]) -> None:
        self._begins.begin(calls)

    async def register_participants(
        self, request: status_pb.RegisterParticipantsRequest
    ) -> status_pb.RegisterParticipantsResponse:
        """Refusals are answered one by one; what is retriable fails the call, so that its sender finds the leader."""
        if len(request.registrations) > MAX_OPS_PER_CALL:
            raise InvalidArgument(f"{len(request.registrations)} at once: {MAX_OPS_PER_CALL} can be registered")
        answers: list[TxnError | None] = []
        joining: defaultdict[tuple[TxnId, str], list[int]] = defaultdict(list)
        """What was asked for each transaction, by its owner: one command of them all."""
        for number, registration in enumerate(request.registrations):
            answers.append(await self._refused(registration))
            if answers[number] is None and not self._is_listed(registration):
                joining[TxnId(registration.txn_id), registration.owner].append(number)
        commands = [joining_by(request.registrations[number] for number in numbers) for numbers in joining.values()]
        for numbers, answer in zip(joining.values(), await self._proposer.propose_all(commands), strict=True):
            for number in numbers:
                answers[number] = answer if isinstance(answer, TxnError) else None
        response = status_pb.RegisterParticipantsResponse()
        for refusal in answers:
            if refusal is None:
                response.results.add()
            elif refusal.retriable:
                raise refusal
            else:
                response.results.add(error=to_detail(refusal))
        return response

    def _is_listed(self, registration: status_pb.Registration) -> bool:
        """Registering again costs no entry; a shard's new leader asks for all that is open there."""
        if not self._driver.group.has_lease:
            return False
        record = self.table.find(TxnId(registration.txn_id))
        return (
            record is not None
            and record.state is TxnState.OPEN
            and record.owner == registration.owner
            and registration.participant.participant_id in record.participants
        )

    async def _refused(self, registration: status_pb.Registration) -> TxnError | None:
        """Why it cannot be one: nobody has such an id."""
        try:
            await self._ranges.check_participant(registration.participant.participant_id)
        except TxnError as error:
            return error
        return None

    @takes_calls
    def commit_transaction(self, calls: Sequence[Call]) -> None:
        if spans.tracer is not None:
            for call in calls:
                self._phases.asked("decide", call.request.txn_id, self.table.find(call.request.txn_id), call.trace)
        self._commits.commit(calls)

    async def abort_transaction(self, request: pb.AbortTransactionRequest) -> pb.AbortTransactionResponse:
        check_length("reason", request.reason, MAX_REASON_CHARACTERS)
        txn_id = TxnId(request.txn_id)
        if request.as_operator:
            owner, code, by = None, AbortCode.OPERATOR, f"operator {request.owner}"
        else:
            owner, code, by = request.owner, AbortCode.REQUESTED, request.owner
        cause = AbortCause(code, request.reason or "abort was called", by)
        if spans.tracer is not None:
            self._phases.asked("discard", txn_id, self.table.find(txn_id), spans.below(spans.current()))
        command = cmd.BeginAbort(txn_id, owner, cause, self._wall.micros())
        (record,) = (await self._proposer.propose(command)).records
        return pb.AbortTransactionResponse(txn=to_wire(record))

    @takes_calls
    def get_transaction_state(self, calls: Sequence[Call]) -> None:
        self._commits.look(calls)

    async def keep_transaction_alive(self, request: pb.KeepTransactionAliveRequest) -> pb.KeepTransactionAliveResponse:
        check_count(len(request.txn_ids), "transactions to keep alive", MAX_KEEP_ALIVE_IDS)
        self._driver.check_lease()
        if not self.manager.leading:
            raise self._driver.not_the_leader()  # in a moment; what it knows of the living is still being made
        self.manager.advance_time(self._environment.monotonic())
        refused = self.manager.keep_alive(request.txn_ids, request.owner)
        return pb.KeepTransactionAliveResponse(
            refused=[pb.KeepAliveRefusal(txn_id=txn_id, error=to_detail(error)) for txn_id, error in refused.items()]
        )

    async def raise_floor(self, request: status_pb.RaiseFloorRequest) -> status_pb.RaiseFloorResponse:
        floor = checked_timestamp(request.timestamp)
        self._driver.check_lease()
        if self.table.last_commit_ts < floor or (request.fills and not self.table.full):
            await self._proposer.propose(cmd.RaiseFloor(floor, request.fills))
        table = self.table
        return status_pb.RaiseFloorResponse(
            last_commit_timestamp=table.last_commit_ts,
            full=table.full,
            settled=table.settled,
            oldest_kept_txn_id=table.oldest_kept,
            next_txn_id=table.next_txn_id,
        )

    async def get_outcomes(self, request: status_pb.GetOutcomesRequest) -> status_pb.GetOutcomesResponse:
        check_count(len(request.txn_ids), "outcomes", MAX_OUTCOMES)
        self._driver.check_lease()
        at = checked_timestamp(request.timestamp)
        outcomes = [self.table.commit_ts_at(TxnId(txn_id), at) for txn_id in request.txn_ids]
        return status_pb.GetOutcomesResponse(commit_timestamps=outcomes)

    async def list_transactions(self, request: status_pb.ListTransactionsRequest) -> status_pb.ListTransactionsResponse:
        self._driver.check_lease()
        limit = min(request.limit or MAX_LISTED, MAX_LISTED)
        check_count(len(request.states), "states", MAX_STATES)
        check_count(len(request.txn_ids), "transactions to list", MAX_LISTED)
        asked: set[int] = set(request.states)
        if unknown := asked - {state.value for state in TxnState}:
            raise InvalidArgument(f"no transaction state has the number {min(unknown)}")
        states = set(map(TxnState, asked))
        found: list[TxnRecord] = []
        looked_through = listing.asked_for(request) or self.table.ids(request.below_txn_id, states)
        for looked_at, txn_id in enumerate(looked_through, start=1):
            if looked_at % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
                self._driver.check_lease()
            record = self.table.find(TxnId(txn_id))
            if record is not None and listing.is_wanted(record, request, states):
                found.append(record)
                if len(found) > limit:
                    break
        return status_pb.ListTransactionsResponse(txns=map(to_wire, found[:limit]), more=len(found) > limit)

    # ---- performing

    def _act_on(self, commands: Sequence[cmd.Command], outcomes: Sequence[StatusApplied | Rejected]) -> None:
        """What has applied must be acted upon, or nobody watches what was begun."""
        for outcome in outcomes:
            if isinstance(outcome, StatusApplied):
                for step in outcome.steps:
                    self._here.has_applied(step)
        measure(self._environment.measures, commands, outcomes)
        self._phases.applied(outcomes)
        self._handle(list(map(CommandApplied, commands, outcomes)))

    def _own_ended(
        self, commands: Sequence[cmd.Command], start: int, answers: Sequence[StatusApplied | TxnError]
    ) -> None:
        """How proposals of the manager itself ended: a refusal means somebody else was first."""
        for command, answer in zip(commands[start:], answers, strict=False):
            if isinstance(answer, Unavailable):
                self.manager.proposal_failed(command, self._environment.monotonic())
            elif isinstance(answer, TxnError):
                log.info("%s was refused: %s", type(command).__name__, answer)

    def _handle(self, events: Sequence[Event]) -> None:
        now, wall = self._environment.monotonic(), self._wall.micros()
        self._perform([effect for event in events for effect in self.manager.handle(event, now, wall)])

    def _perform(self, effects: Sequence[Effect]) -> None:
        """What is proposed at once, and what only tidies up, goes into the log together."""
        proposed: list[cmd.Command] = []
        tidying: list[cmd.Command] = []
        for effect in effects:
            match effect:
                case Propose(command, awaited):
                    (proposed if awaited else tidying).append(command)
                case Decided(record):
                    self._outcomes.tell(record)
                case SendOp():
                    self._calls.send(effect)
        for commands, linger in ((tidying, True), (proposed, False)):
            if commands:
                self._proposer.submit(commands, partial(self._own_ended, commands), linger=linger)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TAKE_OVER_SECONDS if self.manager.is_taking_over else TICK_SECONDS)
            # Time in which this leader could not hear its clients does not count against them.
            if self._driver.group.has_lease:
                self._handle([Tick(self._unsettled_seconds())])
                self._tend_range()

    def _unsettled_seconds(self) -> float:
        """As of a Tick."""
        submitted = self._driver.unsettled_seconds()
        return submitted + STAMPED_SECONDS if submitted else 0.0

    def _tend_range(self) -> None:
        """Has the next range added before this one is full, and this one dropped when it is spent."""
        catalog = self._client.cluster.state
        if self._tending is not None and not self._tending.done():
            return
        is_last = self.number in catalog.last_ranges.values()
        if self.table.nearly_full and is_last:
            change = self._ranges.add_range(self.number)
        elif self.table.spent and not is_last and self.number in catalog.ranges:
            change = self._ranges.drop_range(self.number, self.table.last_commit_ts)
        else:
            return
        self._tending = self._tasks.spawn(self._tend(change))

    async def _tend(self, change: Coroutine[Any, Any, None]) -> None:
        try:
            await change
        except TxnError as error:
            log.info("range %d: the catalog was not changed, will try again: %s", self.number, error.message)
