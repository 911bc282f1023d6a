"""BeginCalls: begins in one range, as its leader answers them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from txnstatus.catalog.options import Options
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.limits import MAX_FIRST_WRITES, MAX_LABEL_CHARACTERS, check_count, check_length
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.raft.parts import PartDriver
from txnstatus.raft.proposer import Proposer
from txnstatus.rpc.calls import Call
from txnstatus.status import commands as cmd
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.records import TxnRecord, participant_from_wire, participant_to_wire
from txnstatus.status.table import StatusApplied
from txnstatus.wire import checked_timestamp


class BeginCalls:
    def __init__(
        self,
        manager: TxnStatusManager,
        driver: PartDriver,
        proposer: Proposer[cmd.Command, StatusApplied],
        client: TxnSystemClient,
        ranges: StatusRanges,
        options: Callable[[], Options],
        wall_micros: Callable[[], int],
        monotonic: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`options`: the cluster's, as they are set now. `wall_micros` labels records; `monotonic`: the clock of the
        manager.
        """
        self._manager, self._table = manager, manager.table
        self._driver = driver
        self._proposer = proposer
        self._cluster = client.cluster
        self._ranges = ranges
        self._options = options
        self._wall_micros, self._monotonic = wall_micros, monotonic
        self._spawn = spawn

    def begin(self, calls: Sequence[Call]) -> None:
        self._driver.check_lease()
        if not self._cluster.cluster_id:
            raise Unavailable("the cluster is not founded yet")
        known: list[Call] = []
        for call in calls:
            if all(self._cluster.has_participant(each.participant_id) for each in call.request.participants):
                known.append(call)
            else:
                self._spawn(self._begin_with_unheard_of(call))
        self._begin(known)

    async def _begin_with_unheard_of(self, call: Call) -> None:
        """A table's group may have been added a moment ago. Tells of a participant that there is not."""
        try:
            for each in call.request.participants:
                await self._ranges.check_participant(each.participant_id)
            self._driver.check_lease()
        except TxnError as error:
            call.tell(error)
        else:
            self._begin([call])

    def _begin(self, calls: Sequence[Call]) -> None:
        begins: list[Call] = []
        commands: list[cmd.BeginTxns] = []
        for call in calls:
            try:
                command = self._command(call.request)
            except TxnError as error:
                call.tell(error)
                continue
            begun = self._table.begun_by(command.request_id)
            if begun is not None or self._table.full or call.request.looks:
                call.tell(self._begun(begun or (), command.owner, begun_before=True))
            else:
                begins.append(call)
                commands.append(command)
        if commands:
            self._proposer.submit(commands, partial(self._tell, begins, commands))

    def _command(self, wrapped: status_pb.RangeBeginRequest) -> cmd.BeginTxns:
        """Raises InvalidArgument."""
        request, options = wrapped.request, self._options()
        if not request.owner or not request.request_id:
            raise InvalidArgument("a begin needs an owner and a request id")
        check_length("label", request.label, MAX_LABEL_CHARACTERS)
        check_length("owner", request.owner, MAX_LABEL_CHARACTERS)
        check_length("request id", request.request_id, MAX_LABEL_CHARACTERS)
        check_count(len(wrapped.participants), "first writes", MAX_FIRST_WRITES)
        return cmd.BeginTxns(
            request.request_id,
            request.count or 1,
            request.owner,
            request.label,
            options.keepalive(request.keepalive_millis),
            self._wall_micros(),
            checked_timestamp(wrapped.floor),
            options.max_open_transactions,
            tuple(map(participant_from_wire, wrapped.participants)),
            self._most_of(request.owner),
        )

    def _most_of(self, owner: str) -> int:
        """Unfinished transactions that the owner may have here; processes of the cluster have no limit."""
        return 0 if "/" in owner else self._cluster.state.limit(owner, "user_open_transactions")

    def _tell(
        self,
        calls: Sequence[Call],
        commands: Sequence[cmd.BeginTxns],
        start: int,
        answers: Sequence[StatusApplied | TxnError],
    ) -> None:
        for call, command, answer in zip(calls[start:], commands[start:], answers, strict=False):
            if isinstance(answer, TxnError):
                call.tell(answer)
            else:
                call.tell(self._begun(answer.records, command.owner, begun_before=not answer.changed))

    def _begun(
        self, begun: Sequence[TxnRecord], owner: str, *, begun_before: bool
    ) -> status_pb.RangeBeginResponse | TxnError:
        """`begun`: nothing, where the range is full, or the request only looks."""
        if not begun:
            return status_pb.RangeBeginResponse(last_commit_timestamp=self._table.last_commit_ts)
        if begun[0].owner != owner:
            taken = begun[0].request.request_id
            return InvalidArgument(f"request id {taken!r} is that of another user's begin", hint="take one of your own")
        # The answer promises a whole interval, also to whoever asked before and was not answered.
        self._manager.advance_time(self._monotonic())
        self._manager.keep_alive([record.txn_id for record in begun], owner)
        response = pb.BeginTransactionResponse(
            txn_ids=[record.txn_id for record in begun],
            keepalive_millis=begun[0].keepalive_millis,
            cluster_id=self._cluster.cluster_id,
            begun_before=begun_before,
            participants=map(participant_to_wire, begun[0].participants.values() if begun_before else ()),
        )
        return status_pb.RangeBeginResponse(begun=response)
