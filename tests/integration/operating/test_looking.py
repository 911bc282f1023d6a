"""`txnctl top`, `txnctl health` and `txnctl debug bundle`: what they say, how they end, and what is in no bundle."""

from __future__ import annotations

import json
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.support import SCHEMA, connect, fast_cluster, rows
from txnclient import Client
from txndeploy.ctl import commands
from txndeploy.local.cluster import LocalCluster
from txndeploy.overview.health import ExitCode
from txnstatus.security import tls

SECRET = "hunter2hunter2"
Ctl = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("cluster"), nodes=1, http=True, secure=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected


@pytest.fixture
def ctl(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Ctl:
    monkeypatch.setenv(tls.VARIABLE, str(cluster.credentials))

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(commands.app, [*arguments, "--cluster", cluster.addresses])
        assert result.exit_code == code, f"{arguments}: {result.output}{result.exception!r}"
        return result

    return run


def test_a_healthy_cluster_is_said_to_be_so(ctl: Ctl) -> None:
    assert ctl("health").stdout.strip() == "healthy"
    assert json.loads(ctl("health", "--json").stdout) == {"exit_code": 0, "troubles": []}


def test_top_says_once_what_goes_on(ctl: Ctl, client: Client) -> None:
    client.create_table("air.flights", SCHEMA)
    client.write(rows(1), "air.flights")
    with client.transaction("stands around") as txn:
        txn.lock("air.flights", "S")
        shown = ctl("top", "--once").stdout
        assert "stands around" in shown
        assert "each second" in shown
        found = json.loads(ctl("top", "--json").stdout)
        (live,) = found["live"]
        assert (live["id"], live["label"], live["waits_for"]) == (txn.id, "stands around", None)
        assert found["rates"]["committed"] > 0
        assert found["rates"]["median_seconds"] > 0


def _read(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {entry.name: _text(archive, entry) for entry in archive}


def _text(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    file: Any = archive.extractfile(entry)
    return file.read().decode()


def test_a_bundle_has_what_is_needed_and_no_secret(
    ctl: Ctl, cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    """Keys of nodes, of the authority and of users; and what somebody wrote where anybody reads it."""
    assert cluster.credentials is not None
    log = tmp_path / "program.log"
    log.write_text(f"connects to postgresql://ada:{SECRET}@db/air\n{(cluster.credentials / 'key.pem').read_text()}")
    config = tmp_path / "node.toml"
    config.write_text(f'warehouse = "s3://someone:{SECRET}@lake/w"\n[storage]\nsecret_key = "{SECRET}"\n')
    with client.transaction(f"password={SECRET}") as txn:
        txn.lock("air.flights", "S")
        ctl(
            *("debug", "bundle", str(tmp_path / "b.tar.gz"), "--dir", str(cluster.directory)),
            *("--log", str(log), "--config", str(config), "--metrics", "http://127.0.0.1:1/metrics"),
        )
    path = tmp_path / "b.tar.gz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = _read(path)
    everything = "\n".join(found.values())
    assert SECRET not in everything
    assert "PRIVATE KEY" not in everything
    for key in cluster.directory.rglob("*key.pem"):
        body = "".join(key.read_text().splitlines()[1:-1])
        assert body[:40] not in everything.replace("\n", "")
    assert json.loads(found["cluster.json"])["id"] == client.cluster_id
    assert json.loads(found["cluster.json"])["troubles"] == []
    assert [each["id"] for each in json.loads(found["transactions.json"])["transactions"]] == [txn.id]
    assert f"transaction {txn.id} is open" in found["explanations.txt"]
    assert json.loads(found["locks.json"])["locks"]
    assert "protobuf" in json.loads(found["versions.json"])["packages"]
    assert "txnstatus_begun_transactions_total" in found["metrics/1.txt"]
    assert 'txnstatus_certificate_expires_timestamp_seconds{of="node"}' in found["metrics/1.txt"]
    assert "URLError" in found["metrics/0.txt"]
    assert " leads in term " in found["logs/1-node.log"]
    assert 'node_id = "n1"' in found["configuration/1-node.toml"]


def test_a_bundle_that_cannot_be_written_leaves_nothing(ctl: Ctl, tmp_path: Path) -> None:
    assert "cannot be written" in ctl("debug", "bundle", str(tmp_path / "nowhere" / "b.tar.gz"), code=1).stderr
    assert not list(tmp_path.iterdir())


def test_a_cluster_that_is_down_is_said_to_be_so(ctl: Ctl, cluster: LocalCluster) -> None:
    """It kills the node: the last test of its cluster."""
    cluster.kill("n1")
    assert "down" in ctl("health", "--timeout", "2", code=ExitCode.DOWN).stdout
