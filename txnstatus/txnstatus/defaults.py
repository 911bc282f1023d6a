"""Defaults: the value of a column for rows that are written without it, or that came before it.

Kept as text, in one form for each value.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from txnstatus.ddl import Type, parse
from txnstatus.errors import InvalidArgument

MAX_CHARACTERS = 1_000
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_LARGEST_FLOAT = 3.4028234663852886e38
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d:\d\d|Z)?")


def checked(text: str, kind: str, column: str) -> str:
    """The value's text, as it is kept. Raises InvalidArgument, naming the column, for a text that says no value of it.

    Times have a zone where the type is `timestamp`, and none where it is `timestamp_ntz`.
    """
    found = parse(kind)
    reads = _READS.get(found.name)
    if reads is None:
        raise InvalidArgument(
            f"column {column!r} of type {kind} cannot have a default",
            hint=f"columns of these types can: {', '.join(_READS)}",
        )
    if len(text) > MAX_CHARACTERS:
        said = f"a default of {len(text)} characters, {MAX_CHARACTERS} are possible"
        raise InvalidArgument(f"column {column!r}: {said}")
    try:
        return reads(text, found)
    except (ValueError, InvalidOperation):
        raise InvalidArgument(f"column {column!r} is {kind}: {text[:200]!r} is no value of it") from None


def widened(text: str, kind: str, wide: str, column: str) -> str:
    """The text of the value once its column is of another type, which has all values of the one that it was of."""
    if (kind, wide) == ("float", "double"):  # the nearest float, as who read it before has seen it
        (near,) = struct.unpack("f", struct.pack("f", float(text)))
        return repr(near)
    return checked(text, wide, column)


def _whole(text: str, kind: Type) -> str:
    found, limit = int(text), 1 << _BITS[kind.name]
    if not -limit <= found < limit:
        raise ValueError
    return str(found)


def _decimal(text: str, kind: Type) -> str:
    found = Decimal(text)
    if not found.is_finite():
        raise ValueError
    exact = found.quantize(Decimal(1).scaleb(-kind.scale))
    if exact != found or len(exact.as_tuple().digits) > kind.precision:
        raise ValueError
    return f"{exact:f}"


def _fraction(text: str, kind: Type) -> str:
    found = float(text)
    if not math.isfinite(found) or (kind.name == "float" and abs(found) > _LARGEST_FLOAT):
        raise ValueError
    return repr(found)


def _truth(text: str, _: Type) -> str:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower()


def _time(text: str, kind: Type) -> str:
    found = datetime.fromisoformat(text) if _TIME.fullmatch(text) else None
    if found is None or (found.tzinfo is None) != (kind.name == "timestamp_ntz"):
        raise ValueError
    return (found.astimezone(UTC) if found.tzinfo else found).isoformat(" ")


_READS: dict[str, Callable[[str, Type], str]] = {
    **dict.fromkeys(_BITS, _whole),
    "decimal": _decimal,
    **dict.fromkeys(("float", "double"), _fraction),
    "boolean": _truth,
    "string": lambda text, _: text,
    "date": lambda text, _: date.fromisoformat(text).isoformat(),
    "timestamp": _time,
    "timestamp_ntz": _time,
}
