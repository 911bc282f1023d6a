"""Places: where tables keep their files. Two tables in one place, or one inside of another's, are told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from txnparticipant.shard.audit import Known, Listing
from txnstatus.errors import TxnError
from txnstatus.findings import Finding, Kind
from txnstatus.lake.storage import file_system


@dataclass(frozen=True, slots=True)
class Table:
    shard: int
    table_id: str
    name: str
    location: str


@dataclass(slots=True)
class Place:
    tables: list[Table]
    path: str
    """Path with the name of its file system before it: the same, however the location is spelled."""
    inner: list[str] = field(default_factory=list)
    """Paths of others' places below, relative to this one."""
    outer: list[str] = field(default_factory=list)
    """Names of the tables in whose places this one lies."""

    @property
    def is_shared(self) -> bool:
        return len(self.tables) > 1 or bool(self.inner or self.outer)

    @property
    def name(self) -> str:
        return ", ".join(table.name for table in self.tables)


def places(tables: Sequence[Table]) -> tuple[list[Place], list[str]]:
    """With the locations that cannot be used from here, and why."""
    by_path: dict[str, Place] = {}
    unusable: list[str] = []
    for table in tables:
        try:
            path = _path(table.location)
        except TxnError as error:
            unusable.append(f"{table.name}: {error.message}")
            continue
        by_path.setdefault(path, Place([], path)).tables.append(table)
    ordered = sorted(by_path.values(), key=lambda place: place.path)
    for place in ordered:
        for other in ordered:
            if other.path.startswith(f"{place.path}/"):
                place.inner.append(other.path[len(place.path) + 1 :])
                other.outer.append(place.name)
    return ordered, unusable


def _path(location: str) -> str:
    system, path = file_system(location)
    local = system.type_name == "local"
    return f"{system.type_name}:{Path(path).resolve() if local else path.rstrip('/')}"


def shared(place: Place) -> list[Finding]:
    if not place.is_shared:
        return []
    reasons = [f"{len(place.tables)} tables"] if len(place.tables) > 1 else []
    reasons += [f"others' places in it: {', '.join(place.inner)}"] if place.inner else []
    reasons += [f"it lies in the place of {', '.join(place.outer)}"] if place.outer else []
    return [Finding(Kind.SHARED_LOCATION, place.name, place.tables[0].location, "; ".join(reasons))]


def own(listing: Listing, place: Place) -> Listing:
    """Without what lies in others' places."""
    found: dict[str, Mapping[str, int]] = {}
    for name, files in listing.items():
        kept = {
            below: size
            for below, size in files.items()
            if not any(f"{name}/{below}".startswith(f"{inner}/") for inner in place.inner)
        }
        leads_there = any(inner == name or inner.startswith(f"{name}/") for inner in place.inner)
        if kept or not leads_there:
            found[name] = kept
    return found


def parts(listing: Listing, known: Sequence[Mapping[str, Known]]) -> list[Listing]:
    """What of a place's listing concerns each of its tables; what is nobody's, the first."""
    others: set[str] = set().union(*known[1:])
    first = {name: files for name, files in listing.items() if name in known[0] or name not in others}
    return [first, *({name: files for name, files in listing.items() if name in each} for each in known[1:])]
