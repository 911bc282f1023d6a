"""A cluster with TLS: nodes among themselves, clients, `txnctl`; through the loss of a leader, and new certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.support import SCHEMA, fast_cluster, rows, visible, wait_until
from txnclient import Client, NotAuthorized, Unauthenticated, aio, connect
from txndeploy.ctl import commands
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txnstatus.security.principals import Kind
from txnstatus.security.tls import VARIABLE


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
