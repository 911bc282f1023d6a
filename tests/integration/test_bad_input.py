"""Bad input gets a clear error that names the value and the rule, and changes nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import txnclient
from tests.support import FAST_RAFT, FORKS, connect, fast_cluster, rows, visible, wait_until
from txnclient import (
    AlreadyExists,
    Client,
    IllegalState,
    InvalidArgument,
    NotAuthorized,
    NotFound,
    TxnAborted,
    TxnState,
    Unavailable,
)
from txnclient.token import Token
from txnclient.transaction.transaction import Transaction
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports
from txndeploy.node import config as configuration
from txnstatus.types import TxnId

NewTable = Callable[..., str]


@pytest.mark.parametrize("txn_id", [-1, -(2**62), 10**15])
def test_unknown_and_negative_ids(client: Client, new_table: NewTable, txn_id: int) -> None:
    handle = Transaction(client.session, TxnId(txn_id), 1000, heartbeat=False)
    with pytest.raises(NotFound, match=str(txn_id)):
        client.get(txn_id)
    with pytest.raises(NotFound, match=str(txn_id)):
        handle.write(rows(1), new_table())
    with pytest.raises(NotFound, match=str(txn_id)):
        handle.commit()
    with pytest.raises(NotFound, match=str(txn_id)):
        handle.abort()


def test_a_token_of_another_cluster(client: Client) -> None:
    foreign = Token(TxnId(0), 1000, False, "somewhere-else").to_bytes()
    with pytest.raises(InvalidArgument, match=r"'somewhere-else'.*'local\.[0-9a-f]{32}'"):
        client.join(foreign)


@pytest.mark.parametrize("token", [b"", b"TXN", b"TXN1", b"garbage, certainly"])
def test_bad_tokens(client: Client, token: bytes) -> None:
    with pytest.raises(InvalidArgument, match="token"):
        client.join(token)


def test_after_commit_nothing_can_be_written_or_aborted(client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    token = txn.token()
    staged = txn.stage(rows(2), table)
    other = client.join(token)
    receipt = txn.commit()
    with pytest.raises(IllegalState):
        txn.write(rows(3), table)
    with pytest.raises(IllegalState):
        other.write(rows(3), table)
    with pytest.raises(IllegalState):
        other.add([staged], table)
    late = client.join(token)
    with pytest.raises(IllegalState, match=r"is COMMITTED|is FINALIZE_IN_PROGRESS"):
        late.write(rows(3), table)
    assert late.is_commit_complete()
    assert late.commit() == receipt
    with pytest.raises(IllegalState):
        txn.abort()
    assert other.commit().commit_timestamp == receipt.commit_timestamp
    assert visible(client, table) == [[1]]


def test_after_abort_nothing_can_be_written_or_committed(client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    other = client.join(txn.token())
    txn.abort(reason="enough")
    txn.abort()
    wait_until(lambda: txn.state() is TxnState.ABORTED, "the tables have heard of it")
    for handle in (txn, other):
        with pytest.raises(TxnAborted):
            handle.write(rows(2), table)
        with pytest.raises(TxnAborted, match="enough"):
            handle.commit()
    late = client.join(txn.token())
    assert late.state() is TxnState.ABORTED
    for act in (lambda: late.write(rows(2), table), late.is_commit_complete, late.commit):
        with pytest.raises(TxnAborted, match="enough"):
            act()
    assert visible(client, table) == [[]]


def test_another_owner_can_end_nothing(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    with connect(cluster, owner="mallory") as other:
        stolen = other.join(txn.token())
        for act in (stolen.commit, stolen.abort, lambda: stolen.write(rows(1), table)):
            with pytest.raises(NotAuthorized, match="mallory"):
                act()
        txn.write(rows(2), table)
        with pytest.raises(NotAuthorized, match="mallory"):
            stolen.write(rows(3), table)
    assert txn.state() is TxnState.OPEN
    txn.commit()
    assert visible(client, table) == [[2]]


@pytest.mark.parametrize("millis", [1, 499, 3_600_001])
def test_keepalive_out_of_range(client: Client, millis: int) -> None:
    with pytest.raises(InvalidArgument, match=f"{millis} ms.*500 to 3600000"):
        client.begin(keepalive_millis=millis)


def test_keepalive_negative_and_label_too_long(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="-5"):
        client.begin(keepalive_millis=-5)
    with pytest.raises(InvalidArgument, match="257"):
        client.begin(label="x" * 257)


def test_tables_that_do_not_exist_or_do(client: Client, new_table: NewTable) -> None:
    table = new_table()
    with pytest.raises(AlreadyExists, match=table):
        client.create_table(table, "id bigint")
    for call in (
        lambda: client.table("t.nowhere"),
        lambda: client.snapshot().to_arrow("t.nowhere"),
        lambda: client.begin().write(rows(1), "t.nowhere"),
    ):
        with pytest.raises(NotFound, match=r"t\.nowhere"):
            call()


@pytest.mark.parametrize("name", ["plain", "a.b.c", "../up.x", "a.b=c", ""])
def test_bad_table_names(client: Client, name: str) -> None:
    with pytest.raises(InvalidArgument, match="expected database"):
        client.create_table(name, "id bigint")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pa.table({"id": [1]}), "'note'.*missing"),
        (pa.table({"id": ["1"], "note": ["x"]}), "'id'.*bigint.*string"),
        (pa.table({"id": [1], "note": ["x"], "more": [2]}), "'more'"),
    ],
)
def test_data_of_another_schema_names_the_column(
    client: Client, new_table: NewTable, data: pa.Table, says: str
) -> None:
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    with pytest.raises(InvalidArgument, match=says):
        txn.write(data, table)
    with pytest.raises(IllegalState, match=says):
        txn.commit()
    assert visible(client, table) == [[]]


def test_a_mode_that_does_not_exist(client: Client, new_table: NewTable) -> None:
    with pytest.raises(InvalidArgument, match="replace"):
        client.begin().write(rows(1), new_table(), mode="replace")  # type: ignore[arg-type]


@pytest.mark.parametrize("addresses", ["", "nohost", "host:", "host:99999999", ":1"])
def test_bad_addresses(addresses: str) -> None:
    with pytest.raises(InvalidArgument, match="host:port"):
        txnclient.connect(addresses)


def test_no_node_reachable() -> None:
    ports = free_ports(2)
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    client = txnclient.connect(addresses, timeout=1.0)
    started = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        client.begin()
    assert time.monotonic() - started < 20
    for port in ports:
        assert str(port) in caught.value.message


def test_garbage_on_the_port_harms_nobody(cluster: LocalCluster, client: Client) -> None:
    for address in cluster.addresses.split(","):
        host, port = address.split(":")
        for junk in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 99):
            with socket.create_connection((host, int(port)), 5) as connection:
                connection.sendall(junk)
    client.begin().commit()


# ---- nodes


def _start(path: Path) -> subprocess.CompletedProcess[str]:
    """What a node that does not get far says, and its exit code."""
    command = [sys.executable, "-m", "txndeploy.node.process", str(path)]
    said = path.with_suffix(".said")
    said.write_bytes(b"")
    process = FORKS.spawn(command, said, os.environ)
    try:
        code = process.wait(60)
    finally:
        process.kill()
    return subprocess.CompletedProcess(command, code, stderr=said.read_text())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('node_id = "n1"', 'node_id = "n9"'), "'n9' is not among"),
        (("replication = 3", "replication = 2"), "replication 2 is even"),
        (
            (f"heartbeat_seconds = {FAST_RAFT.heartbeat_seconds}", "heartbeat_seconds = 7.0"),
            "heartbeat_seconds 7.0 must be less than a third",
        ),
        (("keepalive_min_ms = 500", "keepalive_min_ms = 5000"), "keepalive_default_ms 4000 must lie between"),
        (("participant_shards = 3", "participant_shards = 0"), "participant_shards"),
        (('cluster_name = "local"', ""), "cluster_name"),
        (("[raft]", "[raft]\nspeed = 11"), "speed"),
        (("[raft]", "[raft"), "not TOML"),
        (('warehouse = "file:', 'warehouse = "'), "not a URI"),
        (('warehouse = "file:///', 'warehouse = "file:///../'), "empty, . or .."),
        (("table_roots = []", 'table_roots = ["/data"]'), "'/data' is no location of a table: it has no scheme"),
        (("[database_roots]", '[database_roots]\n"a.b" = []'), "'a.b' is no name of a database"),
        (("[database_roots]", '[database_roots]\na = ["/data"]'), "'/data' is no location of a table"),
        (("[database_roots]", '[database_roots]\na = ["file:///"]'), "it is nobody else's"),
    ],
)
def test_a_broken_configuration(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    cluster = fast_cluster(tmp_path)
    path = cluster.config_path("n1")
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    result = _start(path)
    assert result.returncode == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_configuration(tmp_path: Path) -> None:
    result = _start(tmp_path / "nothing.toml")
    assert result.returncode == 2
    assert "nothing.toml" in result.stderr


def test_a_port_in_use(tmp_path: Path) -> None:
    cluster = fast_cluster(tmp_path)
    host, port = cluster.configs["n1"].nodes["n1"].address.split(":")
    with socket.socket() as taken:
        taken.bind((host, int(port)))
        taken.listen()
        result = _start(cluster.config_path("n1"))
    assert result.returncode == 2
    assert f"{host}:{port}" in result.stderr


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("misled")) as running:
        yield running


@pytest.fixture
def misled(one: LocalCluster) -> Iterator[LocalCluster]:
    """A cluster whose nodes a test may stop and mislead; afterwards they run as they should."""
    yield one
    for node, config in one.configs.items():
        path, right = one.config_path(node), configuration.dump(config)
        if path.read_text() != right:
            path.write_text(right)
            one.kill(node)
    one.start()


def test_a_data_directory_of_another_node(misled: LocalCluster) -> None:
    misled.stop_node("n1")
    path = misled.config_path("n2")
    own = misled.configs["n1"].data_dir
    path.write_text(path.read_text().replace(str(misled.configs["n2"].data_dir), str(own)))
    result = _start(path)
    assert result.returncode == 2
    assert "belongs to node 'n1'" in result.stderr


def test_a_data_directory_in_use(misled: LocalCluster) -> None:
    result = _start(misled.config_path("n1"))
    assert result.returncode == 2
    assert "in use by another process" in result.stderr


def test_a_corrupt_journal_refuses_to_start(misled: LocalCluster) -> None:
    with connect(misled) as client:
        for _ in range(5):
            client.begin().commit()
    misled.stop_node("n1")
    journal = misled.configs["n1"].data_dir / "raft" / "group-0" / "journal" / f"{1:020}.log"
    sound = journal.read_bytes()
    damaged = bytearray(sound)
    damaged[30] ^= 0xFF
    journal.write_bytes(damaged)
    result = _start(misled.config_path("n1"))
    journal.write_bytes(sound)
    assert result.returncode == 2
    assert str(journal) in result.stderr
    assert "remove its data directory" in result.stderr


def test_a_node_of_another_cluster_is_not_let_in(misled: LocalCluster, tmp_path: Path) -> None:
    """Same addresses, another cluster id: its messages must not count."""
    misled.stop_node("n3")
    path = misled.config_path("n3")
    stranger = misled.configs["n3"].model_copy(update={"cluster_name": "elsewhere", "data_dir": tmp_path / "stranger"})
    path.write_text(configuration.dump(stranger))
    misled.start_node("n3")
    with connect(misled) as client:
        client.begin().commit()
    wait_until(lambda: misled.status("n3") is not None, "n3 answers")
    status = misled.status("n3")
    assert status is not None
    assert not any(group.leader or group.leader_id for group in status.groups)


def test_a_node_ends_cleanly_on_sigterm(misled: LocalCluster) -> None:
    assert misled.stop_node(misled.leader()) == 0
    with connect(misled) as client:
        client.begin().commit()
