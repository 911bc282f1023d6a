"""Tables that are made where a user says: in no place that is somebody else's, above one, or below it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor

from txnmanager.keepers import CALL_SECONDS
from txnstatus import features
from txnstatus.catalog import commands as catalog
from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.reserving import Reservation
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.lake import locations
from txnstatus.lake.locations import Location
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.roles import called

log = logging.getLogger(__name__)

RESERVED_SECONDS = 60.0
"""The time for which a node that has heard of a reservation waits for what comes of it: longer than a create takes."""


class Places:
    def __init__(
        self,
        client: TxnSystemClient,
        owns: Callable[[str, str], bool],
        warehouse: str,
        blocking: Executor,
        monotonic: Callable[[], float],
    ) -> None:
        """`owns`: whether somebody has what is called so. `warehouse`: where tables are that name no location.
        `blocking`: threads that follow links."""
        self._client, self._cluster, self._catalog = client, client.cluster, CatalogClient(client)
        self._owns, self._warehouse, self._blocking = owns, locations.parse(warehouse), blocking
        self._monotonic = monotonic
        self._since: dict[str, float] = {}
        """Numbers of reservations → when this process heard of each."""
        self._hear(self._cluster.state)
        self._cluster.subscribe(self._hear)

    @contextlib.asynccontextmanager
    async def reserved(self, name: str, location: str, owner: str) -> AsyncIterator[str]:
        """The block makes a table there, and nobody else meanwhile. It has the number of the reservation, which is
        empty where the cluster's level has none.

        What may have come to pass keeps the place until others have waited for it long enough.

        Raises InvalidArgument where the place is somebody else's.
        """
        place, number, may_come = locations.parse(location), "", False
        loop = asyncio.get_running_loop()
        leads_to = await loop.run_in_executor(self._blocking, place.resolved)
        if self._cluster.state.level >= features.PLACES:
            number = uuid.uuid4().hex
            wanted = Reservation(number, owner, name, place.parts, leads_to.parts)
            await self._catalog.change(catalog.ReservePlace(wanted, self._ended()))
        try:
            await self._check(name, location, place, leads_to, owner)
            may_come = True
            yield number
            may_come = False
        except TxnError as error:
            may_come = may_come and error.retriable
            raise
        finally:
            if number and not may_come:
                await self._free(number)

    async def _free(self, number: str) -> None:
        """Where that is not possible now, others find out that nothing has come of it."""
        try:
            await self._catalog.change(catalog.FreePlace(number))
        except TxnError as error:
            log.warning("a place stays reserved for %.0f s: %s", RESERVED_SECONDS, error.message)

    def _hear(self, state: CatalogState) -> None:
        now = self._monotonic()
        self._since = {each.number: self._since.get(each.number, now) for each in state.reserved}

    def _ended(self) -> tuple[str, ...]:
        """Reservations that this process has known for so long that nothing has come of them, or will."""
        before = self._monotonic() - RESERVED_SECONDS
        return tuple(number for number, since in self._since.items() if since < before)

    async def _check(self, name: str, location: str, place: Location, leads_to: Location, owner: str) -> None:
        """Raises InvalidArgument where a table that somebody else owns has files there, above it, or below it, or gets
        its place there by its name: who owns a table may have what is in its directory removed. All shards are asked:
        few tables say where they are."""
        taken, warehouse = f"location {location[:500]!r} is not free", self._warehouse
        asked = set[int]()
        while left := [shard for shard in self._cluster.state.shards if shard not in asked]:
            found = await asyncio.gather(*(self._is_others(shard, name, place, leads_to, owner) for shard in left))
            if any(found):
                raise InvalidArgument(f"{taken}: somebody else has a table there")
            asked.update(left)
            await self._catalog.refresh()  # what was split meanwhile has given tables to a shard that was not asked
        is_there = await asyncio.get_running_loop().run_in_executor(self._blocking, warehouse.resolved)
        for whose in (place.named_in(warehouse), leads_to.named_in(is_there)):
            if whose not in (None, name) and not self._owns(owner, whose):
                raise InvalidArgument(
                    f"{taken}: in the warehouse that is the place of {called(whose)}",
                    hint="choose none, or one below the place of the table's own name, or in one of table_roots",
                )

    async def _is_others(self, shard: int, name: str, place: Location, leads_to: Location, owner: str) -> bool:
        """Whether the shard has a table of somebody else there."""
        request, more = table_pb.ListTablesRequest(), True
        while more:
            answer = await self._client.call_leader(
                shard_group(shard), "txnstatus.Table/ListTables", request, table_pb.ListTablesResponse, CALL_SECONDS
            )
            there = [
                locations.parse(table.location)
                for table in answer.tables
                if table.name != name and not self._owns(owner, table.name)
            ]
            loop = asyncio.get_running_loop()
            if await loop.run_in_executor(self._blocking, _overlaps, place, leads_to, there):
                return True
            more = answer.more
            request = table_pb.ListTablesRequest(after=answer.tables[-1].name if answer.tables else "")
        return False


def _overlaps(place: Location, leads_to: Location, there: Iterable[Location]) -> bool:
    """Whether a place and one of some others are in each other, also through links. Blocking."""
    return any(place.overlaps(each) or leads_to.overlaps(each.resolved()) for each in there)
