"""Savepoints over all shards: each that has tables of one holds it, and one of them, its home, has the name."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TypeVar

from google.protobuf.message import Message

from txnmanager.keepers import CALL_SECONDS, Keepers
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import IllegalState, NotAuthorized, NotFound, PlacedElsewhere, TxnError, Unavailable
from txnstatus.names import check_table_name
from txnstatus.proto import savepoint_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.savepoints import check_name, check_request

ResponseT = TypeVar("ResponseT", bound=Message)


class Savepoints:
    """Implements the Savepoints service."""

    def __init__(self, client: TxnSystemClient, keepers: Keepers) -> None:
        self._client = client
        self._catalog = CatalogClient(client)
        self._keepers = keepers

    async def create_savepoint(self, request: pb.CreateSavepointRequest) -> pb.CreateSavepointResponse:
        """The home comes last: once it has the name, all others hold the savepoint; and what was split off meanwhile.

        What refuses it takes it back everywhere. Raises InvalidArgument, AlreadyExists, LimitReached, NotFound,
        SnapshotTooOld.
        """
        check_request(request)
        await self._hear_of_all()
        await asyncio.gather(*(self._find(check_table_name(name)) for name in request.tables))
        by_shard: defaultdict[int, list[str]] = defaultdict(list)
        for name in request.tables:
            by_shard[self._client.cluster.shard_of_table(name)].append(name)
        home = self._client.cluster.shard_by_hash(request.name)
        others = [shard for shard in (by_shard if request.tables else self._shards()) if shard != home]
        known = set(self._shards())
        try:
            await self._hold_all(others, request, by_shard)
            held = await self._hold(home, request, by_shard[home], is_home=True)
            while split_off := await self._split_off_since(known):
                others += split_off
                await self._hold_all(split_off, request, by_shard)
            if [each.savepoint_id for each in await self._held()].count(held.savepoint_id) <= len(others):
                raise IllegalState(f"savepoint {request.name!r} was released while it was made")
        except TxnError as error:
            if not error.retriable:
                await self._drop(request.savepoint_id, [*others, home])
            raise
        return pb.CreateSavepointResponse(savepoint=held)

    async def list_savepoints(self, _request: pb.ListSavepointsRequest) -> pb.ListSavepointsResponse:
        """With what all shards hold for each."""
        found: dict[str, pb.SavepointInfo] = {}
        for savepoint in await self._held():
            known = found.setdefault(savepoint.savepoint_id, savepoint)
            if known is not savepoint:
                known.held_bytes += savepoint.held_bytes
                known.unfinished = known.unfinished and savepoint.unfinished
        return pb.ListSavepointsResponse(
            savepoints=[found[key] for key in sorted(found, key=lambda id_: (found[id_].name, id_))]
        )

    async def release_savepoint(self, request: pb.ReleaseSavepointRequest) -> pb.ReleaseSavepointResponse:
        """The home comes last: until then the name is taken, and the call may be repeated."""
        home = self._client.cluster.shard_by_hash(check_name(request.name))
        await self._hear_of_all()
        if request.owner and not request.as_operator:
            await self._check_owner(request)
        known = set(self._shards())
        await self._drop(request.savepoint_id, [*(shard for shard in self._shards() if shard != home), home])
        while split_off := await self._split_off_since(known):
            await self._drop(request.savepoint_id, split_off)
        return pb.ReleaseSavepointResponse()

    async def _check_owner(self, request: pb.ReleaseSavepointRequest) -> None:
        """Raises NotAuthorized for one that somebody else has made."""
        for each in await self._held():
            if each.savepoint_id == request.savepoint_id and each.owner != request.owner:
                raise NotAuthorized(
                    f"savepoint {each.name!r} belongs to {each.owner!r}, not to {request.owner!r}",
                    hint="an operator may release it: as_operator",
                )

    async def _hear_of_all(self) -> None:
        """Shards of a group that was added a moment ago are asked, too. Raises Unavailable."""
        await self._catalog.refresh()

    async def _split_off_since(self, known: set[int]) -> list[int]:
        """Shards that the catalog has by now: they have what another one had when it was split. `known`: grows."""
        await self._hear_of_all()
        found = [shard for shard in self._shards() if shard not in known]
        known.update(found)
        return found

    async def _find(self, table: str) -> None:
        """Hears who keeps it, also where it is dropped by now."""
        asked = table_pb.GetTableRequest(name=table)
        with suppress(NotFound):
            await self._keepers.call(table, "txnstatus.Table/GetTable", asked, table_pb.GetTableResponse)

    async def _hold_all(
        self, shards: Sequence[int], request: pb.CreateSavepointRequest, by_shard: defaultdict[int, list[str]]
    ) -> None:
        """Returns when each has answered: what is taken back before it is held would stay."""
        told = await asyncio.gather(
            *(self._hold(shard, request, by_shard[shard], is_home=False) for shard in shards), return_exceptions=True
        )
        errors = [each for each in told if isinstance(each, BaseException)]
        if errors:
            raise next((each for each in errors if isinstance(each, TxnError) and not each.retriable), errors[0])

    async def _hold(
        self, shard: int, request: pb.CreateSavepointRequest, here: Sequence[str], *, is_home: bool
    ) -> pb.SavepointInfo:
        asked = pb.HoldSavepointRequest(savepoint=request, here=here, is_home=is_home)
        try:
            answer = await self._ask(shard, "SavepointHolder/HoldSavepoint", asked, pb.HoldSavepointResponse)
        except PlacedElsewhere as error:
            raise Unavailable(f"a table was split off meanwhile: {error.message}") from error
        return answer.savepoint

    async def _drop(self, savepoint_id: str, shards: Sequence[int]) -> None:
        """All but the last side by side, and then the last."""
        asked = pb.DropSavepointRequest(savepoint_id=savepoint_id)
        method, response = "SavepointHolder/DropSavepoint", pb.DropSavepointResponse
        await asyncio.gather(*(self._ask(shard, method, asked, response) for shard in shards[:-1]))
        await self._ask(shards[-1], method, asked, response)

    async def _held(self) -> list[pb.SavepointInfo]:
        asked = pb.ListSavepointsRequest()
        method, response = "Savepoints/ListSavepoints", pb.ListSavepointsResponse
        answers = await asyncio.gather(*(self._ask(shard, method, asked, response) for shard in self._shards()))
        return [savepoint for answer in answers for savepoint in answer.savepoints]

    def _shards(self) -> Collection[int]:
        return self._client.cluster.state.shards

    async def _ask(self, shard: int, method: str, request: Message, response: type[ResponseT]) -> ResponseT:
        return await self._client.call_leader(
            shard_group(shard), f"txnstatus.{method}", request, response, CALL_SECONDS
        )
