"""What PostgreSQL in a transaction costs: two tables, beside one table and a row in PostgreSQL, in turn.

    python benchmarks/postgres.py --dsn "host=127.0.0.1 user=postgres dbname=postgres" --rounds 50

The server needs max_prepared_transactions; nodes and host run on this machine, with default timeouts. Prints medians
with their spread, of `commit()` alone. For comparison, also of a PostgreSQL transaction by itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import txnclient
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports

WARM_UP_ROUNDS = 5
INSERT = "INSERT INTO txnstatus_benchmark VALUES (%s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    name = f"benchmark-{uuid.uuid4().hex}"
    with (
        tempfile.TemporaryDirectory(prefix="txnstatus-bench-") as directory,
        LocalCluster(Path(directory)) as cluster,
        psycopg.connect(options.dsn) as own,
        txnclient.connect(cluster.addresses) as client,
    ):
        own.execute("CREATE TABLE IF NOT EXISTS txnstatus_benchmark (id text)")
        own.commit()
        host = _start_host(name, options.dsn, cluster.addresses)
        try:
            for table in ("b.first", "b.second"):
                client.create_table(table, "id bigint")
            _await_host(client, name)
            _report(_measure(client, own, name, options.rounds))
        finally:
            host.terminate()
            host.wait()
            own.execute("DROP TABLE txnstatus_benchmark")


def _start_host(name: str, dsn: str, join: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "txndeploy.ctl.cli", "participant", "postgres", "--name", name]
    command += ["--listen", f"127.0.0.1:{free_ports(1)[0]}", "--join", join]
    environment = {**os.environ, "TXN_POSTGRES_DSN": dsn}
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)


def _await_host(client: txnclient.Client, name: str) -> None:
    while True:
        txn = client.begin()
        try:
            txn.enlist(name, _Nothing())
        except txnclient.NotFound:
            time.sleep(0.1)
        else:
            return
        finally:
            txn.abort()


class _Nothing:
    def prepare(self) -> None: ...
    def publish(self) -> None: ...
    def discard(self) -> None: ...


def _measure(client: txnclient.Client, own: psycopg.Connection, name: str, rounds: int) -> dict[str, list[float]]:
    data = pa.table({"id": pa.array([1], pa.int64())})

    def tables() -> Callable[[], object]:
        txn = client.begin()
        txn.write(data, "b.first")
        txn.write(data, "b.second")
        return txn.commit

    def both() -> Callable[[], object]:
        txn = client.begin()
        txn.write(data, "b.first")
        with txn.postgres(name, own) as connection:
            connection.execute(INSERT, ("both",))
        return txn.commit

    def postgres() -> Callable[[], object]:
        own.execute(INSERT, ("alone",))
        return own.commit

    variants = {"two tables": tables, "a table and PostgreSQL": both, "PostgreSQL by itself": postgres}
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(WARM_UP_ROUNDS + rounds):
        for variant, prepared in variants.items():
            commit = prepared()
            began = time.perf_counter()
            commit()
            if number >= WARM_UP_ROUNDS:
                times[variant].append(1000 * (time.perf_counter() - began))
    return times


def _report(times: dict[str, list[float]]) -> None:
    table = Table(title="commit(), in ms", title_justify="left")
    for heading in ("", "median", "min", "max"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, values in times.items():
        table.add_row(name, f"{statistics.median(values):.1f}", f"{min(values):.1f}", f"{max(values):.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
