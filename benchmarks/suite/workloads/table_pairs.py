"""Two tables get a file of 1,000 rows each, in one transaction: what DuckLake can do, too."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

import txnclient
from benchmarks.suite import clients
from benchmarks.suite.drive import Operation
from benchmarks.suite.model import Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import TABLES, OurCluster
from benchmarks.suite.peers import ducklake
from benchmarks.suite.processes import needs_modules
from benchmarks.suite.threads import Blocking, in_threads
from txnclient import Client

COUNT = 1_000
ROWS = pa.table({"id": pa.array(range(COUNT), pa.int64()), "note": [f"row {number}" for number in range(COUNT)]})


class Pairs(Contender):
    """Writers are threads of one process. After each run the rows that are there are compared with what was told."""

    def __init__(self) -> None:
        self._told = 0

    async def run(self, point: int, seconds: float) -> Tally:
        tally = in_threads(self.writer, point, seconds)
        self._told += tally.count * COUNT
        found = self.rows()
        if tally.failures == 0 and found != (self._told, self._told):
            raise RuntimeError(f"{found} rows in the two tables, where {self._told} were acknowledged")
        return tally

    def writer(self) -> Blocking:
        """A writer's commit of one pair."""
        raise NotImplementedError

    def rows(self) -> tuple[int, int]:
        """In each table."""
        raise NotImplementedError


class Ours(Pairs, OurCluster):
    about = "one transaction over both tables by the client library; files, manifests and names are synced"

    def __init__(self, settings: Settings) -> None:
        Pairs.__init__(self)
        OurCluster.__init__(self, settings)

    def start(self, directory: Path) -> None:
        self._told = 0
        super().start(directory)

    async def run(self, point: int, seconds: float) -> Tally:
        with txnclient.connect(self.cluster.addresses) as self._client:
            return await super().run(point, seconds)

    def writer(self) -> Blocking:
        return lambda: _commit(self._client)

    def rows(self) -> tuple[int, int]:
        with self._client.snapshot() as snapshot:
            first, second = (snapshot.files(table).rows for table in TABLES)
            return first, second


def _commit(client: Client) -> None:
    client.write_all(dict.fromkeys(TABLES, ROWS))


@dataclass(frozen=True)
class Writer:
    """A process."""

    addresses: str

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Operation]:
        with txnclient.connect(self.addresses) as client:

            async def operation(_: int) -> None:
                _commit(client)

            yield operation


class OursInProcesses(Ours):
    name = "ours-processes"
    about = "the same, by writers that are processes; a catalog in a DuckDB file is open to one process only"

    async def run(self, point: int, seconds: float) -> Tally:
        return await clients.run(Writer(self.cluster.addresses), point, seconds)


class DuckLake(Pairs):
    name = "ducklake"
    about = "one transaction over both tables; its catalog in one DuckDB file, unreplicated; data files are not synced"

    def missing(self) -> str | None:
        return ducklake.missing()

    def version(self) -> str:
        return ducklake.versions()

    def start(self, directory: Path) -> None:
        self._told = 0
        self._database = ducklake.attached(directory)
        for table in ("first", "second"):
            self._database.execute(f"CREATE TABLE lake.{table} (id BIGINT, note VARCHAR)")

    def stop(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    def writer(self) -> Blocking:
        cursor = self._database.cursor()
        cursor.register("rows", ROWS)

        def commit() -> None:
            cursor.execute("BEGIN")
            try:
                for table in ("first", "second"):
                    cursor.execute(f"INSERT INTO lake.{table} SELECT * FROM rows")
                cursor.execute("COMMIT")
            except BaseException:
                cursor.execute("ROLLBACK")
                raise

        return commit

    def rows(self) -> tuple[int, int]:
        counts = (self._database.execute(f"SELECT count(*) FROM lake.{table}") for table in ("first", "second"))
        first, second = (count.fetchone()[0] for count in counts)
        return first, second


class DeltaTables(Pairs):
    name = "delta-rs-not-atomic"
    about = "two commits, one after the other: a reader may see the first without the second; nothing is synced"

    def missing(self) -> str | None:
        return needs_modules("deltalake")

    def version(self) -> str:
        return f"delta-rs {version('deltalake')}"

    def start(self, directory: Path) -> None:
        self._told = 0
        self._delta: Any = importlib.import_module("deltalake")
        self._places = [str(directory / name) for name in ("first", "second")]
        for place in self._places:
            self._delta.DeltaTable.create(place, ROWS.schema)

    def stop(self) -> None:
        """It has no process of its own."""

    def writer(self) -> Blocking:
        handles = [self._delta.DeltaTable(place) for place in self._places]

        def commit() -> None:
            for handle in handles:
                self._delta.write_deltalake(handle, ROWS, mode="append")

        return commit

    def rows(self) -> tuple[int, int]:
        tables = (self._delta.DeltaTable(place).to_pyarrow_dataset() for place in self._places)
        first, second = (table.count_rows() for table in tables)
        return first, second


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings), OursInProcesses(settings), DuckLake(), DeltaTables()]


WORKLOAD = Workload(
    name="table-pairs",
    title="Atomic commits of 1,000 rows in each of two tables",
    about="delta-rs has no transaction over two tables: it stands here as a reference for what atomicity costs.",
    contenders=contenders,
    points=(1, 8),
    axis="writers",
    operation="commit",
    goals=(Goal("ours", "rate", 1, 1.3, "ducklake"), Goal("ours", "rate", 8, 4, "ducklake")),
)
