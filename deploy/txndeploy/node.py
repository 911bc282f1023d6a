"""A node: one process, one event loop, any of the roles behind one gRPC port."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import logging
import os
import secrets
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import uvloop

from txndeploy import config as configuration
from txndeploy.config import ConfigError, NodeConfig, Role
from txnmanager.txn_manager import ClusterView, TableProxy, TxnManager
from txnparticipant.services import ParticipantService, ShardMachine, ShardService
from txnstatus import failpoints
from txnstatus.durable import make_directory, write_file
from txnstatus.proto import admin_pb2, participant_pb2, table_pb2, txn_manager_pb2, txn_status_pb2
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.group import RaftGroup, StateMachine
from txnstatus.raft.journal import JournalCorrupt
from txnstatus.raft.snapshot import SnapshotCorrupt
from txnstatus.raft.transport import RaftTransport
from txnstatus.rpc.server import GRPC_OPTIONS, Registry
from txnstatus.status_manager import ManagerSettings
from txnstatus.status_service import KeepaliveLimits, StatusMachine, StatusService
from txnstatus.system_client import TxnSystemClient
from txnstatus.types import HybridClock

log = logging.getLogger(__name__)

DATA_FORMAT = 1
STOP_SECONDS = 5.0


class StartError(Exception):
    """The node cannot start; the message says why and what to do."""


class Node:
    """Composes the roles. Raises StartError from the constructor and from `start`."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.incarnation = secrets.randbits(63)
        self._lock = _own_directory(config)
        self._placement = config.placement()
        self._clock = HybridClock(lambda: time.time_ns() // 1000)
        self._client = TxnSystemClient(self._placement)
        self._disk = ThreadPoolExecutor(max_workers=8, thread_name_prefix="disk")
        self._transport = RaftTransport(config.cluster_id, config.node_id, self._placement.nodes, self.incarnation)
        self._registry = Registry()
        self._drivers: dict[str, RaftDriver] = {}
        self._machines: dict[str, StateMachine] = {}
        self._services: list[tuple[StatusService | ShardService, RaftDriver]] = []
        self._server: grpc.aio.Server | None = None
        roles = config.nodes[config.node_id].roles
        try:
            if Role.STATUS in roles:
                self._add_status()
            if Role.PARTICIPANT in roles:
                self._add_participants()
        except (JournalCorrupt, SnapshotCorrupt) as error:
            raise StartError(str(error)) from error
        if Role.MANAGER in roles:
            self._registry.add(txn_manager_pb2.DESCRIPTOR.services_by_name["TxnManager"], TxnManager(self._client))
            self._registry.add(table_pb2.DESCRIPTOR.services_by_name["Table"], TableProxy(self._client))
        admin = AdminService(self, ClusterView(self._client, config.cluster_id))
        self._registry.add(admin_pb2.DESCRIPTOR.services_by_name["Admin"], admin)

    async def start(self) -> None:
        address = self.config.nodes[self.config.node_id].address
        self._server = grpc.aio.server(options=GRPC_OPTIONS)
        self._server.add_generic_rpc_handlers([*self._registry.grpc_handlers(), self._transport.grpc_handler()])
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise StartError(
                f"cannot listen on {address}: is the port in use, or the address not this host's?"
            ) from error
        for service, driver in self._services:
            service.start(driver)
            driver.start()
        await self._server.start()
        self._transport.start()
        log.info("node %s of cluster %s serves on %s", self.config.node_id, self.config.cluster_id, address)

    async def stop(self) -> None:
        """Hands its leaderships over, then ends; what is under way fails with retriable errors."""
        await asyncio.gather(*(driver.stop() for driver in self._drivers.values()))
        await self._transport.drain()
        await asyncio.gather(*(service.stop() for service, _ in self._services))
        if self._server is not None:
            await self._server.stop(grace=0.2)
        await self._transport.stop()
        await self._client.close()
        self._disk.shutdown()
        os.close(self._lock)

    def status(self, *, digests: bool = False) -> admin_pb2.GetNodeResponse:
        response = admin_pb2.GetNodeResponse(node_id=self.config.node_id, incarnation=self.incarnation)
        for name, driver in self._drivers.items():
            group = driver.group
            response.groups.add(
                group=name,
                leader=group.is_ready,
                leader_id=group.leader,
                term=group.term,
                commit_index=group.commit_index,
                applied_index=group.applied_index,
                digest=hashlib.sha256(self._machines[name].snapshot()).digest() if digests else b"",
            )
        return response

    def _add_status(self) -> None:
        machine = StatusMachine(self._clock)
        txn = self.config.txn
        service = StatusService(
            machine,
            self._clock,
            self._client,
            ManagerSettings(staleness_check_seconds=txn.staleness_check_seconds),
            KeepaliveLimits(txn.keepalive_default_ms, txn.keepalive_min_ms, txn.keepalive_max_ms),
            self.config.cluster_id,
        )
        if self._add_group(self._placement.status_group(), machine, service):
            self._registry.add(txn_status_pb2.DESCRIPTOR.services_by_name["TxnStatus"], service)

    def _add_participants(self) -> None:
        shards: dict[int, ShardService] = {}
        for number in range(self.config.participant_shards):
            machine = ShardMachine(number)
            service = ShardService(
                machine,
                self._clock,
                self._client,
                self.config.warehouse,
                self._disk,
                self.config.txn.zombie_grace_seconds,
            )
            if self._add_group(self._placement.shard_group(number), machine, service):
                shards[number] = service
        self._registry.add(participant_pb2.DESCRIPTOR.services_by_name["Participant"], ParticipantService(shards))

    def _add_group(self, name: str, machine: StateMachine, service: StatusService | ShardService) -> bool:
        members = self._placement.members(name)
        if self.config.node_id not in members:
            return False
        group = RaftGroup(
            name,
            self.config.node_id,
            [member for member in members if member != self.config.node_id],
            machine,
            self.config.data_dir / "raft" / name,
            self.config.raft.settings(),
            time.monotonic,
        )
        driver = RaftDriver(group, self._transport, self._disk, service.on_leadership)
        self._transport.add(driver)
        self._drivers[name] = driver
        self._machines[name] = machine
        self._services.append((service, driver))
        return True


class AdminService:
    """Implements the Admin service."""

    def __init__(self, node: Node, cluster: ClusterView) -> None:
        self._node = node
        self.get_cluster = cluster.get_cluster
        self.list_transactions = cluster.list_transactions

    async def get_node(self, request: admin_pb2.GetNodeRequest) -> admin_pb2.GetNodeResponse:
        return self._node.status(digests=request.digests)


def _own_directory(config: NodeConfig) -> int:
    """Makes the data directory this node's, or finds that it is; holds its lock. Raises StartError."""
    directory = config.data_dir
    try:
        make_directory(directory)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartError(f"data_dir {directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StartError(f"data_dir {directory} is in use by another process") from error
    identity = {"cluster_id": config.cluster_id, "node_id": config.node_id, "format": DATA_FORMAT}
    placement = {
        "participant_shards": config.participant_shards,
        "replication": config.replication,
        "roles": {node: sorted(entry.roles) for node, entry in sorted(config.nodes.items())},
    }
    path = directory / "node.json"
    if not path.exists():
        write_file(path, json.dumps({**identity, **placement}))
        return lock
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise StartError(f"{path} does not read: {error}") from error
    if any(found.get(key) != value for key, value in identity.items()):
        raise StartError(
            f"data_dir {directory} belongs to node {found.get('node_id')!r} of cluster {found.get('cluster_id')!r} "
            f"(format {found.get('format')}), not to node {config.node_id!r} of cluster {config.cluster_id!r} "
            f"(format {DATA_FORMAT}): give this node a directory of its own"
        )
    for key, value in placement.items():
        if found.get(key) != value:
            raise StartError(
                f"{key} is {value!r}; data_dir {directory} was made with {found.get(key)!r}. It decides which node "
                "holds what, and cannot be changed for a cluster that has data"
            )
    return lock


def _arm_failpoints() -> None:
    try:
        failpoints.arm(os.environ.get(failpoints.VARIABLE, ""))
    except ValueError as error:
        raise StartError(str(error)) from error


async def _serve(config: NodeConfig) -> None:
    stopping = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    node = Node(config)
    await node.start()
    await stopping.wait()
    async with asyncio.timeout(STOP_SECONDS):
        await node.stop()


def run(path: Path) -> int:
    """Runs a node until SIGTERM or SIGINT. Returns the process's exit code: 2 = it could not start."""
    try:
        config = configuration.load(path)
        logging.basicConfig(
            level=config.log_level,
            format="%(asctime)s %(levelname)s " + config.node_id + " %(name)s: %(message)s",
            stream=sys.stderr,
        )
        _arm_failpoints()
        uvloop.run(_serve(config))
    except (ConfigError, StartError) as error:
        print(f"txnctl node: {error}", file=sys.stderr)
        return 2
    except TimeoutError:
        log.warning("could not stop within %s s; ending now", STOP_SECONDS)
    return 0


if __name__ == "__main__":
    raise SystemExit(run(Path(sys.argv[1])))
