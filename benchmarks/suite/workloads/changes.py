"""DELETE, UPDATE and MERGE over one table without a key, by programs without Spark, in CPU seconds."""

from __future__ import annotations

import importlib
import itertools
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import txnclient
from benchmarks.suite.model import OURS, Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster
from benchmarks.suite.peers import ducklake
from benchmarks.suite.processes import needs_modules
from txnclient import Client, CommitReceipt, RowsAffected

ROWS = 10_000_000
QUICK_ROWS = 100_000
WARM_ROWS = 20_000
FILES = 10
GROUPS = 1_000
"""Values of the column of which an UPDATE hits one."""
SOURCE_SHARE = 0.003
"""Rows of a MERGE's source beside those of the table; two of three match one."""
SCATTERED, RANGE, UPDATE, MERGE = "DELETE 1 % scattered", "DELETE 1 % range", "UPDATE 0.1 %", "MERGE 0.3 %"
COLUMNS = "id bigint, grp int, val double, s string, ts timestamp"
Statements = Mapping[str, Callable[[], int]]
"""What is run, one after the other over the same table; each answers how many rows it changed."""


def rows(first: int, count: int) -> pa.Table:
    numbers = np.random.default_rng(first)
    ids = np.arange(first, first + count)
    return pa.table(
        {
            "id": ids,
            "grp": numbers.integers(0, GROUPS, count).astype(np.int32),
            "val": numbers.random(count),
            "s": pa.array([f"text {number}" for number in range(5_000)]).take(pa.array(ids % 5_000)),
            "ts": pa.array(1_700_000_000_000_000 + ids, pa.timestamp("us", "UTC")),
        }
    )


def source(count: int) -> pa.Table:
    matching = int(count * SOURCE_SHARE * 2 / 3)
    ids = np.concatenate(
        [np.random.default_rng(0).choice(count, matching, replace=False), np.arange(count, count + matching // 2)]
    )
    return rows(0, len(ids)).set_column(0, "id", pa.array(ids))


class Changes(Contender):
    """Each statement's CPU time is that of the process, all threads: what it writes and its commit are in it."""

    def __init__(self, settings: Settings) -> None:
        self._quick = settings.quick
        self._tables = itertools.count()

    def start(self, directory: Path) -> None:
        self._directory = directory

    def stop(self) -> None:
        """It has no process of its own."""

    async def prepare(self, point: int) -> None:
        self._made = self._new(QUICK_ROWS if self._quick else point)

    async def warm_up(self, point: int, seconds: float) -> None:
        for statement in self._new(WARM_ROWS).values():
            statement()

    async def run(self, point: int, seconds: float) -> Tally:
        """Every statement once, however long it takes."""
        tally = Tally()
        began = time.perf_counter()
        for name, statement in self._made.items():
            cpu, wall = time.process_time(), time.perf_counter()
            if not statement():
                raise RuntimeError(f"{name} changed nothing")
            tally.extra[f"{name}, CPU s"] = time.process_time() - cpu
            tally.latencies.append(time.perf_counter() - wall)
        tally.seconds = time.perf_counter() - began
        return tally

    def _new(self, count: int) -> Statements:
        directory = self._directory / str(next(self._tables))
        directory.mkdir()
        parts = [rows(part * (count // FILES), count // FILES) for part in range(FILES)]
        return self.statements(directory, parts, source(count))

    @abstractmethod
    def statements(self, directory: Path, parts: Sequence[pa.Table], merged: pa.Table) -> Statements:
        """Over a new table, with a file for each of the parts."""


class Ours(OurCluster, Changes):
    about = "each statement a transaction on three nodes: its snapshot, its files, all synced, and its commit"

    def __init__(self, settings: Settings) -> None:
        OurCluster.__init__(self, settings)
        Changes.__init__(self, settings)

    def start(self, directory: Path) -> None:
        OurCluster.start(self, directory)
        Changes.start(self, directory)
        self._client: Client = txnclient.connect(self.cluster.addresses)

    def stop(self) -> None:
        if hasattr(self, "_client"):
            self._client.close()
        OurCluster.stop(self)

    def statements(self, directory: Path, parts: Sequence[pa.Table], merged: pa.Table) -> Statements:
        client, table = self._client, f"bench.t{next(self._tables)}"
        client.create_table(table, COLUMNS)
        for part in parts:
            client.write(part, table)
        limit = sum(part.num_rows for part in parts) // 100
        merge = client.merge(table, merged, on="target.id = source.id")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        return {
            SCATTERED: lambda: _changed(client.delete_where(table, "id % 100 = 7")),
            RANGE: lambda: _changed(client.delete_where(table, f"id < {limit}")),
            UPDATE: lambda: _changed(client.update_where(table, {"val": "val * 2.0"}, "grp = 5")),
            MERGE: lambda: _changed(merge.execute()),
        }


def _changed(receipt: CommitReceipt) -> int:
    assert isinstance(receipt.rows, RowsAffected)
    return receipt.rows.inserted + receipt.rows.updated + receipt.rows.deleted


class DeltaRs(Changes):
    name = "delta-rs"
    about = "it writes files anew that have rows to change; nothing is synced"

    def missing(self) -> str | None:
        return needs_modules("deltalake")

    def version(self) -> str:
        return f"delta-rs {version('deltalake')}"

    def statements(self, directory: Path, parts: Sequence[pa.Table], merged: pa.Table) -> Statements:
        delta: Any = importlib.import_module("deltalake")
        for part in parts:
            delta.write_deltalake(str(directory), part, mode="append")
        table = delta.DeltaTable(str(directory))
        limit = sum(part.num_rows for part in parts) // 100

        def merge() -> int:
            merging = table.merge(merged, "t.id = s.id", source_alias="s", target_alias="t")
            done = merging.when_matched_update_all().when_not_matched_insert_all().execute()
            return int(done["num_target_rows_updated"] + done["num_target_rows_inserted"])

        return {
            SCATTERED: lambda: table.delete("id % 100 = 7")["num_deleted_rows"],
            RANGE: lambda: table.delete(f"id < {limit}")["num_deleted_rows"],
            UPDATE: lambda: table.update(updates={"val": "val * 2.0"}, predicate="grp = 5")["num_updated_rows"],
            MERGE: merge,
        }


class DuckLake(Changes):
    name = "ducklake"
    about = "dead rows in files of its own, as ours; its catalog in one DuckDB file; data files are not synced"

    def missing(self) -> str | None:
        return ducklake.missing()

    def version(self) -> str:
        return ducklake.versions()

    def stop(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    def statements(self, directory: Path, parts: Sequence[pa.Table], merged: pa.Table) -> Statements:
        database = self._database = ducklake.attached(directory)
        database.execute("USE lake")
        for number, part in enumerate(parts):
            database.register("part", part)
            database.execute("CREATE TABLE t AS FROM part" if not number else "INSERT INTO t FROM part")
        database.register("merged", merged)
        limit = sum(part.num_rows for part in parts) // 100

        def running(statement: str) -> Callable[[], int]:
            return lambda: int(database.execute(statement).fetchone()[0])

        return {
            SCATTERED: running("DELETE FROM t WHERE id % 100 = 7"),
            RANGE: running(f"DELETE FROM t WHERE id < {limit}"),
            UPDATE: running("UPDATE t SET val = val * 2.0 WHERE grp = 5"),
            MERGE: running(
                "MERGE INTO t USING merged s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET grp = s.grp, val = s.val, s = s.s, ts = s.ts "
                "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.grp, s.val, s.s, s.ts)"
            ),
        }


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings), DeltaRs(settings), DuckLake(settings)]


def _goals() -> tuple[Goal, ...]:
    bounds = {SCATTERED: (0.25, 1.2), RANGE: (0.10, 0.6), UPDATE: (0.4, 1.1), MERGE: (0.25, 1.1)}
    return tuple(
        Goal(OURS, f"{name}, CPU s", ROWS, bound, peer, at_most=True)
        for name, pair in bounds.items()
        for peer, bound in zip((DeltaRs.name, DuckLake.name), pair, strict=True)
    )


WORKLOAD = Workload(
    name="changes",
    title="Rows deleted, updated and merged",
    about=f"One table in {FILES} files, four statements one after the other, each with its commit. CPU is that "
    "of the program; what our nodes take for it is in the table of CPU.",
    contenders=contenders,
    points=(ROWS,),
    axis="rows",
    operation="statement",
    goals=_goals(),
)
