"""Users' secrets, in place of certificates: a node's file has them hashed, and each look at one takes the same work."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from txnstatus.errors import InvalidArgument
from txnstatus.security import principals
from txnstatus.security.files import Followed
from txnstatus.security.refusals import Refused

COST = 1 << 14
"""Steps of scrypt, each of a KiB: 16 MiB, and some hundredths of a second."""
SALT_BYTES = 16
SECRET_BYTES = 32
MAX_SECRET_CHARS = 1_000
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Hashed:
    salt: bytes = field(repr=False)
    hash: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: str) -> Hashed:
        salt = os.urandom(SALT_BYTES)
        return cls(salt, _scrypt(secret, salt))

    def line(self, name: str) -> str:
        """The line of a node's file."""
        return f"{name}:scrypt:{_text(self.salt)}:{_text(self.hash)}"


_NOBODY = Hashed(bytes(SALT_BYTES), bytes(_HASH_BYTES))
"""What a secret of nobody is compared with: no secret is known to be hashed to it."""


class Secrets:
    """The secrets of a node's file, which is read again as it changes."""

    def __init__(self, file: Path) -> None:
        """Raises InvalidArgument."""
        self._known = Followed(file, lambda data: parse(data, str(file)))

    def check(self, name: str, secret: str) -> None:
        """Takes as long for a name that there is as for one that there is not. Raises Refused."""
        known = self._known.now().get(name)
        looked = known or _NOBODY
        is_same = hmac.compare_digest(_scrypt(secret[:MAX_SECRET_CHARS], looked.salt), looked.hash)
        if not is_same or known is None:
            raise Refused("a name and a secret that do not go together")


def parse(data: bytes, where: str) -> Mapping[str, Hashed]:
    """Raises InvalidArgument, naming the line."""
    found = {}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, kind, salt, digest = line.strip().rsplit(":", 3)
            hashed = Hashed(base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True))
        except (ValueError, binascii.Error):
            name, kind, hashed = "", "", _NOBODY
        if kind != "scrypt" or len(hashed.hash) != _HASH_BYTES or not principals.is_name(name):
            raise InvalidArgument(
                f"{where}: line {number} is no NAME:scrypt:SALT:HASH, as txnctl cert secret makes them"
            )
        found[name] = hashed
    return found


def _scrypt(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=COST, r=8, p=1, dklen=_HASH_BYTES)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
