"""Sessions of Spark Connect with the catalog: a server's, run by `txnctl spark`, and one that a client attaches."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.sql.drivers import HOME, driver, listens
from tests.support import wait_until
from txnclient import Client
from txnclient.sparksql import attach, bridge, detach, last_commit
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports
from txnstatus.errors import AlreadyExists, Conflict, IllegalState, InvalidArgument, NotFound, Unavailable
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS = 600.0
IDLE_SECONDS = 60
"""The time without a call after which the server closes a session."""
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that has the catalog `txn`. It ends with `txnctl spark`."""
    scratch, (port,) = tmp_path_factory.mktemp("server"), free_ports(1)
    settings = (
        "spark.ui.enabled=false",
        f"spark.connect.grpc.binding.port={port}",
        "spark.connect.grpc.binding.address=127.0.0.1",
        f"spark.connect.session.manager.defaultSessionTimeout={IDLE_SECONDS}s",
        "spark.connect.session.manager.maintenanceInterval=1s",
    )
    words = [word for setting in settings for word in ("--conf", setting)]
    command = [str(HOME / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[1]", *words]
    with driver(cluster, scratch, command) as running:
        wait_until(lambda: listens(port, running), "a server of Spark Connect", START_SECONDS)
        yield f"sc://127.0.0.1:{port}"
        running.terminate()
        running.wait(120)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), 10)


@pytest.fixture
def remote(server: str) -> Iterator[SparkSession]:
    """A session of that server's."""
    connect = pytest.importorskip("pyspark.sql.connect.session", reason="pyspark[connect]")
    session = connect.SparkSession.builder.remote(server).create()
    yield session
    session.stop()


def there(client: Client, table: str) -> list[int]:
    """Read without Spark."""
    return sorted(client.snapshot().to_arrow(table)["id"].to_pylist())


def test_a_client_needs_nothing_of_ours(remote: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint", primary_key=["id"])
    remote.sql(f"INSERT INTO txn.{table} VALUES (1), (2)")
    remote.range(3, 5).writeTo(f"txn.{table}").append()
    remote.sql(f"DELETE FROM txn.{table} WHERE id = 1")
    assert remote.table(f"txn.{table}").where("id < 4").orderBy("id").collect() == [(2,), (3,)]
    with pytest.raises(Exception, match=r"txnstatus\.spark\.PythonError.* AlreadyExists: 1 of 1 rows"):
        remote.sql(f"INSERT INTO txn.{table} VALUES (3)")
    assert there(client, table) == [2, 3, 4]
    assert not client.transactions([TxnState.OPEN])


def test_a_client_attaches_a_catalog_of_its_own(remote: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, name string", primary_key=["id"])
    attach(remote, client, name="far")
    remote.sql(f"INSERT INTO far.{table} VALUES (1, 'a'), (2, 'b')")
    remote.range(3, 5).selectExpr("id", "'c' AS name").writeTo(f"far.{table}").append()
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    remote.sql(f"MERGE INTO far.{table} t USING (SELECT 2L AS id, 'B' AS name) s ON t.id = s.id {clauses}")
    remote.sql(f"DELETE FROM far.{table} WHERE id = 1")
    receipt = last_commit(remote, name="far")
    assert receipt is not None
    assert receipt.rows.deleted == 1
    assert remote.table(f"far.{table}").orderBy("id").collect() == [(2, "B"), (3, "c"), (4, "c")]
    with pytest.raises(AlreadyExists, match="keys are in"):
        remote.sql(f"INSERT INTO far.{table} VALUES (3, 'x')")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        remote.table("far.s.nowhere").collect()
    with client.transaction() as txn, txn.spark(remote):
        remote.sql(f"INSERT INTO far.{table} VALUES (5, 'd')")
        remote.sql(f"UPDATE far.{table} SET name = 'e' WHERE id >= 4")
        assert there(client, table) == [2, 3, 4]
        assert remote.table(f"far.{table}").where("name = 'e'").count() == 2
    assert there(client, table) == [2, 3, 4, 5]

    def overtaken() -> None:
        with client.transaction() as txn, txn.spark(remote):
            remote.sql(f"INSERT OVERWRITE far.{table} SELECT id + 10 AS id, name FROM far.{table}")
            client.upsert(table, pa.table({"id": [2], "name": ["other"]}))

    with pytest.raises(Conflict, match=table):
        overtaken()
    assert not client.transactions([TxnState.OPEN])
    frame = remote.table(f"far.{table}")
    detach(remote, name="far")
    with pytest.raises(IllegalState, match="detached"):
        frame.collect()
    attach(remote, client, name="far")
    assert remote.table(f"far.{table}").count() == 4
    detach(remote, name="far")


def test_a_stream_of_a_session_of_connect_is_refused(remote: SparkSession, client: Client, tmp_path: Path) -> None:
    rows = remote.readStream.schema("id bigint").parquet(str(tmp_path))
    with pytest.raises(InvalidArgument, match="Spark Connect") as refused:
        client.stream(rows, lambda txn, batch, number: None, source="remote")
    assert refused.value.hint == "run the stream in a driver of its own, as spark-submit does"


def test_what_a_session_of_connect_cannot_have_is_named(
    remote: SparkSession, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = bridge.serve
    with monkeypatch.context() as patch:
        patch.setattr(bridge, "serve", lambda *told: serve(*told)._replace(port=1))
        with pytest.raises(Unavailable, match=r"catalog elsewhere .*did not answer"):
            attach(remote, client, name="elsewhere")
    with pytest.raises(NotFound, match="no catalog 'elsewhere'"):
        detach(remote, name="elsewhere")
    with pytest.raises(AlreadyExists, match=r"spark\.sql\.catalog\.txn is txnstatus\.spark\.TxnCatalog"):
        attach(remote, client)


def test_a_session_that_is_closed_within_a_transaction(server: str, client: Client, new_table: NewTable) -> None:
    """Others need not wait for the server to collect its memory."""
    connect = pytest.importorskip("pyspark.sql.connect.session", reason="pyspark[connect]")
    table, session = new_table("id bigint"), connect.SparkSession.builder.remote(server).create()
    for begin in ("BEGIN", "COMMIT", "BEGIN"):  # what comes later in the session is looked after as well
        begun = session.sql(begin).collect()[0].txn_id
    session.sql(f"INSERT INTO txn.{table} VALUES (1)")
    session.sql(f"LOCK TABLE txn.{table} EXCLUSIVE")
    assert client.get(begun).state is TxnState.OPEN
    session.stop()
    with client.transaction() as txn:
        txn.lock(table, "X", lock_timeout=30)
    assert there(client, table) == []
    summary = client.get(begun)
    assert summary.state in (TxnState.ABORTED, TxnState.ABORT_IN_PROGRESS)
    assert summary.cause is not None
    assert "its session was closed" in summary.cause.message


def test_a_client_that_is_killed_within_a_transaction(
    server: str, client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    """Its session is closed as the server's own limit for silent ones has passed."""
    pytest.importorskip("pyspark.sql.connect.session", reason="pyspark[connect]")
    table, mark = new_table("id bigint"), tmp_path / "mark"
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from pyspark.sql.connect.session import SparkSession\n"
        "session = SparkSession.builder.remote(sys.argv[1]).create()\n"
        "session.sql('BEGIN')\n"
        "session.sql(f'INSERT INTO txn.{sys.argv[2]} VALUES (1)')\n"
        "session.sql(f'LOCK TABLE txn.{sys.argv[2]} EXCLUSIVE')\n"
        "Path(sys.argv[3]).touch()\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen([sys.executable, program, server, table, mark]) as killed:
        try:
            wait_until(mark.exists, "a client within a transaction", START_SECONDS)
        finally:
            killed.kill()
    (begun,) = client.transactions([TxnState.OPEN])
    wait_until(lambda: client.get(begun.txn_id).state is not TxnState.OPEN, "it is aborted", IDLE_SECONDS + 60)
    with client.transaction() as txn:
        txn.lock(table, "X", lock_timeout=30)
    assert there(client, table) == []
