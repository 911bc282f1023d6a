"""Tickets: what a manager signs for those who work for a transaction, and the keys by which it does."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.commands import TurnTicketKey
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, NotAuthorized
from txnstatus.limits import MAX_TICKET_BYTES, MAX_TICKET_TABLES, TICKET_KEY_BYTES, check_count
from txnstatus.names import check_table_name
from txnstatus.proto import admin_pb2 as admin_pb
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.server import Registry
from txnstatus.security.tickets import DEFAULT_SECONDS, MAX_SECONDS, Ticket, scope_from_wire, sign
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import TxnId, TxnState


def serve(registry: Registry, client: TxnSystemClient, ranges: StatusRanges, wall_micros: Callable[[], int]) -> None:
    """Has the node answer what concerns tickets, and know whether a transaction is open that one is of."""
    tickets = Tickets(client, ranges, wall_micros)
    for module, service in ((pb, "TxnManager"), (admin_pb, "Admin")):
        registry.add(module.DESCRIPTOR.services_by_name[service], tickets)
    registry.require_open = tickets.require_open


class Tickets:
    """Implements what the TxnManager and Admin services have of tickets."""

    def __init__(self, client: TxnSystemClient, ranges: StatusRanges, wall_micros: Callable[[], int]) -> None:
        self._cluster = client.cluster
        self._catalog = CatalogClient(client)
        self._ranges = ranges
        self._wall_micros = wall_micros

    async def issue_ticket(self, request: pb.IssueTicketRequest) -> pb.IssueTicketResponse:
        """For the transaction's owner, also once it has ended: then the ticket is good for nothing."""
        scope, seconds = scope_from_wire(request.scope), request.seconds or DEFAULT_SECONDS
        if scope.txn_id != request.txn_id:
            raise InvalidArgument(f"a ticket of transaction {scope.txn_id} that is asked for {request.txn_id}")
        if seconds > MAX_SECONDS:
            raise InvalidArgument(f"a token for {seconds} s: {MAX_SECONDS} are possible")
        check_count(len(scope.tables), "tables of a token", MAX_TICKET_TABLES)
        for table in scope.tables:
            check_table_name(table)
        found = await self._record(scope.txn_id)
        if found.owner != request.owner:
            raise NotAuthorized(
                f"transaction {scope.txn_id} belongs to {found.owner!r}, not to {request.owner!r}", txn_id=scope.txn_id
            )
        state = await self._with_key()
        expires = self._wall_micros() // 1_000_000 + seconds
        ticket, number = Ticket(state.cluster_id, request.owner, scope, expires), state.ticket_key
        signed = sign(ticket, number, state.ticket_keys[number])
        if len(signed) > MAX_TICKET_BYTES:
            raise InvalidArgument(f"a token of {len(signed)} bytes: {MAX_TICKET_BYTES} are possible; name fewer tables")
        return pb.IssueTicketResponse(ticket=signed)

    async def turn_ticket_key(self, request: admin_pb.TurnTicketKeyRequest) -> admin_pb.TurnTicketKeyResponse:
        state = await self._turn(request.after)
        return admin_pb.TurnTicketKeyResponse(number=state.ticket_key)

    async def require_open(self, txn_id: TxnId) -> None:
        """Raises NotAuthorized once the transaction is not open any more, NotFound."""
        found = await self._record(txn_id)
        if (state := TxnState(found.state)) is not TxnState.OPEN:
            raise NotAuthorized(f"transaction {txn_id} is {state}, and its tokens are good for nothing")

    async def _record(self, txn_id: TxnId) -> common.TxnInfo:
        request = pb.GetTransactionStateRequest(txn_id=txn_id)
        answer = await self._ranges.call(txn_id, "GetTransactionState", request, pb.GetTransactionStateResponse)
        return answer.txn

    async def _with_key(self) -> CatalogState:
        """The catalog once it has a key: the first is drawn when it is asked for. A cluster that uses none has none."""
        state = self._cluster.state
        return state if state.ticket_keys else await self._turn(0)

    async def _turn(self, after: int) -> CatalogState:
        return await self._catalog.change(TurnTicketKey(after, secrets.token_bytes(TICKET_KEY_BYTES)))
