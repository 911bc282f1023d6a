"""A year of a cluster in the simulator, at a scale, and what has grown in it: python -m tests.sim.lifetime [DAYS]

Three nodes live through days of DAY_SECONDS. As many ranges of transaction ids fill up in a day as by ten million
transactions a day (RANGES_A_DAY of a million), but each has fewer; and all times after which something is forgotten are
as much shorter as a day is. So at the end the cluster has gone through all that a year brings but the rate: the ids and
ranges, drops and new tables, savepoints that are held and released, marks that move. The code is the one that is
shipped; nothing is judged here but sizes, as the worlds of the campaign judge the rest.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Annotated, TypeVar

import typer
from google.protobuf.message import Message
from pyarrow import fs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.sim.campaign.fault import NODES
from tests.sim.campaign.scenario import Scenario
from tests.sim.world import seams
from tests.sim.world.clock import Clock
from tests.sim.world.loop import Process
from tests.sim.world.world import World
from txnstatus.errors import Unavailable
from txnstatus.lake import timeline
from txnstatus.proto import common_pb2, savepoint_pb2, table_pb2, txn_manager_pb2
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.server import Registry
from txnstatus.types import timestamp

ResponseT = TypeVar("ResponseT", bound=Message)

DAY_SECONDS = 6.0
RANGES_A_DAY = 10
TXNS_A_DAY = 60
DAYS = 365
TABLES = ("air.flights", "air.weather")
FORGET_MILLIS = 1_000
"""Time after which everything is forgotten that is forgotten after some time: four hours, at the scale."""
OWNER = "alice"
CALL_SECONDS = 10.0
SCHEMA = common_pb2.TableSchema(columns=[common_pb2.Column(name="k", type="bigint", nullable=True)])


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a cluster is made of at the end of a day, by its first node."""

    day: int
    committed: int
    next_range: int
    ranges: int
    """Live status ranges."""
    parts_bytes: int
    """Bytes of a snapshot of all that is replicated: ranges, tables."""
    catalog_bytes: int
    disk_bytes: int
    """Bytes of its journals and snapshots."""
    data_files: int
    """Files of tables in the warehouse."""
    timeline_files: int
    timeline_bytes: int
    objects: int
    """Python's objects in the whole simulation that may hold others."""


BOUNDED = ("ranges", "parts_bytes", "catalog_bytes", "disk_bytes", "data_files", "objects")
"""What has a size that time does not change."""


class Life(World):
    """A world without faults whose programs do what is done every day. It judges nothing."""

    def __init__(self, seed: int = 1) -> None:
        scenario = Scenario(
            seed,
            "calm",
            clients=0,
            range_span=TXNS_A_DAY // RANGES_A_DAY,
            retention_millis=FORGET_MILLIS,
            snapshot_retention_seconds=FORGET_MILLIS // 1000,
            segment_bytes=1 << 15,
            chronicles=True,
        )
        super().__init__(scenario, log=None)
        self.warehouse.on_delete = self.warehouse.on_chapter = lambda _uri: None
        self.committed = 0
        self.highest = -1
        """The highest id and commit timestamp so far: what comes later is higher."""
        self.highest_ts = 0
        self._program = Process("program", Clock())

    def seams(self) -> list[tuple[str, object]]:
        """Without those that look at every command."""
        judges = ("RaftGroup", "StatusService", "ShardService")
        kept = [(path, stand_in) for path, stand_in in super().seams() if path.partition(":")[2] not in judges]
        spans = [("txnparticipant.versions.additions:KEPT_SPAN", timestamp(FORGET_MILLIS * 1000))]
        return [*kept, *spans]

    def _server(self, node: str, cluster_id: Callable[[], str], _measures: object) -> Registry:  # type: ignore[override]
        return Registry(node, cluster_id)

    # ---- what is done

    def days(self, count: int) -> Iterator[Sizes]:
        for name in NODES:
            self.cluster.start(name)
        program = Program(self)
        self._do(program.start)
        for day in range(1, count + 1):
            began = self.loop.now
            self._do(lambda: program.day(day))  # noqa: B023 it is over before the next one
            if self.loop.now < began + DAY_SECONDS:
                self.loop.run(began + DAY_SECONDS - self.loop.now)
            yield self._sizes(day)

    def _do(self, work: Callable[[], Awaitable[None]]) -> None:  # type: ignore[override]
        ended: list[None] = []

        async def run() -> None:
            await work()
            ended.append(None)

        self.loop.post(self._program, lambda: asyncio.ensure_future(run(), loop=self.loop))
        if not self.loop.run(60 * DAY_SECONDS, lambda: bool(ended or self.violations)) or self.violations:
            raise AssertionError(f"the day does not end: {self.violations}")

    # ---- what there is

    def _sizes(self, day: int) -> Sizes:
        node = self.cluster.machines[NODES[0]]
        assert node.roles is not None
        assert node.catalog is not None
        machines = [group._machine for group in node.roles.replicas.values()]
        chapters = self.warehouse.files.get_file_info(fs.FileSelector("warehouse", recursive=True))
        chapters = [each for each in chapters if timeline.FOLDER in each.path and each.type is fs.FileType.File]
        gc.collect()
        return Sizes(
            day=day,
            committed=self.committed,
            next_range=node.catalog.next_range,
            ranges=len(node.catalog.ranges),
            parts_bytes=sum(len(chunk) for machine in machines for chunk in machine.snapshot()),
            catalog_bytes=node.catalog.to_wire().ByteSize(),
            disk_bytes=node.disk.used,
            data_files=sum(map(len, self.warehouse.directories.values())),
            timeline_files=len(chapters),
            timeline_bytes=sum(each.size for each in chapters),
            objects=len(gc.get_objects()),
        )


class Program:
    """What programs do in a day, one after the other; all of it must succeed."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._rng = random.Random(f"{life.scenario.seed} program")
        self._numbers = itertools.count()

    async def start(self) -> None:
        self._channels = [PeerChannel(f"{name}:7050") for name in NODES]
        for table in TABLES:
            await self._create(table)

    async def day(self, day: int) -> None:
        """TXNS_A_DAY transactions, of which one replaces all that is in the tables, and one drops a table that
        was made that day; and a savepoint."""
        table = f"air.day{day}"
        await self._create(table)
        for _ in range(TXNS_A_DAY - 2):
            await self._transact(self._rng.sample([*TABLES, table], 2))
        await self._transact(TABLES, overwrites=True)
        txn_id = await self._begin()
        lock = table_pb2.LockRequest(txn_id=txn_id, owner=OWNER, table=table, mode="LOCK_X", wait_millis=5_000)
        await self._call("txnstatus.Table/Lock", lock, table_pb2.LockResponse)
        drop = table_pb2.DropTableRequest(txn_id=txn_id, owner=OWNER, table=table)
        await self._call("txnstatus.Table/DropTable", drop, table_pb2.DropTableResponse)
        await self._commit(txn_id)
        await self._hold(f"day {day}")

    async def _create(self, table: str) -> None:
        request = table_pb2.CreateTableRequest(name=table, schema=SCHEMA, request_id=f"create {table}")
        await self._call("txnstatus.Table/CreateTable", request, table_pb2.CreateTableResponse)

    async def _transact(self, tables: Sequence[str], *, overwrites: bool = False) -> None:
        """Commits; but of those that append one of five is aborted, and one of twenty left to expire."""
        txn_id = await self._begin()
        for table in tables:
            await self._write(txn_id, table, overwrites=overwrites)
        end = 0.5 if overwrites else self._rng.random()
        if end < 0.2:
            abort = txn_manager_pb2.AbortTransactionRequest(txn_id=txn_id, owner=OWNER, reason="a whim")
            await self._call("txnstatus.TxnManager/AbortTransaction", abort, txn_manager_pb2.AbortTransactionResponse)
        elif end < 0.95:
            await self._commit(txn_id)

    async def _begin(self) -> int:
        request = txn_manager_pb2.BeginTransactionRequest(
            request_id=self._id(), owner=OWNER, label=self._id(), count=1, keepalive_millis=500
        )
        answer = await self._call(
            "txnstatus.TxnManager/BeginTransaction", request, txn_manager_pb2.BeginTransactionResponse
        )
        (txn_id,) = answer.txn_ids
        assert txn_id > self._life.highest, f"{txn_id} comes after {self._life.highest}"
        self._life.highest = txn_id
        return int(txn_id)

    async def _write(self, txn_id: int, table: str, *, overwrites: bool) -> None:
        write_id = f"write{self._id()}"
        opened = await self._call(
            "txnstatus.Table/OpenWrite",
            table_pb2.OpenWriteRequest(txn_id=txn_id, owner=OWNER, table=table, write_id=write_id),
            table_pb2.OpenWriteResponse,
        )
        manifest = self._life.warehouse.write(opened.directory, "manifest")
        request = table_pb2.AddFilesRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=table,
            write_id=write_id,
            mode=table_pb2.OVERWRITE if overwrites else table_pb2.APPEND,
            manifest=table_pb2.ManifestRef(path=manifest, bytes=1, crc32=1, file_count=1, row_count=1, data_bytes=1),
        )
        await self._call("txnstatus.Table/AddFiles", request, table_pb2.AddFilesResponse)

    async def _commit(self, txn_id: int) -> None:
        request = txn_manager_pb2.CommitTransactionRequest(txn_id=txn_id, owner=OWNER, wait_millis=5_000)
        answer = await self._call(
            "txnstatus.TxnManager/CommitTransaction", request, txn_manager_pb2.CommitTransactionResponse
        )
        assert answer.txn.commit_timestamp > self._life.highest_ts, f"{txn_id} commits in the past"
        self._life.highest_ts = answer.txn.commit_timestamp
        self._life.committed += 1

    async def _hold(self, name: str) -> None:
        """Makes a savepoint, and releases it."""
        savepoint_id = self._id()
        create = savepoint_pb2.CreateSavepointRequest(
            savepoint_id=savepoint_id, name=name, owner=OWNER, timestamp=self._life.highest_ts, tables=TABLES
        )
        await self._call("txnstatus.Savepoints/CreateSavepoint", create, savepoint_pb2.CreateSavepointResponse)
        release = savepoint_pb2.ReleaseSavepointRequest(name=name, savepoint_id=savepoint_id, owner=OWNER)
        await self._call("txnstatus.Savepoints/ReleaseSavepoint", release, savepoint_pb2.ReleaseSavepointResponse)

    async def _call(self, method: str, request: Message, response: type[ResponseT]) -> ResponseT:
        deadline = asyncio.get_running_loop().time() + CALL_SECONDS
        while True:
            try:
                return await self._rng.choice(self._channels).call(method, request, response, CALL_SECONDS)
            except Unavailable:
                if asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(0.05)

    def _id(self) -> str:
        return f"{next(self._numbers):08}"


def live(days: int, seed: int = 1) -> Iterator[Sizes]:
    """The sizes at the end of each day."""
    life = Life(seed)
    with seams.no_collection(), seams.replaced(life.seams()), seams.quiet():
        try:
            yield from life.days(days)
        finally:
            life.loop.close()


def growth(sizes: Sequence[Sizes]) -> dict[str, float]:
    """What there is in the last third of the days, by what there was in the second, of all that is to be bounded."""
    third = len(sizes) // 3
    middle, last = sizes[third : 2 * third], sizes[-third:]
    return {name: mean(getattr(s, name) for s in last) / mean(getattr(s, name) for s in middle) for name in BOUNDED}


def main(
    days: Annotated[int, typer.Argument(min=3, help="Days to live through.")] = DAYS,
    seed: Annotated[int, typer.Option(help="What is left to chance.")] = 1,
) -> None:
    """Live through a year in the simulator, and show what has grown."""
    console = Console()
    sizes = list(track(live(days, seed), "living", days, console=console, disable=not console.is_terminal))
    table = Table(title=f"{days} days, {TXNS_A_DAY} transactions a day in {RANGES_A_DAY} ranges")
    for name in Sizes.__dataclass_fields__:
        table.add_column(name.replace("_", " "), justify="right")
    for each in [*sizes[29::30], sizes[-1]] if days >= 30 else sizes:
        table.add_row(*(f"{getattr(each, name):,}" for name in Sizes.__dataclass_fields__))
    console.print(table)
    for name, ratio in growth(sizes).items():
        console.print(f"{name.replace('_', ' ')}: {ratio:.2f} x from the second third of the days to the last")


if __name__ == "__main__":
    typer.run(main)
