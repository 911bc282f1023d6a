"""One user's transactions while another one asks for many times as much as he may."""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import txnclient
from benchmarks.suite import clients
from benchmarks.suite.drive import Operation
from benchmarks.suite.model import Goal, Settings, Tally, Workload
from benchmarks.suite.ours import CALL_SECONDS, COLUMNS, MANAGER, OWNER, TABLES, OurCluster, commit
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import TxnSection
from txnstatus.errors import LimitReached
from txnstatus.proto import admin_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Purpose
from txnstatus.security import tls
from txnstatus.security.principals import Kind

SHARE = 50
"""Transactions that the noisy user may begin in a second, or ask about, and that the quiet one begins."""
TICK_SECONDS = 0.02
GIVES_WAY = 19
MOST = 5_000
"""Calls that the noisy one has under way: with more it waits."""
QUIET, NOISY = "quiet", "noisy"
ASKED = "asked by the noisy one, a second"
CPU = "CPU of the noisy one's program, seconds a second"


@asynccontextmanager
async def user(address: str, shown: Path) -> AsyncIterator[PeerChannel]:
    channel = PeerChannel(address, tls=tls.within(shown), purpose=Purpose.CALLS)
    try:
        yield channel
    finally:
        await channel.close()


async def transact(channel: PeerChannel) -> None:
    """Begin with a first write on each of the tables, and commit."""
    writes = [pb.FirstWrite(table=table, write_id=uuid.uuid4().hex) for table in TABLES]
    request = pb.BeginTransactionRequest(request_id=uuid.uuid4().hex, owner=OWNER, first_writes=writes, near=TABLES[0])
    answer = await channel.call(f"{MANAGER}/BeginTransaction", request, pb.BeginTransactionResponse, CALL_SECONDS)
    await commit(channel, answer.txn_ids[0])


@dataclass(frozen=True)
class Noise:
    """The noisy user's program: it asks at a rate, whatever it is answered."""

    address: str
    shown: Path
    times: int
    """How many shares it asks for."""
    began: Path
    """A file that it makes once it asks."""
    reads: bool
    """Whether it asks for a transaction's state over and over; else it begins some."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Operation]:
        os.nice(GIVES_WAY)  # it would be on a machine of its own
        async with user(self.address, self.shown) as channel:
            each = round(self.times * SHARE * TICK_SECONDS)
            due, under_way, room = time.perf_counter(), set[asyncio.Task[None]](), asyncio.Semaphore(MOST)

            def over(task: asyncio.Task[None]) -> None:
                under_way.discard(task)
                room.release()

            async def tick(_: int) -> None:
                nonlocal due
                due = max(due + TICK_SECONDS, time.perf_counter() - 1.0)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                self.began.touch()
                for _ in range(each):
                    await room.acquire()
                    task = asyncio.create_task(self._ask(channel))
                    under_way.add(task)
                    task.add_done_callback(over)

            yield tick
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _ask(self, channel: PeerChannel) -> None:
        with suppress(LimitReached):
            if self.reads:
                request = pb.GetTransactionStateRequest(txn_id=0)
                answer = pb.GetTransactionStateResponse
                await channel.call(f"{MANAGER}/GetTransactionState", request, answer, CALL_SECONDS)
            else:
                await transact(channel)


class Ours(OurCluster):
    about = f"the other one begins: {SHARE} a second are his share, and more are refused"
    reads = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, TxnSection(user_begins_per_second=SHARE, user_reads_per_second=SHARE))

    def start(self, directory: Path) -> None:
        self._cluster = LocalCluster(directory / "cluster", txn=self._txn, compactor=False)
        self._cluster.start()
        self._users = {name: directory / name for name in (QUIET, NOISY)}
        authority = Authority.load(self._cluster.directory / "authority")
        with txnclient.connect(self._cluster.addresses, credentials=self._cluster.credentials) as client:
            for table in TABLES:
                client.create_table(table, COLUMNS)
            for name, shown in self._users.items():
                authority.issue(Kind.USER, name, shown)
                client.grant("writer", name, on=None)
            # After a pause of the machine more of his are due at once than a second has.
            for limit in ("user_begins_per_second", "user_reads_per_second"):
                request = admin_pb2.SetLimitRequest(identity=QUIET, name=limit, value=0)
                client.call("txnstatus.Admin/SetLimit", request, admin_pb2.SetLimitResponse)
            client.begin().commit()

    async def warm_up(self, point: int, seconds: float) -> None:
        await self.run(1, seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        """What the quiet one does at his rate: each begins when it is due, and is counted from then."""
        began = self._users[NOISY] / "began"
        began.unlink(missing_ok=True)
        noise = Noise(self.leader_address(), self._users[NOISY], point, began, self.reads)
        making = asyncio.create_task(clients.run(noise, 1, seconds + 2))
        async with user(self.leader_address(), self._users[QUIET]) as channel:
            await transact(channel)
            await asyncio.to_thread(_wait_for, began)
            tally = await _at_a_rate(channel, seconds)
        made = await making
        tally.extra[ASKED] = made.count / made.seconds * round(point * SHARE * TICK_SECONDS) if made.seconds else 0.0
        tally.extra[CPU] = (made.client_cpu or 0.0) / made.seconds if made.seconds else 0.0
        tally.errors += made.errors
        return tally


class OursBesideReads(Ours):
    name = "ours-reads"
    about = f"the other one asks for a transaction's state: {SHARE} a second are his share"
    reads = True


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + clients.START_SECONDS
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(TICK_SECONDS)


async def _at_a_rate(channel: PeerChannel, seconds: float) -> Tally:
    """At random moments: at even ones all would meet the noisy one's, whose begins have turns at even ones, or none."""
    tally, moments = Tally(), random.Random(0)
    began = time.perf_counter()

    async def one(due: float) -> None:
        try:
            await transact(channel)
        except Exception as error:  # noqa: BLE001 whatever it is, it is counted and shown
            tally.failed(error)
        else:
            tally.latencies.append(time.perf_counter() - due)

    async with asyncio.TaskGroup() as under_way:
        for due in sorted(began + moments.uniform(0, seconds) for _ in range(round(seconds * SHARE))):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            under_way.create_task(one(due))
    tally.seconds = time.perf_counter() - began
    return tally


WORKLOAD = Workload(
    name="tenants",
    title="One user's transactions beside another one's",
    contenders=lambda settings: [Ours(settings), OursBesideReads(settings)],
    points=(1, 100),
    axis="times its share",
    about=f"With TLS. One user does {SHARE} transactions a second, at random moments, each counted from then; another "
    "one asks for as many, which is his share, or for a hundred times as many. All programs share the machine's cores "
    "with the nodes; the other one's gives way.",
    goals=tuple(Goal(name, "p99", 100, 1.2, name, peer_point=1, at_most=True) for name in ("ours", "ours-reads")),
)
