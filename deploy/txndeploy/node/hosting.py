"""Hosting: the services of a group's parts on this node, which come and go with the parts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from txndeploy.node.migrating import Migrating
from txnparticipant.leader.machine import keeper_among
from txnparticipant.leader.service import ShardService
from txnstatus.catalog.catalog import CatalogState, range_number, shard_group
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError
from txnstatus.names import check_table_name
from txnstatus.process.background import Tasks
from txnstatus.proto.table_pb2 import AddFilesRequest
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.parts import Parts, closing, forgetting, opening
from txnstatus.raft.proposals import Proposal
from txnstatus.status.commands import LastWrite
from txnstatus.status.records import Step
from txnstatus.types import ParticipantId, TxnId

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


class Service(Protocol):
    """What serves a group, or a part of one, on this node."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...
    def on_leadership(self, leading: bool) -> None: ...


class Hosting:
    """Serves a group by its parts. On the leader it opens those that the catalog gives the group, and closes others;
    shards that come from other groups are fetched."""

    def __init__(
        self,
        machine: Parts,
        driver: RaftDriver,
        client: TxnSystemClient,
        open_part: Callable[[str, Hosting], Service],
        close_part: Callable[[str, Service], None],
    ) -> None:
        """`open_part`: makes the service of a part that has come, and has calls reach it. `close_part` ends those."""
        self.services: dict[str, Service] = {}
        self._stays: dict[str, int | None] = {}
        """Part → which of its stays in the group it is that its service serves."""
        self._machine, self._driver, self._cluster = machine, driver, client.cluster
        self._migrating = Migrating(machine, driver, client)
        self._open_part, self._close_part = open_part, close_part
        self._tasks = Tasks(f"the parts of {driver.group.group} do not follow the catalog")
        self._running = self._leading = self._changing = False
        self._fetching: asyncio.Task[None] | None = None
        machine.on_change = self._align
        self._align()

    def start(self) -> None:
        self._running = True
        for service in self.services.values():
            service.start()
        self._tasks.spawn(self._look())

    async def stop(self) -> None:
        await self._tasks.stop()
        await asyncio.gather(*(service.stop() for service in self.services.values()))

    def on_leadership(self, leading: bool) -> None:
        self._leading = leading
        for service in self.services.values():
            service.on_leadership(leading)
        self.follow(self._cluster.state)

    def close_parts(self) -> None:
        """No call reaches them any more."""
        for part, service in self.services.items():
            self._close_part(part, service)

    def follow(self, state: CatalogState) -> None:
        """On the leader: has the log say what the catalog says. What fails is tried again in a moment."""
        if not self._leading:
            return
        if self._migrating.has_work(state) and (self._fetching is None or self._fetching.done()):
            self._fetching = self._tasks.spawn(self._migrating.run_once())
        if self._changing:
            return
        if changes := list(self._changes(state)):
            try:
                self._driver.submit(changes, self._changed)
            except TxnError as error:
                log.info("%s: its parts stay as they are for now: %s", self._driver.group.group, error.message)
            else:
                self._changing = True

    def _changed(self, _proposal: Proposal) -> None:
        self._changing = False

    # ---- for ranges in the same log: implements status.service.ServicesHere

    def has(self, txn_id: TxnId, participant_id: ParticipantId) -> bool:
        shard = self._shard(participant_id)
        return shard is not None and shard.is_with(txn_id)

    def is_ready(self, txn_id: TxnId, participant_id: ParticipantId) -> bool:
        shard = self._shard(participant_id)
        return shard is None or shard.is_ready(txn_id, participant_id)

    async def make_ready(self, txn_id: TxnId, participant_id: ParticipantId) -> None:
        if (shard := self._shard(participant_id)) is not None:
            await shard.make_ready(txn_id, participant_id)

    async def last_write(self, request: AddFilesRequest) -> LastWrite | None:
        part = shard_group(self._cluster.shard_of_table(check_table_name(request.table)))
        service = self.services.get(part)
        if not isinstance(service, ShardService) or not service.is_with(TxnId(request.txn_id)):
            return None
        return await service.last_write(request)

    def has_applied(self, step: Step) -> None:
        if (shard := self._shard(step.participant_id)) is not None:
            shard.has_applied(step)

    def _shard(self, participant_id: ParticipantId) -> ShardService | None:
        part = keeper_among(self._machine.machines, participant_id)
        service = self.services.get(part) if part is not None else None
        return service if isinstance(service, ShardService) else None

    # ---- inside

    def _align(self) -> None:
        """Services are those of the parts that there are. One that was away in the meantime, by a snapshot, too, has
        another one than before."""
        stay = self._machine.stay
        for part in [part for part in self.services if stay(part) != self._stays[part]]:
            service = self.services.pop(part)
            self._close_part(part, service)
            if self._leading:
                service.on_leadership(False)
            self._tasks.spawn(service.stop())
        for part in [part for part in self._machine.machines if part not in self.services]:
            service = self.services[part] = self._open_part(part, self)
            self._stays[part] = stay(part)
            if self._running:
                service.start()
            if self._leading:
                service.on_leadership(True)

    def _changes(self, state: CatalogState) -> Iterator[bytes]:
        """What is missing, and what is no longer wanted; a range that is younger than the map stays."""
        there, migrations = self._machine.machines, self._machine.migrations
        missing = (
            part for part in state.parts_of(self._driver.group.group) if part not in there and part not in state.unborn
        )
        yield from (opening(part) for part in missing if part not in migrations.numbers)
        for part in there:
            number = range_number(part)
            if number is not None and state.range_was_dropped(number):
                yield closing(part)
        for part, released in migrations.released.items():
            if state.has_migrated(part, released.number):
                yield forgetting(part, released.number)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.follow(self._cluster.state)
