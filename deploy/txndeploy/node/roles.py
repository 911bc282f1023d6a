"""What a node does: its roles, composed, without a process, a port or a stream around them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

from txndeploy.node import strategies
from txndeploy.node.config import NodeConfig, Role
from txndeploy.node.first_look import FirstLook
from txndeploy.node.loop_watch import LoopWatch
from txnmanager.audit_proxy import AuditProxy
from txnmanager.txn_manager import ClusterView, TableProxy, TxnManager
from txnparticipant.leader.service import ParticipantService, ShardMachine, ShardService
from txnparticipant.upkeep.audit_service import ShardAuditService
from txnstatus.catalog.catalog import CATALOG, CatalogState
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.service import CatalogMachine, CatalogService
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import Unavailable
from txnstatus.process.background import Tasks
from txnstatus.process.disk import is_full
from txnstatus.process.environment import Environment
from txnstatus.process.stop import stop_process
from txnstatus.proto import (
    admin_pb2,
    audit_pb2,
    catalog_pb2,
    participant_pb2,
    table_pb2,
    txn_manager_pb2,
    txn_status_pb2,
)
from txnstatus.raft.driver import RaftDriver, Sender
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.machine import StateMachine
from txnstatus.rpc.server import Registry
from txnstatus.status.machine import StatusMachine
from txnstatus.status.range_service import RangeService
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.service import StatusService
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock

log = logging.getLogger(__name__)

ASK_SECONDS = 1.0
LOOK_SECONDS = 0.5


class Transport(Sender, Protocol):
    """Delivers the messages of the other nodes to the drivers it was given."""

    def add(self, driver: RaftDriver) -> None: ...
    def remove(self, group: str) -> None: ...


class Service(Protocol):
    """What serves one group on this node."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...
    def on_leadership(self, leading: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Group:
    machine: StateMachine
    service: Service
    driver: RaftDriver


class Roles:
    """Holds a replica of every group that the catalog gives this node; opens and closes them as it changes.

    Raises ConfigError, JournalCorrupt or SnapshotCorrupt from the constructor.
    """

    def __init__(
        self,
        config: NodeConfig,
        environment: Environment,
        client: TxnSystemClient,
        transport: Transport,
        incarnation: int,
    ) -> None:
        self.config = config
        self.registry = Registry()
        self._strategies = strategies.load(config.conflict_strategies)
        self._incarnation = incarnation
        self._environment = environment
        self._client = client
        self._ranges = StatusRanges(client)
        self._cluster = client.cluster
        self._transport = transport
        self._clock = HybridClock(environment.wall_micros)
        self._groups: dict[str, _Group] = {}
        self._status: dict[int, StatusService] = {}
        self._shards: dict[int, ShardService] = {}
        self._story = f"the groups of {config.node_id} do not follow the catalog"
        self._tasks = Tasks(self._story)
        self._removing: set[str] = set()
        self._watch = LoopWatch()
        environment.disk.make_directory(config.data_dir / "raft")
        self._first_look = FirstLook(environment.disk, config.data_dir, self._directory(CATALOG) / "journal")
        self._register()
        client.serve_here(config.node_id, self.registry)
        # The catalog's replica first: what it restores says which others there are.
        if CATALOG in self._wanted() and self._has_directory(CATALOG):
            self._open(CATALOG)
        for name in sorted(self._wanted() - self._groups.keys()):
            if self._has_directory(name):
                self._open(name)

    def start(self) -> None:
        for group in self._groups.values():
            self._start(group)
        self._cluster.subscribe(self._catalog_changed)
        self._tasks.spawn(CatalogClient(self._client).run())
        self._tasks.spawn(self._watch.run())
        self._tasks.spawn(self._look_in_time())
        self._align()

    async def hand_over(self) -> None:
        """Ends the groups, and hands their leaderships over; messages must still be delivered meanwhile."""
        await self._tasks.stop()
        await asyncio.gather(*(group.driver.stop() for group in self._groups.values()))

    async def stop(self) -> None:
        await asyncio.gather(*(group.service.stop() for group in self._groups.values()))

    async def status(self, *, digests: bool = False) -> admin_pb2.GetNodeResponse:
        """With digests group by group, chunk by chunk: others have their turns in between."""
        response = admin_pb2.GetNodeResponse(
            node_id=self.config.node_id, incarnation=self._incarnation, longest_pause_seconds=self._watch.longest_pause
        )
        for name, entry in list(self._groups.items()):
            group = entry.driver.group
            status = response.groups.add(
                group=name,
                leader=group.is_ready,
                leader_id=group.leader,
                term=group.term,
                commit_index=group.commit_index,
                applied_index=group.applied_index,
                members=group.members,
            )
            if digests:
                status.digest = await _digest(entry.machine.snapshot())
        return response

    @property
    def catalog(self) -> CatalogState:
        """As far as this node has heard."""
        return self._cluster.state

    async def move_replica(self, name: str, old: str, new: str) -> Sequence[str]:
        """On the group's leader: `old` leaves, then `new` comes; one change at a time. Returns the members then."""
        entry = self._groups.get(name)
        if entry is None:
            raise Unavailable(f"{self.config.node_id} has no replica of {name}")
        if new not in self._cluster.state.nodes:
            raise Unavailable(f"the catalog of {self.config.node_id} does not know {new} yet")
        entry.driver.check_lease()
        await self._ask_node(new)  # it must live, before the old one goes
        await entry.driver.change_members(remove=old)
        members = await entry.driver.change_members(add=new)
        replicas = {group.group: group for group in (await self._ask_node(new)).groups}
        if name not in replicas or new not in replicas[name].members:
            raise Unavailable(f"{new} has not caught up with {name} yet")
        return members

    async def _ask_node(self, node: str) -> admin_pb2.GetNodeResponse:
        """Raises Unavailable."""
        return await self._client.call_node(
            node, "txnstatus.Admin/GetNode", admin_pb2.GetNodeRequest(), admin_pb2.GetNodeResponse, ASK_SECONDS
        )

    # ---- groups

    def _register(self) -> None:
        node_id, client = self.config.node_id, self._client
        roles = self.config.nodes[node_id].roles
        view = ClusterView(client, self._ranges, self.config.cluster_id)
        self._add(admin_pb2, "Admin", AdminService(self, view))
        if Role.STATUS in roles:
            self._add(txn_status_pb2, "TxnStatus", RangeService(self._status, self._cluster, node_id))
        if Role.PARTICIPANT in roles:
            self._add(participant_pb2, "Participant", ParticipantService(self._shards, node_id))
            self._add(audit_pb2, "ShardAudit", ShardAuditService(self._shards, node_id))
        if Role.MANAGER in roles:
            self._add(txn_manager_pb2, "TxnManager", TxnManager(self._ranges))
            self._add(table_pb2, "Table", TableProxy(client, self._ranges))
            self._add(audit_pb2, "Audit", AuditProxy(client))

    def _add(self, module: ModuleType, service: str, implementation: object) -> None:
        self.registry.add(module.DESCRIPTOR.services_by_name[service], implementation)

    def _wanted(self) -> set[str]:
        """The groups of which this node holds a replica, or is about to."""
        node_id, state = self.config.node_id, self._cluster.state
        return {name for name in state.groups if node_id in state.replicas(name)}

    def _catalog_changed(self, state: CatalogState) -> None:
        for service in self._status.values():
            service.configure(state)
        # Not now: the change may have come from within a cycle of the catalog's own group.
        asyncio.get_running_loop().call_soon(self._follow)

    def _follow(self) -> None:
        try:
            self._align()
        except Exception as error:  # noqa: BLE001
            stop_process(self._story, error)

    def _align(self) -> None:
        """Opens and closes groups, until they are what the catalog says."""
        self._look()
        wanted = self._wanted()
        for name in sorted(wanted - self._groups.keys()):
            if not self._has_directory(name):
                asyncio.get_running_loop().call_later(LOOK_SECONDS, self._follow)
                break
            self._start(self._open(name))
        for name in sorted(self._groups.keys() - wanted):
            self._removing.add(name)
            self._tasks.spawn(self._close(name, self._groups.pop(name)))
        for name in self._left_over():
            self._removing.add(name)
            self._tasks.spawn(self._remove(name))

    def _look(self) -> None:
        """Not before the catalog's replica is up to date: what an older state does not name may be older still."""
        if self._first_look.was_taken or CATALOG not in self._groups:
            return
        group, names = self._groups[CATALOG].driver.group, self._cluster.state.groups.keys()
        if group.founded:
            self._first_look.take(())
        elif not group.journal.abstaining and group.applied_index >= group.journal[-1].idx and names > {CATALOG}:
            self._first_look.take(names)

    async def _look_in_time(self) -> None:
        while not self._first_look.was_taken:
            self._look()
            await asyncio.sleep(LOOK_SECONDS)

    def _left_over(self) -> list[str]:
        """Ranges that were dropped while this node was down, or whose files it was removing when it died."""
        return [
            name
            for name in self._environment.disk.names(self._directory(CATALOG).parent)
            if name.startswith("status-")
            and name not in self._groups.keys() | self._removing
            and self._cluster.state.range_was_dropped(int(name.partition("-")[2]))
        ]

    def _open(self, name: str) -> _Group:
        kind, _, number = name.partition("-")
        match kind:
            case "status":
                opened = self._open_range(name, int(number))
            case "shard":
                opened = self._open_shard(name, int(number))
            case _:
                opened = self._open_catalog()
        opened.driver.subscribe(opened.service.on_leadership)
        self._groups[name] = opened
        return opened

    def _open_range(self, name: str, number: int) -> _Group:
        span = self._cluster.state.range_span
        machine = StatusMachine(TxnStatusTable(number * span, (number + 1) * span), self._clock)
        driver = self._replicated(name, machine)
        service = self._status[number] = StatusService(
            number, machine, driver, self._environment, self._clock, self._client, self.config.cluster_id
        )
        return _Group(machine, service, driver)

    def _open_shard(self, name: str, number: int) -> _Group:
        machine = ShardMachine(number)
        driver = self._replicated(name, machine)
        service = self._shards[number] = ShardService(
            machine,
            driver,
            self._clock,
            self._ranges,
            self.config.warehouse,
            self._environment.blocking,
            self.config.txn.shard_settings(),
            lambda: self._cluster.state.options,
            self.config.table_roots,
            self._strategies,
        )
        return _Group(machine, service, driver)

    def _open_catalog(self) -> _Group:
        machine = CatalogMachine(self.config.initial_catalog(), self._cluster.update)
        driver = self._replicated(CATALOG, machine)
        service = CatalogService(machine, driver, self._client)
        self._add(catalog_pb2, "Catalog", service)
        return _Group(machine, service, driver)

    def _replicated(self, name: str, machine: StateMachine) -> RaftDriver:
        """A replica of the machine that is opened, and does not run yet."""
        group = RaftGroup(
            name,
            self.config.node_id,
            self._founders(name),
            machine,
            self._directory(name),
            self.config.raft.settings(),
            self._environment.monotonic,
            self._environment.disk,
            never_here=self._first_look.never_here(name),
        )
        return RaftDriver(group, self._transport, self._environment.blocking)

    def _founders(self, name: str) -> Sequence[str]:
        """The members of a group that begins; empty where this node is to join one that runs."""
        members = self._cluster.members(name)
        return members if self.config.node_id in members else ()

    def _start(self, group: _Group) -> None:
        group.service.start()
        self._transport.add(group.driver)
        group.driver.start()

    async def _close(self, name: str, group: _Group) -> None:
        """The catalog does not give it to this node any more: its replica goes, and its files."""
        log.info("%s closes its replica of %s", self.config.node_id, name)
        kind, _, number = name.partition("-")
        if kind == "status":
            del self._status[int(number)]
        elif kind == "shard":
            del self._shards[int(number)]
        await group.driver.stop()
        self._transport.remove(name)
        await group.service.stop()
        await self._remove(name)

    async def _remove(self, name: str) -> None:
        wipe = self._environment.disk.wipe
        await asyncio.get_running_loop().run_in_executor(self._environment.blocking, wipe, self._directory(name))
        self._removing.discard(name)

    def _directory(self, name: str) -> Path:
        return self.config.data_dir / "raft" / name

    def _has_directory(self, name: str) -> bool:
        """Makes it, if there is room: a replica without one cannot even stand still until there is."""
        try:
            self._environment.disk.make_directory(self._directory(name) / "journal")
        except OSError as error:
            if not is_full(error):
                raise
            log.error("%s has no room for its replica of %s: %s", self.config.node_id, name, error)
            return False
        return True


async def _digest(state: Iterator[bytes]) -> bytes:
    digest = hashlib.sha256()
    for chunk in state:
        digest.update(chunk)
        await asyncio.sleep(0)
    return digest.digest()


class AdminService:
    """Implements the Admin service."""

    def __init__(self, roles: Roles, cluster: ClusterView) -> None:
        self._roles = roles
        self.get_cluster = cluster.get_cluster
        self.list_transactions = cluster.list_transactions
        self.set_option = cluster.set_option
        self.replace_node = cluster.replace_node
        self.remove_foreign = cluster.remove_foreign

    async def get_node(self, request: admin_pb2.GetNodeRequest) -> admin_pb2.GetNodeResponse:
        return await self._roles.status(digests=request.digests)

    async def move_replica(self, request: admin_pb2.MoveReplicaRequest) -> admin_pb2.MoveReplicaResponse:
        members = await self._roles.move_replica(request.group, request.old_node, request.new_node)
        return admin_pb2.MoveReplicaResponse(members=members)
