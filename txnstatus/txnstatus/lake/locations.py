"""Where tables may be: below the roots that the nodes are configured with, and nowhere else.

Nodes write into a table's directory and remove what is in it, with rights of their own. So a location is not the
client's to choose freely: see docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from txnstatus.errors import InvalidArgument
from txnstatus.lake.storage import file_system


@dataclass(frozen=True, slots=True)
class Location:
    """A URI, taken apart: two that differ in a trailing slash or in how they are quoted are the same."""

    scheme: str
    host: str
    path: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """Scheme, host, and each part of the path."""
        return self.scheme, self.host, *self.path

    def is_within(self, root: Location) -> bool:
        """Whether it is the root or below it, by the path's parts: /data/ab is not below /data/a."""
        same_system = (self.scheme, self.host) == (root.scheme, root.host)
        return same_system and self.path[: len(root.path)] == root.path

    def overlaps(self, other: Location) -> bool:
        """Whether one of the two is in the other, or they are the same."""
        return self.is_within(other) or other.is_within(self)

    def named_in(self, warehouse: Location) -> str | None:
        """The table, or the database, whose place it is in the warehouse, or within whose place: by names. Empty: it is
        the warehouse; None: it is not in that."""
        return ".".join(self.path[len(warehouse.path) :][:2]) if self.is_within(warehouse) else None

    def resolved(self) -> Location:
        """Where it leads, on the local file system, through symbolic links; also where nothing is yet."""
        if self.scheme != "file":
            return self
        return Location(self.scheme, self.host, Path("/", *self.path).resolve().parts[1:])


@dataclass(frozen=True, slots=True)
class Roots:
    """URIs below which tables may be, besides the warehouse."""

    shared: Sequence[str] = ()
    by_database: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Databases that have roots of their own, in which no other one's tables are."""

    def of(self, database: str) -> Sequence[str]:
        return self.by_database.get(database, self.shared)

    def others(self, database: str) -> Sequence[str]:
        """Roots of other databases."""
        return [root for other, roots in self.by_database.items() if other != database for root in roots]


def parse(uri: str) -> Location:
    """Raises InvalidArgument for what could mean two places: the message names the rule."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidArgument(f"{uri[:500]!r} is no location of a table: {error}") from error
    path = unquote(parts.path)
    names = path.strip("/").split("/") if path.strip("/") else []
    for wrong, why in (
        (not parts.scheme, "it has no scheme: file:///data, s3://bucket/data"),
        (not path.startswith("/") and bool(path), "its path is not absolute"),
        (bool(parts.query or parts.fragment), "it has a query or a fragment"),
        (any(name in ("", ".", "..") for name in names), "a part of its path is empty, . or .."),
        (not (uri + path).isprintable(), "it holds characters that cannot be printed"),
    ):
        if wrong:
            raise InvalidArgument(f"{uri[:500]!r} is no location of a table: {why}")
    return Location(parts.scheme.lower(), parts.netloc.lower(), tuple(names))


def check(uri: str, roots: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raises InvalidArgument for a location that is in none of the roots, leads out of them, or cannot be used; or that
    is in one of `others`, or has one in it.

    Blocking: it follows symbolic links.
    """
    location, roots = parse(uri), list(roots)
    named = f"tables may be in {', '.join(roots)}"
    hint = "choose a location in one of these, or none; to allow others: table_roots in every node's configuration"
    if not any(location.is_within(parse(root)) for root in roots):
        raise InvalidArgument(f"location {uri!r} is not allowed: {named}", hint=hint)
    resolved = location.resolved()
    if not any(resolved.is_within(parse(root).resolved()) for root in roots):
        there = "/" + "/".join(resolved.path)
        raise InvalidArgument(f"location {uri!r} is not allowed: it leads to {there}, and {named}", hint=hint)
    for other in map(parse, others):
        for place, root in ((location, other), (resolved, other.resolved())):
            if place.overlaps(root):
                raise InvalidArgument(f"location {uri!r} is not allowed: it is another database's", hint=hint)
    file_system(uri)
