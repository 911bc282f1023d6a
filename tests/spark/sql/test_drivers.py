"""Drivers of Spark's that are no Python programs, with the catalog: `txnctl spark`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.sql.drivers import HOME, driver, listens
from tests.support import wait_until
from txnclient import Client
from txnclient.sparksql import bridge, serving
from txnclient.sparksql.bridge import Address, Answers
from txnclient.sparksql.seen import Seen
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports
from txnstatus.errors import InvalidArgument
from txnstatus.types import TxnState

NewTable = Callable[..., str]
THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_spark_sql_by_itself(cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table = new_table("id bigint")
    statements = (
        f"INSERT INTO txn.{table} SELECT id FROM range(5)",
        f"INSERT OVERWRITE txn.{table} SELECT id + 1 FROM txn.{table}",
        f"SELECT sum(id) FROM txn.{table}",
    )
    settings = ("spark.ui.enabled=false", "spark.sql.catalogImplementation=in-memory")
    words = [word for setting in settings for word in ("--conf", setting)]
    command = [str(HOME / "bin" / "spark-sql"), "--master", "local[1]", *words, "-e", "; ".join(statements)]
    with driver(cluster, tmp_path, command) as running:
        said, _ = running.communicate(timeout=800)
    assert running.returncode == 0, (tmp_path / "stderr").read_text()[-5000:]
    assert said.splitlines()[-1] == "15"
    assert sorted(client.snapshot().to_arrow(table)["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert not client.transactions([TxnState.OPEN])


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_spark_shell_by_itself(cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table, program = new_table("id bigint"), tmp_path / "program.scala"
    program.write_text(
        f'spark.sql("INSERT INTO txn.{table} VALUES (1), (2)")\n'
        f'spark.range(3, 6).writeTo("txn.{table}").append()\n'
        f'spark.sql("DELETE FROM txn.{table} WHERE id = 1")\n'
        f'println("rows: " + spark.table("txn.{table}").count())\n'
        "System.exit(3)\n"
    )
    command = [str(HOME / "bin" / "spark-shell"), "--master", "local[1]", "-I", str(program)]
    with driver(cluster, tmp_path, command) as running:
        said, _ = running.communicate(timeout=800)
    assert running.returncode == 3, (tmp_path / "stderr").read_text()[-5000:]
    assert "rows: 4" in said
    assert sorted(client.snapshot().to_arrow(table)["id"].to_pylist()) == [2, 3, 4, 5]
    assert not client.transactions([TxnState.OPEN])


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_context_after_one_that_was_stopped(
    cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    """The driver had the jar's classes still, and executors were not sent it any more: each statement failed there."""
    table = new_table("id bigint")
    job = Path(__file__).with_name("two_contexts_job.py")
    done = subprocess.run(
        [sys.executable, job, cluster.addresses, table, tmp_path],
        text=True,
        capture_output=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert sorted(client.snapshot().to_arrow(table)["id"].to_pylist()) == [1, 2]


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_thrift_server(cluster: LocalCluster, client: Client, new_table: NewTable, tmp_path: Path) -> None:
    """Its clients speak JDBC, and know nothing of the tables."""
    table, (port,) = new_table("id bigint", primary_key=["id"]), free_ports(1)
    settings = (f"hive.server2.thrift.port={port}", "hive.server2.thrift.bind.host=127.0.0.1")
    words = [word for setting in settings for word in ("--hiveconf", setting)]
    command = [str(HOME / "bin" / "spark-submit"), "--class", THRIFT_SERVER, "--master", "local[1]", *words]

    def started(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [HOME / "bin" / "beeline", "-u", f"jdbc:hive2://127.0.0.1:{port}", "-n", "somebody", *words],
            cwd=tmp_path,
            env={**os.environ, "SPARK_HOME": str(HOME)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def beeline(statements: str) -> str:
        with started("--outputformat=csv2", "-e", statements) as running:
            return running.communicate(timeout=300)[0]

    with driver(cluster, tmp_path, command) as running:
        wait_until(lambda: listens(port, running), "a Thrift server", 600.0)
        said = beeline(
            f"INSERT INTO txn.{table} VALUES (1), (2); UPDATE txn.{table} SET id = 7 WHERE id = 2; "
            f"SELECT 'rows ' || sum(id) AS told FROM txn.{table}"
        )
        assert "rows 8" in said.splitlines(), said
        assert "txnstatus.spark.PythonError" in (refused := beeline(f"INSERT INTO txn.{table} VALUES (7)"))
        assert "AlreadyExists: 1 of 1 rows" in refused
        with started() as killed:
            assert killed.stdin is not None
            killed.stdin.write(f"BEGIN;\nINSERT INTO txn.{table} VALUES (3);\nLOCK TABLE txn.{table} EXCLUSIVE;\n")
            killed.stdin.flush()
            try:
                wait_until(lambda: "X" in {each.mode for each in client.locks(table)}, "a client within BEGIN", 300.0)
            finally:
                killed.kill()
        wait_until(lambda: not client.transactions([TxnState.OPEN]), "its transaction is aborted", 60.0)
        running.terminate()
        running.wait(120)
    assert sorted(client.snapshot().to_arrow(table)["id"].to_pylist()) == [1, 7]
    assert not client.transactions([TxnState.OPEN])


def test_a_command_is_told_by_a_file_of_its_own(client: Client, tmp_path: Path) -> None:
    script, seen = tmp_path / "driver", tmp_path / "seen"
    script.write_text(f'#!/bin/sh\nstat -c %a "$2" >{seen}; cat "$2" >>{seen}; echo "$1 $3" >>{seen}; exit 7\n')
    script.chmod(0o700)
    assert serving.run(client, [str(script), "more"], name="lake") == 7
    mode, *settings, words = seen.read_text().splitlines()
    assert (mode, words) == ("600", "--properties-file more")
    assert {each.split()[0] for each in settings} == {
        "spark.jars",
        "spark.sql.extensions",
        "spark.sql.catalog.lake",
        *(f"spark.sql.catalog.lake.{each}" for each in ("id", "port", "token")),
    }


@pytest.mark.parametrize("plan_goes_first", [True, False])
def test_what_a_session_reads_is_released_in_whichever_order_it_goes(
    client: Client, plan_goes_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java tells of what nothing refers to any more in any order."""
    released, release = list[Seen](), Seen.release

    def noted(self: Seen) -> None:
        released.append(self)
        release(self)

    monkeypatch.setattr(Seen, "release", noted)
    with monkeypatch.context() as patch:
        held = dict[str, Answers]()
        patch.setattr(bridge, "serve", lambda name, answers: held.update({name: answers}) or Address(1, "token"))
        with serving.served(client):
            (answers,) = held.values()
            seen = answers("see", {"session": "one"})
            goodbyes = [("release", {"session": "one", "seen": seen}), ("bye", {"session": "one"})]
            for method, request in goodbyes if plan_goes_first else reversed(goodbyes):
                answers(method, request)
    assert len(released) == 1


def test_what_cannot_be_run_is_said(client: Client) -> None:
    for command, why in (
        ([], "expected a command"),
        (["spark-sql", "--properties-file=mine"], "--properties-file"),
        (["/nowhere/spark-sql"], "'/nowhere/spark-sql' cannot be run"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            serving.run(client, command)
    with pytest.raises(InvalidArgument, match="catalog name"):
        serving.run(client, ["spark-sql"], name="a.b")
