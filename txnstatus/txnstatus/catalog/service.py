"""The catalog's group: its leader answers and changes it, and carries a replacement of a node through."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CATALOG, CatalogState, Replacement, to_wire
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.placement import Move
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.limits import MAX_WAIT_SECONDS
from txnstatus.process.background import Tasks
from txnstatus.proto import admin_pb2 as admin_pb
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.machine import Restoring, RestoringWhole
from txnstatus.raft.proposer import Proposer
from txnstatus.replicated import Rejected
from txnstatus.rpc.deadlines import time_left

log = logging.getLogger(__name__)

MOVE_SECONDS = 10.0
"""Then the mover looks whether the move is still wanted: it may have been called off."""
MOVER_PASS_SECONDS = 0.5


class CatalogMachine:
    """The catalog as Raft sees it: bytes in, outcome out. `on_change` hears of every state that is committed."""

    def __init__(self, state: CatalogState, on_change: Callable[[CatalogState], None]) -> None:
        self.catalog = Catalog(state)
        self._on_change = on_change

    def apply(self, commands: Sequence[bytes]) -> list[CatalogState | Rejected]:
        return [self._apply(cmd.decode(command)) for command in commands]

    def _apply(self, command: cmd.Command) -> CatalogState | Rejected:
        outcome = self.catalog.apply(command)
        self._on_change(self.catalog.state)
        return outcome

    def snapshot(self) -> Iterator[bytes]:
        return iter([to_wire(self.catalog.state).SerializeToString(deterministic=True)])

    def restoring(self) -> Restoring:
        return RestoringWhole(self._restore)

    def _restore(self, data: bytes) -> None:
        self.catalog.restore(data)
        self._on_change(self.catalog.state)


class CatalogService:
    """Implements the Catalog service, on the nodes that hold a replica."""

    def __init__(
        self, machine: CatalogMachine, driver: RaftDriver, client: TxnSystemClient, draw_id: Callable[[], str]
    ) -> None:
        """`draw_id`: makes the id of a cluster that is founded."""
        self.machine = machine
        self._draw_id = draw_id
        self._driver = driver
        self._cluster = client.cluster
        self._mover = ReplicaMover(client, lambda: machine.catalog.state)
        self._proposer: Proposer[cmd.Command, CatalogState] = Proposer(
            "catalog", driver, cmd.encode, lambda: machine.catalog.state.level
        )
        self._tasks = Tasks("the catalog's work in the background failed")
        self._founding: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._tasks.spawn(self._move())

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _move(self) -> None:
        while True:
            await asyncio.sleep(MOVER_PASS_SECONDS)
            if self._driver.group.has_lease:
                self._ensure_founded()
                await self._mover.run_once()

    def on_leadership(self, leading: bool) -> None:
        log.info("%s %s", CATALOG, "leading" if leading else "no longer leading")
        if leading:
            self._ensure_founded()

    def _ensure_founded(self) -> None:
        under_way = self._founding is not None and not self._founding.done()
        if self.machine.catalog.state.version == 0 and not under_way:
            self._founding = self._tasks.spawn(self._found())

    async def _found(self) -> None:
        """The first entry of all; in vain, the next pass tries again, here or on the next leader."""
        with contextlib.suppress(Unavailable):
            await self._proposer.propose(cmd.Found(replace(self.machine.catalog.state, cluster_id=self._draw_id())))

    async def get_catalog(self, request: pb.GetCatalogRequest) -> pb.CatalogState:
        self._driver.check_lease()
        wait = time_left(min(request.wait_millis / 1000, MAX_WAIT_SECONDS))
        if wait and self.machine.catalog.state.version <= request.known_version:
            with contextlib.suppress(TxnError):  # no news within the time is an answer, too
                await self._cluster.wait_for(lambda state: state.version > request.known_version, "news", wait)
            self._driver.check_lease()
        return to_wire(self.machine.catalog.state)

    async def change_catalog(self, request: pb.CatalogCommand) -> pb.CatalogState:
        try:
            command = cmd.from_wire(request)
        except ValueError as error:
            raise InvalidArgument(str(error)) from error
        return to_wire(await self._proposer.propose(command))


class ReplicaMover:
    """On the catalog's leader: carries a replacement of a node through, and moves of single replicas, group by group,
    over and over until they are done.

    Every step is idempotent, so a new leader of the catalog simply goes on.
    """

    def __init__(self, client: TxnSystemClient, state: Callable[[], CatalogState]) -> None:
        """`state`: of the catalog by now: while one move is under way, another one is over or called off."""
        self._client = client
        self._catalog = CatalogClient(client)
        self._state = state

    async def run_once(self) -> None:
        state = self._state()
        if state.replacement is not None:
            await self._replace(state, state.replacement)
        for group in _catalog_last(state.groups):
            if (move := self._state().move_of(group)) is not None:
                await self._move_one(move)

    async def _replace(self, state: CatalogState, replacement: Replacement) -> None:
        old, new = replacement.old_node, replacement.new_node
        groups = [name for name, members in state.groups.items() if old in members]
        try:
            for group in _catalog_last(groups):
                await self._move(Move(group, old, new))
            await self._catalog.change(cmd.FinishReplacement())
        except TxnError as error:
            log.warning("%s for %s: not done yet: %s", new, old, error.message)
        else:
            log.info("%s has taken the place of %s", new, old)

    async def _move_one(self, move: Move) -> None:
        """One that fails holds no other group's up."""
        told = move.group, move.old_node or "nobody", move.new_node or "nobody"
        try:
            await self._move(move)
        except TxnError as error:
            log.warning("%s, %s to %s: not done yet: %s", *told, error.message)
        else:
            log.info("%s, %s to %s: done", *told)

    async def _move(self, move: Move) -> None:
        group, old, new = move.group, move.old_node, move.new_node
        request = admin_pb.MoveReplicaRequest(old_node=old, new_node=new)
        await self._client.call_leader(
            group, "txnstatus.Admin/MoveReplica", request, admin_pb.MoveReplicaResponse, MOVE_SECONDS
        )
        await self._catalog.change(cmd.MoveReplica(group, old, new))


def _catalog_last(groups: Iterable[str]) -> list[str]:
    """As long as the catalog itself has not moved, a restart finds the work where it was."""
    return sorted(groups, key=lambda name: name == CATALOG)
