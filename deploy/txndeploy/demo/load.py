"""`txnctl demo`: the main job, told and checked while it runs.

One transaction loads five tables from PySpark while the leader of its status range is killed; a reader polls
snapshots all the time. A second transaction aborts, the process of a third one dies, a fourth one corrects two tables
by a MERGE and a DELETE; then these are compacted. A fifth one is a MERGE in Spark's own SQL. What the reader saw, and
what is visible in the end, decides the exit code.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import txnclient
from txnclient import Client, StagedFiles, Transaction, TxnState, TxnSummary
from txnclient.compact.asking import CompactionSummary
from txndeploy.demo import flights, in_sql
from txndeploy.demo.flights import SOURCES, Source
from txndeploy.demo.spark_session import local_cluster_session
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.node.config import TxnSection
from txndeploy.terminal import listings
from txndeploy.terminal.output import lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEEPALIVE_MS = 6_000
ABANDONED_KEEPALIVE_MS = 2_000
EXPIRY_SECONDS = 30.0
BY_EXECUTORS = "air.weather"
KILL_BEFORE = "air.weather"
"""The leader dies when some tables are written and others are not."""
CORRECTED = ("air.airlines", "air.planes")
OF_NO_YEAR = "year IS NULL"
COMPACTION_SECONDS = 60.0
POLL_SECONDS = 0.2

Counts = dict[str, int]
"""Rows by table."""


@dataclass(slots=True)
class Reader:
    """Polls snapshots over all five tables, and keeps what it saw."""

    cluster: LocalCluster
    expected: dict[str, Counts]
    """What may be seen, by what it is called."""
    polls: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    """How many polls saw what."""
    torn: list[Counts] = field(default_factory=list)
    failure: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(60)

    def _run(self) -> None:
        with txnclient.connect(self.cluster.addresses, credentials=self.cluster.credentials) as client:
            is_last = False
            while not is_last:
                is_last = self._ended.wait(POLL_SECONDS)  # what there is at the end is looked at, too
                try:
                    self._poll(client)
                except txnclient.TxnError as error:
                    self.failure = str(error)
                    return

    def _poll(self, client: Client) -> None:
        snapshot = client.snapshot()
        rows = {
            source.table: snapshot.to_arrow(source.table, columns=[source.columns.split()[0]]).num_rows
            for source in SOURCES
        }
        self.polls += 1
        for name, expected in self.expected.items():
            if rows == expected:
                self.seen[name] += 1
                return
        self.torn.append(rows)


@dataclass(slots=True)
class Figures:
    """What happened, for the report and the exit code."""

    killed: str = ""
    load_seconds: float = 0.0
    plain_seconds: float = 0.0
    compactions: list[CompactionSummary] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def run(console: Console, directory: Path | None, *, keep: bool) -> int:
    """The exit code: 0 when everything was as it must be."""
    work = directory or Path(tempfile.mkdtemp(prefix="txnstatus-demo-"))
    console.print(f"data: {work}" + ("" if keep else " (removed at the end)"))
    try:
        return _run(console, work, keep=keep)
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)


def _run(console: Console, work: Path, *, keep: bool) -> int:
    story = Figures()
    with ExitStack() as stack:
        progress = stack.enter_context(
            Progress(
                SpinnerColumn(finished_text=Text("✓", "green")),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=8),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
            )
        )
        with _step(progress, "unpack the data set"):
            files = flights.unpack(work / "source")
            expected = _expected(files)
        with _step(progress, "start PySpark with two executors"):
            spark = stack.enter_context(local_cluster_session("txnstatus demo", work / "spark"))
        with _step(progress, "start a cluster of three nodes"):
            cluster = stack.enter_context(
                LocalCluster(
                    work / "cluster",
                    cluster_name="demo",
                    compactor=True,
                    txn=TxnSection(keepalive_default_ms=KEEPALIVE_MS, zombie_grace_seconds=2.0),
                )
            )
        client = stack.enter_context(txnclient.connect(cluster.addresses, credentials=cluster.credentials))
        for source in SOURCES:
            client.create_table(source.table, source.columns, partition_by=source.partition_by)
        frames = {source.table: _frame(spark, files[source.file], source) for source in SOURCES}
        with _step(progress, "warm Spark up with a plain write", total=len(SOURCES)) as advance:
            _write_plain(frames, work / "warm-up", advance)
        reader = Reader(cluster, expected)
        reader.start()
        _load(progress, cluster, client, spark, frames, files, story)
        with _step(progress, f"restart {story.killed}"):
            cluster.restart(story.killed)
            cluster.wait_ready()
        _abort_one(progress, client, frames)
        _lose_one(progress, cluster, client, story)
        _correct(progress, client)
        with _step(progress, f"compact {' and '.join(CORRECTED)}", total=len(CORRECTED)) as advance:
            for table in CORRECTED:
                story.compactions += client.compact(table, timeout=COMPACTION_SECONDS)
                advance()
        with _step(progress, "correct a third one: a MERGE in Spark's own SQL"):
            story.problems += in_sql.correct(spark, client)
        reader.stop()
        with _step(progress, "plain Parquet of the same data, to compare", total=len(SOURCES)) as advance:
            story.plain_seconds = _write_plain(frames, work / "plain", advance)
        counts = _count(spark, client)
        _check(story, reader, counts)
        found = client.transactions()
    _report(console, story, reader, counts, found, work, keep=keep)
    return 1 if story.problems else 0


# ---- the transactions


def _load(
    progress: Progress,
    cluster: LocalCluster,
    client: Client,
    spark: SparkSession,
    frames: dict[str, DataFrame],
    files: dict[str, Path],
    story: Figures,
) -> None:
    """All five tables in one transaction, through the loss of its leader."""
    started = time.monotonic()
    with (
        _step(progress, "load five tables in one transaction", total=len(SOURCES) + 1) as advance,
        client.transaction(label="load nycflights13") as txn,
    ):
        for source in SOURCES:
            if source.table == KILL_BEFORE:
                story.killed = cluster.leader("status-0")
                cluster.kill(story.killed)
                progress.console.print(f"  kill -9 {story.killed}, the leader of the load's status range")
            if source.table == BY_EXECUTORS:
                _write_by_executors(spark, cluster, txn, files[source.file], source)
            else:
                txn.write(frames[source.table], source.table)
            advance()
        txn.commit()
        advance()
    story.load_seconds = time.monotonic() - started


def _write_by_executors(
    spark: SparkSession, cluster: LocalCluster, txn: Transaction, path: Path, source: Source
) -> None:
    """One task a weather station: each joins by token and writes its rows; the driver adds what came back."""
    token, addresses = txn.token(tables=[source.table], appends_only=True, may_commit=False), cluster.addresses

    def write(station: str) -> StagedFiles:
        import pyarrow.compute as pc

        rows = flights.read_csv(path, source.columns)
        with txnclient.connect(addresses, credentials=token) as client:
            return client.join(token).stage(rows.filter(pc.field("origin") == station), source.table)

    stations = flights.WEATHER_STATIONS
    staged = spark.sparkContext.parallelize(stations, len(stations)).map(write).collect()
    txn.add(staged, source.table)


def _abort_one(progress: Progress, client: Client, frames: dict[str, DataFrame]) -> None:
    with _step(progress, "write two tables, then abort", total=3) as advance:
        txn = client.begin(label="changed its mind")
        for table in ("air.airlines", "air.airports"):
            txn.write(frames[table], table)
            advance()
        txn.abort(reason="the demo changed its mind")
        advance()


def _lose_one(progress: Progress, cluster: LocalCluster, client: Client, story: Figures) -> None:
    """A driver that dies without a word: the staleness pass must end its transaction."""
    with _step(progress, "kill a third one's process; wait for its expiry"):
        context = multiprocessing.get_context("spawn")
        begun, child = context.Pipe()
        process = context.Process(
            target=_begin_and_hang, args=(cluster.addresses, cluster.credentials, child), daemon=True
        )
        process.start()
        if not begun.poll(60):
            story.problems.append("the third transaction's process did not begin it")
            process.kill()
            return
        txn_id = begun.recv()
        process.kill()
        process.join()
        try:
            wait_until(
                lambda: client.get(txn_id).state is TxnState.ABORTED, f"expiry of transaction {txn_id}", EXPIRY_SECONDS
            )
        except TimeoutError as error:
            story.problems.append(str(error))


def _correct(progress: Progress, client: Client) -> None:
    """Rows of two tables change; no file is rewritten."""
    with (
        _step(progress, "correct two tables: a MERGE, and a DELETE", total=3) as advance,
        client.transaction(label="corrections") as txn,
    ):
        merge = txn.merge("air.airlines", flights.corrections(), "target.carrier = source.carrier")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        advance()
        txn.delete_where("air.planes", OF_NO_YEAR)
        advance()
        txn.commit()
        advance()


def _begin_and_hang(addresses: str, credentials: Path | None, begun: multiprocessing.connection.Connection) -> None:
    """The third transaction's process; it is killed while it waits."""
    import pyarrow as pa

    client = txnclient.connect(addresses, credentials=credentials)
    txn = client.begin(label="its process dies", keepalive_millis=ABANDONED_KEEPALIVE_MS)
    txn.write(pa.table({"carrier": ["ZZ"], "name": ["Never Visible Air"]}), "air.airlines")
    begun.send(txn.id)
    threading.Event().wait()


# ---- looking


def _expected(files: dict[str, Path]) -> dict[str, Counts]:
    """What a reader may see: the tables before the load, after it, and after the corrections."""
    import pyarrow.compute as pc

    rows = {source.table: flights.read_csv(files[source.file], source.columns) for source in SOURCES}
    loaded = {name: each.num_rows for name, each in rows.items()}
    carriers = {*rows["air.airlines"]["carrier"].to_pylist(), *flights.corrections()["carrier"].to_pylist()}
    corrected = {
        **loaded,
        "air.airlines": len(carriers),
        "air.planes": pc.count(rows["air.planes"]["year"]).as_py(),  # of those that are not null
    }
    return {"empty": dict.fromkeys(loaded, 0), "loaded": loaded, "corrected": corrected}


def _frame(spark: SparkSession, path: Path, source: Source) -> DataFrame:
    return spark.read.csv(str(path), header=True, schema=source.columns, nullValue=flights.NULL)


def _write_plain(frames: dict[str, DataFrame], directory: Path, advance: Callable[[], None]) -> float:
    started = time.monotonic()
    for source in SOURCES:
        writer = frames[source.table].write
        if source.partition_by:
            writer = writer.partitionBy(*source.partition_by)
        writer.parquet(str(directory / source.table))
        advance()
    return time.monotonic() - started


def _count(spark: SparkSession, client: Client) -> Counts:
    """What Spark reads in the end."""
    snapshot = client.snapshot()
    return {source.table: snapshot.read(spark, source.table).count() for source in SOURCES}


def _check(story: Figures, reader: Reader, counts: Counts) -> None:
    if reader.failure:
        story.problems.append(f"the reader failed: {reader.failure}")
    if reader.torn:
        story.problems.append(f"{len(reader.torn)} of {reader.polls} polls saw part of a transaction: {reader.torn[0]}")
    if missed := [name for name in reader.expected if not reader.seen[name]]:
        story.problems.append(f"the reader has not seen the tables {' and '.join(missed)}")
    if counts != reader.expected["corrected"]:
        story.problems.append(f"Spark counts {counts}; the source has {reader.expected['corrected']}")
    for each in story.compactions:
        if each.state != "succeeded":
            story.problems.append(f"compaction of {each.table} {each.state}: {each.reason}")
    if left := {table for table in CORRECTED if table not in {each.table for each in story.compactions}}:
        story.problems.append(f"nothing was compacted of {' and '.join(sorted(left))}")


def _report(
    console: Console,
    story: Figures,
    reader: Reader,
    counts: Counts,
    found: list[TxnSummary],
    work: Path,
    *,
    keep: bool,
) -> None:
    console.print()
    console.print(listings.transactions(found).table())
    rows = Table(title="rows", title_justify="left")
    for heading in ("table", "source", "corrected", "visible", ""):
        rows.add_column(heading, justify="left" if heading == "table" else "right")
    loaded, corrected = reader.expected["loaded"], reader.expected["corrected"]
    for name, count in corrected.items():
        mark = Text("✓", "green") if counts[name] == count else Text("✗", "red")
        rows.add_row(name, f"{loaded[name]:,}", f"{count:,}", f"{counts[name]:,}", mark)
    console.print(rows)
    console.print(listings.compactions(story.compactions).table())
    total = sum(loaded.values())
    saw = ", ".join(f"{reader.seen[name]} saw them {name}" for name in reader.expected)
    console.print(f"reader: {reader.polls} polls of all five tables: {saw}, {len(reader.torn)} anything else")
    console.print(
        f"load: {total:,} rows in {story.load_seconds:.1f} s ({total / story.load_seconds:,.0f} rows/s) with its "
        f"leader killed; plain Parquet: {story.plain_seconds:.1f} s ({total / story.plain_seconds:,.0f} rows/s)"
    )
    for problem in story.problems:
        console.print(Text.assemble(("problem: ", "red"), lines(problem)), soft_wrap=True)
    if keep:
        console.print(f"\nLook further:\n  txnctl up --dir {work / 'cluster'}", soft_wrap=True)
    else:
        console.print("\nLook further: txnctl demo --keep, or a cluster of your own with\n  txnctl up")
    console.print(
        "and, with the variables that it prints:\n  txnctl txn list\n  txnctl txn show 0\n  txnctl table list"
    )


@contextmanager
def _step(progress: Progress, what: str, total: int = 1) -> Iterator[Callable[[], None]]:
    """A line with a bar: full when the block ends well."""
    task = progress.add_task(what, total=total)
    yield lambda: progress.advance(task)
    progress.update(task, completed=total)
