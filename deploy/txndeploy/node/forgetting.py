"""Forgetting: what was granted on a table goes with the table, wherever its drop or its rename was interrupted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from txndeploy.node.hosting import Service
from txnparticipant.leader.service import ShardService
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.cluster_map import part_of
from txnstatus.catalog.grants import moved
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError
from txnstatus.roles import Granted
from txnstatus.types import ParticipantId

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


class Forgetting:
    """On the leader of a shard, which alone knows which of its tables are there."""

    def __init__(self, led: Callable[[], Iterable[tuple[str, Service]]], client: TxnSystemClient) -> None:
        """`led`: the services of the parts that this node leads, by the parts' names."""
        self._led = led
        self._cluster = client.cluster
        self._catalog = CatalogClient(client)

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.run_once()

    async def run_once(self) -> None:
        for granted, changes in list(self._due()):
            try:
                for change in changes:
                    await self._catalog.change(change)
            except TxnError as error:
                log.info("what was granted on %s goes later: %s", granted.object, error.message)

    def _due(self) -> Iterator[tuple[Granted, Sequence[cmd.Grant | cmd.ForgetGrants]]]:
        """What is granted on tables that are not there any more, or called otherwise, and what becomes of it."""
        on_tables = [each for each in self._cluster.state.grants.values() if each.table_id]
        if not on_tables:
            return
        there = {part: service for part, service in self._led() if isinstance(service, ShardService)}
        for granted in on_tables:
            service = there.get(part_of(ParticipantId(granted.table_id)) or "")
            if service is None or not service.shard.keeps(granted.table_id):
                service = next((each for each in there.values() if granted.table_id in each.shard.came), None)
            if service is not None:
                table = service.shard.find(granted.table_id)
                if table is None or table.is_database or table.dropped is not None:
                    yield granted, [cmd.ForgetGrants(granted.object, granted.table_id)]
                elif table.name != granted.object:
                    yield granted, moved(granted, table.name)
