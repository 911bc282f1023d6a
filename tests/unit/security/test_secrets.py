"""Secrets in place of certificates: who is known by one, and that nobody learns who has one."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import blocks
from tests.unit.harness.answering import Served
from tests.unit.harness.identities import Identities, awaiting, blocking
from tests.unit.harness.tickets import CLUSTER_ID, KEYS, Clock
from txndeploy.ctl import commands
from txndeploy.errors import ConfigError
from txndeploy.local.authority import make_secret
from txndeploy.node import config as configuration
from txndeploy.node.config import NodeConfig
from txndeploy.node.process import run
from txnstatus.errors import InvalidArgument, Unauthenticated
from txnstatus.security import showing
from txnstatus.security.bearers import Bearers
from txnstatus.security.refusals import TOLD, Refused
from txnstatus.security.secrets import Hashed, Secrets, parse

QUICK = 20.0


@pytest.fixture
def air(tmp_path: Path) -> Identities:
    return Identities(tmp_path / "air")


@pytest.fixture
def hashed(air: Identities, tmp_path: Path) -> Path:
    """The nodes' file, in which alice and bob are."""
    for name in ("alice", "bob"):
        make_secret(name, air.directory / "authority", tmp_path / name, tmp_path / "secrets")
    return tmp_path / "secrets"


def secret_of(directory: Path) -> str:
    return (directory / "secret").read_text().strip().partition(":")[2]


def test_a_secret_is_the_user_s_alone_and_the_nodes_have_it_hashed(hashed: Path, tmp_path: Path) -> None:
    secret = secret_of(tmp_path / "alice")
    assert len(secret) == 43
    assert secret not in hashed.read_text()
    for file in (hashed, tmp_path / "alice" / "secret"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    known = Secrets(hashed)
    known.check("alice", secret)
    for name, said in (("alice", secret_of(tmp_path / "bob")), ("carol", secret), ("alice", ""), ("", "")):
        with pytest.raises(Refused, match=TOLD):
            known.check(name, said)


def test_a_new_secret_goes_in_the_place_of_the_old_one(hashed: Path, air: Identities, tmp_path: Path) -> None:
    known, old = Secrets(hashed), secret_of(tmp_path / "alice")
    make_secret("alice", air.directory / "authority", tmp_path / "alice", hashed)
    assert len(hashed.read_text().splitlines()) == 2
    known.check("alice", secret_of(tmp_path / "alice"))
    known.check("bob", secret_of(tmp_path / "bob"))
    with pytest.raises(Refused):
        known.check("alice", old)
    hashed.write_text("half a li")
    known.check("bob", secret_of(tmp_path / "bob"))


def test_a_user_and_nobody_take_the_same_work(hashed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: one hash of the same cost, whoever is named."""
    known, done = Secrets(hashed), list[dict[str, object]]()
    scrypt = hashlib.scrypt

    def counted(secret: bytes, **how: object) -> bytes:
        done.append({**how, "salt": len(how["salt"])})  # type: ignore[arg-type]
        return scrypt(secret, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "scrypt", counted)
    for name in ("alice", "bob", "nobody", ""):
        with pytest.raises(Refused):
            known.check(name, "wrong")
    assert done == [done[0]] * 4


@pytest.mark.parametrize(
    "line", ["alice", "alice:plain:a:b", "a b:scrypt:AA==:AA==", "alice:scrypt:AA==:AA==", "a:scrypt:?:?"]
)
def test_a_line_that_is_none_is_named_and_not_repeated(line: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^secrets: line 2 is no NAME:scrypt") as caught:
        parse(f"# users\n{line}\n".encode(), "secrets")
    assert line not in str(caught.value)
    assert repr(Hashed.of("secret")) == "Hashed()"


@pytest.mark.parametrize("ask", [blocking, awaiting])
async def test_a_user_is_known_by_a_secret_and_others_are_told_nothing(  # type: ignore[no-untyped-def]
    ask, air: Identities, hashed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(2) as threads:
        bearers = Bearers(
            lambda: CLUSTER_ID, lambda: KEYS, Clock().micros, "air", blocking=threads, secrets=Secrets(hashed)
        )
        async with Served(tls=air.node(), bearers=bearers) as served, asyncio.timeout(QUICK):
            alice = showing.within(tmp_path / "alice")
            assert alice.own.owner == "alice"
            assert await ask(alice, served.address) == 2
            told = set()
            for said in (f"alice:{secret_of(tmp_path / 'bob')}", f"carol:{secret_of(tmp_path / 'alice')}"):
                (tmp_path / "bob" / "secret").write_text(said)
                with pytest.raises(Unauthenticated) as caught:
                    await ask(showing.within(tmp_path / "bob"), served.address)
                told.add(caught.value.message)
            assert told == {f"{served.address}: {TOLD}"}
            assert served.manager.asked == 1
    said = caplog.text + repr(alice) + repr(alice.own)
    assert secret_of(tmp_path / "alice") not in said
    assert "a name and a secret that do not go together" in said


def test_a_secret_is_made_on_the_command_line(air: Identities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ca").symlink_to(air.directory / "authority")
    (line,) = blocks.block("docs/security.md", "txnctl cert secret").splitlines()
    result = CliRunner().invoke(commands.app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    Secrets(tmp_path / "secrets").check("alice", secret_of(tmp_path / "alice"))
    assert secret_of(tmp_path / "alice") not in result.output
    with pytest.raises(ConfigError, match="cannot be the name of a user"):
        make_secret("a/b", air.directory / "authority", tmp_path / "u", tmp_path / "s")
    with pytest.raises(ConfigError, match="cannot be read"):
        make_secret("a", tmp_path / "nowhere", tmp_path / "u", tmp_path / "s")


JWT = {"issuer": "i", "audience": "a", "keys": "/k", "algorithms": ["ES256"]}


@pytest.mark.parametrize("more", [{"secrets": "/s"}, {"jwt": JWT}])
def test_nothing_is_shown_where_it_would_be_readable(
    more: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"n1": {"address": "127.0.0.1:7051"}}
    said = {
        "cluster_name": "air",
        "node_id": "n1",
        "data_dir": tmp_path / "d",
        "warehouse": "file:///w",
        "nodes": entry,
    }
    config = NodeConfig.model_validate({**said, "insecure": True, **more})
    (tmp_path / "n1.toml").write_text(configuration.dump(config))
    assert run(tmp_path / "n1.toml") == 2
    assert "are for nodes with [tls]" in capsys.readouterr().err
