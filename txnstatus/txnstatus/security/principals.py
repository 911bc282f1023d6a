"""Who is at the other end of a connection, as a certificate says: a node, a participant's host, or a user.

The name is a SPIFFE id (https://spiffe.io, a URI among the certificate's alternative names): `spiffe://CLUSTER/node/n1`.
The kind is a part of it, so that a user's certificate is never taken for a node's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from txnstatus.errors import Unauthenticated
from txnstatus.types import TxnId
from txnstatus.values import value

MAX_SHOWN = 120
"""Characters of a name that is refused which an error repeats."""
_URI = re.compile(r"spiffe://([A-Za-z0-9][A-Za-z0-9._-]{0,62})/(node|host|user)/([A-Za-z0-9][A-Za-z0-9._@:-]{0,99})")


class Kind(StrEnum):
    NODE = "node"
    HOST = "host"
    """The process of a foreign participant."""
    USER = "user"


@value
class Scope:
    """What somebody may do who acts by a transaction token: see `scopes`."""

    txn_id: TxnId
    tables: tuple[str, ...] = ()
    """Names of the tables; empty: all."""
    appends_only: bool = False
    """Whether rows and files may be added, and nothing be replaced, changed or read."""
    may_commit: bool = False
    """Whether the transaction may be ended, either way."""


@value
class Principal:
    cluster: str
    """The name of the cluster that it is of."""
    kind: Kind
    name: str
    scope: Scope | None = None
    """The bounds of who acts by a transaction token; None: there are none but those of whoever it is."""

    @property
    def uri(self) -> str:
        return f"spiffe://{self.cluster}/{self.kind}/{self.name}"

    @property
    def is_process(self) -> bool:
        """Whether it is one of the cluster's own processes."""
        return self.kind is not Kind.USER

    @property
    def owner(self) -> str:
        """What transactions say that it begins. No name has a slash, so no user is taken for a process."""
        return f"{self.kind}/{self.name}" if self.is_process else self.name

    def __str__(self) -> str:
        by = f", by a token of transaction {self.scope.txn_id}," if self.scope else ""
        return f"{self.kind} {self.name}{by} of cluster {self.cluster}"


def parse(uri: str) -> Principal | None:
    """None: it is no name of ours."""
    found = _URI.fullmatch(uri)
    return Principal(found[1], Kind(found[2]), found[3]) if found else None


def is_name(name: str) -> bool:
    """Whether a user can be called so."""
    return parse(f"spiffe://any/{Kind.USER}/{name}") is not None


def of_certificate(certificate: Mapping[str, Any] | None) -> Principal | None:
    """Whom a verified certificate names, in the form of `ssl.SSLSocket.getpeercert`. None: there is no certificate.

    Raises Unauthenticated for one that names nobody, or several.
    """
    if not certificate:
        return None
    return of_names(name for kind, name in certificate.get("subjectAltName", ()) if kind == "URI")


def serial_of(certificate: Mapping[str, Any] | None) -> int:
    """The serial number of a verified certificate; 0: there is none."""
    return int(certificate["serialNumber"], 16) if certificate else 0


def of_names(uris: Iterable[str]) -> Principal:
    """Raises Unauthenticated."""
    names = tuple(uris)
    found = [principal for name in names if (principal := parse(name))]
    if len(found) != 1:
        told = ", ".join(names)[:MAX_SHOWN] or "none"
        raise Unauthenticated(
            f"a certificate whose URIs are {told}: one name of the form spiffe://CLUSTER/user/NAME is needed",
            hint="txnctl cert issues such certificates",
        )
    return found[0]
