"""Many writers that append to one table at once: every commit succeeds, and none waits for another's."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

import txnclient
from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OWNER, TABLES, OurCluster, appended, begin_writing, commit
from benchmarks.suite.threads import Blocking, in_threads
from txnstatus.lake import manifest
from txnstatus.lake.manifest import DataFile

TABLE = TABLES[0]
COUNT = 100
ROWS = pa.table({"id": pa.array(range(COUNT), pa.int64()), "note": [f"row {number}" for number in range(COUNT)]})


class Ours(OurCluster):
    about = "begin with a write, its durable manifest, commit with it; all share a stream; no rows are encoded"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._told = 0

    def start(self, directory: Path) -> None:
        self._told = 0
        super().start(directory)

    async def run(self, point: int, seconds: float) -> Tally:
        async with self.connected() as channel:

            async def append(_: int) -> None:
                write_id = uuid.uuid4().hex
                txn, (opened,) = await begin_writing(channel, [TABLE], write_id)
                files = [DataFile(f"{opened.directory}/part-0.parquet", COUNT, 1_000)]
                write = partial(manifest.write, table_id=opened.table.table_id, txn_id=txn, write_id=write_id)
                ref = await asyncio.to_thread(write, opened.directory, files)
                await commit(channel, txn, [appended(txn, TABLE, write_id, ref)])

            tally = await drive(append, point, seconds)
        with txnclient.connect(self.cluster.addresses) as client, client.snapshot() as snapshot:
            self.check(tally, snapshot.files(TABLE).rows)
        return tally

    def check(self, tally: Tally, rows: int) -> None:
        """Raises RuntimeError when an append is missing, or is there twice."""
        self._told += tally.count * COUNT
        if tally.failures == 0 and rows != self._told:
            raise RuntimeError(f"{rows} rows, where {self._told} were acknowledged")


class OursWithFiles(Ours):
    name = "ours-files"
    about = "the whole client library, a Parquet file of 100 rows each; threads of one process, and one that reads"

    async def run(self, point: int, seconds: float) -> Tally:
        with txnclient.connect(self.cluster.addresses, owner=OWNER) as client:

            def append() -> None:
                client.write(ROWS, TABLE)

            def writer() -> Blocking:
                return append

            with reading(client) as torn:
                tally = in_threads(writer, point, seconds)
            with client.snapshot() as snapshot:
                self.check(tally, snapshot.files(TABLE).rows)
        tally.extra["torn reads"] = len(torn)
        return tally


@contextlib.contextmanager
def reading(client: txnclient.Client) -> Iterator[list[str]]:
    """A thread that looks at the table all the time. What it finds torn, or gone again, is in the list."""
    ended, torn, before = threading.Event(), list[str](), 0

    def look() -> None:
        nonlocal before
        while not ended.is_set():
            with client.snapshot() as snapshot:
                rows = snapshot.files(TABLE).rows
            if rows % COUNT or rows < before:
                torn.append(f"{rows} rows after {before}")
            before = rows

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield torn
    finally:
        ended.set()
        thread.join()


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings), OursWithFiles(settings)]


WORKLOAD = Workload(
    name="appenders",
    title="Appenders to one table",
    about="After each point the rows in the table are compared with what was acknowledged.",
    contenders=contenders,
    points=(1, 8, 32, 128),
    axis="appenders",
    operation="commit",
    goals=(
        Goal("ours", "rate", 128, 1500),
        Goal("ours", "failures", 128, 0, at_most=True),
        Goal("ours-files", "failures", 128, 0, at_most=True),
        Goal("ours-files", "torn reads", 128, 0, at_most=True),
    ),
)
