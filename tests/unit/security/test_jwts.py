"""JSON Web Tokens in place of certificates: what holds, everything else, and files that follow each other."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.unit.harness.answering import Served
from tests.unit.harness.identities import Identities, awaiting, blocking
from tests.unit.harness.tickets import CLUSTER_ID, KEYS, NOW, Clock
from txnclient import connect
from txnstatus.errors import InvalidArgument, TxnError, Unauthenticated
from txnstatus.proto import rpc_pb2
from txnstatus.security import showing
from txnstatus.security.bearers import Bearers
from txnstatus.security.jwts import Issuer, Jwts
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.refusals import TOLD, Refused
from txnstatus.security.tls import ClientEnd

INPUTS = int(os.environ.get("TXN_TLS_INPUTS", "300"))
QUICK = 10.0
KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
CLAIMS = {
    "iss": "https://issuer",
    "aud": ["txnstatus", "more"],
    "sub": "system:serviceaccount:air:loader",
    "exp": int(NOW) + 600,
    "nbf": int(NOW) - 600,
}
CLIENTS = pytest.mark.parametrize("ask", [blocking, awaiting])


def pem(key: Any) -> bytes:
    made: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return made


def made(key: Any = KEY, algorithm: str = "ES256", kid: str | None = None, **claims: object) -> str:
    said = {name: told for name, told in {**CLAIMS, **claims}.items() if told is not None}
    return jwt.encode(said, key, algorithm, headers={"kid": kid} if kid else None)


def jwks(keys: Mapping[str, Any]) -> bytes:
    as_json = jwt.algorithms.ECAlgorithm.to_jwk
    return json.dumps(
        {"keys": [{**as_json(key.public_key(), as_dict=True), "kid": kid} for kid, key in keys.items()]}
    ).encode()


def checks(directory: Path, keys: bytes | None = None, **more: Any) -> Jwts:
    file = directory / "keys"
    file.write_bytes(pem(KEY) if keys is None else keys)
    return Jwts(Issuer("https://issuer", "txnstatus", file, ("ES256",), **more))


def test_a_token_of_the_issuer_names_its_user(tmp_path: Path) -> None:
    named = checks(tmp_path).check(made(), NOW)
    assert (named.name, named.expires) == ("system:serviceaccount:air:loader", NOW + 630)
    assert checks(tmp_path, claim="email").check(made(email="a@b.c"), NOW).name == "a@b.c"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"exp": None},
        {"exp": int(NOW) - 31},
        {"nbf": int(NOW) + 31},
        {"sub": None},
    ],
    ids=str,
)
def test_a_token_that_says_something_else_is_refused(claims: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(Refused, match=TOLD):
        checks(tmp_path).check(made(**claims), NOW)


@pytest.mark.parametrize(("exp", "nbf"), [(int(NOW) - 29, int(NOW) - 600), (int(NOW) + 600, int(NOW) + 29)])
def test_clocks_may_differ_by_the_leeway(exp: int, nbf: int, tmp_path: Path) -> None:
    assert checks(tmp_path).check(made(exp=exp, nbf=nbf), NOW)


def test_algorithms_are_those_of_the_configuration(tmp_path: Path) -> None:
    """What a token says of itself chooses nothing: neither none, nor a hash keyed by the public key."""
    parts = made().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    rs256 = made(rsa.generate_private_key(65537, 2048), "RS256")
    for token in (
        f"{none}.{parts[1]}.",
        f"{none}.{parts[1]}.{parts[2]}",
        rs256,
        made("secret" * 8, "HS256"),
        made(OTHER),
    ):
        with pytest.raises(Refused):
            checks(tmp_path).check(token, NOW)
    for algorithms in ((), ("HS256",), ("none",), ("ES256", "HS256")):
        with pytest.raises(InvalidArgument, match="algorithms"):
            Jwts(Issuer("i", "a", tmp_path / "keys", algorithms))


def test_a_set_of_keys_goes_by_their_ids(tmp_path: Path) -> None:
    found = checks(tmp_path, jwks({"1": KEY, "2": OTHER}))
    assert found.check(made(kid="1"), NOW)
    assert found.check(made(OTHER, kid="2"), NOW)
    for token in (made(kid="2"), made(kid="3"), made()):
        with pytest.raises(Refused):
            found.check(token, NOW)


def test_keys_that_follow_each_other_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = checks(tmp_path)
    assert found.check(made(), NOW)
    (tmp_path / "keys").write_bytes(b"half")
    assert found.check(made(), NOW)
    assert "stays as it was read before" in caplog.text
    (tmp_path / "keys").write_bytes(pem(OTHER))
    assert found.check(made(OTHER), NOW)
    with pytest.raises(Refused):
        found.check(made(), NOW)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"keys": []}', b"-----BEGIN CERTIFICATE-----", b"\xff"])
def test_a_file_without_keys_is_named(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="keys has no public key"):
        checks(tmp_path, data)


def test_whatever_token_is_shown_it_is_refused_and_nothing_else_is_raised(tmp_path: Path) -> None:
    """TXN_TLS_INPUTS says how many are tried."""
    rng, right, found = random.Random(5), made(), checks(tmp_path)
    letters = "abcXYZ019._-= \n\xe9"
    for _ in range(INPUTS):
        token = list(right)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(token))
            token[at : at + rng.randrange(3)] = rng.choices(letters, k=rng.randrange(3))
        if (shown := "".join(token)) == right:
            continue
        try:
            named = found.check(shown, NOW)
        except Refused:
            continue
        assert named.name == CLAIMS["sub"], "bits of the last letter that are no byte's say nothing"


# ---- over connections


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("air"))


def bearers(jwts: Jwts, clock: Clock) -> Bearers:
    return Bearers(lambda: CLUSTER_ID, lambda: KEYS, clock.micros, "air", jwts=jwts)


def shown(directory: Path, air: Identities, token: str) -> showing.Shows:
    directory.mkdir(exist_ok=True)
    (directory / "ca.pem").write_bytes(air.authority.pem)
    (directory / "token").write_text(token + "\n")
    return showing.within(directory)


@CLIENTS
async def test_a_token_in_a_file_is_shown_and_the_next_one_when_it_has_changed(  # type: ignore[no-untyped-def]
    ask, air: Identities, tmp_path: Path
) -> None:
    clock = Clock()
    async with Served(tls=air.node(), bearers=bearers(checks(tmp_path), clock)) as served, asyncio.timeout(QUICK):
        shows = shown(tmp_path / "loader", air, made(sub="loader"))
        assert shows.own.owner == "loader"
        assert await ask(shows, served.address) == 2
        clock.seconds += 3600
        with pytest.raises(Unauthenticated, match=TOLD):
            await ask(shows, served.address)
        (tmp_path / "loader" / "token").write_text(made(sub="loader", exp=int(clock.seconds) + 60))
        assert await ask(shows, served.address) == 2


@pytest.mark.parametrize("name", ["node/n1", "a b", "", "x" * 101])
async def test_nobody_is_called_by_a_name_that_is_none(name: str, air: Identities, tmp_path: Path) -> None:
    async with Served(tls=air.node(), bearers=bearers(checks(tmp_path), Clock())) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match=TOLD):
            await blocking(shown(tmp_path / "some", air, made(sub=name)), served.address)


async def test_a_node_that_takes_no_tokens_says_no_more(air: Identities, tmp_path: Path) -> None:
    takes_none = Bearers(lambda: CLUSTER_ID, lambda: KEYS, Clock().micros)
    async with Served(tls=air.node(), bearers=takes_none) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match=TOLD):
            await blocking(shown(tmp_path / "some", air, made()), served.address)


async def test_nothing_is_shown_to_a_node_of_another_cluster(air: Identities, tmp_path: Path) -> None:
    """The authority says of which cluster it is."""
    sea = Identities(tmp_path / "sea", "sea")
    shows = shown(tmp_path / "some", sea, made())
    with (tmp_path / "some" / "ca.pem").open("ab") as file:
        file.write(air.authority.pem)
    assert showing.within(tmp_path / "some").own.cluster == "", "of two clusters it does not say"
    async with Served(tls=air.node(), bearers=bearers(checks(tmp_path), Clock())) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match="it is node n1 of cluster air, and not a node of cluster sea"):
            await blocking(OfSea(shows), served.address)
        assert not served.manager.asked


class OfSea:
    """Credentials for a cluster sea, whose owner trusts other authorities, too."""

    is_secure = True

    def __init__(self, shows: showing.Shows) -> None:
        self.own = Principal("sea", Kind.USER, "some")
        self._end = replace(shows.contexts(), own=self.own)

    def contexts(self) -> ClientEnd:
        return self._end

    def credential(self) -> rpc_pb2.Frame.Credential:
        raise AssertionError("it is not shown")

    def after_fork(self) -> None: ...


def test_no_repr_no_error_and_no_log_has_the_token(
    air: Identities, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = made()
    shows = shown(tmp_path / "some", air, token)
    with connect("127.0.0.1:1", credentials=tmp_path / "some", timeout=0.2) as client:
        said = [repr(client), repr(client.session), repr(shows), repr(vars(shows).keys()), str(shows.own)]
        with pytest.raises(TxnError) as caught:
            client.last_commit()
        said += [repr(caught.value), str(caught.value)]
    with pytest.raises(Refused) as refused:
        checks(tmp_path).check(token[:-4], NOW)
    (tmp_path / "some" / "token").write_text("no token: " + token.replace(".", "!"))
    shows.credential()
    with pytest.raises(InvalidArgument) as wrong:
        showing.within(tmp_path / "some")
    said += [repr(refused.value), refused.value.why, str(wrong.value), caplog.text]
    assert not [each for each in said if token.split(".")[1] in each or token.split(".")[2][:20] in each]
