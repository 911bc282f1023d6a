"""etcd: three members on loopback, a key a transaction, each durable step one call of its Txn."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from benchmarks.suite.drive import Operation, drive
from benchmarks.suite.model import Contender, Settings, Tally
from benchmarks.suite.peers.batching import Batcher
from benchmarks.suite.processes import Processes, needs, needs_modules, slow_disk
from txndeploy.local.network import free_ports

MEMBERS = ("m1", "m2", "m3")
MOST_PUTS = 1_024
"""Puts in one Txn: `--max-txn-ops` of the servers, of which the default is 128."""
BATCHES = 2
"""Batches under way at once."""
CALL_SECONDS = 30.0
STATES = {
    4: (b"open", b"registered", b"commit in progress", b"committed"),
    2: (b"registered", b"committed"),
    1: (b"open",),
}
"""States of a transaction, by the number of its durable rounds."""
RECORD = bytes(range(100))
"""What is kept besides the state: as much as an owner, a start time and two participants take."""


def messages() -> Any:
    """The generated classes, made from etcd.proto beside this module as it is loaded."""
    return grpc.protos("benchmarks/suite/peers/etcd.proto")


class EtcdServers:
    """The members, their processes and addresses."""

    def __init__(self, fsync_ms: float) -> None:
        self._launcher = slow_disk(fsync_ms)
        self._processes = Processes(Path(), self._launcher)
        self._clients: dict[str, str] = {}
        self._commands: dict[str, Sequence[str | Path]] = {}
        self.leader = ""

    def start(self, directory: Path) -> None:
        ports = free_ports(2 * len(MEMBERS))
        self._clients = {name: f"127.0.0.1:{port}" for name, port in zip(MEMBERS, ports, strict=False)}
        peers = {name: f"http://127.0.0.1:{port}" for name, port in zip(MEMBERS, ports[len(MEMBERS) :], strict=True)}
        self._processes = Processes(directory, self._launcher)
        for name in MEMBERS:
            client = f"http://{self._clients[name]}"
            self._commands[name] = [
                *("etcd", "--name", name, "--data-dir", directory / name, "--log-level", "error"),
                *("--listen-peer-urls", peers[name], "--initial-advertise-peer-urls", peers[name]),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--initial-cluster", ",".join(f"{member}={url}" for member, url in peers.items())),
                *("--max-txn-ops", str(MOST_PUTS)),
                *("--quota-backend-bytes", str(8 * 2**30)),
            ]
            self._processes.start(name, self._commands[name])
        self._processes.await_ready(self._has_leader, "etcd elects a leader")

    def kill_leader(self) -> str:
        """SIGKILL; returns the member's name."""
        killed = self.leader
        self._processes.running[killed].kill()
        self._processes.running[killed].wait()
        return killed

    def start_again(self, name: str) -> None:
        """Returns when all members know of one leader."""
        self._processes.start(name, self._commands[name])
        self._processes.await_ready(self._has_leader, "etcd elects a leader")

    def stop(self) -> None:
        self._processes.stop()

    @property
    def address(self) -> str:
        """The leader's address: no call has to be forwarded."""
        return self._clients[self.leader]

    @property
    def addresses(self) -> Sequence[str]:
        """Addresses of all members."""
        return list(self._clients.values())

    def pids(self) -> Mapping[str, Sequence[int]]:
        followers = [self._processes.pid(name) for name in MEMBERS if name != self.leader]
        return {"leader": [self._processes.pid(self.leader)], "followers": followers}

    def version(self) -> str:
        return f"etcd {self._status(self.address).version}, {len(MEMBERS)} members; grpcio {grpc.__version__}"

    def _has_leader(self) -> bool:
        try:
            statuses = {name: self._status(address) for name, address in self._clients.items()}
        except grpc.RpcError:
            return False
        elected = {status.leader for status in statuses.values()}
        self.leader = next((name for name, status in statuses.items() if {status.header.member_id} == elected), "")
        return bool(self.leader)

    def _status(self, address: str) -> Any:
        known = messages()
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary(
                "/etcdserverpb.Maintenance/Status",
                request_serializer=known.StatusRequest.SerializeToString,
                response_deserializer=known.StatusResponse.FromString,
            )
            return call(known.StatusRequest(), timeout=5)


class EtcdCalls:
    """The calls of one connection."""

    def __init__(self, address: str) -> None:
        # A pool of its own: channels to one address share a connection otherwise.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.messages = messages()
        self._channel = grpc.aio.insecure_channel(address, options=options)
        self.txn = self._call("Txn")
        self.range = self._call("Range")

    def _call(self, name: str) -> Callable[..., Awaitable[Any]]:
        request, response = getattr(self.messages, f"{name}Request"), getattr(self.messages, f"{name}Response")
        return self._channel.unary_unary(
            f"/etcdserverpb.KV/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )

    async def close(self) -> None:
        await self._channel.close()

    async def compare_and_set(self, key: bytes, value: bytes, revision: int) -> int:
        """Changes a key that was last changed at `revision`, 0 for a new one; returns the new revision."""
        known = self.messages
        request = known.TxnRequest(
            compare=[known.Compare(target=known.Compare.MOD, key=key, mod_revision=revision)],
            success=[known.RequestOp(request_put=known.PutRequest(key=key, value=value))],
        )
        answer = await self.txn(request, timeout=CALL_SECONDS)
        if not answer.succeeded:
            raise RuntimeError(f"{key!r} was changed by somebody else")
        return int(answer.header.revision)

    async def get(self, key: bytes) -> bytes:
        """As of now, which the leader asks the others about."""
        answer = await self.range(self.messages.RangeRequest(key=key), timeout=CALL_SECONDS)
        value: bytes = answer.kvs[0].value
        return value

    async def put_all(self, steps: Sequence[tuple[bytes, bytes]]) -> Sequence[None]:
        """Without comparing: one key that was changed would refuse everybody's."""
        known = self.messages
        puts = [known.RequestOp(request_put=known.PutRequest(key=key, value=value)) for key, value in steps]
        await self.txn(known.TxnRequest(success=puts), timeout=CALL_SECONDS)
        return [None] * len(steps)


@dataclass
class Flow:
    """Whole transactions over one connection."""

    calls: EtcdCalls
    states: Sequence[bytes]
    name: str
    batcher: Batcher[tuple[bytes, bytes], None] | None = None

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    async def transact(self, _: int = 0) -> None:
        key = f"txn/{self.name}/{next(self._numbers):012}".encode()
        revision = 0
        for state in self.states:
            if self.batcher is None:
                revision = await self.calls.compare_and_set(key, state + RECORD, revision)
            else:
                await self.batcher.step((key, state + RECORD))


@dataclass(frozen=True)
class Client:
    """An independent one, with a connection of its own."""

    address: str
    rounds: int

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Operation]:
        calls = EtcdCalls(self.address)
        try:
            yield Flow(calls, STATES[self.rounds], f"client-{os.getpid()}-{time.time_ns()}").transact
        finally:
            await calls.close()


class Etcd(Contender):
    """A transaction after the other for each of those in flight, over one connection."""

    def __init__(self, settings: Settings, rounds: int, *, batch: bool = False, name: str = "etcd") -> None:
        self.name = name
        many = "a put; the client merges waiting steps into one Txn, which gives up compare-and-set"
        self.about = self.about or f"steps: {rounds}, each {many if batch else 'a compare-and-set Txn'}; one connection"
        self.settings = settings
        self._states = STATES[rounds]
        self._batch = batch
        self._servers = EtcdServers(settings.fsync_ms)
        self._runs = itertools.count()

    def missing(self) -> str | None:
        programs = ("etcd", "strace") if self.settings.fsync_ms else ("etcd",)
        return needs(*programs) or needs_modules("grpc_tools")

    def version(self) -> str:
        return self._servers.version()

    def start(self, directory: Path) -> None:
        self._servers.start(directory)

    def stop(self) -> None:
        self._servers.stop()

    @property
    def address(self) -> str:
        return self._servers.address

    def pids(self) -> Mapping[str, Sequence[int]]:
        return self._servers.pids()

    async def run(self, point: int, seconds: float) -> Tally:
        calls = EtcdCalls(self._servers.address)
        batcher = Batcher(calls.put_all, most=MOST_PUTS, parallel=BATCHES) if self._batch else None
        flow = Flow(calls, self._states, f"{next(self._runs)}", batcher)
        try:
            return await drive(flow.transact, point, seconds)
        finally:
            await calls.close()
