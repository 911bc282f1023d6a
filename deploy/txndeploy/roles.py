"""What a node does: its roles, composed, without a process, a port or a stream around them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Protocol

from txndeploy.config import NodeConfig, Role
from txnmanager.txn_manager import ClusterView, TableProxy, TxnManager
from txnparticipant.services import ParticipantService, ShardMachine, ShardService
from txnstatus.environment import Environment
from txnstatus.proto import admin_pb2, participant_pb2, table_pb2, txn_manager_pb2, txn_status_pb2
from txnstatus.raft.driver import RaftDriver, Sender
from txnstatus.raft.group import RaftGroup, StateMachine
from txnstatus.rpc.server import Registry
from txnstatus.status_manager import ManagerSettings
from txnstatus.status_service import KeepaliveLimits, StatusMachine, StatusService
from txnstatus.system_client import TxnSystemClient
from txnstatus.types import HybridClock


class Transport(Sender, Protocol):
    """Delivers the messages of the other nodes to the drivers it was given."""

    def add(self, driver: RaftDriver) -> None: ...


class Roles:
    """Raises JournalCorrupt or SnapshotCorrupt from the constructor."""

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
        self._incarnation = incarnation
        self._environment = environment
        self._client = client
        self._transport = transport
        self._placement = config.placement()
        self._clock = HybridClock(environment.wall_micros)
        self._drivers: dict[str, RaftDriver] = {}
        self._machines: dict[str, StateMachine] = {}
        self._services: list[tuple[StatusService | ShardService, RaftDriver]] = []
        roles = config.nodes[config.node_id].roles
        if Role.STATUS in roles:
            self._add_status()
        if Role.PARTICIPANT in roles:
            self._add_participants()
        if Role.MANAGER in roles:
            self.registry.add(txn_manager_pb2.DESCRIPTOR.services_by_name["TxnManager"], TxnManager(client))
            self.registry.add(table_pb2.DESCRIPTOR.services_by_name["Table"], TableProxy(client))
        admin = AdminService(self, ClusterView(client, config.cluster_id))
        self.registry.add(admin_pb2.DESCRIPTOR.services_by_name["Admin"], admin)

    def start(self) -> None:
        for service, driver in self._services:
            service.start(driver)
            driver.start()

    async def hand_over(self) -> None:
        """Ends the groups, and hands their leaderships over; messages must still be delivered meanwhile."""
        await asyncio.gather(*(driver.stop() for driver in self._drivers.values()))

    async def stop(self) -> None:
        await asyncio.gather(*(service.stop() for service, _ in self._services))

    def status(self, *, digests: bool = False) -> admin_pb2.GetNodeResponse:
        response = admin_pb2.GetNodeResponse(node_id=self.config.node_id, incarnation=self._incarnation)
        for name, driver in self._drivers.items():
            group = driver.group
            response.groups.add(
                group=name,
                leader=group.is_ready,
                leader_id=group.leader,
                term=group.term,
                commit_index=group.commit_index,
                applied_index=group.applied_index,
                digest=hashlib.sha256(b"".join(self._machines[name].snapshot())).digest() if digests else b"",
            )
        return response

    def _add_status(self) -> None:
        machine = StatusMachine(self._clock)
        txn = self.config.txn
        service = StatusService(
            machine,
            self._environment,
            self._clock,
            self._client,
            ManagerSettings(staleness_check_seconds=txn.staleness_check_seconds),
            KeepaliveLimits(txn.keepalive_default_ms, txn.keepalive_min_ms, txn.keepalive_max_ms),
            self.config.cluster_id,
        )
        if self._add_group(self._placement.status_group(), machine, service):
            self.registry.add(txn_status_pb2.DESCRIPTOR.services_by_name["TxnStatus"], service)

    def _add_participants(self) -> None:
        shards: dict[int, ShardService] = {}
        for number in range(self.config.participant_shards):
            machine = ShardMachine(number)
            service = ShardService(
                machine,
                self._clock,
                self._client,
                self.config.warehouse,
                self._environment.blocking,
                self.config.txn.zombie_grace_seconds,
            )
            if self._add_group(self._placement.shard_group(number), machine, service):
                shards[number] = service
        self.registry.add(participant_pb2.DESCRIPTOR.services_by_name["Participant"], ParticipantService(shards))

    def _add_group(self, name: str, machine: StateMachine, service: StatusService | ShardService) -> bool:
        members = self._placement.members(name)
        if self.config.node_id not in members:
            return False
        group = RaftGroup(
            name,
            self.config.node_id,
            members,
            machine,
            self.config.data_dir / "raft" / name,
            self.config.raft.settings(),
            self._environment.monotonic,
            self._environment.disk,
        )
        driver = RaftDriver(group, self._transport, self._environment.blocking, service.on_leadership)
        self._transport.add(driver)
        self._drivers[name] = driver
        self._machines[name] = machine
        self._services.append((service, driver))
        return True


class AdminService:
    """Implements the Admin service."""

    def __init__(self, roles: Roles, cluster: ClusterView) -> None:
        self._roles = roles
        self.get_cluster = cluster.get_cluster
        self.list_transactions = cluster.list_transactions

    async def get_node(self, request: admin_pb2.GetNodeRequest) -> admin_pb2.GetNodeResponse:
        return self._roles.status(digests=request.digests)
