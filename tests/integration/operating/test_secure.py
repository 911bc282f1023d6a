"""A cluster with TLS: nodes among themselves, clients, `txnctl`; through the loss of a leader, and new certificates."""

from __future__ import annotations

import asyncio
import pickle
import shlex
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import txnclient
from tests import blocks
from tests.support import SCHEMA, fast_cluster, rows, visible, wait_until
from txnclient import Client, IllegalState, NotAuthorized, Unauthenticated, aio, connect
from txnclient.token import Token
from txndeploy.ctl import commands
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txnstatus.limits import TICKET_KEY_BYTES
from txnstatus.proto import admin_pb2
from txnstatus.security import tickets
from txnstatus.security.principals import Kind
from txnstatus.security.refusals import TOLD
from txnstatus.security.tls import VARIABLE
from txnstatus.types import DECIDED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("secure"), secure=True) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster.addresses, credentials=cluster.credentials) as connected:
        yield connected


def ctl(*arguments: str, code: int = 0, **environment: str) -> Result:
    result = CliRunner().invoke(commands.app, arguments, env=environment)
    assert result.exit_code == code, f"{arguments}: {result.output}{result.exception!r}"
    return result


def test_transactions_commit_through_the_loss_of_a_leader(cluster: LocalCluster, client: Client) -> None:
    client.create_table("t.one", SCHEMA)
    with client.transaction() as txn:
        txn.write(rows(1), "t.one")
    leader = cluster.leader()
    cluster.kill(leader)
    with client.transaction() as txn:
        txn.write(rows(2), "t.one")
    cluster.start_node(leader)
    cluster.wait_ready()

    async def write() -> None:
        async with aio.connect(cluster.addresses, credentials=cluster.credentials) as twin, twin.transaction() as txn:
            await txn.write(rows(3), "t.one")

    asyncio.run(write())
    assert visible(client, "t.one") == [[1, 2, 3]]


def test_nobody_else_is_let_in(cluster: LocalCluster, tmp_path: Path) -> None:
    with connect(cluster.addresses) as plain, pytest.raises(Unauthenticated, match="TLS only"):
        plain.last_commit()
    Authority.found(cluster.configs["n1"].cluster_name, tmp_path / "ca").issue(Kind.USER, "eve", tmp_path / "eve")
    with connect(cluster.addresses, credentials=tmp_path / "eve") as other, pytest.raises(Unauthenticated):
        other.last_commit()


def test_a_transaction_is_whose_the_certificate_says(cluster: LocalCluster, tmp_path: Path) -> None:
    """A client that says another name is not believed, and one with another certificate is not let in."""
    authority = Authority.load(cluster.directory / "authority")
    for name in ("alice", "bob"):
        authority.issue(Kind.USER, name, tmp_path / name)
    with (
        connect(cluster.addresses, credentials=tmp_path / "alice") as alice,
        connect(cluster.addresses, credentials=tmp_path / "bob") as bob,
    ):
        with connect(cluster.addresses, credentials=cluster.credentials) as admin:
            for name in ("alice", "bob"):
                admin.grant("writer", name, on=None)
        wait_until(lambda: all(alice.grants() and bob.grants() for _ in range(6)), "all nodes know of it")
        alice.create_table("t.owned", SCHEMA)
        txn = alice.begin()
        assert alice.get(txn.id).owner == "alice"
        bob.session.owner = "alice"
        with pytest.raises(NotAuthorized, match="belongs to 'alice', not to 'bob'"):
            bob.join(txn.token()).write(rows(1), "t.owned")
        with pytest.raises(NotAuthorized, match="belongs to 'alice', not to 'bob'"):
            bob.join(txn.token()).commit()
        txn.write(rows(2), "t.owned")
        txn.commit()
        assert bob.savepoint("owned").owner == "bob"
        bob.release_savepoint("owned")
        assert visible(bob, "t.owned") == [[2]]


def test_an_executor_with_a_token_needs_no_other_credential_and_does_nothing_else(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stages, and the driver adds and commits; through a rotation of the key."""
    monkeypatch.delenv(VARIABLE, raising=False)
    client.create_table("t.staged", SCHEMA)
    client.create_table("t.other", SCHEMA)
    txn = client.begin()
    token = txn.token(tables=["t.staged"], appends_only=True, may_commit=False)
    assert txn.token(tables=["t.staged"], appends_only=True, may_commit=False) == token
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}
    assert "Tokens are signed by key 2" in ctl("token", "rotate", **shown).stdout
    with connect(cluster.addresses, credentials=token) as executor:
        assert executor.owner == client.owner
        joined = executor.join(token)
        staged = joined.stage(rows(1), "t.staged")
        for act in (
            lambda: joined.stage(rows(2), "t.other"),
            lambda: executor.join(txn.token()).commit(),
            lambda: joined.abort("not mine"),
            executor.last_commit,
            executor.begin,
            executor.tables,
            lambda: executor.abort(txn.id, "nor so"),
            lambda: executor.get(txn.id + 1),
            lambda: executor.create_table("t.third", SCHEMA),
            lambda: executor.drop_table("t.staged"),
        ):
            with pytest.raises(NotAuthorized, match="does not allow"):
                act()
        txn.add([staged], "t.staged")
        txn.commit()
        assert executor.join(token).state() in DECIDED
        late = executor.join(token)
        with pytest.raises(IllegalState):
            late.stage(rows(3), "t.staged")
    assert visible(client, "t.staged") == [[1]]


def test_the_page_runs_as_pasted(cluster: LocalCluster, client: Client) -> None:
    client.create_table("air.flights", SCHEMA)
    with client.transaction() as txn:
        said = {"txn": txn, "txnclient": txnclient, "addresses": cluster.addresses, "rows": rows(1)}
        exec(blocks.block("docs/security.md", "txn.token(tables"), said)
        txn.add([said["staged"]], "air.flights")
    assert visible(client, "air.flights") == [[1]]


def test_a_token_reads_and_commits_where_it_says_so_and_not_after_the_end(
    cluster: LocalCluster, client: Client
) -> None:
    client.create_table("t.read", SCHEMA)
    client.write(rows(1), "t.read")
    txn = client.begin()
    token = txn.token(tables=["t.read"])
    with connect(cluster.addresses, credentials=token) as executor:
        joined = executor.join(token)
        joined.write(rows(2), "t.read")
        snapshot = joined.snapshot
        assert sorted(snapshot.to_arrow("t.read").column("id").to_pylist()) == [1, 2]
        joined.commit()
        with pytest.raises(NotAuthorized, match=r"transaction \d+ is [A-Z_]+, and its tokens are good for nothing"):
            executor.last_commit()
        with pytest.raises(NotAuthorized, match=r"transaction \d+ is [A-Z_]+, and its tokens are good for nothing"):
            executor.table("t.read")
    assert visible(client, "t.read") == [[1, 2]]


def test_a_token_that_was_rotated_away_and_one_of_another_cluster_are_refused(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    txn = client.begin()
    token = Token.from_bytes(txn.token())
    ticket = tickets.read(token.ticket)
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}
    forged = tickets.sign(ticket, 1, bytes(TICKET_KEY_BYTES))
    elsewhere = tickets.sign(replace(ticket, cluster_id="local.1"), 1, bytes(TICKET_KEY_BYTES))
    altered = token.ticket[:-1] + bytes([token.ticket[-1] ^ 1])
    for signed in (forged, elsewhere, altered):
        shows = replace(token, ticket=signed).to_bytes()
        with (
            connect(cluster.addresses, credentials=shows) as executor,
            pytest.raises(Unauthenticated, match=TOLD),
        ):
            executor.get(txn.id)
    with connect(cluster.addresses, credentials=token.to_bytes()) as executor:
        assert executor.get(txn.id).owner == client.owner
    for _ in range(2):
        ctl("token", "rotate", **shown)
    with connect(cluster.addresses, credentials=token.to_bytes()) as executor:
        wait_until(lambda: refused(executor, txn.id), "all nodes have heard of the key")
    txn.abort()


def refused(executor: Client, txn_id: int) -> bool:
    """Whether the next connection is."""
    executor.session.channel.connections._resting.clear()
    try:
        executor.get(txn_id)
    except Unauthenticated as error:
        return TOLD in error.message
    return False


def test_tasks_of_spark_s_format_show_the_transaction_s_token(
    cluster: LocalCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark runs them: what begins and commits has credentials, what stages has none."""
    from pyspark.sql.types import LongType, StructField, StructType

    from txnclient.datasource import clients
    from txnclient.datasource.options import parse
    from txnclient.datasource.writing import Writer

    client.create_table("t.format", SCHEMA)
    asked = parse({"cluster": cluster.addresses, "table": "t.format"})
    monkeypatch.setenv(VARIABLE, str(cluster.credentials))
    clients.connected.cache_clear()
    schema = StructType([StructField("id", LongType())])
    writer = pickle.loads(pickle.dumps(Writer.begun(client, asked, schema, overwrites=False)))
    monkeypatch.delenv(VARIABLE)
    staged = writer.write(iter(rows(5).to_batches()))
    monkeypatch.setenv(VARIABLE, str(cluster.credentials))
    writer.commit([staged])
    assert visible(client, "t.format") == [[5]]
    assert "token" not in repr(writer)


def test_a_user_who_is_revoked_is_out_and_comes_in_when_it_counts_again(
    cluster: LocalCluster, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the page's commands, of which the third lists."""
    client.grant("writer", "alice", on=None)
    monkeypatch.chdir(tmp_path)
    authority = Authority.load(cluster.directory / "authority")
    authority.issue(Kind.USER, "alice", tmp_path / "alice")
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}
    page = blocks.block("docs/security.md", "txnctl cert revoke user/alice").splitlines()
    by_name, by_file, listed, restore = (shlex.split(line, comments=True)[1:] for line in page)
    with connect(cluster.addresses, credentials="alice") as alice:
        wait_until(lambda: all(alice.grants() for _ in range(6)), "all nodes know of it")
        token = alice.begin().token()
        ctl(*by_name, **shown)
        wait_until(lambda: is_out(alice), "no node lets alice in")
        with connect(cluster.addresses, credentials=token) as executor:
            wait_until(lambda: is_out(executor, Token.from_bytes(token).txn_id), "nor is a token of alice's anything")
        assert ctl(*listed, **shown).stdout.split() == ["user/alice"]
        ctl(*restore, **shown)
        wait_until(lambda: not is_out(alice), "all nodes let alice in")
        ctl(*by_file, **shown)
        wait_until(lambda: is_out(alice), "no node takes that certificate")
        authority.issue(Kind.USER, "alice", tmp_path / "alice")
        wait_until(lambda: not is_out(alice), "all nodes take the new one")
    for kept in ("node/n1", f"user/{client.owner}"):
        assert "would be cut off" in ctl("cert", "revoke", kept, code=1, **shown).stderr


def is_out(client: Client, txn_id: int | None = None) -> bool:
    """Whether every node refuses the client."""
    try:
        client.last_commit() if txn_id is None else client.get(txn_id)
    except Unauthenticated:
        return True
    return False


def test_what_everybody_may_ask_of_the_cluster_has_no_key(cluster: LocalCluster, client: Client) -> None:
    client.begin().token()
    told = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    assert told.ticket_key > 0
    assert told.catalog.is_public
    assert not told.catalog.ticket_keys
    for node in cluster.configs.values():
        assert stat.S_IMODE(node.data_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE((node.data_dir / "catalog").stat().st_mode) == 0o600


def test_txnctl_shows_who_it_is(cluster: LocalCluster) -> None:
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}
    assert "no answer" not in ctl("status", **shown).stdout
    ctl("doctor", "--no-storage", **shown)
    assert "TLS only" in ctl("status", TXN_CLUSTER=cluster.addresses, code=1).stderr


def test_certificates_follow_each_other_while_nodes_serve(cluster: LocalCluster, client: Client) -> None:
    """New connections have the new ones; no node is restarted, no transaction fails."""
    authority = Authority.load(cluster.directory / "authority")
    pids = {node: cluster.pid(node) for node in cluster.configs}
    logs = {node: cluster.log_path(node).read_text().count("were read again") for node in cluster.configs}
    for node in cluster.configs:
        authority.issue(Kind.NODE, node, cluster.directory / node / "tls")
    with connect(cluster.addresses, credentials=cluster.credentials) as again:

        def all_have() -> bool:
            for node in cluster.configs:
                cluster.status(node)
            with connect(cluster.addresses, credentials=cluster.credentials) as another, another.transaction():
                pass
            return all(
                cluster.log_path(node).read_text().count("were read again") > count for node, count in logs.items()
            )

        wait_until(all_have, "all nodes have their new certificates")
        assert again.last_commit() >= client.last_commit()
    assert pids == {node: cluster.pid(node) for node in cluster.configs}
