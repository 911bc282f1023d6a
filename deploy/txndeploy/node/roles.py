"""What a node does: its roles, composed, without a process, a port or a stream around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from txndeploy.node import strategies
from txndeploy.node.config import NodeConfig, Role
from txndeploy.node.cuts import GroupCuts
from txndeploy.node.first_look import FirstLook
from txndeploy.node.hosting import Hosting, Service
from txndeploy.node.loop_watch import LoopWatch
from txndeploy.node.machines import group_machine
from txndeploy.node.migrating import Releasing
from txndeploy.node.registering import own_version
from txndeploy.node.replicas import ReplicaAdmin, Transport, status_of
from txndeploy.node.served import ServedParts
from txnmanager import tickets
from txnmanager.backups import Backups
from txnmanager.compactions import Compactions
from txnmanager.granting import Granting
from txnmanager.keepers import Keepers
from txnmanager.router import Ways, route
from txnmanager.savepoints import Savepoints
from txnmanager.tables import Tables
from txnmanager.txn_manager import ClusterView, TxnManager
from txnmanager.txn_savepoints import TxnSavepoints
from txnmanager.upgrades import Upgrades
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.leader.service import ShardService
from txnstatus.catalog.catalog import CATALOG, CatalogState, range_number
from txnstatus.catalog.client import CatalogClient, access_by
from txnstatus.catalog.founding import founding_id
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
    backup_pb2,
    catalog_pb2,
    compaction_pb2,
    participant_pb2,
    savepoint_pb2,
    table_pb2,
    timeline_pb2,
    txn_manager_pb2,
    txn_savepoint_pb2,
    txn_status_pb2,
)
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import PartDriver
from txnstatus.rpc.server import Registry
from txnstatus.status.machine import StatusMachine
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.service import StatusService
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
ANSWER_SECONDS = 1.0
"""Time for calls that are under way when the node has handed over: clients ask elsewhere for what takes longer."""

SERVICES = {
    name: service
    for modules in (
        (admin_pb2, audit_pb2, backup_pb2, catalog_pb2, compaction_pb2, participant_pb2),
        (savepoint_pb2, table_pb2, timeline_pb2, txn_manager_pb2),
    )
    for module in (*modules, txn_savepoint_pb2, txn_status_pb2)
    for name, service in module.DESCRIPTOR.services_by_name.items()
}


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
        kept_from: Callable[[TxnStatusTable], int] | None = None,
    ) -> None:
        """`kept_from`: as of a TxnStatusManager; None: nothing is kept for longer than the options say."""
        self.config = config
        self._kept_from = kept_from
        self.registry = Registry(config.node_id, lambda: client.cluster.cluster_id, environment.measures)
        self._served = ServedParts(self._add, self.registry.remove)
        self.registry.access = access_by(client.cluster, config.admins)
        self._strategies = strategies.load(config.conflict_strategies)
        self._incarnation = incarnation
        self._environment = environment
        self._client = client
        self._ranges = StatusRanges(client)
        self._cluster = client.cluster
        self._transport = transport
        self._clock = HybridClock(environment.wall_micros)
        self._groups: dict[str, _Group] = {}
        self._closing = set[str]()  # groups whose replicas, and files, are on their way out
        self._story = f"the groups of {config.node_id} do not follow the catalog"
        self._tasks = Tasks(self._story)
        self._watch = LoopWatch(environment.measures.lateness)
        environment.disk.make_directory(config.data_dir / "raft")
        self._first_look = FirstLook(environment.disk, config.data_dir, self._directory(CATALOG) / "journal")
        self._register()
        client.serve_here(config.node_id, self.registry)
        # The catalog's replica first: what it restores says which others there are.
        if CATALOG in self._wanted() and self._has_directory(CATALOG):
            self._open(CATALOG)
        for name in filter(self._has_directory, sorted(self._wanted() - self._groups.keys())):
            self._open(name)

    @property
    def replicas(self) -> Mapping[str, RaftGroup]:
        """Group → this node's replica."""
        return {name: group.driver.group for name, group in self._groups.items()}

    @property
    def missing(self) -> list[str]:
        """Groups of which this node is to have a replica, and has none yet."""
        return sorted(self._wanted() - self._groups.keys())

    def led_services(self) -> Iterator[tuple[str, Service]]:
        """The services of the parts that this node leads, with a lease, by the parts' names."""
        for group in self._groups.values():
            if isinstance(group.service, Hosting) and group.driver.group.has_lease:
                yield from group.service.services.items()

    @property
    def longest_pause(self) -> float:
        """Seconds; of the event loop, of late."""
        return self._watch.longest_pause

    def led_ranges(self) -> Iterator[TxnStatusTable]:
        """The status ranges that this node leads, with a lease."""
        return (service.table for _, service in self.led_services() if isinstance(service, StatusService))

    def start(self) -> None:
        for group in self._groups.values():
            self._start(group)
        self._cluster.subscribe(self._catalog_changed)
        self._tasks.spawn(CatalogClient(self._client).run())
        self._tasks.spawn(self._watch.run())
        self._tasks.spawn(self._look_in_time())
        self._align()

    async def leave(self) -> None:
        """Ends the groups, and hands their leaderships over; messages must still be delivered meanwhile.

        Clients' calls that are under way are answered, by those who lead then: as many as can be within ANSWER_SECONDS.
        Whoever calls from now on is sent elsewhere.
        """
        answered = asyncio.create_task(self.registry.leave(Unavailable(f"{self.config.node_id} stops")))
        await self._tasks.stop()
        await asyncio.gather(*(group.driver.stop() for group in self._groups.values()))
        await asyncio.wait([answered], timeout=ANSWER_SECONDS)
        answered.cancel()

    async def stop(self) -> None:
        await asyncio.gather(*(group.service.stop() for group in self._groups.values()))

    async def get_node(self, request: admin_pb2.GetNodeRequest) -> admin_pb2.GetNodeResponse:
        """With digests group by group, chunk by chunk: others have their turns in between."""
        response = admin_pb2.GetNodeResponse(
            node_id=self.config.node_id,
            incarnation=self._incarnation,
            longest_pause_seconds=self.longest_pause,
            version=own_version(),
            oldest_level=self._environment.levels.oldest,
            newest_level=self._environment.levels.newest,
        )
        for entry in list(self._groups.values()):
            response.groups.append(await status_of(entry.driver, entry.machine, digest=request.digests))
        return response

    async def lost(self) -> str | None:
        """The group whose journal is not where it was any more, if there is one."""
        loop, groups = asyncio.get_running_loop(), dict(self._groups)
        for name, group in groups.items():
            there = await loop.run_in_executor(self._environment.blocking, group.driver.group.journal.is_there)
            if not there and self._groups.get(name) is group:  # else it was closed meanwhile
                return name
        return None

    @property
    def catalog(self) -> CatalogState:
        """As far as this node has heard."""
        return self._cluster.state

    # ---- groups

    def _register(self) -> None:
        """What the node answers by itself; each replica adds what is asked of its group."""
        client, ranges, keepers = self._client, self._ranges, Keepers(self._client)
        granting = Granting(client, keepers, self.registry.access, self.config.warehouse, self._environment.blocking)
        for each in (self, ClusterView(client, ranges, keepers), granting, Upgrades(client, self._environment.levels)):
            self._add("Admin", each)
        if Role.MANAGER in self.config.nodes[self.config.node_id].roles:
            self._add("TxnManager", TxnManager(client, ranges, keepers))
            self._add("Table", Tables(client, ranges, keepers))
            self._add("Table", granting)
            self._add("Compactions", Compactions(client, keepers))
            self._add("Savepoints", Savepoints(client, keepers))
            self._add("TxnSavepoints", TxnSavepoints(client))
            self._add("Backups", Backups(client))
            tickets.serve(self.registry, client, ranges, self._environment.wall_micros)
            route(self.registry, Ways(client, ranges, keepers))

    def _add(self, service: str, implementation: object, group: str = "") -> None:
        self.registry.add(SERVICES[service], implementation, group)

    def _wanted(self) -> set[str]:
        """The groups of which this node holds a replica, or is about to."""
        node_id, state = self.config.node_id, self._cluster.state
        return {name for name in state.groups if node_id in state.replicas(name)}

    def _catalog_changed(self, state: CatalogState) -> None:
        for group in self._groups.values():
            if isinstance(group.service, Hosting):
                for service in group.service.services.values():
                    if isinstance(service, StatusService):
                        service.configure(state)
                group.service.follow(state)
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
        wanted, state = self._wanted(), self._cluster.state
        for name in sorted(wanted - self._groups.keys() - self._closing):
            if not self._has_directory(name):
                asyncio.get_running_loop().call_later(LOOK_SECONDS, self._follow)
                break
            self._start(self._open(name))
        for name in sorted(self._groups.keys() - wanted):
            self._closing.add(name)
            self._tasks.spawn(self._close(name, self._groups.pop(name)))
        for name, group in self._groups.items():
            group.driver.group.follow(state.replicas(name), state.drained)

    def _look(self) -> None:
        """Not before the catalog's replica is up to date: what an older state does not name may be older still."""
        if self._first_look.was_taken or CATALOG not in self._groups:
            return
        group, names = self._groups[CATALOG].driver.group, self._cluster.state.groups.keys()
        if group.elections.founded:
            self._first_look.take(())
        elif not group.journal.abstaining and group.applied_index >= group.journal[-1].idx and names > {CATALOG}:
            self._first_look.take(names)

    async def _look_in_time(self) -> None:
        while not self._first_look.was_taken:
            self._look()
            await asyncio.sleep(LOOK_SECONDS)

    def _open(self, name: str) -> _Group:
        opened = self._open_catalog() if name == CATALOG else self._open_group(name)
        opened.driver.subscribe(opened.service.on_leadership)
        opened.driver.on_leader(partial(self._client.hears_leader, name))
        self._add("Admin", ReplicaAdmin(opened.driver, self.config.node_id, self._client), name)
        self._add("CutHolder", GroupCuts(opened.driver, opened.machine, self.config.node_id), name)
        self._groups[name] = opened
        return opened

    def _open_group(self, name: str) -> _Group:
        machine = group_machine(lambda: self._cluster.state.range_span, self._clock)
        driver = self._replicated(name, machine)

        def open_part(part: str, hosting: Hosting) -> Service:
            service = self._serve(part, machine.machines[part], PartDriver(driver, part, machine), hosting)
            self._served.open(part, machine.stay(part) or 0, service)
            return service

        self._add("Admin", Releasing(machine, driver, self._cluster), name)
        return _Group(machine, Hosting(machine, driver, self._client, open_part, self._served.close), driver)

    def _serve(
        self, part: str, machine: StateMachine, driver: PartDriver, hosting: Hosting
    ) -> StatusService | ShardService:
        """The service of a part."""
        number = range_number(part)
        if number is not None:
            assert isinstance(machine, StatusMachine)
            status = StatusService(number, machine, driver, self._environment, self._clock, self._client, hosting)
            if self._kept_from is not None:
                status.manager.kept_from = self._kept_from
            return status
        assert isinstance(machine, ShardMachine)
        return ShardService(
            machine,
            driver,
            self._clock,
            self._ranges,
            self.config.warehouse,
            self._environment.blocking,
            self.config.txn.shard_settings(),
            lambda: self._cluster.state.options,
            lambda: self._cluster.state.level,
            self.config.roots,
            self._strategies,
        )

    def _draw_id(self) -> str:
        return founding_id(self.config.cluster_name, self._environment.random.getrandbits(128))

    def _open_catalog(self) -> _Group:
        levels = self._environment.levels
        machine = CatalogMachine(self.config.initial_catalog(levels.newest), self._cluster.update)
        driver = self._replicated(CATALOG, machine)
        service = CatalogService(machine, driver, self._client, self._draw_id)
        self._add("Catalog", service, CATALOG)
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
        return RaftDriver(group, self._transport, self._environment)

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
        self.registry.remove(name)
        if isinstance(group.service, Hosting):
            group.service.close_parts()
        await group.driver.stop()
        self._transport.remove(name)
        await group.service.stop()
        wipe = self._environment.disk.wipe
        await asyncio.get_running_loop().run_in_executor(self._environment.blocking, wipe, self._directory(name))
        self._closing.discard(name)
        self._follow()  # it may have been given back meanwhile

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
