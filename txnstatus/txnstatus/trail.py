"""The trail: what somebody may have to answer for, a line of JSON each, chained by hashes.

Each line has the hash of the one before it, so one that was changed, left out, put in or moved shows. Lines that were
cut off at the end show to whoever has kept the last hash, or its number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from txnstatus.values import value

MAX_SHOWN = 100
"""Characters of a line that is none which an error repeats."""


_FIELDS = {"n": int, "at": str, "node": str, "who": str, "did": str, "what": dict, "outcome": str, "before": str}


class TrailBroken(ValueError):
    """A line is not what the one before it says, or is none."""


@value
class Deed:
    """Something that somebody did, or was refused."""

    who: str
    did: str
    """A call, such as `Admin/SetOption`; or what else it is."""
    what: Mapping[str, str]
    outcome: str
    """`asked`, before it is done; then `done`, or the code of the error; `refused`, where it was not taken up."""


@value
class Link:
    """The last line of a trail, or of a part of one."""

    number: int
    digest: str


START = Link(0, "0" * 64)
"""What comes before the first line."""


def line(after: Link, at_micros: int, node: str, deed: Deed) -> tuple[bytes, Link]:
    """The line that says so, with its end; and the link that it is."""
    told = {
        "n": after.number + 1,
        "at": datetime.fromtimestamp(at_micros / 1e6, UTC).isoformat(timespec="microseconds"),
        "node": node,
        "who": deed.who,
        "did": deed.did,
        "what": dict(deed.what),
        "outcome": deed.outcome,
        "before": after.digest,
    }
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=True).encode()
    return text + b"\n", Link(after.number + 1, digest(text))


def digest(text: bytes) -> str:
    """The hash of a line without its end."""
    return hashlib.sha256(text).hexdigest()


def read(text: bytes) -> Mapping[str, Any]:
    """What a line says. Raises TrailBroken for what is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or any(type(told.get(name)) is not kind for name, kind in _FIELDS.items()):
        raise TrailBroken(f"{text[:MAX_SHOWN]!r} is no line of a trail")
    return told


def verified(texts: Iterable[bytes], after: Link | None = None) -> Iterator[tuple[Mapping[str, Any], Link]]:
    """The lines, without their ends, with the link that each is, as long as each follows from the one before it.

    `after` None: whatever came before the first one; the number that it has says how much that was. Raises TrailBroken.
    """
    for text in texts:
        told = read(text)
        if after is not None and told["n"] != after.number + 1:
            raise TrailBroken(f"line {told['n']} follows line {after.number}")
        if after is not None and told["before"] != after.digest:
            raise TrailBroken(f"line {after.number} is not the one that line {told['n']} was written after")
        after = Link(told["n"], digest(text))
        yield told, after


def split(content: bytes) -> tuple[list[bytes], int]:
    """The whole lines of a file; and how many bytes follow of one that is not, since a process ended as it wrote it."""
    *whole, torn = content.split(b"\n")
    return whole, len(torn)
