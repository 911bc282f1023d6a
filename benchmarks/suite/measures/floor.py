"""What this machine takes for the steps that every transaction is made of, whoever writes the rest.

A frame there and back between two processes, on one core and on two; a synced append, in the thread that asks for it
and in a worker thread; a command of the status table, encoded, decoded and applied; and all that one replica does to
decode and apply a transaction with two tables in one log.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated

import uvloop
from rich.table import Table

from benchmarks.suite.options import at_least
from benchmarks.suite.report import table_of
from txnparticipant.leader.machine import ShardMachine, shards_here
from txnparticipant.shard.commands import CreateTable, encode
from txnstatus.catalog.catalog import range_number, shard_group, shard_number, status_group
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import Parts, address, opening
from txnstatus.schema import Column, Schema
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock, Participant, ParticipantId, Timestamp, TxnId

FRAME = bytes(300)
Cost = tuple[float, float]
"""Seconds that one time takes, and seconds of this process's CPU in them."""


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


class Pings(asyncio.Protocol):
    """Sends what came back, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self.count = 0
        self.done = asyncio.get_running_loop().create_future()
        self._end = time.perf_counter() + seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.data_received(FRAME)

    def data_received(self, _data: bytes) -> None:
        self.count += 1
        if time.perf_counter() < self._end:
            self.transport.write(FRAME)  # type: ignore[attr-defined]
        elif not self.done.done():
            self.done.set_result(None)


def serve(core: int, port: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    os.sched_setaffinity(0, {core})
    uvloop.run(run())


def there_and_back(seconds: float, cores: tuple[int, int]) -> Cost:
    async def run() -> Cost:
        began, used = time.perf_counter(), time.process_time()
        transport, pings = await asyncio.get_running_loop().create_connection(
            lambda: Pings(seconds), "127.0.0.1", ours.recv()
        )
        await pings.done
        transport.close()
        return (time.perf_counter() - began) / pings.count, (time.process_time() - used) / pings.count

    allowed = os.sched_getaffinity(0)
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(cores[1], theirs), daemon=True)
    server.start()
    try:
        os.sched_setaffinity(0, {cores[0]})
        return uvloop.run(run())
    finally:
        os.sched_setaffinity(0, allowed)
        server.kill()
        server.join()


def repeated(seconds: float, step: Callable[[], Awaitable[object]]) -> Cost:
    async def run() -> Cost:
        count, began, used = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() < began + seconds:
            await step()
            count += 1
        return (time.perf_counter() - began) / count, (time.process_time() - used) / count

    return uvloop.run(run())


def synced_append(seconds: float, file: int, threads: ThreadPoolExecutor | None) -> Cost:
    def append() -> None:
        os.write(file, FRAME)
        os.fdatasync(file)

    async def step() -> None:
        if threads is None:
            append()
        else:
            await asyncio.get_running_loop().run_in_executor(threads, append)

    return repeated(seconds, step)


def applied(seconds: float) -> Cost:
    table = TxnStatusTable(0, 1 << 40)
    numbers = iter(range(1 << 40))

    async def step() -> None:
        number = next(numbers)
        begin = cmd.BeginTxns(f"request {number}", 1, "owner", "", 60_000, number)
        commands = (begin, cmd.BeginCommit(TxnId(number), "owner", number), cmd.Forget(number))
        for command in commands:
            table.apply(cmd.decode(cmd.encode(command)))

    seconds, used = repeated(seconds, step)
    return seconds / 3, used / 3


def replicated(seconds: float) -> Cost:
    """A begin that carries first writes on two tables, and the commit."""

    def make(part: str) -> StateMachine:
        if range_number(part) is None:
            return ShardMachine(shard_number(part), lambda _txn_id: None)
        clock = HybridClock(lambda: int(1e6 * time.time()))
        return StatusMachine(TxnStatusTable(0, 1 << 40), clock, shards_here(lambda: parts.machines))

    parts = Parts(make)
    shards, schema = [shard_group(number) for number in (0, 1)], Schema((Column("id", "bigint"),))
    parts.apply([opening(part) for part in (*shards, status_group(0))])
    creates = [CreateTable(f"a.{part}", schema, f"file:///{part}", part) for part in shards]
    parts.apply([address(part) + encode(create) for part, create in zip(shards, creates, strict=True)])
    numbers, to = iter(range(1 << 40)), address(status_group(0))

    async def step() -> None:
        number = next(numbers)
        writes = tuple(Participant(ParticipantId(f"{shard}.0"), "a.b", f"{number:032}") for shard in (0, 1))
        begin = cmd.BeginTxns(f"request {number}", 1, "owner", "", 60_000, number, participants=writes)
        commit = cmd.BeginCommit(TxnId(number), "owner", number, Timestamp(number + 1))
        parts.apply([to + cmd.encode(begin), to + cmd.encode(commit), to + cmd.encode(cmd.Forget(number))])

    return repeated(seconds, step)


def measure(seconds: Annotated[float, at_least(0.01, "Of each step.")] = 2.0) -> Iterator[Table]:
    cores = sorted(os.sched_getaffinity(0))
    costs = {"a frame there and back, both processes on one core": there_and_back(seconds, (cores[0], cores[0]))}
    if len(cores) > 1:
        costs["a frame there and back, each on its own core"] = there_and_back(seconds, (cores[0], cores[1]))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory, ThreadPoolExecutor(1) as threads:
        file = os.open(f"{directory}/appended", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        costs["a synced append"] = synced_append(seconds, file, None)
        costs["a synced append in a worker thread"] = synced_append(seconds, file, threads)
        os.close(file)
    costs["a command of the status table: encoded, decoded, applied"] = applied(seconds)
    costs["a transaction with two tables in one log: decoded, applied"] = replicated(seconds)
    rows = [(name, *(f"{1e6 * part:.1f}" for part in cost)) for name, cost in costs.items()]
    yield table_of("steps of every transaction", ("step", "us", "us of CPU, this process"), rows)
