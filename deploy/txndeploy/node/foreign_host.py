"""The host of a foreign participant as a process: it joins a cluster, serves on its own port, and keeps no data."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import uvloop

from txndeploy import logs
from txndeploy.errors import StartError
from txndeploy.logs import Level, LogFormat
from txndeploy.node.process import OWN_DESCRIPTORS, arm_failpoints, stop_signals
from txndeploy.node.telling import LAST_SPANS_SECONDS
from txnparticipant.foreign.host import ForeignHost
from txnparticipant.foreign.protocol import Participant
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.client import CatalogClient, learn_catalog
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.commands import RegisterForeign
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.process.background import Tasks
from txnstatus.process.descriptors import raise_limit
from txnstatus.process.environment import Environment
from txnstatus.proto import participant_pb2
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import is_loopback
from txnstatus.rpc.guests import Bounds
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.server import Registry
from txnstatus.security import tls
from txnstatus.security.principals import Kind
from txnstatus.security.tls import Tls
from txnstatus.status.ranges import StatusRanges
from txnstatus.tracing import beginning, spans

ResultT = TypeVar("ResultT")

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class HostedParticipant(Participant, Protocol):
    """A participant that this process opens and closes."""

    def check(self, *, is_new: bool) -> None:
        """Whether it can take part; `is_new`: the cluster does not know it yet."""

    def identity(self) -> str:
        """Which system this is: the same text wherever it runs, as long as it has what was prepared in it."""

    def set_up(self) -> None:
        """Once the cluster knows it, in every life of the process."""

    def close(self) -> None: ...


class ForeignProcess:
    """Registers the participant and serves it. Raises StartError from `start`, for what another try does not mend."""

    def __init__(
        self,
        name: str,
        make: Callable[[str], HostedParticipant],
        listen: str,
        advertise: str,
        join: Sequence[str],
        tls: Tls | None,
    ) -> None:
        """`make` is given the cluster's id. `advertise`: the address at which the cluster reaches this process."""
        self._tls = tls
        self._name = name
        self._make = make
        self._listen = listen
        self._advertise = advertise
        self._join = join
        self._environment = Environment()
        self._closing = contextlib.AsyncExitStack()
        self.removed = asyncio.Event()
        """The cluster goes on without this participant, for ever."""

    async def start(self) -> None:
        state = await self._insist(lambda: learn_catalog(self._channel, self._join))
        participant = self._make(state.cluster_id)
        self._closing.callback(participant.close)
        cluster = ClusterMap(state)
        cluster.subscribe(self._catalog_changed)
        client = TxnSystemClient(cluster, self._environment, tls=self._tls)
        self._closing.push_async_callback(client.close)
        host = ForeignHost(self._name, participant, StatusRanges(client), self._environment)
        catalog = CatalogClient(client)
        is_new = self._name not in (await self._insist(catalog.refresh)).foreign
        await self._insist(lambda: self._in_thread(functools.partial(participant.check, is_new=is_new)))
        identity = await self._insist(lambda: self._in_thread(participant.identity))
        await self._serve(host, cluster)
        place = RegisterForeign(self._name, self._advertise, identity)
        await self._insist(lambda: catalog.change(place))
        await self._insist(lambda: self._in_thread(participant.set_up))
        tasks = Tasks(f"the background of {self._name} failed")
        self._closing.push_async_callback(tasks.stop)
        tasks.spawn(catalog.run())
        tasks.spawn(host.run())
        log.info("%s of cluster %s is served on %s", self._name, state.cluster_id, self._listen)

    async def stop(self) -> None:
        """What is under way fails with retriable errors."""
        await self._closing.aclose()
        self._environment.blocking.shutdown()

    async def _serve(self, host: ForeignHost, cluster: ClusterMap) -> None:
        registry = Registry(self._name, lambda: cluster.cluster_id, only_processes=True)
        registry.add(participant_pb2.DESCRIPTOR.services_by_name["Participant"], host)
        bounds = Bounds.within(raise_limit() - OWN_DESCRIPTORS)
        listener = Listener(registry, bounds=bounds, tls=self._tls, revoked=lambda: cluster.state.revoked)
        cluster.subscribe(lambda _state: listener.end_revoked())
        try:
            await listener.bind(self._listen)
        except OSError as error:
            raise StartError(f"cannot listen on {self._listen}: is the port in use, or not this host's?") from error
        await listener.start()
        self._closing.callback(listener.stop)

    def _channel(self, address: str) -> PeerChannel:
        """One to a node of which nothing is known yet."""
        return PeerChannel(address, tls=self._tls)

    async def _in_thread(self, act: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._environment.blocking, act)

    async def _insist(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Until somebody answers: the cluster or the participant's system may start later than this process."""
        while True:
            try:
                return await ask()
            except TxnError as error:
                if not error.retriable:
                    raise StartError(str(error)) from error
                log.warning("%s waits: %s", self._name, error.message)
            await asyncio.sleep(RETRY_SECONDS)

    def _catalog_changed(self, state: CatalogState) -> None:
        if state.foreign.get(self._name) == "":
            self.removed.set()


async def _run(process: ForeignProcess) -> None:
    stopping = stop_signals()
    ends = [asyncio.create_task(event.wait()) for event in (stopping, process.removed)]
    starting = asyncio.create_task(process.start())
    try:
        await asyncio.wait([starting, *ends], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await process.stop()
        for end in ends:
            end.cancel()
    if process.removed.is_set():
        raise StartError("this participant was removed from the cluster: what it has prepared, end by hand")


def _credentials(name: str, listen: str) -> Tls | None:
    """What the process shows. Raises StartError where that is not the host of this name; or where it is nothing, and
    others than this machine's programs would reach the process."""
    try:
        found = tls.from_environment()
    except InvalidArgument as error:
        raise StartError(str(error)) from error
    if found is None and not is_loopback(listen):
        raise StartError(f"without {tls.VARIABLE} a host is for loopback, and {listen} is not: see docs/security.md")
    if found is not None and (found.own.kind, found.own.name) != (Kind.HOST, name):
        raise StartError(f"{tls.VARIABLE} has the certificate of {found.own}; this is the host {name}")
    return found


def run(
    name: str,
    make: Callable[[str], HostedParticipant],
    listen: str,
    advertise: str,
    join: Sequence[str],
    log_level: Level = Level.INFO,
    log_format: LogFormat = LogFormat.TEXT,
) -> int:
    """Until SIGTERM or SIGINT. Returns the process's exit code: 2 = it cannot start, or was removed."""
    logs.begin(name, {"": log_level}, log_format)

    async def serve() -> None:
        await _run(ForeignProcess(name, make, listen, advertise, join, _credentials(name, listen)))

    try:
        arm_failpoints()
        beginning.begin("txnstatus-participant", name)
        uvloop.run(serve())
    except (StartError, InvalidArgument) as error:
        print(f"txnctl participant: {error}", file=sys.stderr)
        return 2
    finally:
        spans.close(LAST_SPANS_SECONDS)
    return 0
