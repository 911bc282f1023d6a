"""Who has which role: grants are in the catalog, whoever makes a table is its owner, and a rename takes them along."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Executor

from txnmanager.keepers import CALL_SECONDS, Keepers
from txnmanager.places import Places
from txnstatus.catalog import commands as catalog
from txnstatus.catalog import grants
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, NotFound, PlacedElsewhere, Unavailable
from txnstatus.names import check_renamed, check_table_name
from txnstatus.proto import admin_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.roles import Role, check_identity, check_object, check_role
from txnstatus.security.access import Access, may_grant
from txnstatus.security.principals import is_name


class Granting:
    """Implements what the Admin service has of grants, and the making and renaming of tables."""

    def __init__(
        self,
        client: TxnSystemClient,
        keepers: Keepers,
        access: Access,
        warehouse: str,
        blocking: Executor,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`warehouse`: where tables are that name no location. `blocking`: threads that follow links."""
        self._client, self._cluster = client, client.cluster
        self._catalog = CatalogClient(client)
        self._keepers = keepers
        self._access = access
        self._places = Places(client, self._owns, warehouse, blocking, monotonic)

    async def grant(self, request: pb.GrantRequest) -> pb.GrantResponse:
        """This node goes by it when it is answered; each other one within a moment, if it reaches the catalog.

        Raises InvalidArgument; NotFound for a table that there is not; LimitReached.
        """
        name, table_id = check_object(request.object), ""
        role, identity = check_role(request.role), check_identity(request.identity)
        if not is_name(identity):  # it would be taken for a grant to somebody else, or to all
            raise InvalidArgument(
                f"no user can be called {identity!r}: letters of English, digits and ._@:- are possible, the first "
                "a letter or a digit"
            )
        if "." in name:
            table_id = await self._id_of(name)
        await self._catalog.change(catalog.Grant(name, table_id, identity, role))
        return pb.GrantResponse()

    async def revoke(self, request: pb.RevokeRequest) -> pb.RevokeResponse:
        """As for `grant`. Raises InvalidArgument."""
        name, role = check_object(request.object), check_role(request.role)
        await self._catalog.change(catalog.Revoke(name, check_identity(request.identity), role))
        return pb.RevokeResponse()

    async def show_grants(self, request: pb.ShowGrantsRequest) -> pb.ShowGrantsResponse:
        """By what this node has heard. The caller's own, and those on objects on which it may grant."""
        return pb.ShowGrantsResponse(
            grants=[
                pb.GrantInfo(object=each.object, identity=holder.identity, role=role)
                for each in sorted(self._cluster.state.grants.values(), key=lambda each: each.object)
                if not request.HasField("object") or each.object == request.object
                for holder in each.holders
                if request.identity in ("", holder.identity) and may_grant(each.object, holder.identity)
                for role in holder.roles
            ]
        )

    async def create_table(self, request: table_pb.CreateTableRequest) -> table_pb.CreateTableResponse:
        """The table is its maker's when it is answered.

        Raises LimitReached where it could not be; InvalidArgument where it would be in another one's place.
        """
        name, method = check_table_name(request.name), "txnstatus.Table/CreateTable"
        is_users = bool(request.owner) and "/" not in request.owner
        if is_users and not self._owns(check_identity(request.owner), name):
            grants.check_room(self._cluster.state.grants, 1)
        asked = table_pb.CreateTableRequest()
        asked.CopyFrom(request)
        asked.reservation = ""
        async with contextlib.AsyncExitStack() as held:
            if is_users and request.location:
                reserved = self._places.reserved(name, request.location, request.owner)
                asked.reservation = await held.enter_async_context(reserved)
            answer = await self._keepers.call(name, method, asked, table_pb.CreateTableResponse)
        if is_users:
            await self._owned(name, answer.table.table_id, request.owner)
        return answer

    async def rename_table(self, request: table_pb.RenameTableRequest) -> table_pb.RenameTableResponse:
        """What is granted on the table is granted under its new name when this is answered.

        A request that was answered before finds the table under the new name.
        """
        check_renamed(request.table, request.new_name)
        name = request.new_name
        try:
            table_id = await self._id_of(name)
        except NotFound:
            name = request.table
            table_id = await self._id_of(name)
        asked, shard = table_pb.RenameTableRequest(), self._cluster.shard_of_table(name)  # it has answered
        asked.CopyFrom(request)
        asked.table_id, asked.shard = table_id, shard
        home = self._cluster.shard_by_hash(request.new_name)
        answers = [await self._rename(each, asked) for each in dict.fromkeys((home, shard))]
        granted = self._cluster.state.grants.get(request.table)
        if not answers[-1].waits_for and granted is not None and granted.table_id == table_id:
            for change in grants.moved(granted, request.new_name):
                await self._catalog.change(change)
        return answers[-1]

    async def _rename(self, shard: int, request: table_pb.RenameTableRequest) -> table_pb.RenameTableResponse:
        group, method, response = shard_group(shard), "txnstatus.Table/RenameTable", table_pb.RenameTableResponse
        try:
            return await self._client.call_leader(group, method, request, response, CALL_SECONDS)
        except PlacedElsewhere as error:
            raise Unavailable(f"{request.table} has gone to another shard meanwhile: {error.message}") from error

    async def _id_of(self, table: str) -> str:
        """Raises NotFound."""
        request, response = table_pb.GetTableRequest(name=table), table_pb.GetTableResponse
        return (await self._keepers.call(table, "txnstatus.Table/GetTable", request, response)).table.table_id

    async def _owned(self, name: str, table_id: str, owner: str) -> None:
        """Nothing is granted any more on another table of the name; and the owner has the role, if that is not so by
        what is granted on what the table is in."""
        known = self._cluster.state.grants.get(name)
        if known is not None and known.table_id != table_id:
            await self._catalog.change(catalog.ForgetGrants(name, known.table_id))
        if not self._owns(owner, name):
            await self._catalog.change(catalog.Grant(name, table_id, owner, Role.OWNER))

    def _owns(self, identity: str, name: str) -> bool:
        return bool(self._access.rights.on(identity, name) & Role.OWNER.bit)
