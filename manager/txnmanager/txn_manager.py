"""What a manager does for calls that concern several leaders, or are asked in turns; `router` has all others.

Managers keep nothing: which one a client asks, and whether it is the same one twice, makes no difference.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from txnmanager import first_writes
from txnmanager.keepers import CALL_SECONDS, Keepers
from txnstatus import lock_requests, partitions
from txnstatus.catalog import commands as catalog
from txnstatus.catalog.catalog import FIRST_GROUP, shard_group, to_wire
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import CommitUnknown, Forgotten, InvalidArgument, NotFound, PlacedElsewhere, TxnError
from txnstatus.foreign import foreign_id, foreign_name
from txnstatus.limits import (
    MAX_KEEP_ALIVE_IDS,
    MAX_LEASES_PER_CALL,
    MAX_LOCK_WAIT_SECONDS,
    check_count,
)
from txnstatus.names import check_table_name, is_database_name
from txnstatus.pages import first_page
from txnstatus.proto import admin_pb2 as admin_pb
from txnstatus.proto import common_pb2 as common_pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.rpc.calls import Call, PassedOn, takes_calls
from txnstatus.rpc.deadlines import time_left
from txnstatus.rpc.errors import from_detail, to_detail
from txnstatus.schema import Schema
from txnstatus.status.ranges import OfTransaction, StatusRanges
from txnstatus.types import DECIDED, TxnId, TxnState

ResponseT = TypeVar("ResponseT", bound=Message)


class TxnManager:
    """Implements the TxnManager service, with `router`."""

    def __init__(self, client: TxnSystemClient, ranges: StatusRanges, keepers: Keepers) -> None:
        self._cluster = client.cluster
        self._ranges = ranges
        self._keepers = keepers

    @takes_calls
    def begin_transaction(self, calls: Sequence[Call]) -> None:
        """Begins near the same tables, with first writes there, wait for these together, and for nobody else's."""
        by_tables: defaultdict[tuple[str, tuple[str, ...]], list[Call]] = defaultdict(list)
        for call in calls:
            try:
                names, near = first_writes.checked(call.request), call.request.near
                by_tables[check_table_name(near) if near else "", names].append(call)
            except TxnError as error:
                call.tell(error)
        for (near, names), begins in by_tables.items():
            group = self._group_near(near)
            if names or group is None:
                asked = names if group is not None else tuple(dict.fromkeys((*names, near)))
                by = max(call.answer_by for call in begins)
                first_writes.look_up(self._keepers, asked, by, partial(self._begin_near, near, asked, begins))
            else:
                self._ranges.begin(begins, group)

    def _group_near(self, table: str) -> str | None:
        """The group in whose ranges transactions near the table begin; the first one, where none is named.

        None: somebody else must say where the table is.
        """
        state = self._cluster.state
        if not table or len(state.ranges_of) == 1:
            return FIRST_GROUP
        shard = self._cluster.known_keeper(table)
        return None if shard is None else state.group_of(shard_group(shard))

    def _begin_near(self, near: str, asked: Sequence[str], calls: Sequence[Call], found: first_writes.Found) -> None:
        """`asked`: the names of the tables that were asked for, first those of the writes."""
        if isinstance(found, TxnError):
            for call in calls:
                call.tell(found)
            return
        group = self._group_near(near)
        if group is None:
            shard = shard_of_table_id(found[asked.index(near)].table_id)
            self._cluster.keeps(near, shard)
            group = self._cluster.state.group_of(shard_group(shard))
        writes = [_FirstWrites(call, found[: len(call.request.first_writes)]) for call in calls if not call.is_over]
        self._ranges.begin(writes, group, {each: each.participants for each in writes})

    @takes_calls
    def commit_transaction(self, calls: Sequence[Call]) -> None:
        """With `wait_millis`, answers when the outcome is durable; the status leaders wait in short turns.

        Answers CommitUnknown where the record may be gone of a commit that this call has asked for.
        """
        now = asyncio.get_running_loop().time()
        commits = [_Commit(call, call.request, self._ranges, now + call.request.wait_millis / 1000) for call in calls]
        self._ranges.pass_on("CommitTransaction", commits, pb.CommitTransactionResponse)

    async def keep_transaction_alive(self, request: pb.KeepTransactionAliveRequest) -> pb.KeepTransactionAliveResponse:
        check_count(len(request.txn_ids), "transactions to keep alive", MAX_KEEP_ALIVE_IDS)
        return await self._ranges.keep_alive(request)

    async def enlist(self, request: pb.EnlistRequest) -> pb.EnlistResponse:
        participant_id = foreign_id(request.participant)
        refusal = await self._ranges.register(TxnId(request.txn_id), request.owner, participant_id, participant_id)
        if refusal is not None:
            raise refusal
        return pb.EnlistResponse()

    async def get_snapshot(self, _request: pb.GetSnapshotRequest) -> pb.GetSnapshotResponse:
        return pb.GetSnapshotResponse(timestamp=await self._ranges.snapshot())


class _FirstWrites(PassedOn):
    """A begin that carries first writes."""

    __slots__ = ("_tables", "participants")

    def __init__(self, origin: Call, tables: Sequence[common_pb.TableInfo]) -> None:
        """`tables`: those of the writes, in their order."""
        super().__init__(origin, origin.request)
        self._tables = tables
        self.participants = first_writes.participants(origin.request, tables)

    def _hear(self, answer: Any) -> None:
        if isinstance(answer, pb.BeginTransactionResponse):
            first_writes.add_opened(answer, self.participants, self._tables)
        super()._hear(answer)


class _Commit(OfTransaction):
    """A commit, or a look at what became of one, until it is decided or who asks waits no longer."""

    __slots__ = ("_by",)

    def __init__(self, origin: Call, request: Any, ranges: StatusRanges, by: float) -> None:
        """`by`: the loop's time."""
        super().__init__(origin, request, ranges, request.txn_id)
        self._by = by

    def _hear(self, answer: Any) -> None:
        if isinstance(answer, Forgotten) and self.repeated:
            answer = CommitUnknown(answer.message, txn_id=answer.txn_id, hint=answer.hint)
        left = min(self._by, self.answer_by) - asyncio.get_running_loop().time()
        if isinstance(answer, TxnError) or TxnState(answer.txn.state) in DECIDED or left <= 0:
            super()._hear(answer)
            return
        request = pb.GetTransactionStateRequest(txn_id=self.txn_id, wait_millis=max(1, int(left * 1000)))
        look = _Look(self.origin, request, self._ranges, self._by)
        look.repeated = True  # the commit was sent
        self._ranges.pass_on("GetTransactionState", [look], pb.GetTransactionStateResponse)


class _Look(_Commit):
    __slots__ = ()

    def _hear(self, answer: Any) -> None:
        if isinstance(answer, pb.GetTransactionStateResponse):
            answer = pb.CommitTransactionResponse(txn=answer.txn, waits_for=answer.waits_for)
        super()._hear(answer)


class Tables:
    """Implements the Table service, with `router`."""

    def __init__(self, client: TxnSystemClient, ranges: StatusRanges, keepers: Keepers) -> None:
        self._client = client
        self._catalog = CatalogClient(client)
        self._ranges = ranges
        self._keepers = keepers

    async def list_tables(self, request: table_pb.ListTablesRequest) -> table_pb.ListTablesResponse:
        """As far as every shard has answered: what comes after that is on a later page."""
        answers = await self._ask_all("ListTables", request, table_pb.ListTablesResponse)
        ends = [answer.tables[-1].name for answer in answers if answer.more]
        found = [table for answer in answers for table in answer.tables if not ends or table.name <= min(ends)]
        page, more = first_page(sorted(found, key=lambda table: table.name))
        return table_pb.ListTablesResponse(tables=page, more=more or bool(ends))

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
            by_shard[self._shard(lease.table)].append(number)
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
        shard = self._client.cluster.shard_of_table(name) if is_database_name(name) else self._shard(name)
        loop = asyncio.get_running_loop()
        while True:
            part = table_pb.LockRequest()
            part.CopyFrom(request)  # the caller's own is not to be changed
            part.wait_millis = int(max(0.0, deadline - loop.time()) * 1000)
            answer = await self._ask(shard, "Lock", part, table_pb.LockResponse)
            if answer.granted or not part.wait_millis:
                return answer

    async def show_locks(self, request: table_pb.ShowLocksRequest) -> table_pb.ShowLocksResponse:
        """As far as every shard has answered: what comes after that is on a later page."""
        answers: Sequence[table_pb.ShowLocksResponse]
        if "." in request.table:
            found = await self._get(request.table)
            if request.partition:
                partitions.check(request.partition, found.table.schema.partition_by, request.table)
            answers = [await self._ask(self._shard(request.table), "ShowLocks", request, table_pb.ShowLocksResponse)]
        elif request.partition:
            raise InvalidArgument("a partition needs the table that it is of")
        else:
            answers = await self._ask_all("ShowLocks", request, table_pb.ShowLocksResponse)
        ends = [_place(answer.locks[-1]) for answer in answers if answer.more]
        locks = sorted(
            (lock for answer in answers for lock in answer.locks if not ends or _place(lock) <= min(ends)), key=_place
        )
        if request.table and not locks and not request.HasField("after"):
            await self.check_there(request.table)
        page, more = first_page(locks)
        if request.extended:
            await self._add_transactions(page)
        return table_pb.ShowLocksResponse(locks=page, more=more or bool(ends))

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
                lock.txn.CopyFrom(found[lock.txn_id].txn)

    async def _ask_all(self, method: str, request: Message, response: type[ResponseT]) -> Sequence[ResponseT]:
        shards = self._client.cluster.state.shards
        return await asyncio.gather(*(self._ask(shard, method, request, response) for shard in shards))

    async def _get(self, table: str) -> table_pb.GetTableResponse:
        """From then on this process knows who keeps the table. Raises NotFound."""
        request, method = table_pb.GetTableRequest(name=check_table_name(table)), "txnstatus.Table/GetTable"
        return await self._keepers.call(table, method, request, table_pb.GetTableResponse)

    def _shard(self, table: str) -> int:
        return self._client.cluster.shard_of_table(check_table_name(table))

    def _ask(self, shard: int, method: str, request: Message, response: type[ResponseT]) -> Awaitable[ResponseT]:
        group = shard_group(shard)
        return self._client.call_leader(group, f"txnstatus.Table/{method}", request, response, CALL_SECONDS)


def _place(lock: table_pb.LockInfo) -> tuple[str, int, int]:
    """The place in the listing of locks."""
    return lock.object, lock.since, lock.txn_id


class ClusterView:
    """Implements what the Admin service has for the whole cluster; every node answers it."""

    def __init__(self, client: TxnSystemClient, ranges: StatusRanges, keepers: Keepers) -> None:
        self._catalog = CatalogClient(client)
        self._cluster = client.cluster
        self._ranges = ranges
        self._tables = Tables(client, ranges, keepers)

    async def get_cluster(self, _request: admin_pb.GetClusterRequest) -> admin_pb.GetClusterResponse:
        return admin_pb.GetClusterResponse(catalog=to_wire(self._cluster.state))

    async def set_option(self, request: admin_pb.SetOptionRequest) -> admin_pb.SetOptionResponse:
        """Answers with the options as they are then, on every node within moments."""
        state = await self._catalog.change(catalog.SetOption(request.name, request.value))
        return admin_pb.SetOptionResponse(catalog=to_wire(state))

    async def replace_node(self, request: admin_pb.ReplaceNodeRequest) -> admin_pb.ReplaceNodeResponse:
        command = catalog.ReplaceNode(request.old_node, request.new_node, request.address)
        state = await self._catalog.change(command)
        return admin_pb.ReplaceNodeResponse(catalog=to_wire(state))

    async def add_group(self, request: admin_pb.AddGroupRequest) -> admin_pb.AddGroupResponse:
        """Answers once transactions begin in ranges of the group, where ranges are in groups of shards."""
        state = await self._catalog.change(catalog.AddGroup(request.name))
        if request.name in state.without_ranges:
            await self._ranges.move_on()
        return admin_pb.AddGroupResponse(catalog=to_wire(self._cluster.state))

    async def place_database(self, request: admin_pb.PlaceDatabaseRequest) -> admin_pb.PlaceDatabaseResponse:
        state = await self._catalog.change(catalog.PlaceDatabase(request.database, request.group))
        return admin_pb.PlaceDatabaseResponse(catalog=to_wire(state))

    async def remove_foreign(self, request: admin_pb.RemoveForeignRequest) -> admin_pb.RemoveForeignResponse:
        state = await self._catalog.change(catalog.RemoveForeign(request.name))
        return admin_pb.RemoveForeignResponse(catalog=to_wire(state))

    async def list_transactions(self, request: status_pb.ListTransactionsRequest) -> status_pb.ListTransactionsResponse:
        """Raises NotFound for a participant that there is not, and that no transaction has that would be listed."""
        response = await self._ranges.listed(request)
        if request.participant and not response.txns and not request.below:
            await self._check_participant(request.participant)
        return response

    async def _check_participant(self, name: str) -> None:
        foreign = foreign_name(name)
        if foreign is None:
            await self._tables.check_there(name)
        elif foreign not in self._cluster.state.foreign:
            known = ", ".join(map(foreign_id, self._cluster.state.foreign)) or "none"
            raise NotFound(f"there is no foreign participant {name[:100]!r}; there are: {known}")
