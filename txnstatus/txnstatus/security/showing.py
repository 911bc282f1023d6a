"""What a process shows to those that it calls, and by what it knows them: a certificate, or what goes in its place."""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
from pathlib import Path
from typing import Any, Protocol

from txnstatus.errors import InvalidArgument
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.security import tickets, tls
from txnstatus.security.files import Followed
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.tls import VARIABLE, ClientEnd, bare

AUTHORITY, CERTIFICATE, TOKEN, SECRET = "ca.pem", "certificate.pem", "token", "secret"
"""Names of the files of a directory of credentials."""

GIVE = (
    f"give credentials by {VARIABLE}=DIRECTORY, or connect(credentials=DIRECTORY): {AUTHORITY} with a certificate "
    f"({CERTIFICATE}, key.pem), with a bearer token (JWT, in {TOKEN}), or with a secret ({SECRET}); or show a "
    "transaction's ticket: connect(credentials=txn.token())"
)
"""What to do for whoever shows nothing."""


class Shows(Protocol):
    """`Tls` is one."""

    @property
    def own(self) -> Principal:
        """The one that it is."""

    @property
    def is_secure(self) -> bool:
        """Whether its connections have TLS."""

    def contexts(self) -> ClientEnd:
        """For a new connection, which has TLS."""

    def credential(self) -> pb.Frame.Credential | None:
        """The first that is said over a new connection; None: a certificate is shown."""

    def after_fork(self) -> None: ...


class ShownTicket:
    """A ticket of a transaction, in place of a certificate. Safe to use from many threads."""

    def __init__(self, ticket: bytes, authority: bytes) -> None:
        """`authority`: PEM, whose signature counts of nodes; empty: they have no TLS. Raises InvalidArgument."""
        self.ticket, self.authority = ticket, authority
        try:
            found = tickets.read(ticket)
        except ValueError as error:
            raise InvalidArgument(str(error)) from None
        self.cluster_id = found.cluster_id
        self._end = ClientEnd(found.principal, bare(ssl.PROTOCOL_TLS_CLIENT), authority)
        if authority:
            try:
                self._end.client.load_verify_locations(cadata=authority.decode())
            except (ValueError, ssl.SSLError):
                raise InvalidArgument("the token names no authority of certificates") from None

    def __repr__(self) -> str:
        return f"<a ticket of {self.own}>"

    @property
    def own(self) -> Principal:
        return self._end.own

    @property
    def is_secure(self) -> bool:
        return bool(self.authority)

    def contexts(self) -> ClientEnd:
        return self._end

    def credential(self) -> pb.Frame.Credential:
        return pb.Frame.Credential(ticket=self.ticket)

    def after_fork(self) -> None:
        pass


class ShownFile:
    """A token (JWT) or a secret in a file, in place of a certificate; read again as it changes. Safe to use from many
    threads."""

    def __init__(self, authority: Path, shown: Path) -> None:
        """Raises InvalidArgument."""
        what = f"{shown}"
        parse = (lambda data: _jwt(data, what)) if shown.name == TOKEN else (lambda data: _secret(data, what))
        self._shown: Followed[tuple[str, pb.Frame.Credential]] = Followed(shown, parse)
        self._end = Followed(authority, lambda data: _end(data, str(authority)))

    def __repr__(self) -> str:
        return f"<what {self.own} shows>"

    @property
    def own(self) -> Principal:
        """The one that it says it is; nodes say who that is to them."""
        _, cluster, _ = self._end.now()
        return Principal(cluster, Kind.USER, self._shown.now()[0])

    @property
    def is_secure(self) -> bool:
        return True

    def contexts(self) -> ClientEnd:
        context, _, authority = self._end.now()
        return ClientEnd(self.own, context, authority)

    def credential(self) -> pb.Frame.Credential:
        return self._shown.now()[1]

    def after_fork(self) -> None:
        self._shown.after_fork()
        self._end.after_fork()


def within(directory: str | Path) -> Shows:
    """What the files of a directory are: `ca.pem` with `certificate.pem` and `key.pem`, or with `token`, or `secret`.

    Raises InvalidArgument.
    """
    where = Path(directory)
    for name in (TOKEN, SECRET):
        if (where / name).exists() and not (where / CERTIFICATE).exists():
            return ShownFile(where / AUTHORITY, where / name)
    try:
        return tls.within(where)
    except InvalidArgument as error:
        if (where / CERTIFICATE).exists():
            raise
        raise InvalidArgument(error.message, hint=GIVE) from error


def from_environment() -> Shows | None:
    """None: the variable is not set. Raises InvalidArgument."""
    directory = os.environ.get(VARIABLE)
    return within(directory) if directory else None


def _end(data: bytes, where: str) -> tuple[ssl.SSLContext, str, bytes]:
    """A context, the cluster whose authority it is, empty where it does not say, and the authority."""
    context = bare(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=data.decode())
    except (ValueError, ssl.SSLError):
        raise InvalidArgument(f"{where} has no certificates of an authority") from None
    found: list[Any] = list(context.get_ca_certs())
    uris = [str(name) for each in found for kind, name in each.get("subjectAltName", ()) if kind == "URI"]
    names = {uri.removeprefix(_CLUSTER) for uri in uris if uri.startswith(_CLUSTER)}
    return context, names.pop() if len(names) == 1 else "", data


_CLUSTER = "spiffe://"


def _jwt(data: bytes, where: str) -> tuple[str, pb.Frame.Credential]:
    """Whom it names by its own word, and what is shown."""
    try:
        text = data.decode("ascii").strip()
        claims = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
        name = str(claims["sub"])
    except (ValueError, LookupError, TypeError, binascii.Error):
        raise InvalidArgument(f"{where} has no JSON Web Token with a sub") from None
    return name, pb.Frame.Credential(jwt=text)


def _secret(data: bytes, where: str) -> tuple[str, pb.Frame.Credential]:
    name, colon, secret = data.decode(errors="replace").strip().rpartition(":")
    if not (name and colon and secret):
        raise InvalidArgument(f"{where} has no NAME:SECRET")
    return name, pb.Frame.Credential(secret=pb.Frame.Secret(name=name, secret=secret))
