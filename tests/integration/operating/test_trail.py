"""What nodes record of what users do: before it is done, through the death of a node, and as the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import blocks
from tests.support import SCHEMA, fast_cluster, wait_until
from txnclient import NotAuthorized, Unauthenticated, connect
from txndeploy.ctl import commands
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txnstatus.security import trail_files
from txnstatus.security.principals import Kind
from txnstatus.trail import START, verified


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path / "cluster", nodes=1, secure=True) as running:
        yield running


def trail_of(cluster: LocalCluster, node: str = "n1") -> Path:
    return cluster.configs[node].data_dir / "trail"


def told(cluster: LocalCluster) -> list[tuple[str, str, str]]:
    """Lines of a trail that holds from its first one on: who did what, and what came of it."""
    found = [each for each, _ in verified(trail_files.lines(trail_of(cluster)), START)]
    return [(each["who"].split("/")[0], each["did"], each["outcome"]) for each in found]


def test_what_users_do_is_recorded_before_it_is_done(cluster: LocalCluster, tmp_path: Path) -> None:
    assert cluster.credentials is not None
    authority = Authority.load(cluster.directory / "authority")
    authority.issue(Kind.USER, "eve", tmp_path / "eve")
    Authority.found(cluster.configs["n1"].cluster_name, tmp_path / "ca").issue(Kind.USER, "eve", tmp_path / "other")
    with connect(cluster.addresses, credentials=cluster.credentials) as admin:
        boss = admin.owner
        admin.create_table("t.gone", SCHEMA)
        admin.grant("reader", "eve", on="t")
        with connect(cluster.addresses, credentials=tmp_path / "eve") as eve, pytest.raises(NotAuthorized):
            eve.grant("admin", "eve", on=None)
        with connect(cluster.addresses, credentials=tmp_path / "other") as other, pytest.raises(Unauthenticated):
            other.last_commit()
        own, others = admin.begin(), admin.begin()
        own.abort()
        admin.abort(others.id, "in the way")
        admin.drop_table("t.gone")
    expected = [
        ("node", "start", "done"),
        *((boss, "Admin/Grant", outcome) for outcome in ("asked", "done")),
        ("eve", "Admin/Grant", "refused"),
        ("", "login", "refused"),
        *((boss, "TxnManager/AbortTransaction", outcome) for outcome in ("asked", "done")),
        *((boss, "Table/DropTable", outcome) for outcome in ("asked", "done")),
    ]
    wait_until(lambda: len(told(cluster)) >= len(expected), "all is recorded")
    seen = told(cluster)
    assert [each for each in expected if each not in seen] == []
    assert [each for each in seen if each[1] != "login"] == [each for each in expected if each[1] != "login"]

    cluster.kill("n1")
    (last,) = trail_files.files(trail_of(cluster))
    whole = last.read_bytes()
    last.write_bytes(whole + b'{"n":99,"at":"20')  # as if it had died in the middle of a line
    cluster.start_node("n1")
    cluster.wait_ready()
    assert told(cluster)[: len(seen) + 1] == [*seen, ("node", "start", "done")]
    assert last.read_bytes().startswith(whole)


def test_what_the_page_shows_is_there(cluster: LocalCluster) -> None:
    where = str(trail_of(cluster))
    for line in blocks.block("docs/security.md", "txnctl audit").splitlines():
        arguments = line.replace("/var/lib/txnstatus/data/trail", where).split()[1:]
        result = CliRunner().invoke(commands.app, arguments)
        assert result.exit_code == 0, f"{line}: {result.output}"
