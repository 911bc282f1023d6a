"""The Audit service: a manager forwards each call to the leader of the shard."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.proto import audit_pb2 as pb

ResponseT = TypeVar("ResponseT", bound=Message)
ShardRequest = pb.AuditShardRequest | pb.AuditTableRequest | pb.AdoptDirectoriesRequest

CALL_SECONDS = 15.0


class AuditProxy:
    def __init__(self, client: TxnSystemClient) -> None:
        self._client = client

    async def audit_shard(self, request: pb.AuditShardRequest) -> pb.AuditShardResponse:
        return await self._ask("AuditShard", request, pb.AuditShardResponse)

    async def audit_table(self, request: pb.AuditTableRequest) -> pb.AuditTableResponse:
        return await self._ask("AuditTable", request, pb.AuditTableResponse)

    async def adopt_directories(self, request: pb.AdoptDirectoriesRequest) -> pb.AdoptDirectoriesResponse:
        return await self._ask("AdoptDirectories", request, pb.AdoptDirectoriesResponse)

    async def _ask(self, method: str, request: ShardRequest, response: type[ResponseT]) -> ResponseT:
        group = shard_group(request.shard)
        return await self._client.call_leader(group, f"txnstatus.ShardAudit/{method}", request, response, CALL_SECONDS)
