"""DELETE, UPDATE and MERGE over one table without a key, by programs without Spark, in CPU seconds."""

from __future__ import annotations

import importlib
import itertools
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.suite.model import OURS, Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.peers import ducklake
from benchmarks.suite.processes import needs_modules
from txnclient.change import local, merging
from txnclient.change.plan import Act, Clause, MergePlan, Rows, RowsChanged
from txnclient.formats import arrow, schemas
from txnclient.read.table_files import TableFiles
from txnstatus.lake import dead_rows, manifest
from txnstatus.schema import Schema

ROWS = 10_000_000
QUICK_ROWS = 100_000
WARM_ROWS = 20_000
FILES = 10
GROUPS = 1_000
"""Values of the column of which an UPDATE hits one."""
SOURCE_SHARE = 0.003
"""Rows of a MERGE's source beside those of the table; two of three match one."""
SCATTERED, RANGE, UPDATE, MERGE = "DELETE 1 % scattered", "DELETE 1 % range", "UPDATE 0.1 %", "MERGE 0.3 %"
SCHEMA = Schema(schemas.to_columns("id bigint, grp int, val double, s string, ts timestamp"))
TABLE = "bench.t"
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
    """Each statement's CPU time is that of the process, all threads; it includes what the statement writes."""

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


class Ours(Changes):
    name = OURS
    about = "the engine, and its files, all synced; without the calls to a cluster that a commit takes"

    def statements(self, directory: Path, parts: Sequence[pa.Table], merged: pa.Table) -> Statements:
        files = [
            file
            for number, part in enumerate(parts)
            for file in arrow.write_files(part, (directory / f"p{number}").as_uri(), SCHEMA, TABLE)
        ]
        self._there = TableFiles(TABLE, SCHEMA, tuple(files))
        limit = sum(part.num_rows for part in parts) // 100
        plan = MergePlan(
            "target.id = source.id", (Clause(Rows.MATCHED, Act.UPDATE), Clause(Rows.NOT_MATCHED, Act.INSERT))
        )

        def changing(statement: Callable[[], RowsChanged]) -> Callable[[], int]:
            return lambda: self._apply(statement(), directory)

        return {
            SCATTERED: changing(lambda: local.delete(self._there, "id % 100 = 7")),
            RANGE: changing(lambda: local.delete(self._there, f"id < {limit}")),
            UPDATE: changing(lambda: local.update(self._there, {"val": "val * 2.0"}, "grp = 5")),
            MERGE: changing(lambda: merging.merge(self._there, merged, plan)),
        }

    def _apply(self, changed: RowsChanged, directory: Path) -> int:
        """What a transaction writes."""
        write = (directory / f"w{next(self._tables)}").as_uri()
        there = self._there
        dead = dead_rows.union([there.dead, changed.dead])
        if changed.rows is not None:
            files = arrow.write_files(changed.rows, write, SCHEMA, TABLE)
            manifest.write(write, files, table_id="t", txn_id=1, write_id="w", not_durable=files)
            there = replace(there, files=(*there.files, *files))
        dead_rows.write(write, changed.dead)
        self._there = replace(there, dead=dead)
        return changed.inserted + changed.updated + changed.deleted


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
    about=f"One table in {FILES} files, four statements one after the other. Ours is the engine and its files: the "
    "calls of a commit to a cluster are not in it.",
    contenders=contenders,
    points=(ROWS,),
    axis="rows",
    operation="statement",
    goals=_goals(),
)
