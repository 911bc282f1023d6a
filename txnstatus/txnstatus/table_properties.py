"""Properties of tables: what one has for itself where others go by the cluster's options. The names are Hive's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txnstatus.errors import InvalidArgument
from txnstatus.names import fold
from txnstatus.values import value

NO_AUTO_COMPACTION = "NO_AUTO_COMPACTION"
LOWEST = {"compact_delta_num": 2, "compact_delta_pct": 1}
"""Options that a table may have for itself, and the lowest value of each."""
HIGHEST = 2**31 - 1
PUBLISH = "publish"
"""The kind of log that is kept beside the files, by which other engines read the table."""
_ON_DEMAND = "client.publish_iceberg writes Iceberg metadata of it on demand, once its row changes are compacted"
DELTA, PLAIN = "delta", "delta-plain"
LOG = "_delta_log"
"""The name of the log's directory, in the table's location."""
KNOWN = (NO_AUTO_COMPACTION, *LOWEST, PUBLISH)
_BY_FOLDED = {fold(name): name for name in KNOWN}


@value
class Property:
    name: str
    value: str


def checked(properties: Iterable[Property], *, may_unset: bool = False) -> tuple[Property, ...]:
    """By their names, which are given in whatever case. `may_unset`: an empty value is one, too, and says that a table
    has the property no more.

    Raises InvalidArgument for what is no property, or no value of one.
    """
    found: dict[str, Property] = {}
    for given in properties:
        name = _BY_FOLDED.get(fold(given.name))
        if name is None:
            raise InvalidArgument(f"no table property {given.name[:100]!r}; there are {', '.join(KNOWN)}")
        each = Property(name, given.value.lower() if name in (NO_AUTO_COMPACTION, PUBLISH) else given.value)
        if each.name in found:
            raise InvalidArgument(f"table property {each.name} comes twice")
        if may_unset and not each.value:
            pass
        elif each.name == NO_AUTO_COMPACTION:
            if each.value not in ("true", "false"):
                raise InvalidArgument(f"{each.name} = {each.value[:100]!r}: true and false are possible")
        elif each.name == PUBLISH:
            if each.value not in (DELTA, PLAIN):
                raise InvalidArgument(f"{PUBLISH} = {each.value[:100]!r}: {DELTA} and {PLAIN} are possible")
        else:
            _check_number(each)
        found[each.name] = each
    return tuple(found[name] for name in sorted(found))


def altered(properties: Iterable[Property], changes: Iterable[Property]) -> tuple[Property, ...]:
    """By their names: all that are as they were, or as the changes say."""
    found = {each.name: each for each in (*properties, *changes)}
    return tuple(found[name] for name in sorted(found) if found[name].value)


def no_auto_compaction(properties: Iterable[Property]) -> bool:
    """Whether the table is compacted on request only."""
    return any(each.name == NO_AUTO_COMPACTION and each.value == "true" for each in properties)


def published_as(properties: Iterable[Property]) -> str:
    """The kind of log by which others read the table; empty: none is kept."""
    return next((each.value for each in properties if each.name == PUBLISH), "")


def check_publication(properties: Iterable[Property], location: str, primary_key: Sequence[str]) -> None:
    """Raises InvalidArgument for a table of which no log can be kept."""
    if not published_as(properties):
        return
    if primary_key:
        raise InvalidArgument(
            f"{PUBLISH}: a table with a primary key is not published, rows that are changed by key are in no file",
            hint=_ON_DEMAND,
        )
    if not location.startswith("file:///"):
        raise InvalidArgument(
            f"{PUBLISH}: {location} is no file system on which an entry is put only where none is", hint=_ON_DEMAND
        )


def own(properties: Iterable[Property], option: str, otherwise: int) -> int:
    """The option as the table has it. `otherwise`: as the cluster has it."""
    return next((int(each.value) for each in properties if each.name == option), otherwise)


def _check_number(given: Property) -> None:
    text, lowest = given.value, LOWEST[given.name]
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and lowest <= int(text) <= HIGHEST):
        raise InvalidArgument(f"{given.name} = {text[:100]!r}: whole numbers from {lowest} to {HIGHEST} are possible")
