"""Certificates as an operator makes them, and a node that is given others than its own."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests import blocks
from tests.unit.harness.identities import Identities
from txndeploy.ctl import commands
from txndeploy.node import config as configuration
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
    config = NodeConfig(
        cluster_name="air",
        node_id="n1",
        data_dir=tmp_path / "data",
        warehouse=(tmp_path / "warehouse").as_uri(),
        nodes={"n1": NodeEntry(address="127.0.0.1:1")},
        tls=tls,
    )
    (tmp_path / "node.toml").write_text(configuration.dump(config))
    assert run(tmp_path / "node.toml") == 2
    assert told in capfd.readouterr().err
    assert not (tmp_path / "data").exists(), "nothing is taken up"
