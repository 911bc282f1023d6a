"""The TxnStatus service of a node: finds the range a request is about, and asks its replica here."""

from __future__ import annotations

from collections.abc import Mapping

from txnstatus.catalog.catalog import status_group
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.errors import InvalidArgument, NotFound, Unavailable
from txnstatus.limits import MAX_KEEP_ALIVE_IDS, check_count
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.status.service import StatusService
from txnstatus.types import TxnId, TxnState


class RangeService:
    """Implements the TxnStatus service."""

    def __init__(self, ranges: Mapping[int, StatusService], cluster: ClusterMap, node_id: str) -> None:
        """`ranges`: those that have a replica on this node, by number; they come and go."""
        self._ranges = ranges
        self._cluster = cluster
        self._node_id = node_id

    def _numbered(self, number: int) -> StatusService:
        service = self._ranges.get(number)
        if service is None:
            # Either catalog may be ahead, this node's or the caller's: it will look again.
            raise Unavailable(f"{self._node_id} has no replica of {status_group(number)}")
        return service

    def _of(self, txn_id: int) -> StatusService:
        if txn_id < 0:
            raise NotFound(f"transaction {txn_id} cannot exist: ids start at 0", txn_id=TxnId(txn_id))
        return self._numbered(self._cluster.state.range_of(TxnId(txn_id)))

    async def begin_transaction(self, request: status_pb.RangeBeginRequest) -> status_pb.RangeBeginResponse:
        return await self._numbered(request.range).begin_transaction(request)

    async def commit_transaction(self, request: pb.CommitTransactionRequest) -> pb.CommitTransactionResponse:
        return await self._of(request.txn_id).commit_transaction(request)

    async def abort_transaction(self, request: pb.AbortTransactionRequest) -> pb.AbortTransactionResponse:
        return await self._of(request.txn_id).abort_transaction(request)

    async def get_transaction_state(self, request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
        return await self._of(request.txn_id).get_transaction_state(request)

    async def keep_transaction_alive(self, request: status_pb.RangeKeepAliveRequest) -> pb.KeepTransactionAliveResponse:
        check_count(len(request.request.txn_ids), "transactions to keep alive", MAX_KEEP_ALIVE_IDS)
        return await self._numbered(request.range).keep_transaction_alive(request)

    async def raise_floor(self, request: status_pb.RaiseFloorRequest) -> status_pb.RaiseFloorResponse:
        return await self._numbered(request.range).raise_floor(request)

    async def register_participants(
        self, request: status_pb.RegisterParticipantsRequest
    ) -> status_pb.RegisterParticipantsResponse:
        return await self._numbered(request.range).register_participants(request)

    async def get_outcomes(self, request: status_pb.GetOutcomesRequest) -> status_pb.GetOutcomesResponse:
        return await self._numbered(request.range).get_outcomes(request)

    async def list_transactions(self, request: status_pb.RangeListRequest) -> status_pb.ListTransactionsResponse:
        states: set[int] = set(request.request.states)
        if unknown := states - {state.value for state in TxnState}:
            raise InvalidArgument(f"no transaction state has the number {min(unknown)}")
        return await self._numbered(request.range).list_transactions(request)
