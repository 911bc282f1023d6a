"""What PostgreSQL in a transaction costs: two tables, beside one table and a row in PostgreSQL, in turn.

The server needs max_prepared_transactions; nodes and host run on this machine, with default timeouts. What is measured
is `commit()` alone; for comparison, also that of a PostgreSQL transaction by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated

import psycopg
import pyarrow as pa
import typer
from rich.table import Table

import txnclient
from benchmarks.suite.drive import milliseconds
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import spread_rows, table_of
from txndeploy.local.network import free_ports

WARM_UP_ROUNDS = 5
INSERT = "INSERT INTO txnstatus_benchmark VALUES (%s)"


def measure(
    dsn: Annotated[str, typer.Option(help="The server, as libpq takes it.")],
    rounds: Annotated[int, at_least(1, "After a warm-up.")] = 50,
) -> Iterator[Table]:
    name = f"benchmark-{uuid.uuid4().hex}"
    with running() as (cluster, client), psycopg.connect(dsn) as own:
        own.execute("CREATE TABLE IF NOT EXISTS txnstatus_benchmark (id text)")
        own.commit()
        host = _start_host(name, dsn, cluster.addresses)
        try:
            for table in ("b.first", "b.second"):
                client.create_table(table, "id bigint")
            _await_host(client, name)
            times = _measure(client, own, name, rounds)
        finally:
            host.terminate()
            host.wait()
            own.execute("DROP TABLE txnstatus_benchmark")
    yield table_of("commit()", ("over", "ms"), spread_rows(times))


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
            taken = milliseconds(prepared())
            if number >= WARM_UP_ROUNDS:
                times[variant].append(taken)
    return times
