"""Certificates as an operator makes them, and a node that is given others than its own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner, Result

from tests import blocks
from tests.unit.harness.identities import Identities
from txndeploy.ctl import commands
from txndeploy.node import config as configuration
from txndeploy.node import foreign_host
from txndeploy.node.config import NodeConfig, NodeEntry
from txndeploy.node.process import run
from txnstatus.security.principals import Kind


def ctl(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.app, arguments)
    assert result.exit_code == code, f"{arguments}: {result.output}{result.exception!r}"
    return result


def test_certificates_are_made_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in blocks.block("docs/security.md", "txnctl cert ca").splitlines():
        ctl(*shlex.split(line, comments=True)[1:])
    ca, out = tmp_path / "ca", tmp_path / "out"
    assert "already" in ctl("cert", "ca", "air", "--out", str(ca), code=1).stderr
    for kind in ("node", "host", "user"):
        shown = ctl("cert", kind, "x", "--ca", str(ca), "--out", str(out), "--days", "2").stdout
        assert f"spiffe://air/{kind}/x" in shown
    ctl("cert", "node", "n1", "--ca", str(ca), "--out", str(out), "--host", "n1.example", "--host", "::1")
    assert "cannot be the name" in ctl("cert", "user", "a/b", "--ca", str(ca), "--out", str(out), code=1).stderr
    for days in ("0", "-1", "nan", "1e9"):  # one that has ended as it is made, or is past what there are dates for
        told = ctl("cert", "user", "x", "--ca", str(ca), "--out", str(tmp_path / "none"), "--days", days, code=1).stderr
        assert "above 0, and up to 3650, are possible" in told
    assert not (tmp_path / "none").exists()


def config(directory: Path, **options: object) -> Path:
    """The file of a node that is to begin with it."""
    made = NodeConfig(
        cluster_name="air",
        node_id="n1",
        data_dir=directory / "data",
        warehouse=(directory / "warehouse").as_uri(),
        **{"nodes": {"n1": NodeEntry(address="127.0.0.1:1")}, **options},  # type: ignore[arg-type]
    )
    (directory / "node.toml").write_text(configuration.dump(made))
    return directory / "node.toml"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "there is no [tls]: give the node certificates (docs/security.md), or say insecure = true"),
        ({"insecure": True, "nodes": {"n1": NodeEntry(address="10.0.0.1:7051")}}, "10.0.0.1:7051 is not"),
        ({"insecure": True, "grpc_address": "0.0.0.0:7052"}, "0.0.0.0:7052 is not"),
        ({"insecure": True, "nodes": {"n1": NodeEntry(address="n1.example:7051")}}, "n1.example:7051 is not"),
    ],
)
def test_a_node_without_tls_says_so_and_is_on_loopback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: dict[str, object], told: str
) -> None:
    assert run(config(tmp_path, **options)) == 2
    assert told in capfd.readouterr().err


def test_a_node_has_tls_or_is_insecure(tmp_path: Path) -> None:
    tls = configuration.TlsSection(ca=tmp_path, certificate=tmp_path, key=tmp_path)
    with pytest.raises(ValueError, match="say one of them"):
        config(tmp_path, tls=tls, insecure=True)


def test_a_host_without_credentials_is_on_loopback(capfd: pytest.CaptureFixture[str]) -> None:
    def make(_cluster_id: str) -> NoReturn:
        raise AssertionError("it does not begin")

    assert foreign_host.run("billing", make, "10.0.0.1:1", "10.0.0.1:1", ["127.0.0.1:1"]) == 2
    assert "without TXN_CREDENTIALS a host is for loopback" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        (Kind.NODE, "n2", "is for node n2 of cluster air; this is node n1 of cluster air"),
        (Kind.USER, "n1", "is for user n1 of cluster air; this is node n1 of cluster air"),
        (None, "", "cannot be read: No such file"),
    ],
)
def test_a_node_does_not_start_with_what_is_not_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: Kind | None, name: str, told: str
) -> None:
    where = Identities(tmp_path).files(kind, name) if kind else tmp_path / "nowhere"
    tls = configuration.TlsSection(ca=where / "ca.pem", certificate=where / "certificate.pem", key=where / "key.pem")
    assert run(config(tmp_path, tls=tls)) == 2
    assert told in capfd.readouterr().err
    assert not (tmp_path / "data").exists(), "nothing is taken up"
