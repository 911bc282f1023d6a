"""Users of a cluster of processes by each kind of credential: rotated under load, of a wrong clock, and never told."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from tests.support import SCHEMA, fast_cluster, rows, visible, wait_until
from txnclient import Client, TxnError, Unauthenticated, connect
from txnclient.token import Token
from txndeploy.console.routes import API, DOCUMENTS, ID, PAGE, PREFIX
from txndeploy.ctl import commands
from txndeploy.local.authority import Authority, make_secret
from txndeploy.local.cluster import LocalCluster
from txndeploy.logs import Level
from txndeploy.node import config as configuration
from txndeploy.node.config import JwtSection
from txnstatus.process.durable import write_file
from txnstatus.proto import catalog_pb2
from txnstatus.security.principals import Kind
from txnstatus.security.refusals import TOLD
from txnstatus.security.tls import VARIABLE

ISSUER, AUDIENCE, LEEWAY = "https://issuer", "txnstatus", 2
KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
TOKEN_USER, SECRET_USER, CERTIFIED = "system:serviceaccount:air:loader", "sam", "cora"
ROTATIONS = 6
EXCERPT = 24
"""Characters of a secret that tell it from anything else."""


def jwt_of(key: Any = KEY, *, seconds: float = 600.0, since: float = 600.0, name: str = TOKEN_USER) -> str:
    """A token that expires in so many seconds, and holds since as many ago."""
    now = time.time()
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": name, "exp": int(now + seconds), "nbf": int(now - since)}
    return jwt.encode(said, key, "ES256")


class Place:
    """A cluster that takes all kinds of credentials, and directories with those of its users."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.authority = Authority.load(cluster.directory / "authority")
        self.secrets = directory / "secrets"
        self.files = {name: directory / name.replace(":", "-") for name in (TOKEN_USER, SECRET_USER, CERTIFIED)}
        make_secret(SECRET_USER, cluster.directory / "authority", self.files[SECRET_USER], self.secrets)
        self.authority.issue(Kind.USER, CERTIFIED, self.files[CERTIFIED])
        self.shows(jwt_of())

    def shows(self, token: str) -> Path:
        """Has the user of tokens show that one from now on."""
        where = self.files[TOKEN_USER]
        where.mkdir(exist_ok=True)
        write_file(where / "ca.pem", self.authority.pem)
        write_file(where / "token", token.encode(), 0o600)
        return where

    def client(self, name: str) -> Client:
        return connect(self.cluster.addresses, credentials=self.files[name], timeout=20)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("users")
    keys = directory / "issuer.pem"
    keys.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    cluster = fast_cluster(tmp_path_factory.mktemp("identities"), secure=True, http=True)
    found = Place(cluster, directory)
    section = JwtSection(issuer=ISSUER, audience=AUDIENCE, keys=keys, algorithms=("ES256",), leeway_seconds=LEEWAY)
    for node, config in cluster.configs.items():
        changed = config.model_copy(update={"jwt": section, "secrets": found.secrets, "log_level": Level.DEBUG})
        cluster.configs[node] = configuration.NodeConfig.model_validate(changed.model_dump())
        write_file(cluster.config_path(node), configuration.dump(cluster.configs[node]).encode())
    with cluster:
        with connect(cluster.addresses, credentials=cluster.credentials) as admin:
            admin.create_table("t.one", SCHEMA)
            for name in found.files:
                admin.grant("writer", name, on=None)
        for name in found.files:
            with found.client(name) as client:
                wait_until(lambda client=client: all(client.grants() for _ in range(6)), f"all nodes know {name}")  # type: ignore[misc]
        yield found


def test_each_kind_of_credential_names_its_user(place: Place) -> None:
    for number, name in enumerate(place.files):
        with place.client(name) as client, client.transaction() as txn:
            assert client.get(txn.id).owner == name
            txn.write(rows(number), "t.one")
    with place.client(CERTIFIED) as client:
        assert visible(client, "t.one") == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("seconds", "since", "holds"),
    [
        (-LEEWAY - 3, 600, False),
        (600, -LEEWAY - 5, False),
        (600, -1, True),
        (3, 600, True),
    ],
    ids=["a clock behind", "a clock ahead", "a little ahead", "about to end"],
)
def test_tokens_of_a_wrong_clock(place: Place, seconds: float, since: float, holds: bool) -> None:
    place.shows(jwt_of(seconds=seconds, since=since))
    try:
        with place.client(TOKEN_USER) as client:
            if holds:
                client.last_commit()
                return
            with pytest.raises(Unauthenticated, match=TOLD):
                client.last_commit()
    finally:
        place.shows(jwt_of())


class Load:
    """One user's transactions, one after the other, over connections that are made anew now and then."""

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._name = place, name
        self.committed = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Until it is over. Raises what a transaction raises."""
        with self._place.client(self._name) as client:
            while not self.over.is_set():
                client.session.channel.connections._resting.clear()  # the next one shows what there is by then
                for _ in range(5):
                    client.begin().commit()
                    self.committed += 1


def test_nothing_fails_while_certificates_and_tokens_rotate_under_load(place: Place) -> None:
    """Credentials of users and of all nodes follow each other, while new connections are made by all of them."""
    loads = {name: Load(place, name) for name in (TOKEN_USER, CERTIFIED)}
    with ThreadPoolExecutor(len(loads)) as pool:
        running = [pool.submit(load.run) for load in loads.values()]
        try:
            for _ in range(ROTATIONS):
                before = {name: load.committed for name, load in loads.items()}
                place.shows(jwt_of(seconds=8))
                place.authority.issue(Kind.USER, CERTIFIED, place.files[CERTIFIED])
                for node, config in place.cluster.configs.items():
                    assert config.tls is not None
                    place.authority.issue(Kind.NODE, node, config.tls.key.parent, hosts=("127.0.0.1",))
                wait_until(
                    lambda before=before: (
                        all(  # type: ignore[misc]
                            load.committed >= before[name] + 12 for name, load in loads.items()
                        )
                        or any(each.done() for each in running)
                    ),
                    "all go on with what is new",
                )
        finally:
            for load in loads.values():
                load.over.set()
        for each in running:
            each.result()
    place.shows(jwt_of())


def test_a_connection_goes_on_with_the_next_token_when_its_own_ends(place: Place) -> None:
    place.shows(jwt_of(seconds=2))
    with place.client(TOKEN_USER) as client:
        txn = client.begin()
        place.shows(jwt_of())
        ended = time.monotonic() + 2 + LEEWAY + 1
        while time.monotonic() < ended:
            client.last_commit()
        txn.commit()


# ---- what is secret stands nowhere


def _forms(secret: bytes) -> Iterator[str]:
    """Texts by which one would find it."""
    yield secret.decode("latin-1")
    yield secret.hex()
    yield base64.b64encode(secret).decode()
    yield base64.urlsafe_b64encode(secret).decode()
    yield repr(secret)[2:-1]


def _secrets(place: Place, more: Mapping[str, bytes]) -> dict[str, list[str]]:
    """What is secret → texts that nothing may have."""
    found = dict(more)
    for key in [*place.cluster.directory.rglob("*key.pem"), *place.directory.rglob("*key.pem")]:
        found[str(key)] = "".join(key.read_text().splitlines()[1:-1]).encode()
    found["the secret"] = (place.files[SECRET_USER] / "secret").read_text().strip().rpartition(":")[2].encode()
    for line in place.secrets.read_text().splitlines():
        found["the hashed secret"] = line.rpartition(":")[2].encode()
    saved = next(place.cluster.directory.glob("n*/data/catalog"))
    for ticket_key in catalog_pb2.CatalogState.FromString(saved.read_bytes()).ticket_keys:
        found[f"key {ticket_key.number} of tickets"] = ticket_key.key
    cut = {name: secret[-EXCERPT:] for name, secret in found.items()}
    return {name: [text for text in _forms(secret) if len(text) >= EXCERPT // 2] for name, secret in cut.items()}


def _ctl(place: Place, *arguments: str, shown: Path) -> str:
    """All that it says, whether it succeeds or not."""
    environment = {"TXN_CLUSTER": place.cluster.addresses, VARIABLE: str(shown)}
    result = CliRunner().invoke(commands.app, [*arguments], env=environment)
    return f"{result.output}{result.stderr}{result.exception!r}"


def _wrong(place: Place, directory: Path) -> tuple[dict[str, Path], dict[str, bytes]]:
    """Credentials that do not hold, each in its own way; and what is secret in them."""
    secret = (place.files[SECRET_USER] / "secret").read_text().strip()
    good = jwt_of()
    shown = {
        "expired": ("token", jwt_of(seconds=-60)),
        "not yet": ("token", jwt_of(since=-60)),
        "of another issuer": ("token", jwt_of(OTHER)),
        "cut off": ("token", good[:-6]),
        "no token": ("token", good.replace(".", "!")),
        "of nobody": ("secret", f"nobody:{secret.rpartition(':')[2]}"),
        "of another": ("secret", secret[:-5] + "wrong"),
        "no secret": ("secret", secret.replace(":", "!")),
    }
    places: dict[str, Path] = {}
    for name, (file, text) in shown.items():
        where = places[name] = directory / name.replace(" ", "-")
        where.mkdir(parents=True)
        write_file(where / "ca.pem", place.authority.pem)
        write_file(where / file, text.encode(), 0o600)
    return places, {name: text.encode() for name, (file, text) in shown.items() if file == "token"} | {
        f"{name}, its claims": text.split(".")[1].encode() for name, (_, text) in shown.items() if text.count(".") == 2
    }


def _client_says(place: Place, shown: Path) -> str:
    """What a program sees that shows that: its errors, and what it would print."""
    said = []
    try:
        with connect(place.cluster.addresses, credentials=shown, timeout=3) as client:
            said += [repr(client), str(client), repr(client.session), repr(vars(client.session))]
            client.last_commit()
    except TxnError as error:
        said += [repr(error), str(error), error.hint, repr(vars(error)), repr(error.__cause__), repr(error.__context__)]
    return "\n".join(said)


def _node_says(place: Place, directory: Path, **changes: Any) -> str:
    """What a node says that is started with a wrong file."""
    directory.mkdir(parents=True)
    config = place.cluster.configs["n1"].model_copy(update={"data_dir": directory / "data", **changes})
    path = directory / "node.toml"
    path.write_text(configuration.dump(config))
    done = subprocess.run(
        [sys.executable, "-m", "txndeploy.node.process", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 2, done.stderr
    return done.stdout + done.stderr


def _of_processes(cluster: LocalCluster) -> Iterator[tuple[str, str]]:
    for node in cluster.configs:
        yield f"ps of {node}", Path(f"/proc/{cluster.pid(node)}/cmdline").read_text()
        yield f"the environment of {node}", Path(f"/proc/{cluster.pid(node)}/environ").read_text(errors="replace")
        yield f"the log of {node}", cluster.log_path(node).read_text(errors="replace")
        for trail in (cluster.directory / node / "data" / "trail").iterdir():
            yield f"{trail}", trail.read_text(errors="replace")


def _of_http(place: Place, txn_id: int) -> Iterator[tuple[str, str]]:
    """Every page and document of the console, and the metrics, as an admin sees them."""
    shown = place.cluster.credentials
    assert shown is not None
    context = ssl.create_default_context(cafile=shown / "ca.pem")
    context.load_cert_chain(shown / "certificate.pem", shown / "key.pem")
    base = f"https://{place.cluster.configs['n1'].http_address}"
    documents = [each.replace(ID, str(txn_id)) for each in (*DOCUMENTS, "slow")]
    for path in (*(PREFIX + page for page in PAGE), *(API + each for each in documents), "/metrics"):
        try:
            with urlopen(base + path, timeout=20, context=context) as answer:
                yield path, answer.read().decode()
        except OSError as error:
            yield path, f"{error}{getattr(error, 'read', bytes)()!r}"


def test_nothing_secret_is_said_anywhere_whatever_goes_wrong(place: Place, tmp_path: Path) -> None:
    """Logs at DEBUG, `ps`, errors, what programs print, `txnctl`, bundles, the trail, the console and metrics."""
    wrong, shown = _wrong(place, tmp_path / "wrong")
    told: dict[str, str] = {}
    admin = place.cluster.credentials
    assert admin is not None
    with connect(place.cluster.addresses, credentials=admin) as client, client.transaction("stands") as txn:
        token = txn.token()
        ticket = Token.from_bytes(token).ticket
        told["a token's repr"] = repr(Token.from_bytes(token))
        altered = Token.from_bytes(token)
        for name, changed in {"altered": ticket[:-1] + bytes([ticket[-1] ^ 1]), "cut": ticket[:-3]}.items():
            with (
                pytest.raises(TxnError) as caught,
                connect(place.cluster.addresses, credentials=_with_ticket(altered, changed), timeout=3) as executor,
            ):
                executor.get(txn.id)
            told[f"a ticket that is {name}"] = f"{caught.value!r}{caught.value}{caught.value.hint}"
        for name, where in {**wrong, "right token": place.shows(jwt_of()), **place.files}.items():
            told[f"a program with what is {name}"] = _client_says(place, where)
            told[f"txnctl with what is {name}"] = _ctl(place, "txn", "list", shown=where)
        told["txnctl explain"] = _ctl(place, "explain", str(txn.id), shown=admin)
        bundle = tmp_path / "bundle.tar.gz"
        told["txnctl bundle"] = _ctl(
            place, "debug", "bundle", str(bundle), "--dir", str(place.cluster.directory), shown=admin
        )
        told.update(_of_http(place, txn.id))
    bad = tmp_path / "bad"
    bad.write_text((place.secrets.read_text() + (place.files[SECRET_USER] / "secret").read_text()).replace("$", "!"))
    told["a node with wrong secrets"] = _node_says(place, tmp_path / "n1", secrets=bad)
    section = place.cluster.configs["n1"].jwt
    assert section is not None
    keys = section.model_copy(update={"keys": place.files[CERTIFIED] / "key.pem"})
    told["a node with wrong keys"] = _node_says(place, tmp_path / "n2", jwt=keys)
    told.update(_of_processes(place.cluster))
    with tarfile.open(bundle) as archive:
        for entry in archive:
            file: Any = archive.extractfile(entry)
            told[f"the bundle's {entry.name}"] = file.read().decode(errors="replace")
    secret = _secrets(place, {**shown, "a ticket": ticket, "the token in use": _file(place, TOKEN_USER, "token")})
    assert len(secret) > 10
    assert told["the log of n1"].count("Unauthenticated") + told["the log of n1"].count("refused") > 0
    found = [(where, name) for where, text in told.items() for name, forms in secret.items() if _has(text, forms)]
    assert found == []


def _file(place: Place, name: str, file: str) -> bytes:
    return (place.files[name] / file).read_bytes()


def _has(text: str, forms: list[str]) -> bool:
    whole = text.replace("\n", "")
    return any(form in text or form in whole for form in forms)


def _with_ticket(token: Token, ticket: bytes) -> bytes:
    return replace(token, ticket=ticket).to_bytes()
