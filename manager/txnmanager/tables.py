"""What a manager does for calls about tables that concern several leaders, or are asked in turns."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from txnmanager.all_shards import AllShards, each_once
from txnmanager.keepers import CALL_SECONDS, Keepers
from txnstatus import lock_requests, partitions
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, NotAuthorized, NotFound, PlacedElsewhere, TxnError
from txnstatus.limits import MAX_LEASES_PER_CALL, MAX_LOCK_WAIT_SECONDS, check_count
from txnstatus.names import check_table_name, is_database_name
from txnstatus.pages import first_page
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.roles import Role
from txnstatus.rpc.deadlines import time_left
from txnstatus.rpc.errors import from_detail, to_detail
from txnstatus.schema import Schema
from txnstatus.security.access import reads, sees, shown_to_caller
from txnstatus.security.visible import table_of_lock
from txnstatus.status.ranges import StatusRanges

ResponseT = TypeVar("ResponseT", bound=Message)


class Tables:
    """Implements the Table service, with `router`."""

    def __init__(self, client: TxnSystemClient, ranges: StatusRanges, keepers: Keepers) -> None:
        self._client = client
        self._catalog = CatalogClient(client)
        self._ranges = ranges
        self._keepers = keepers
        self._all = AllShards(client)

    async def list_tables(self, request: table_pb.ListTablesRequest) -> table_pb.ListTablesResponse:
        """As far as every shard has answered: what comes after that is on a later page."""
        while True:
            answers = await self._all.ask("txnstatus.Table/ListTables", request, table_pb.ListTablesResponse)
            ends = [answer.tables[-1].name for answer in answers if answer.more]
            told = each_once((table for answer in answers for table in answer.tables), lambda table: table.table_id)
            seen = [table for table in told if sees(table.name) and (not ends or table.name <= min(ends))]
            if seen or not ends:
                page, more = first_page(sorted(seen, key=lambda table: table.name))
                return table_pb.ListTablesResponse(tables=page, more=more or bool(ends))
            request = table_pb.ListTablesRequest(after=min(ends))

    async def renew_leases(self, request: table_pb.RenewLeasesRequest) -> table_pb.RenewLeasesResponse:
        """Answers lease by lease, in the order of the request; a shard that cannot answer fails only its own."""
        check_count(len(request.leases), "leases", MAX_LEASES_PER_CALL)
        results: dict[int, table_pb.RenewLeaseResult] = {}

        async def ask(shard: int, numbers: Sequence[int]) -> None:
            part = table_pb.RenewLeasesRequest(leases=[request.leases[number] for number in numbers])
            try:
                if shard not in self._client.cluster.state.shards:
                    await self._catalog.refresh()  # its group was added a moment ago
                answer = await self._ask(shard, "RenewLeases", part, table_pb.RenewLeasesResponse)
            except TxnError as error:
                results.update(dict.fromkeys(numbers, table_pb.RenewLeaseResult(error=to_detail(error))))
            else:
                results.update(zip(numbers, answer.results, strict=True))
                await ask_elsewhere(numbers)

        async def ask_elsewhere(numbers: Sequence[int]) -> None:
            """Leases of tables that the shard has placed in others."""
            placed: defaultdict[int, list[int]] = defaultdict(list)
            for number in numbers:
                if results[number].error.code == PlacedElsewhere.code:
                    error = from_detail(results[number].error)
                    assert isinstance(error, PlacedElsewhere)
                    self._client.cluster.keeps(request.leases[number].table, error.shard)
                    placed[error.shard].append(number)
            await asyncio.gather(*(ask(shard, numbers) for shard, numbers in placed.items()))

        by_shard: defaultdict[int, list[int]] = defaultdict(list)
        for number, lease in enumerate(request.leases):
            if reads(lease.table):
                by_shard[self._shard(lease.table)].append(number)
            else:
                refusal = NotAuthorized(f"a lease on table {lease.table} is for {Role.READER} on it")
                results[number] = table_pb.RenewLeaseResult(error=to_detail(refusal))
        await asyncio.gather(*(ask(shard, numbers) for shard, numbers in by_shard.items()))
        return table_pb.RenewLeasesResponse(results=[results[number] for number in range(len(request.leases))])

    async def lock(self, request: table_pb.LockRequest) -> table_pb.LockResponse:
        """The database first: objects are locked in the order of their names, and a parent's comes first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + time_left(min(request.wait_millis / 1000, MAX_LOCK_WAIT_SECONDS))
        database, dot, _ = request.table.partition(".")
        if dot:
            # Else the database would be locked for nothing.
            found = await self._get(request.table)
            lock_requests.check(request, Schema.from_wire(found.table.schema))
            parent = table_pb.LockRequest(
                txn_id=request.txn_id,
                owner=request.owner,
                table=database,
                mode=table_pb.LOCK_S,
                settled_by=request.settled_by,
            )
            answer = await self._lock(parent, deadline)
            if not answer.granted:
                return answer
        return await self._lock(request, deadline)

    async def _lock(self, request: table_pb.LockRequest, deadline: float) -> table_pb.LockResponse:
        """Locks objects of one participant, a table or a database; its leader waits in short turns."""
        name = request.table
        home = self._client.cluster.shard_by_hash(name) if is_database_name(name) else None
        loop = asyncio.get_running_loop()
        while True:
            part = table_pb.LockRequest()
            part.CopyFrom(request)  # the caller's own is not to be changed
            part.wait_millis = int(max(0.0, deadline - loop.time()) * 1000)
            if home is None:
                answer = await self._of_table("Lock", part, table_pb.LockResponse)
            else:
                answer = await self._ask(home, "Lock", part, table_pb.LockResponse)
            if answer.granted or not part.wait_millis:
                return answer

    async def show_locks(self, request: table_pb.ShowLocksRequest) -> table_pb.ShowLocksResponse:
        """As far as every shard has answered: what comes after that is on a later page."""
        asked = table_pb.ShowLocksRequest()
        asked.CopyFrom(request)  # the caller's own is not to be changed
        while True:
            locks, more = await self._locks(asked)
            page, is_cut = first_page([lock for lock in locks if sees(table_of_lock(lock.object))])
            if page or not more:
                break
            last = locks[-1]
            asked.after.CopyFrom(table_pb.LockPlace(object=last.object, since=last.since, txn_id=last.txn_id))
        if request.table and not page and not request.HasField("after"):
            await self.check_there(request.table)
        if request.extended:
            await self._add_transactions(page)
        return table_pb.ShowLocksResponse(locks=page, more=is_cut or more)

    async def _locks(self, request: table_pb.ShowLocksRequest) -> tuple[Sequence[table_pb.LockInfo], bool]:
        """Locks that all shards have told of, by their places; and whether there are more."""
        answers: Sequence[table_pb.ShowLocksResponse]
        if "." in request.table:
            found = await self._get(request.table)
            if request.partition:
                partitions.check(request.partition, found.table.schema.partition_by, request.table)
            answers = [await self._of_table("ShowLocks", request, table_pb.ShowLocksResponse)]
        elif request.partition:
            raise InvalidArgument("a partition needs the table that it is of")
        else:
            answers = await self._all.ask("txnstatus.Table/ShowLocks", request, table_pb.ShowLocksResponse)
        ends = [_place(answer.locks[-1]) for answer in answers if answer.more]
        told = each_once((lock for answer in answers for lock in answer.locks), _place)
        return sorted((lock for lock in told if not ends or _place(lock) <= min(ends)), key=_place), bool(ends)

    async def check_there(self, name: str) -> None:
        """Whether there is such a table or database. Raises NotFound.

        Nobody creates a database: it is there while it has a table.
        """
        if "." in name:
            await self._get(name)
            return
        found = await self.list_tables(table_pb.ListTablesRequest(after=f"{name}."))
        if not found.tables or not found.tables[0].name.startswith(f"{name}."):
            raise NotFound(f"there is no table in a database {name[:300]!r}, and no table is called so")

    async def _add_transactions(self, locks: Sequence[table_pb.LockInfo]) -> None:
        """What the status table knows of those that hold or wait; nothing of those that it has forgotten."""

        async def look(txn_id: int) -> None:
            request = pb.GetTransactionStateRequest(txn_id=txn_id)
            try:
                found[txn_id] = await self._ranges.call(
                    txn_id, "GetTransactionState", request, pb.GetTransactionStateResponse
                )
            except NotFound:
                return

        found: dict[int, pb.GetTransactionStateResponse] = {}
        await asyncio.gather(*map(look, {lock.txn_id for lock in locks}))
        for lock in locks:
            if lock.txn_id in found:
                lock.txn.CopyFrom(shown_to_caller(found[lock.txn_id].txn))

    async def _get(self, table: str) -> table_pb.GetTableResponse:
        """From then on this process knows who keeps the table. Raises NotFound."""
        request, method = table_pb.GetTableRequest(name=check_table_name(table)), "txnstatus.Table/GetTable"
        return await self._keepers.call(table, method, request, table_pb.GetTableResponse)

    async def _of_table(
        self, method: str, request: table_pb.LockRequest | table_pb.ShowLocksRequest, response: type[ResponseT]
    ) -> ResponseT:
        """The answer of who keeps the table, which may go to another shard while it waits."""
        name = check_table_name(request.table)
        return await self._keepers.call(name, f"txnstatus.Table/{method}", request, response)

    def _shard(self, table: str) -> int:
        return self._client.cluster.shard_of_table(check_table_name(table))

    def _ask(self, shard: int, method: str, request: Message, response: type[ResponseT]) -> Awaitable[ResponseT]:
        group = shard_group(shard)
        return self._client.call_leader(group, f"txnstatus.Table/{method}", request, response, CALL_SECONDS)


def _place(lock: table_pb.LockInfo) -> tuple[str, int, int]:
    """The place in the listing of locks."""
    return lock.object, lock.since, lock.txn_id
