"""What a manager does for calls that concern several leaders, or are asked in turns; `router` has all others.

Managers keep nothing: which one a client asks, and whether it is the same one twice, makes no difference.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from txnmanager import first_writes
from txnmanager.keepers import Keepers
from txnmanager.tables import Tables
from txnstatus.catalog import commands as catalog
from txnstatus.catalog.catalog import FIRST_GROUP, shard_group, to_wire
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.membership import check_address, drain_of
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import CommitUnknown, Forgotten, IllegalState, NotFound, TxnError
from txnstatus.foreign import foreign_id, foreign_name
from txnstatus.limits import (
    MAX_KEEP_ALIVE_IDS,
    check_count,
)
from txnstatus.names import check_table_name
from txnstatus.proto import admin_pb2 as admin_pb
from txnstatus.proto import common_pb2 as common_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.rpc.calls import Call, PassedOn, takes_calls
from txnstatus.security.access import is_caller
from txnstatus.security.principals import Kind
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
            shard = self._cluster.shard_of_table(near)  # it has answered
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


class ClusterView:
    """Implements what the Admin service has for the whole cluster; every node answers it."""

    def __init__(self, client: TxnSystemClient, ranges: StatusRanges, keepers: Keepers) -> None:
        self._catalog = CatalogClient(client)
        self._cluster = client.cluster
        self._ranges = ranges
        self._tables = Tables(client, ranges, keepers)

    async def get_cluster(self, _request: admin_pb.GetClusterRequest) -> admin_pb.GetClusterResponse:
        state = self._cluster.state
        return admin_pb.GetClusterResponse(catalog=to_wire(state.public()), ticket_key=state.ticket_key)

    async def set_option(self, request: admin_pb.SetOptionRequest) -> admin_pb.SetOptionResponse:
        """Answers with the options as they are then, on every node within moments."""
        state = await self._catalog.change(catalog.SetOption(request.name, request.value))
        return admin_pb.SetOptionResponse(catalog=to_wire(state.public()))

    async def distrust(self, request: admin_pb.DistrustRequest) -> admin_pb.DistrustResponse:
        """Whoever revoked his own name could not take it back, and where nobody else is an admin nobody could."""
        kind, _, name = request.what.partition("/")
        if kind == Kind.USER and is_caller(name) and not request.restores:
            raise IllegalState(
                f"{name} is who asks: he would be cut off, and could not take it back",
                hint="let another admin do it; or revoke a certificate by its file, once there is another one",
            )
        state = await self._catalog.change(catalog.Distrust(request.what, request.restores))
        return admin_pb.DistrustResponse(catalog=to_wire(state.public()))

    async def set_limit(self, request: admin_pb.SetLimitRequest) -> admin_pb.SetLimitResponse:
        """As `set_option`, for one user."""
        command = catalog.SetLimit(request.identity, request.name, request.value, request.restores)
        state = await self._catalog.change(command)
        return admin_pb.SetLimitResponse(catalog=to_wire(state.public()))

    async def replace_node(self, request: admin_pb.ReplaceNodeRequest) -> admin_pb.ReplaceNodeResponse:
        command = catalog.ReplaceNode(request.old_node, request.new_node, check_address(request.address))
        state = await self._catalog.change(command)
        return admin_pb.ReplaceNodeResponse(catalog=to_wire(state.public()))

    async def add_node(self, request: admin_pb.AddNodeRequest) -> admin_pb.AddNodeResponse:
        command = catalog.AddNode(request.node_id, check_address(request.address), tuple(request.roles))
        state = await self._catalog.change(command)
        return admin_pb.AddNodeResponse(catalog=to_wire(state.public()))

    async def drain_node(self, request: admin_pb.DrainNodeRequest) -> admin_pb.DrainNodeResponse:
        state = await self._catalog.change(catalog.DrainNode(request.node_id, drain_of(request.drain)))
        return admin_pb.DrainNodeResponse(catalog=to_wire(state.public()))

    async def remove_node(self, request: admin_pb.RemoveNodeRequest) -> admin_pb.RemoveNodeResponse:
        state = await self._catalog.change(catalog.RemoveNode(request.node_id))
        return admin_pb.RemoveNodeResponse(catalog=to_wire(state.public()))

    async def rebalance(self, request: admin_pb.RebalanceRequest) -> admin_pb.RebalanceResponse:
        state = await self._catalog.change(catalog.Rebalance(request.stops))
        return admin_pb.RebalanceResponse(catalog=to_wire(state.public()))

    async def add_group(self, request: admin_pb.AddGroupRequest) -> admin_pb.AddGroupResponse:
        """Answers once transactions begin in ranges of the group, where ranges are in groups of shards."""
        state = await self._catalog.change(catalog.AddGroup(request.name))
        if request.name in state.without_ranges:
            await self._ranges.move_on()
        return admin_pb.AddGroupResponse(catalog=to_wire(self._cluster.state.public()))

    async def migrate_shard(self, request: admin_pb.MigrateShardRequest) -> admin_pb.MigrateShardResponse:
        state = await self._catalog.change(catalog.MigrateShard(request.shard, request.group))
        return admin_pb.MigrateShardResponse(catalog=to_wire(state.public()))

    async def split_shard(self, request: admin_pb.SplitShardRequest) -> admin_pb.SplitShardResponse:
        state = await self._catalog.change(catalog.SplitShard(request.shard, request.new_shard))
        return admin_pb.SplitShardResponse(catalog=to_wire(state.public()))

    async def place_database(self, request: admin_pb.PlaceDatabaseRequest) -> admin_pb.PlaceDatabaseResponse:
        state = await self._catalog.change(catalog.PlaceDatabase(request.database, request.group))
        return admin_pb.PlaceDatabaseResponse(catalog=to_wire(state.public()))

    async def remove_foreign(self, request: admin_pb.RemoveForeignRequest) -> admin_pb.RemoveForeignResponse:
        state = await self._catalog.change(catalog.RemoveForeign(request.name))
        return admin_pb.RemoveForeignResponse(catalog=to_wire(state.public()))

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
