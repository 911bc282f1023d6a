"""What counts no more before its time: a name, `user/alice`, or one certificate, `serial/5F3A`."""

from __future__ import annotations

import re
from collections.abc import Collection

from txnstatus.errors import InvalidArgument

MAX_REVOKED = 1_000
MAX_SHOWN = 120
"""Characters of what is refused that an error repeats."""
_WHAT = re.compile(r"(node|host|user)/([A-Za-z0-9][A-Za-z0-9._@:-]{0,99})|(serial)/([1-9A-F][0-9A-F]{0,39})")


def of_name(kind: str, name: str) -> str:
    """`kind`: "node", "host" or "user"."""
    return f"{kind}/{name}"


def of_serial(number: int) -> str:
    """`number`: a certificate's serial number, which is above 0."""
    return f"serial/{number:X}"


def parse(what: str) -> tuple[str, str]:
    """The kind of a name, or "serial", and the rest. Raises InvalidArgument."""
    found = _WHAT.fullmatch(what)
    if found is None:
        raise InvalidArgument(
            f"{what[:MAX_SHOWN]!r} can be nothing that is revoked",
            hint="user/NAME, host/NAME, node/NAME, serial/HEX, or, to txnctl, a file with a certificate",
        )
    return found[1] or found[3], found[2] or found[4]


def is_revoked(kind: str, name: str, serial: int, revoked: Collection[str]) -> bool:
    """`serial`: of the certificate that was shown; 0: none was."""
    return bool(revoked) and (of_name(kind, name) in revoked or of_serial(serial) in revoked)
