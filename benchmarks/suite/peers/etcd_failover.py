"""etcd, whose leader is killed under load."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc

from benchmarks.suite.interrupted import WRITERS, Load
from benchmarks.suite.model import Contender, Settings, Tally
from benchmarks.suite.peers.etcd import MOST_PUTS, RECORD, STATES, EtcdServers, messages
from benchmarks.suite.processes import needs, needs_modules

KILLS = 5
QUICK_KILLS = 1
ATTEMPT_SECONDS = 0.3
"""Time after which another member is asked: one without a leader answers only after seconds."""
PAUSE_SECONDS = 0.02
TRY_SECONDS = 30.0


class _Client:
    """Puts through any member that answers; the last that did is asked first."""

    def __init__(self, addresses: Sequence[str], stack: ExitStack) -> None:
        known = messages()
        self._puts = []
        for address in addresses:
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 100)]
            channel = stack.enter_context(grpc.insecure_channel(address, options=options))
            self._puts.append(
                channel.unary_unary(
                    "/etcdserverpb.KV/Txn",
                    request_serializer=known.TxnRequest.SerializeToString,
                    response_deserializer=known.TxnResponse.FromString,
                )
            )
        self._turn = 0

    def put(self, request: Any) -> None:
        """Raises RpcError once it has been tried for TRY_SECONDS."""
        deadline = time.monotonic() + TRY_SECONDS
        while True:
            try:
                self._puts[self._turn](request, timeout=ATTEMPT_SECONDS)
            except grpc.RpcError:
                if time.monotonic() > deadline:
                    raise
                self._turn = (self._turn + 1) % len(self._puts)
                time.sleep(PAUSE_SECONDS)
            else:
                return


def _request(pairs: Sequence[tuple[bytes, bytes]]) -> Any:
    known = messages()
    return known.TxnRequest(
        success=[known.RequestOp(request_put=known.PutRequest(key=key, value=value)) for key, value in pairs]
    )


class EtcdKilled(Contender):
    name = "etcd"
    about = f"{WRITERS} writers, four puts a transaction, any member that answers; SIGKILL of the leader"

    def __init__(self, settings: Settings) -> None:
        self._kills = QUICK_KILLS if settings.quick else KILLS
        self._servers = EtcdServers(settings.fsync_ms)
        self._numbers = itertools.count()

    def missing(self) -> str | None:
        return needs("etcd") or needs_modules("grpc_tools")

    def version(self) -> str:
        return self._servers.version()

    def start(self, directory: Path) -> None:
        self._open = 0
        self._servers.start(directory)

    def stop(self) -> None:
        self._servers.stop()

    def pids(self) -> Mapping[str, Sequence[int]]:
        return self._servers.pids()

    async def prepare(self, point: int) -> None:
        with ExitStack() as stack:
            client = _Client([self._servers.address], stack)
            for first in range(self._open, point, MOST_PUTS):
                numbers = range(first, min(first + MOST_PUTS, point))
                client.put(_request([(f"open/{number:012}".encode(), STATES[4][0] + RECORD) for number in numbers]))
        self._open = point

    @contextmanager
    def _program(self) -> Iterator[Callable[[], int]]:
        with ExitStack() as stack:
            client = _Client(self._servers.addresses, stack)

            def transact() -> int:
                number = next(self._numbers)
                for state in STATES[4]:
                    client.put(_request([(f"txn/{number:012}".encode(), state + RECORD)]))
                return number

            yield transact

    async def warm_up(self, point: int, seconds: float) -> None:
        with Load(self._program):
            await asyncio.sleep(seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        tally, began = Tally(), time.monotonic()
        with Load(self._program) as load:
            for _ in range(self._kills):
                await asyncio.sleep(seconds)
                killed = self._servers.kill_leader()
                tally.latencies.append(load.next_after(time.monotonic()))
                self._servers.start_again(killed)
        tally.seconds = time.monotonic() - began
        tally.extra["acknowledged"] = len(load.acknowledged)
        tally.extra["refused"] = len(load.refused)
        return tally
