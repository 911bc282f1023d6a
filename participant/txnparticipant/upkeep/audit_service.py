"""The audit's RPCs on a shard's leader: what it knows, and the adoption of what is nobody's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from txnparticipant.shard import adoption, audit
from txnparticipant.shard.audit import Known
from txnparticipant.shard.commands import Adopt
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.limits import MAX_ADOPTED, check_count
from txnstatus.proto import audit_pb2 as pb
from txnstatus.rpc.errors import to_detail
from txnstatus.types import TxnId

PAGE_DIRECTORIES = 10_000
"""Whatever becomes of a directory meanwhile, its name says on which page it is."""
SLICE = 500
"""Directories, after which others have a turn."""


@dataclass(slots=True)
class _Page:
    """The first names after a name, whatever the order in which they come."""

    after: str
    known: dict[str, Known] = field(default_factory=dict)
    more: bool = False
    _last: str = ""
    """The name after which all is on a later page; empty: nobody knows yet."""

    def add(self, name: str, known: Known) -> None:
        if self._last and name > self._last:
            self.more = True
        elif name > self.after:
            self.known[name] = known
            if len(self.known) > 2 * PAGE_DIRECTORIES:
                self.cut()

    def cut(self) -> None:
        names = sorted(self.known)
        if len(names) > PAGE_DIRECTORIES:
            self.more, self._last = True, names[PAGE_DIRECTORIES - 1]
        self.known = {name: self.known[name] for name in names[:PAGE_DIRECTORIES]}


class ShardAudit:
    """Implements the Audit service for one shard."""

    def __init__(
        self, shard: ParticipantShard, propose: Callable[[Adopt], Awaitable[object]], check_lease: Callable[[], None]
    ) -> None:
        """`check_lease`: of the leadership; raises NotTheLeader."""
        self._shard, self._propose, self._check_lease = shard, propose, check_lease

    async def audit_shard(self, request: pb.AuditShardRequest) -> pb.AuditShardResponse:
        """Raises InvalidArgument where another shard is meant."""
        self._check_lease()
        if request.shard != self._shard.shard:
            raise InvalidArgument(f"shard {request.shard} is not this one, {self._shard.shard}")
        return audit.participants(self._shard.tables(), (request.after_table_id, request.after_txn_id))

    async def audit_table(self, request: pb.AuditTableRequest) -> pb.AuditTableResponse:
        """As of when it is asked; others have their turns while the answer is made. Raises NotFound."""
        page = _Page(request.after)
        for number, (name, known) in enumerate(audit.directories(self._table(request.table_id)), 1):
            page.add(name, known)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        page.cut()
        response = pb.AuditTableResponse(more=page.more)
        for number, (name, known) in enumerate(page.known.items(), 1):
            response.directories.append(audit.to_wire(name, known))
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return response

    async def audit_transaction(self, request: pb.AuditTransactionRequest) -> pb.AuditTransactionResponse:
        """Raises NotFound for a table that there is not any more."""
        return audit.transaction_to_wire(self._table(request.table_id), TxnId(request.txn_id))

    async def adopt_directories(self, request: pb.AdoptDirectoriesRequest) -> pb.AdoptDirectoriesResponse:
        """Refusals are answered one by one. Raises NotFound."""
        check_count(len(request.names), "directories", MAX_ADOPTED)
        table = self._table(request.table_id)
        results = await asyncio.gather(*(self._adopt(table, name, request.only_ask) for name in request.names))
        return pb.AdoptDirectoriesResponse(results=results)

    async def _adopt(self, table: TableState, name: str, only_ask: bool) -> pb.AdoptResult:
        try:
            refused = adoption.refusal(table, name, self._shard.forgotten)
            if refused:
                raise refused
            if not only_ask:
                await self._propose(Adopt(table.table_id, name))
        except TxnError as error:
            if error.retriable:
                raise
            return pb.AdoptResult(error=to_detail(error))
        return pb.AdoptResult()

    def _table(self, table_id: str) -> TableState:
        self._check_lease()
        return self._shard.table_by_id(table_id)
