"""Many small files of one table become one, by programs without Spark."""

from __future__ import annotations

import importlib
import itertools
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

import txnclient
from benchmarks.suite.model import OURS, Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster
from benchmarks.suite.processes import needs_modules
from benchmarks.suite.workloads.changes import COLUMNS, rows
from txnclient import Client
from txnclient.compact.worker import Worker

FILES = 100
WARM_FILES, WARM_TABLES = 10, 12
"""Each of ours has its leader: with so many, all nodes lead one, and have loaded what they check files with."""
ROWS = 4_000
"""Rows of each file."""
CPU = "compaction, CPU s"


class Compaction(Contender):
    """The CPU time is that of the process, all threads; p50 is how long it takes until readers see the one file."""

    async def prepare(self, point: int) -> None:
        self.fill(point)

    async def warm_up(self, point: int, seconds: float) -> None:
        for _ in range(WARM_TABLES):
            self.fill(WARM_FILES)
            self.compact()

    async def run(self, point: int, seconds: float) -> Tally:
        """Once, however long it takes."""
        tally = Tally()
        cpu, wall = time.process_time(), time.perf_counter()
        self.compact()
        tally.extra[CPU] = time.process_time() - cpu
        tally.seconds = time.perf_counter() - wall
        tally.latencies.append(tally.seconds)
        if (found := self.there()) != (1, point * ROWS):
            raise RuntimeError(f"{found[0]} files with {found[1]} rows, where one with {point * ROWS} was to be")
        return tally

    def fill(self, files: int) -> None:
        """Makes a new table."""
        self.append([rows(number * ROWS, ROWS) for number in range(files)])

    @abstractmethod
    def append(self, parts: Sequence[pa.Table]) -> None:
        """Makes a new table, with a commit for each of the parts."""

    @abstractmethod
    def compact(self) -> None: ...

    @abstractmethod
    def there(self) -> tuple[int, int]:
        """Files and rows that a reader sees now."""


class Ours(OurCluster, Compaction):
    about = "the worker in this process: its lease, its files, all synced and checked, and the switch on three nodes"

    def start(self, directory: Path) -> None:
        super().start(directory)
        self._tables = itertools.count()
        self._client: Client = txnclient.connect(self.cluster.addresses)

    def stop(self) -> None:
        if hasattr(self, "_client"):
            self._client.close()
        super().stop()

    def append(self, parts: Sequence[pa.Table]) -> None:
        self._table = f"bench.small{next(self._tables)}"
        self._client.create_table(self._table, COLUMNS)
        for part in parts:
            self._client.write(part, self._table)
        self._client.compact(self._table, wait=False)

    def compact(self) -> None:
        Worker(self._client.session, "benchmark", threading.Event(), self._table).run_once()

    def there(self) -> tuple[int, int]:
        with self._client.snapshot() as snapshot:
            found = snapshot.files(self._table)
            return len(found.files), found.rows


class DeltaRs(Compaction):
    name = "delta-rs"
    about = "one process without a service; nothing is synced"

    def missing(self) -> str | None:
        return needs_modules("deltalake")

    def version(self) -> str:
        return f"delta-rs {version('deltalake')}"

    def start(self, directory: Path) -> None:
        self._directory, self._tables = directory, itertools.count()

    def stop(self) -> None:
        """It has no process of its own."""

    def append(self, parts: Sequence[pa.Table]) -> None:
        delta: Any = importlib.import_module("deltalake")
        self._table = str(self._directory / str(next(self._tables)))
        for part in parts:
            delta.write_deltalake(self._table, part, mode="append")

    def compact(self) -> None:
        delta: Any = importlib.import_module("deltalake")
        delta.DeltaTable(self._table).optimize.compact()

    def there(self) -> tuple[int, int]:
        delta: Any = importlib.import_module("deltalake")
        table = delta.DeltaTable(self._table)
        return len(table.file_uris()), table.to_pyarrow_dataset().count_rows()


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings), DeltaRs()]


WORKLOAD = Workload(
    name="compaction",
    title="Small files become one",
    about=f"A table of {FILES} files with {ROWS:,} rows each, of which each came with a commit.",
    contenders=contenders,
    points=(FILES,),
    axis="files",
    operation="compaction",
    goals=(
        Goal(OURS, CPU, FILES, 1.1, DeltaRs.name, at_most=True),
        Goal(OURS, "p50", FILES, 1.1, DeltaRs.name, at_most=True),
    ),
)
