"""Partitions of a table by name: `month=1/day=2`, columns in the table's order; a prefix names all below it.

A value's name is its text, as a form in a URL is encoded, with `~` for `%`: what remains is plain in paths of every
file system, and nothing in it is escaped a second time. A null is `__null__`, an empty string `__empty__`. Of a long
one the beginning and a hash are the name, since file names have limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from hashlib import sha256
from itertools import accumulate
from urllib.parse import quote_plus, unquote_plus

from txnstatus.errors import InvalidArgument

WHOLE_TABLE = ""
"""The partition that is all of a table; the only one that a table without partition columns has."""
FIRST_DAY, LAST_DAY = date.min, date.max
"""Days that a partition column may have: others are written differently by everybody, and Python has none of them."""
NULL = "__null__"
EMPTY = "__empty__"
MAX_VALUE_CHARS = 200
KEPT_CHARS, SHORTENED, HASH_CHARS = 100, "~~", 32
"""The name of a value that would have a longer one: so much of it, then this, then so much of its SHA-256."""
MAX_PARTITIONS = 10_000
"""Most partitions in one write."""
_VALUE = rf"[^/\x00-\x1f]{{1,{MAX_VALUE_CHARS}}}"


def name_of(values: Mapping[str, object]) -> str:
    """The partition of these values (of bool, int, str, date, Decimal or null), in their order."""
    return "/".join(f"{column}={value_name(value)}" for column, value in values.items())


def value_name(value: object) -> str:
    match value:
        case None:
            return NULL
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value:f}"
        case "":
            return EMPTY
        case str():
            return _shortened(_encoded(value), value)
        case _:
            return str(value)


def _encoded(text: str) -> str:
    encoded = quote_plus(text, safe="").replace("~", "%7E").replace("%", "~")
    return f"~5F{encoded[1:]}" if encoded.startswith("__") else encoded


def _shortened(encoded: str, text: str) -> str:
    if len(encoded) <= MAX_VALUE_CHARS:
        return encoded
    return encoded[:KEPT_CHARS] + SHORTENED + sha256(text.encode()).hexdigest()[:HASH_CHARS]


def text_of(name: str) -> str | None:
    """The text of the value with this name; None = null. Raises ValueError for a name that does not tell it."""
    if SHORTENED in name:
        raise ValueError(f"{name} is shortened")
    if name == NULL:
        return None
    return "" if name == EMPTY else unquote_plus(name.replace("~", "%"))


def check(partition: str, columns: Sequence[str], table: str) -> None:
    """As `check_all`, of one."""
    check_all([partition], columns, table)


def check_all(names: Iterable[str], columns: Sequence[str], table: str, *, whole: bool = False) -> None:
    """Checks that these are partitions of a table with these columns. `whole`: one value for each of them.

    Raises InvalidArgument.
    """
    pattern = _pattern(columns, whole=whole)
    for name in names:
        if not pattern.fullmatch(name):
            expected = "/".join(f"{column}=value" for column in columns)
            rule = f"expected {expected}{'' if whole else ', or the first of these'}"
            rule = rule if columns else "it is not partitioned"
            raise InvalidArgument(f"{name[:300]!r} is no partition of {table}: {rule}")


def _pattern(columns: Sequence[str], *, whole: bool) -> re.Pattern[str]:
    """One for whole names: a write may have 10,000."""
    parts = [rf"{re.escape(column)}={_VALUE}" for column in columns]
    if whole or not parts:
        return re.compile("/".join(parts) or "(?!)")
    return re.compile("(?:/".join(parts) + ")?" * (len(parts) - 1))


def above(partition: str) -> Sequence[str]:
    """Itself, and each that it is part of, the whole table last."""
    if not partition:
        return [WHOLE_TABLE]
    return [*reversed([*accumulate(partition.split("/"), "{}/{}".format)]), WHOLE_TABLE]


def values(names: Iterable[str]) -> int:
    """How many values they have together."""
    return sum(name.count("/") + 1 for name in names if name)


def covers(objects: frozenset[str] | set[str], partition: str) -> bool:
    """Whether one of the objects is the partition, or has it below it. Takes as long as the partition has columns."""
    return partition in objects or not objects.isdisjoint(above(partition))
