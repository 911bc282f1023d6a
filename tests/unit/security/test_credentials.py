"""Files of credentials: whom they name, what is refused, and when they are read again."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.harness.answering import SECONDS, Served
from tests.unit.harness.identities import Identities, blocking
from txnclient import connect
from txndeploy.ctl import commands
from txndeploy.errors import ConfigError
from txndeploy.local.authority import Authority
from txndeploy.node.config import NodeConfig, NodeEntry, TlsSection
from txndeploy.node.process import Node
from txndeploy.overview.health import ExitCode
from txnstatus.errors import InvalidArgument, Unauthenticated
from txnstatus.security import principals, showing, tls
from txnstatus.security.principals import Kind, Principal


@pytest.fixture
def air(tmp_path: Path) -> Identities:
    return Identities(tmp_path / "air")


@pytest.fixture
def again(tmp_path: Path) -> Identities:
    return Identities(tmp_path / "again")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is later by a minute than the files' times say: nobody is at work on them."""
    now = time.time
    monkeypatch.setattr(tls.time, "time", lambda: now() + 60)


# ---- names


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("spiffe://air/node/n1", Principal("air", Kind.NODE, "n1")),
        ("spiffe://air/host/billing", Principal("air", Kind.HOST, "billing")),
        ("spiffe://air.example/user/a.b@c-d_e", Principal("air.example", Kind.USER, "a.b@c-d_e")),
        ("spiffe://air/admin/root", None),
        ("spiffe://air/user/", None),
        ("spiffe://air/user/node/n1", None),
        ("spiffe://air/user/a\n", None),
        ("spiffe://air/user/" + "a" * 101, None),
        ("https://air/user/a", None),
        ("", None),
    ],
)
def test_a_name_is_read_or_is_none(uri: str, named: Principal | None) -> None:
    assert principals.parse(uri) == named
    assert named is None or named.uri == uri


def test_no_user_is_taken_for_a_process() -> None:
    owners = {Principal("air", kind, name).owner for kind in Kind for name in ("n1", "node", "host")}
    assert len(owners) == 9


@pytest.mark.parametrize("uris", [[], ["https://example.org"], ["spiffe://air/user/a", "spiffe://air/node/n1"]])
def test_a_certificate_names_one(uris: list[str]) -> None:
    with pytest.raises(Unauthenticated, match="one name of the form spiffe://CLUSTER/user/NAME"):
        principals.of_names(uris)


# ---- files


@pytest.mark.parametrize("kind", Kind)
def test_credentials_name_who_they_were_issued_to(air: Identities, kind: Kind) -> None:
    where = air.files(kind, "x")
    assert tls.within(where).own == Principal("air", kind, "x")
    assert stat.S_IMODE((where / "key.pem").stat().st_mode) == 0o600
    assert sorted(path.name for path in where.iterdir()) == ["ca.pem", "certificate.pem", "key.pem"]


@pytest.mark.usefixtures("later")
def test_files_that_do_not_go_together_are_named(air: Identities, again: Identities) -> None:
    where = air.files(Kind.USER, "alice")
    key = (where / "key.pem").read_bytes()
    for name, data, told in (
        ("key.pem", (air.files(Kind.USER, "bob") / "key.pem").read_bytes(), "no certificate and its key"),
        ("key.pem", b"", "no certificate and its key"),
        ("ca.pem", b"", "no certificates of an authority"),
        ("ca.pem", again.authority.pem, "does not hold by .*ca.pem: "),
    ):
        before = (where / name).read_bytes()
        (where / name).write_bytes(data)
        with pytest.raises(InvalidArgument, match=told):
            tls.within(where)
        (where / name).write_bytes(before)
    assert tls.within(where).own.name == "alice"
    (where / "key.pem").unlink()
    with pytest.raises(InvalidArgument, match=r"key\.pem cannot be read: No such file"):
        tls.within(where)
    assert key.decode() not in repr(tls.Tls.__dict__)


def test_a_directory_without_credentials_is_told_what_may_be_in_it(air: Identities, tmp_path: Path) -> None:
    """A certificate alone was named."""
    (tmp_path / "ca.pem").write_bytes(air.authority.pem)
    with pytest.raises(InvalidArgument, match=r"certificate\.pem cannot be read") as caught:
        showing.within(tmp_path)
    assert all(each in caught.value.hint for each in ("certificate.pem", "JWT, in token", "secret", "txn.token()"))


@pytest.mark.parametrize("written", ["now", "long before"])
def test_whoever_starts_while_files_are_replaced_has_the_new_ones(air: Identities, written: str) -> None:
    """A certificate and its key are two files: between the two they do not go together."""
    where, other = air.files(Kind.USER, "alice"), air.files(Kind.USER, "bob")
    if written == "long before":
        for path in (*where.iterdir(), *other.iterdir()):
            os.utime(path, (0, 0))
    (other / "certificate.pem").replace(where / "certificate.pem")
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(tls.within, where)
        with pytest.raises(TimeoutError):
            starting.result(timeout=0.1)
        (other / "key.pem").replace(where / "key.pem")
        assert starting.result(timeout=SECONDS).own.name == "bob"


def client_starts(where: Path) -> str:
    with connect("127.0.0.1:1", credentials=where) as client:
        return client.owner


def txnctl_starts(where: Path) -> str:
    asked = ["status", "--cluster", "127.0.0.1:1", "--timeout", "0.1"]
    said = CliRunner().invoke(commands.app, asked, env={tls.VARIABLE: str(where)}).output
    return "bob" if "127.0.0.1:1" in said and str(where) not in said else said


def test_whoever_shows_a_secret_makes_a_bundle(air: Identities, tmp_path: Path) -> None:
    """A certificate was wanted, for metrics that nobody had asked for."""
    shown, bundle = tmp_path / "shown", tmp_path / "b.tar.gz"
    shown.mkdir()
    (shown / "ca.pem").write_bytes(air.authority.pem)
    (shown / "secret").write_text("sam:of his own")
    asked = ["debug", "bundle", str(bundle), "--cluster", "127.0.0.1:1", "--timeout", "0.1"]
    result = CliRunner().invoke(commands.app, asked, env={tls.VARIABLE: str(shown)})
    assert result.exit_code == 0, result.output
    assert bundle.exists()


async def test_health_of_a_cluster_whose_first_node_is_away_tells_a_refusal(air: Identities, tmp_path: Path) -> None:
    """It said that the cluster is down: one node had not answered, and the other one had refused."""
    async with Served(tls=air.node()) as served:
        asked = ["health", "--cluster", f"127.0.0.1:1,{served.address}", "--timeout", "0.5"]
        result = await asyncio.to_thread(CliRunner().invoke, commands.app, asked, env={tls.VARIABLE: ""})
    assert result.exit_code == ExitCode.REFUSED, result.output
    assert "this node takes connections with TLS only" in result.output


def node_starts(where: Path) -> str:
    config = NodeConfig(
        cluster_name="air",
        node_id="bob",
        data_dir=where / "data",
        warehouse=where.as_uri(),
        nodes={"bob": NodeEntry(address="127.0.0.1:1")},
        tls=TlsSection(ca=where / "ca.pem", certificate=where / "certificate.pem", key=where / "key.pem"),
    )
    Node(config)
    return "bob"


@pytest.mark.parametrize("key", [None, b"", b"of another certificate"])
@pytest.mark.parametrize("starts", [client_starts, txnctl_starts, node_starts])
async def test_each_program_waits_for_the_key_that_is_on_its_way(
    air: Identities, monkeypatch: pytest.MonkeyPatch, starts: Callable[[Path], str], key: bytes | None
) -> None:
    """Where there was none for a moment, it failed at once."""
    kind = Kind.NODE if starts is node_starts else Kind.USER
    where, waited = air.files(kind, "bob"), list[float]()
    right = (where / "key.pem").read_bytes()
    (where / "key.pem").unlink()
    if key is not None:
        (where / "key.pem").write_bytes(key and (air.files(kind, "alice") / "key.pem").read_bytes())

    def comes(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            (where / "key.pem").write_bytes(right)

    monkeypatch.setattr(tls.time, "sleep", comes)
    assert starts(where) == "bob"
    assert len(waited) == 3


@pytest.mark.usefixtures("later")
def test_files_that_do_not_go_together_for_long_are_refused_at_once(
    air: Identities, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = air.files(Kind.USER, "alice")
    (where / "key.pem").write_bytes(b"")
    monkeypatch.setattr(tls.time, "sleep", lambda seconds: pytest.fail("nobody is at work on these files"))
    with pytest.raises(InvalidArgument, match="no certificate and its key"):
        tls.within(where)


def test_credentials_that_expired_are_refused_as_they_are_read(air: Identities) -> None:
    with pytest.raises(InvalidArgument, match=r"does not hold by .*: certificate has expired"):
        tls.within(air.files(Kind.USER, "alice", days=-0.001))


def test_a_client_is_whom_its_credentials_name(air: Identities, monkeypatch: pytest.MonkeyPatch) -> None:
    where = air.files(Kind.USER, "alice")
    with connect("127.0.0.1:1", credentials=where) as client:
        assert client.owner == "alice"
    with pytest.raises(InvalidArgument, match="owner 'bob' with the credentials of user alice"):
        connect("127.0.0.1:1", owner="bob", credentials=where)
    monkeypatch.setenv(tls.VARIABLE, str(where))
    with connect("127.0.0.1:1") as client:
        assert client.owner == "alice"
    monkeypatch.setenv(tls.VARIABLE, str(where / "nowhere"))
    with pytest.raises(InvalidArgument, match="cannot be read"):
        connect("127.0.0.1:1")


# ---- again


async def test_files_that_change_are_read_again(
    air: Identities, again: Identities, caplog: pytest.LogCaptureFixture
) -> None:
    """An authority follows another: both count for a while, then certificates are issued by the second one."""
    caplog.set_level(logging.INFO)
    node, user = air.files(Kind.NODE, "n1"), air.files(Kind.USER, "alice")
    shown = tls.within(user)
    async with Served(tls=tls.within(node)) as served:
        assert await blocking(shown, served.address) == 2
        for where in (node, user):
            (where / "ca.pem").write_bytes(air.authority.pem + again.authority.pem)
        assert await blocking(shown, served.address) == 2
        for kind, name, where in ((Kind.NODE, "n1", node), (Kind.USER, "alice", user)):
            again.authority.issue(kind, name, where)
            (where / "ca.pem").write_bytes(air.authority.pem + again.authority.pem)
            assert await blocking(shown, served.address) == 2
        for where in (node, user):
            (where / "ca.pem").write_bytes(again.authority.pem)
        assert await blocking(shown, served.address) == 2
        with pytest.raises(Unauthenticated):
            await blocking(air.user("bob"), served.address)
    assert "the certificates of node n1 of cluster air were read again" in caplog.text


async def test_what_is_half_way_written_waits(air: Identities, caplog: pytest.LogCaptureFixture) -> None:
    node = air.files(Kind.NODE, "n1")
    certificate = (node / "certificate.pem").read_bytes()
    async with Served(tls=tls.within(node)) as served:
        for data in (b"", certificate[:200], (air.files(Kind.NODE, "n2") / "certificate.pem").read_bytes()):
            (node / "certificate.pem").write_bytes(data)
            for _ in range(3):
                assert await blocking(air.user(), served.address) == 2
        assert len([each for each in caplog.records if "from before stay in use" in each.message]) == 3
        (node / "key.pem").unlink()
        assert await blocking(air.user(), served.address) == 2


def test_a_process_does_not_become_another_one(air: Identities, caplog: pytest.LogCaptureFixture) -> None:
    where = air.files(Kind.NODE, "n1")
    shown = tls.within(where)
    air.authority.issue(Kind.NODE, "n2", where)
    assert shown.contexts().own.name == "n1"
    assert "names node n2 of cluster air; this is node n1" in caplog.text


# ---- an authority


def test_an_authority_is_found_once_and_loaded_again(tmp_path: Path) -> None:
    Authority.found("air", tmp_path)
    assert Authority.load(tmp_path).cluster == "air"
    with pytest.raises(ConfigError, match="has an authority already"):
        Authority.found("air", tmp_path)


@pytest.mark.parametrize(("cluster", "name"), [("a/b", "x"), ("", "x"), ("air", "a b"), ("air", "../x")])
def test_an_authority_issues_names_only(tmp_path: Path, cluster: str, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be"):
        Authority.found(cluster, tmp_path).issue(Kind.USER, name, tmp_path / "out")


def test_what_is_no_authority_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no authority"):
        Authority.load(tmp_path)
