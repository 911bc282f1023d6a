"""JSON Web Tokens of one issuer, in place of certificates: what holds, and whom they name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from txnstatus.errors import InvalidArgument
from txnstatus.security.files import Followed
from txnstatus.security.refusals import Refused

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Algorithms that may be configured: none by which whoever checks could sign."""
MAX_BYTES = 12 << 10


@dataclass(frozen=True, slots=True)
class Issuer:
    """The one whose tokens count, and how they do."""

    issuer: str
    audience: str
    keys: Path
    """A public key or a certificate (PEM), or a set of keys (JWKS)."""
    algorithms: Sequence[str]
    leeway_seconds: float = 30.0
    claim: str = "sub"
    """The claim that has the user's name."""


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    expires: float
    """Seconds since 1970, with the leeway."""


class Jwts:
    """How they are checked. The file of keys is read again as it changes."""

    def __init__(self, issuer: Issuer) -> None:
        """Raises InvalidArgument."""
        self._issuer = issuer
        if not issuer.algorithms or not ALGORITHMS.issuperset(issuer.algorithms):
            raise InvalidArgument(f"algorithms {list(issuer.algorithms)}: of {', '.join(sorted(ALGORITHMS))}")
        self._keys = Followed(issuer.keys, lambda data: _Keys.parse(data, str(issuer.keys)))

    def check(self, token: str, now: float) -> Named:
        """`now`: seconds since 1970. Raises Refused."""
        by = self._issuer
        try:
            claims = jwt.decode(
                token[: MAX_BYTES + 1],
                self._keys.now().of(token),
                algorithms=list(by.algorithms),
                audience=by.audience,
                issuer=by.issuer,
                # Times are looked at below, by this process's clock: the library has none but the machine's.
                options={
                    "require": ["exp", "iss", "aud", by.claim],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Refused(f"a JWT that does not hold: {type(error).__name__}") from None
        return self._named(claims, now)

    def _named(self, claims: Mapping[str, Any], now: float) -> Named:
        name, leeway = claims[self._issuer.claim], self._issuer.leeway_seconds
        expires, begins = claims["exp"], claims.get("nbf", 0)
        if not isinstance(name, str) or not all(isinstance(each, int | float) for each in (expires, begins)):
            raise Refused("a JWT whose claims are of other types")
        if expires + leeway <= now:
            raise Refused("a JWT that has expired")
        if begins - leeway > now:
            raise Refused("a JWT that does not hold yet")
        return Named(name, expires + leeway)


@dataclass(frozen=True, slots=True)
class _Keys:
    by_id: Mapping[str, Any] = field(repr=False)
    """Keys by their ids; a single one without an id by an empty one."""

    @classmethod
    def parse(cls, data: bytes, where: str) -> _Keys:
        """Raises InvalidArgument."""
        try:
            if data.lstrip().startswith(b"{"):
                found = jwt.PyJWKSet.from_dict(json.loads(data)).keys
                return cls({key.key_id or "": key.key for key in found})
            if b"BEGIN CERTIFICATE" in data:
                return cls({"": load_pem_x509_certificate(data).public_key()})
            return cls({"": load_pem_public_key(data)})
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"{where} has no public key (PEM) and no set of them (JWKS): {error}") from None

    def of(self, token: str) -> Any:
        """The key that the token says it is signed by. Raises Refused, jwt.PyJWTError."""
        number = jwt.get_unverified_header(token[: MAX_BYTES + 1]).get("kid", "")
        if number in self.by_id:
            return self.by_id[number]
        if len(self.by_id) == 1 and "" in self.by_id:
            return self.by_id[""]
        raise Refused("a JWT by a key that the issuer's file does not have")
