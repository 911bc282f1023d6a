"""Drivers of Spark's that are no Python programs, with the catalog: `txnctl spark`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.sql.drivers import HOME, driver
from txnclient import Client
from txnclient.sparksql import serving
from txndeploy.local.cluster import LocalCluster
from txnstatus.errors import InvalidArgument
from txnstatus.types import TxnState

NewTable = Callable[..., str]


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
