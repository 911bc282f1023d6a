"""Migrating: shards that the catalog moves from one group's log to another's.

The leader of the group that a shard goes to asks the leader of the other one for it. That one lets it go, by an entry
of its log; from then on nobody serves the shard, until all of its state is in the log that it goes to. Each step can
be done again, by whoever leads then; once the shard is there, the catalog says so.

A shard that is split leaves its log, too, and is back with the next entry, with another one beside it.
"""

from __future__ import annotations

import asyncio
import logging

from txnparticipant.leader.machine import ShardMachine
from txnstatus.catalog.catalog import CatalogState, shard_group, shard_number
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.commands import FinishMigration
from txnstatus.catalog.placement import Migration
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError, Unavailable
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import admin_pb2
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.migration import Arrives, Splits
from txnstatus.raft.parts import Parts, arriving, releasing, splitting
from txnstatus.raft.proposals import Proposal
from txnstatus.replicated import Rejected

log = logging.getLogger(__name__)

CALL_SECONDS = 5.0


class Migrating:
    """On a group's leader: fetches the shards that come."""

    def __init__(self, machine: Parts, driver: RaftDriver, client: TxnSystemClient) -> None:
        self._machine, self._driver, self._client = machine, driver, client
        self._catalog = CatalogClient(client)

    def has_work(self, state: CatalogState) -> bool:
        group = self._driver.group.group
        return any(migration.group == group for migration in state.migrations.values())

    async def run_once(self) -> None:
        """What fails is tried again with the next pass."""
        state, group = self._client.cluster.state, self._driver.group.group
        for part, migration in state.migrations.items():
            if migration.group != group:
                continue
            try:
                if migration.new_shard is None:
                    await self._fetch(part, migration, state.parts[part])
                else:
                    await self._split(part, migration.number, shard_group(migration.new_shard))
                await self._catalog.change(FinishMigration(shard_number(part), migration.number))
            except TxnError as error:
                log.warning("%s does not come to %s yet, or as two: %s", part, group, error.message)
            else:
                log.info("%s of %s is in %s now: %s", part, state.parts[part], group, migration)

    async def _fetch(self, part: str, migration: Migration, source: str) -> None:
        """Has all of it in this group's log."""
        method, response, number = "txnstatus.Admin/ReadPart", admin_pb2.ReadPartResponse, migration.number
        chunk = 0
        while self._machine.migrations.numbers.get(part, 0) < number:
            request = admin_pb2.ReadPartRequest(part=part, number=number, chunk=chunk)
            read = await self._client.call_leader(source, method, request, response, CALL_SECONDS)
            failpoint("part.before.Arrives", Unavailable)
            arrives = Arrives(part, number, chunk, read.data, read.is_last, read.goes_on)
            await propose(self._driver, arriving(arrives))
            failpoint("part.after.Arrives", Unavailable)
            chunk += 1

    async def _split(self, part: str, number: int, new_part: str) -> None:
        """Has this group's log have it as two."""
        its = self._machine.migrations
        if its.numbers.get(new_part, 0) >= number:
            return
        await leave(self._machine, self._driver, part, number)
        released = its.released.get(part)
        if released is None or released.number != number:
            raise Unavailable(f"{part} has left {self._driver.group.group} otherwise than by {number}")
        machine = released.machine
        assert isinstance(machine, ShardMachine), f"{part} is no shard"
        failpoint("part.before.Splits", Unavailable)
        await propose(self._driver, splitting(Splits(part, number, new_part, machine.shard.half())))
        failpoint("part.after.Splits", Unavailable)


class Releasing:
    """Implements what the Admin service has for shards that leave a group, on its leader."""

    def __init__(self, machine: Parts, driver: RaftDriver, cluster: ClusterMap) -> None:
        self._machine, self._driver, self._cluster = machine, driver, cluster

    async def read_part(self, request: admin_pb2.ReadPartRequest) -> admin_pb2.ReadPartResponse:
        """The shard leaves, if it has not yet, and what it was then is read chunk by chunk.

        Raises NotTheLeader; Unavailable where it does not leave by this migration, by what is known here, or is gone.
        """
        self._driver.check_lease()
        await self._release(request.part, request.number)
        released, group = self._machine.migrations.released.get(request.part), self._driver.group.group
        if released is None or released.number != request.number:
            raise Unavailable(f"{group} has nothing left of {request.part:.100}")
        data, is_last, goes_on = released.chunk(request.chunk)
        return admin_pb2.ReadPartResponse(data=data, is_last=is_last, goes_on=goes_on)

    async def _release(self, part: str, number: int) -> None:
        migration = self._cluster.state.migrations.get(part)
        if migration is None or migration.number != number:
            group = self._driver.group.group
            raise Unavailable(f"by the catalog that is known here {part:.100} does not leave {group} by {number}")
        await leave(self._machine, self._driver, part, number)


async def leave(machine: Parts, driver: RaftDriver, part: str, number: int) -> None:
    """Has the part out of the group's log. Raises as `propose`."""
    if machine.migrations.numbers.get(part, 0) < number:
        failpoint("part.before.Leaves", Unavailable)
        await propose(driver, releasing(part, number))
        failpoint("part.after.Leaves", Unavailable)


async def propose(driver: RaftDriver, command: bytes) -> None:
    """Raises the refusal, NotTheLeader or OutcomeUnknown."""
    ended: asyncio.Future[Proposal] = asyncio.get_running_loop().create_future()

    def hears(proposal: Proposal) -> None:
        if not ended.done():
            ended.set_result(proposal)

    driver.submit([command], hears)
    proposal = await ended
    if proposal.error is not None:
        raise proposal.error
    (outcome,) = proposal.outcomes
    if isinstance(outcome, Rejected):
        raise outcome.error
