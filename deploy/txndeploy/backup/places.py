"""Where tables are, and where they are to be. Decides, performs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from txnstatus.errors import InvalidArgument
from txnstatus.lake import locations
from txnstatus.table_properties import Property, check_publication


@dataclass(frozen=True, slots=True)
class Place:
    """A table, for this."""

    name: str
    location: str
    properties: Sequence[Property] = ()


@dataclass(frozen=True, slots=True)
class Places:
    moved: Mapping[str, str]
    """Locations of the tables that move → where they are then."""
    roots: Mapping[str, str]

    def now(self, uri: str) -> str:
        """Where a table, or what is in its place, is then; all else stays."""
        for location in _above(uri):
            if (new := self.moved.get(location)) is not None:
                return new + uri[len(location) :]
        return uri

    def of_listed(self, uri: str) -> str:
        """As `now`, of a data file that a table has. Raises InvalidArgument for one that a root has, and no table's
        place: a backup is without it, so it cannot be moved."""
        new = self.now(uri)
        if new == uri and (root := _root_of(uri, self.roots)) is not None:
            raise InvalidArgument(
                f"{uri} lies outside of its table's place, and is in no backup: it cannot be moved with {root}",
                hint="compact its table in the old cluster first, or give roots that leave it where it is",
            )
        return new


def placed(tables: Iterable[Place], roots: Mapping[str, str]) -> Places:
    """The places: of each table the longest root that it is in counts; one that is in none stays. A root that is moved
    to itself stays, too. Raises InvalidArgument, naming the root or the table for which it cannot be."""
    roots = {old.rstrip("/"): new.rstrip("/") for old, new in roots.items()}
    for uri in (*roots, *roots.values()):
        locations.parse(uri)
    known, moved, used = list(tables), dict[str, str](), set[str]()
    for table in known:
        if not table.location or (root := _root_of(table.location, roots)) is None:
            continue
        used.add(root)
        new = roots[root] + table.location[len(root) :]
        try:
            check_publication(table.properties, new, ())
        except InvalidArgument as error:
            raise InvalidArgument(f"{table.name} cannot be moved to {new}: {error.message}") from error
        moved[table.location] = new
    if unused := sorted(roots.keys() - used):
        there = ", ".join(sorted({table.location for table in known if table.location})[:3]) or "nowhere"
        raise InvalidArgument(f"no table of the backup is in {unused[0]}: they are in {there}")
    _check_apart(known, moved)
    return Places(moved, roots)


def _check_apart(tables: Iterable[Place], moved: Mapping[str, str]) -> None:
    """Raises InvalidArgument where two tables would be in one place, or one within another's."""
    owners: dict[str, str] = {}
    for table in tables:
        if not table.location:
            continue
        new = moved.get(table.location, table.location)
        if new in owners:
            raise InvalidArgument(f"{owners[new]} and {table.name} would both be in {new}")
        owners[new] = table.name
    for place, name in owners.items():
        for above in _above(place.rpartition("/")[0]):
            if above in owners:
                raise InvalidArgument(f"{name} would be in {place}, within the place of {owners[above]}")


def _root_of(uri: str, roots: Mapping[str, str]) -> str | None:
    return next((above for above in _above(uri) if above in roots), None)


def _above(uri: str) -> Iterator[str]:
    """It, and all that it is below, the nearest first."""
    while uri and not uri.endswith("/"):
        yield uri
        uri = uri.rpartition("/")[0]
