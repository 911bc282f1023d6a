"""CommitCalls: commits, and looks at transactions, which may wait for the outcome."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from txnstatus.errors import TxnError, Unavailable
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.raft.parts import PartDriver
from txnstatus.raft.proposer import Proposer
from txnstatus.rpc.calls import Call
from txnstatus.rpc.deadlines import answering_by
from txnstatus.status import commands as cmd
from txnstatus.status.commit.beginning import BeginCommits
from txnstatus.status.commit.last_writes import LastWrites
from txnstatus.status.events import CommitRequested
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.outcomes import Outcome, Outcomes, Told
from txnstatus.status.records import TxnRecord, fill
from txnstatus.status.table import StatusApplied
from txnstatus.tracing import spans
from txnstatus.types import DECIDED, TxnId, TxnState

Response = type[pb.CommitTransactionResponse | pb.GetTransactionStateResponse]


class _Wait(NamedTuple):
    """A call, and the outcome of the transaction that it is about."""

    call: Call
    outcome: Outcome


class CommitCalls:
    def __init__(
        self,
        manager: TxnStatusManager,
        driver: PartDriver,
        proposer: Proposer[cmd.Command, StatusApplied],
        outcomes: Outcomes,
        handle: Callable[[Sequence[CommitRequested]], None],
        beginning: BeginCommits,
        last_writes: LastWrites,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`handle` tells the manager what was asked for."""
        self._beginning = beginning
        self._last_writes = last_writes
        self._spawn = spawn
        self._manager, self._table = manager, manager.table
        self._driver = driver
        self._proposer = proposer
        self._outcomes = outcomes
        self._handle = handle

    def commit(self, calls: Sequence[Call]) -> None:
        self._driver.check_lease()
        begun: dict[bool, list[_Wait]] = {True: [], False: []}
        """Calls whose commands linger, and the others."""
        for call in calls:
            try:
                record = self._table.get(TxnId(call.request.txn_id))
            except TxnError as error:
                call.tell(error)
                continue
            # Who waits for the outcome does not wait for this: it goes with the decision, which it would only precede.
            linger = bool(call.request.wait_millis and self._manager.elsewhere(record))
            # The answer is what was told from here on: the table may forget the transaction meanwhile.
            wait = _Wait(call, self._outcomes.of(record.txn_id))
            if self._beginning.is_ready(record) and not call.request.last_writes:
                begun[linger].append(wait)
            else:
                self._spawn(self._begin(wait))
        requested = [
            CommitRequested(outcome.txn_id, call.request.owner) for call, outcome in begun[True] + begun[False]
        ]
        self._handle(requested)
        for linger, waits in begun.items():
            if waits:
                commands = [self._beginning.command(outcome.txn_id, call.request.owner) for call, outcome in waits]
                self._proposer.submit(commands, partial(self._begun, waits), linger=linger)

    def look(self, calls: Sequence[Call]) -> None:
        self._driver.check_lease()
        for call in calls:
            try:
                record = self._table.get(TxnId(call.request.txn_id))
            except TxnError as error:
                call.tell(error)
            else:
                self._answer(_Wait(call, self._outcomes.of(record.txn_id)), record, pb.GetTransactionStateResponse)

    def _begun(self, waits: Sequence[_Wait], start: int, answers: Sequence[StatusApplied | TxnError]) -> None:
        for wait, answer in zip(waits[start:], answers, strict=False):
            if type(answer) is Unavailable:
                self._spawn(self._begin(wait))  # a compaction was switched to in between
            elif isinstance(answer, TxnError):
                wait.outcome.close()
                wait.call.tell(answer)
            else:
                self._answer(wait, answer.records[0], pb.CommitTransactionResponse)

    async def _begin(self, wait: _Wait) -> None:
        """One by itself, which has last writes, or has to be made ready first."""
        request = wait.call.request
        if wait.call.served is not None:
            spans.begin_within(wait.call.served.span)
        try:
            writes = await self._take_writes(wait.call)
            record = self._table.get(wait.outcome.txn_id)
            if not request.last_writes:  # who has prepared asks for the commit after a while, and takes no files again
                self._handle([CommitRequested(record.txn_id, request.owner)])
            record = await self._beginning.begin(record, request.owner, writes)
        except TxnError as error:
            wait.outcome.close()
            wait.call.tell(error)
        else:
            self._answer(wait, record, pb.CommitTransactionResponse)

    async def _take_writes(self, call: Call) -> tuple[cmd.LastWrite, ...]:
        """The last writes of one that is OPEN. In every other state it has them, or is to have no more."""
        request, record = call.request, self._table.get(TxnId(call.request.txn_id))
        if not request.last_writes or record.state is not TxnState.OPEN:
            return ()
        try:
            with answering_by(call.answer_by):
                return await self._last_writes.take(request)
        except TxnError:
            # Nobody prepares before the commit has begun. If it has, by an earlier attempt, then with these writes.
            if self._table.get(record.txn_id).state is TxnState.OPEN:
                raise
            return ()

    def _answer(self, wait: _Wait, record: TxnRecord, response: Response) -> None:
        """With the record as it is, or, where who asks waits for the outcome, as it is decided."""
        call, outcome = wait

        def told(decided: Told) -> None:
            if isinstance(decided, TxnError):
                call.tell(decided)
                return
            latest = decided or self._table.find(record.txn_id) or record
            answer = response(waits_for=self._manager.waits_for(record.txn_id))
            fill(answer.txn, latest)
            call.tell(answer)

        if call.request.wait_millis and record.state not in DECIDED:
            call.on_end = outcome.close
            outcome.wait(call.seconds_left(call.request.wait_millis / 1000), told)
        else:
            outcome.close()
            told(record)
