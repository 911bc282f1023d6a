"""Ranges of primary keys, by the key's first column: which keys lie in one, and whether two have any in common.

Everybody who compares them must come to the same answer, so the order follows from the text of a value, as keys and
manifests have it, and from the column's type; from no library. Where a text does not tell its place, it may be
anywhere: ranges say what cannot have met, never what has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from txnstatus.ddl import MAX_DECIMAL_PRECISION
from txnstatus.schema import Schema
from txnstatus.values import value

Rank = int | bytes
"""What the values of one column are ordered by."""
Place = tuple[int] | tuple[int, Rank]
"""The place of a value in its column: before all others, after them, or by its rank."""
FIRST: Place = (0,)
RANKED = 1
"""The first part of the place of a value that has a rank."""
LAST: Place = (2,)
_TEXTS = ("string", "binary")


@value
class KeyRange:
    """The keys whose first column is from the lowest to the highest value, both included."""

    lowest: bytes | None = None
    """The text of a value; None: there is no bound."""
    highest: bytes | None = None
    partitions: tuple[str, ...] = ()
    """Partitions that they are in, where a key tells its partition; none: any."""

    def __str__(self) -> str:
        ends = ["…" if end is None else end.decode(errors="backslashreplace") for end in (self.lowest, self.highest)]
        return " to ".join(ends)


class KeyOrder:
    """The order of the keys of one table."""

    def __init__(self, schema: Schema) -> None:
        """Only of a table that has a primary key."""
        first = schema.primary_key[0]
        self._kind = next((column.type for column in schema.columns if column.name == first), "")
        self._rank = rank_by(self._kind)
        self._is_whole = len(schema.primary_key) == 1

    def rank(self, text: bytes) -> Rank | None:
        """The place of a value of the first column; None: its text does not tell it."""
        return self._rank(text)

    def ends(self, of: KeyRange) -> tuple[Place, Place]:
        """Between which places the keys of the range are, both included."""
        lowest, highest = (None if end is None else self._rank(end) for end in (of.lowest, of.highest))
        return FIRST if lowest is None else (RANKED, lowest), LAST if highest is None else (RANKED, highest)

    def places_of(self, keys: Iterable[bytes]) -> list[tuple[Place, Place]]:
        """Between which places each of the keys is."""
        return [(FIRST, LAST) if rank is None else ((RANKED, rank),) * 2 for rank in self.ranks(keys)]

    def ranks(self, keys: Iterable[bytes]) -> Iterable[Rank | None]:
        """The rank of the first column of each of the keys."""
        return map(self._rank, keys if self._is_whole else map(self._first, keys))

    def range_of(self, keys: Iterable[bytes]) -> KeyRange:
        """The range from the lowest of the keys to the highest."""
        ends = [(self._rank(text), text) for text in map(self._first, keys)]
        if not ends or any(rank is None for rank, _ in ends):
            return KeyRange()
        return KeyRange(min(ends)[1], max(ends)[1])

    def cover(self, ranges: Sequence[KeyRange]) -> KeyRange:
        """The smallest range in which all of these are, of which there are some."""
        lowest = min((self.ends(each)[0], each.lowest) for each in ranges)
        highest = max((self.ends(each)[1], each.highest) for each in ranges)
        partitions = dict.fromkeys(name for each in ranges for name in each.partitions)
        return KeyRange(lowest[1], highest[1], tuple(partitions))

    def _first(self, key: bytes) -> bytes:
        """The text of its first column."""
        if self._is_whole:
            return key
        return _first_text(key) if self._kind in _TEXTS else key.partition(b",")[0]


def rank_by(kind: str) -> Callable[[bytes], Rank | None]:
    """How values of a type are ordered, given their texts."""
    head, _, scale = kind.removesuffix(")").partition("(")
    if head == "decimal":
        return lambda text: _decimal(text, int(scale.partition(",")[2]))
    return _RANKS.get(head, _unknown)


def _first_text(key: bytes) -> bytes:
    """The first of several values that are joined by commas, of which those in it are escaped."""
    if b"\\" not in key:
        return key.partition(b",")[0]
    taken, rest = bytearray(), iter(key)
    for byte in rest:
        if byte == ord(","):
            break
        taken.append(next(rest, byte) if byte == ord("\\") else byte)
    return bytes(taken)


def _int(text: bytes) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _decimal(text: bytes, scale: int) -> int | None:
    """The digits before the point and so many after it, whole: no context of arithmetic rounds it."""
    try:
        sign, digits, exponent = Decimal(text.decode()).as_tuple()
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not isinstance(exponent, int) or not 0 <= exponent + scale <= MAX_DECIMAL_PRECISION:
        return None
    shift: int = 10 ** (exponent + scale)
    whole = int("".join(map(str, digits))) * shift
    return -whole if sign else whole


def _date(text: bytes) -> bytes | None:
    """Dates of years with four digits are ordered as their texts are."""
    return text if len(text) == len(b"2000-01-01") and text[:4].isdigit() else None


def _unknown(_text: bytes) -> None:
    return None


_RANKS: Mapping[str, Callable[[bytes], Rank | None]] = {
    "boolean": lambda text: int(text == b"true"),
    "tinyint": _int,
    "smallint": _int,
    "int": _int,
    "bigint": _int,
    "string": lambda text: text,
    "binary": lambda text: text,
    "date": _date,
    "timestamp": _int,
    "timestamp_ntz": _int,
}
