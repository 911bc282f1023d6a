"""A node: one process, one event loop, one port; what it serves is in `roles`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING

import uvloop

from txndeploy import logs
from txndeploy.errors import ConfigError, StartError
from txndeploy.node import config as configuration
from txndeploy.node import directory, garbage, telling
from txndeploy.node.chronicler import Chronicler
from txndeploy.node.config import NodeConfig
from txndeploy.node.forgetting import Forgetting
from txndeploy.node.readiness import not_ready
from txndeploy.node.registering import Registering, own_version
from txndeploy.node.roles import SERVICES, Roles
from txnstatus import features, revocation
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument
from txnstatus.features import Levels
from txnstatus.process import failpoints, interpreter
from txnstatus.process.background import Tasks
from txnstatus.process.descriptors import raise_limit
from txnstatus.process.disk import OsDisk
from txnstatus.process.environment import Environment
from txnstatus.process.stop import REPAIR
from txnstatus.raft.segments import JournalCorrupt
from txnstatus.raft.snapshot import SnapshotCorrupt
from txnstatus.raft.transport import RaftTransport
from txnstatus.rpc.connection import Purpose, is_loopback
from txnstatus.rpc.guests import Bounds
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.recording import Recording
from txnstatus.security.bearers import Bearers
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.secrets import Secrets
from txnstatus.security.tls import Tls
from txnstatus.security.trail_files import TrailFiles
from txnstatus.status.table import TxnStatusTable
from txnstatus.tracing import spans
from txnstatus.trail import TrailBroken

if TYPE_CHECKING:
    from txndeploy.node.http import HttpServer
    from txnstatus.rpc.grpc_server import GrpcServer

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
TRAIL = "trail"
"""Directory of what is recorded, in that of the data."""
LOOK_SECONDS = 1.0
OWN_DESCRIPTORS = 256
"""Descriptors for everything but connections and shards: ranges, storage, other nodes."""
DESCRIPTORS_PER_GROUP = 4
KEPT_DESCRIPTORS = 32
"""Descriptors of those that only the groups' disk gets."""


class DataLost(Exception):
    """What this node has written cannot be found again."""


class Node:
    """The process: its directory, its port, and its streams to the others around the roles.

    Raises StartError from the constructor and from `start`.
    """

    def __init__(
        self, config: NodeConfig, on_unfit: Callable[[], None] = lambda: None, levels: Levels = features.OWN
    ) -> None:
        """`on_unfit` hears that the node has to stop, once `unfit` says why. `levels`: those that the program does."""
        self.config = config
        self.unfit: str | None = None
        """Reason why this node cannot be in the cluster."""
        self._on_unfit = on_unfit
        self.incarnation = randbits(63)
        bounds, self._tls = _bounds(config), _tls(config)
        self._lock = directory.own(config, levels)
        environment = self._environment = Environment(disk=OsDisk(KEPT_DESCRIPTORS), levels=levels)
        cluster = ClusterMap(directory.saved_catalog(config) or config.initial_catalog(levels.newest), config.reach)
        cluster.subscribe(lambda state: directory.keep(config, state))
        self._was_member = False
        self._see_membership(cluster.state)
        cluster.subscribe(self._see_membership)
        cluster.subscribe(self._see_level)
        version = own_version()
        self._client = TxnSystemClient(cluster, environment, tls=self._tls, gone=self._is_gone)
        self._transport = RaftTransport(
            config.cluster_name, config.node_id, self.incarnation, cluster, self._tls, version, levels
        )
        self._chronicler = Chronicler(self._led_ranges, self._client, config.warehouse, environment.blocking)
        kept_from = self._chronicler.kept_from
        try:
            self._roles = Roles(config, environment, self._client, self._transport, self.incarnation, kept_from)
        except (JournalCorrupt, SnapshotCorrupt) as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(f"data_dir {config.data_dir} cannot be used: {error}") from error
        self.add("Timeline", self._chronicler)
        self._trail = _trail(config, environment) if self._tls is not None else None
        self._roles.registry.recording = Recording(self._trail)
        bearers = _bearers(config, cluster, environment)
        accept = {Purpose.RAFT: self._transport.accept}
        self._revoked: Callable[[], Collection[str]] = lambda: cluster.state.revoked
        self._listener = Listener(
            self._roles.registry,
            accept,
            bounds,
            self._tls,
            bearers,
            self._revoked,
            lambda found: found.kind is Kind.NODE and found.name not in cluster.state.nodes,
        )
        cluster.subscribe(lambda _state: self._listener.end_revoked())
        self._registering = Registering(self._client, config.node_id, version, levels)
        self._tasks = Tasks(f"data_dir {config.data_dir} is not what this node opened")
        self._writing = Tasks("what has ended cannot be written down, or forgotten")
        self._grpc: GrpcServer | None = None
        self._http: HttpServer | None = None

    def _led_ranges(self) -> Iterable[TxnStatusTable]:
        return self._roles.led_ranges()

    def add(self, service: str, implementation: object) -> None:
        """What the process answers besides its roles."""
        self._roles.registry.add(SERVICES[service], implementation)

    def _see_level(self, state: CatalogState) -> None:
        """What a cluster of a level that this version does not do has in its logs, it cannot apply."""
        own = f"this version of node {self.config.node_id}"
        refusal = features.refusal(own, self._environment.levels, state.level) if state.cluster_id else None
        if refusal is not None:
            self._end(refusal)

    def _see_membership(self, state: CatalogState) -> None:
        """One that is to join is in no catalog yet; one that was in it, and is not, has nothing to do any more. Nobody
        joins under the name of one that is gone."""
        own = self.config.node_id
        is_gone = revocation.of_name(Kind.NODE, own) in state.revoked
        if own in state.nodes:
            self._was_member = True
        elif state.cluster_id and (is_gone or self._was_member or not self.config.joins):
            self._is_gone()

    def _is_gone(self) -> None:
        self._end(
            f"node {self.config.node_id} is none of cluster {self.config.cluster_name} any more: it was removed, or "
            f"another node has its place. Nothing in {self.config.data_dir} is in use"
        )

    def _end(self, why: str) -> None:
        if self.unfit is None:
            log.error("%s", why)
            self.unfit = why
            self._on_unfit()

    async def start(self) -> None:
        if self.unfit is not None:
            raise StartError(self.unfit)
        address = self.config.nodes[self.config.node_id].address
        with _binding(address):
            await self._listener.bind(address)
        if self.config.grpc_address is not None:
            from txnstatus.rpc.grpc_server import GrpcServer  # whoever does not want it does without its threads

            self._grpc = GrpcServer(self._roles.registry, self._tls, self._revoked)
            with _binding(self.config.grpc_address):
                self._grpc.bind(self.config.grpc_address)
        if self.config.http_address is not None:
            await self._start_http(self.config.http_address)
        self._roles.start()
        with _binding(address):
            await self._listener.start()
        if self._grpc is not None:
            await self._grpc.start()
        self._transport.start()
        self._tasks.spawn(self._look_after_directory())
        self._writing.spawn(self._chronicler.run())
        self._writing.spawn(self._registering.run())
        self._writing.spawn(Forgetting(self._roles.led_services, self._client).run())
        log.info("node %s of cluster %s serves on %s", self.config.node_id, self.config.cluster_name, address)

    async def _start_http(self, address: str) -> None:
        """Whoever does not want it does without its libraries."""
        from txndeploy.console.routes import Console
        from txndeploy.node.http import HttpServer
        from txndeploy.node.metrics import families

        measured = partial(families, self._roles, self._environment.measures, self._listener, self._chronicler)
        ready, blocking = partial(not_ready, self._roles), self._environment.blocking
        console = Console(address, self._roles.registry, self._environment.measures, self._tls)
        is_open = self.config.http_open
        self._http = HttpServer(
            measured, ready, blocking, self._tls, is_open=is_open, console=console, revoked=self._revoked
        )
        with _binding(address):
            await self._http.start(address)

    async def stop(self) -> None:
        """Hands its leaderships over and answers the calls that are under way, then ends; what could not be answered in
        time fails with retriable errors."""
        await self._tasks.stop()
        await self._writing.stop()
        self._listener.close()
        await self._roles.leave()
        await self._transport.drain()
        await self._roles.stop()
        self._listener.stop()
        if self._grpc is not None:
            await self._grpc.stop()
        await self._transport.stop()
        await self._client.close()
        if self._http is not None:
            await self._http.stop()
        if self._trail is not None:
            await self._trail.close()
        self._environment.blocking.shutdown()
        os.close(self._lock)

    async def _look_after_directory(self) -> None:
        """Ends with DataLost: what is written to removed files goes with the process: it must not be acknowledged."""
        loop, environment = asyncio.get_running_loop(), self._environment
        lock, held = self.config.data_dir / "lock", os.fstat(self._lock)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            found = await loop.run_in_executor(environment.blocking, environment.disk.identity, lock)
            if found != (held.st_dev, held.st_ino):
                raise DataLost(f"{lock} was removed or replaced while the node ran. {REPAIR}")
            if (group := await self._roles.lost()) is not None:
                raise DataLost(f"the journal of {group} was removed or replaced while the node ran. {REPAIR}")


def _bounds(config: NodeConfig) -> Bounds:
    """Bounds of connections, by the descriptors that this process may have. Raises StartError."""
    own = OWN_DESCRIPTORS + (1 + config.groups) * DESCRIPTORS_PER_GROUP
    try:
        return Bounds.within(raise_limit() - own, config.max_connections, config.max_unfinished_bytes)
    except ValueError as error:
        raise StartError(str(error)) from error


def _tls(config: NodeConfig) -> Tls | None:
    """Raises StartError where the files do not go together, or are somebody else's; or where there is to be no TLS, and
    that is not said, or others than this machine's programs would reach the node."""
    if config.tls is None:
        if config.jwt is not None or config.secrets is not None:
            raise StartError("[jwt] and secrets are for nodes with [tls]: what is shown would be readable")
        addresses = (config.nodes[config.node_id].address, config.grpc_address, config.http_address)
        _require_loopback([address for address in addresses if address], said=config.insecure)
        return None
    try:
        found = config.tls.open()
    except InvalidArgument as error:
        raise StartError(str(error)) from error
    wanted = Principal(config.cluster_name, Kind.NODE, config.node_id)
    if found.own != wanted:
        raise StartError(f"{config.tls.certificate} is for {found.own}; this is {wanted}")
    return found


def _trail(config: NodeConfig, environment: Environment) -> TrailFiles:
    """Raises StartError."""
    directory = config.data_dir / TRAIL
    try:
        return TrailFiles(directory, config.node_id, environment.wall_micros, environment.blocking)
    except OSError as error:
        raise StartError(f"what is done on the node cannot be recorded in {directory}: {error.strerror}") from error
    except TrailBroken as error:
        raise StartError(f"{directory} was changed: {error}; keep it, move it away, and start the node") from error


def _bearers(config: NodeConfig, cluster: ClusterMap, environment: Environment) -> Bearers:
    """Raises StartError where the files of who is known without a certificate cannot be used."""
    try:
        jwts = config.jwt.open() if config.jwt is not None else None
        secrets = Secrets(config.secrets) if config.secrets is not None else None
    except InvalidArgument as error:
        raise StartError(str(error)) from error
    return Bearers(
        lambda: cluster.cluster_id,
        lambda: cluster.state.ticket_keys,
        environment.wall_micros,
        config.cluster_name,
        environment.blocking,
        jwts,
        secrets,
    )


def _require_loopback(addresses: Sequence[str], *, said: bool) -> None:
    if not said:
        raise StartError(
            "there is no [tls]: give the node certificates (docs/security.md), or say insecure = true, for one that "
            "only this machine's programs reach"
        )
    for address in addresses:
        if not is_loopback(address):
            raise StartError(f"insecure = true is for loopback, and {address} is not: give the node certificates")


@contextlib.contextmanager
def _binding(address: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StartError(f"cannot listen on {address}: is the port in use, or the address not this host's?") from error


def arm_failpoints() -> None:
    """Arms what this process was told to. Raises StartError."""
    try:
        failpoints.arm(os.environ.get(failpoints.VARIABLE, ""))
    except ValueError as error:
        raise StartError(str(error)) from error


def stop_signals() -> asyncio.Event:
    """Set by SIGTERM and SIGINT, from now on. SIGUSR1 arms failpoints."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    if path := os.environ.get(failpoints.FILE_VARIABLE):
        loop.add_signal_handler(signal.SIGUSR1, failpoints.arm_from_file, Path(path))
    return stopping


async def _serve(config: NodeConfig, path: Path, levels: Levels) -> None:
    stopping = stop_signals()
    log_levels = telling.LogLevels(config, path)
    log_levels.follow()
    node = Node(config, stopping.set, levels)
    node.add("Admin", log_levels)
    await node.start()
    await stopping.wait()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await node.stop()
    finally:
        if node.unfit is not None:
            raise StartError(node.unfit)


def run(path: Path, levels: Levels = features.OWN) -> int:
    """Runs a node until SIGTERM or SIGINT. Returns the process's exit code: 2 = it could not start.

    `levels`: the feature levels that the program does."""
    try:
        config = configuration.load(path)
        logs.begin(config.node_id, config.levels, config.log_format)
        log.info("runs %s", interpreter.describe())
        arm_failpoints()
        garbage.tune()
        telling.begin_traces(config)
        uvloop.run(_serve(config, path, levels))
    except (ConfigError, StartError, InvalidArgument) as error:
        print(f"txnctl node: {error}", file=sys.stderr)
        return 2
    except TimeoutError:
        log.warning("could not stop within %s s; ending now", STOP_SECONDS)
    finally:
        spans.close(telling.LAST_SPANS_SECONDS)
    return 0


if __name__ == "__main__":
    raise SystemExit(run(Path(sys.argv[1])))
