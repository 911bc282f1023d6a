"""Values that names of directories tell, as Hive and Spark lay tables out: `month=1/carrier=UA/part-00000.parquet`.

In a name `%` and two digits are one character. What is said is text: the type of a column is what all its values are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from urllib.parse import unquote

from txnstatus.errors import InvalidArgument

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
INT_BITS, BIGINT_BITS = 32, 64


def is_hidden(path: str) -> bool:
    """Whether it is nothing of the table's, as Spark has it: logs, marks, what is being written."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))


def values_of(path: str) -> dict[str, str | None]:
    """Column → its value in the file, given the file's path below the table's directory; None: null.

    Raises InvalidArgument for a column that comes twice.
    """
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, equals, text = part.partition("=")
        if not equals:
            continue
        if (column := unquote(name)) in found:
            raise InvalidArgument(f"column {column!r} comes twice in the path {path!r}")
        found[column] = None if text == HIVE_NULL else unquote(text)
    return found


def require_alike(files: Sequence[tuple[str, Mapping[str, str | None]]]) -> None:
    """Raises InvalidArgument for files, given path and values, whose directories tell different columns."""
    first_path, first = files[0]
    for path, values in files:
        if list(values) != list(first):
            raise InvalidArgument(
                f"the directories tell of columns {list(first)} for {first_path!r}, and of {list(values)} for {path!r}",
                hint="import each of the directories that are laid out alike",
            )


def type_of(texts: Iterable[str | None]) -> str:
    """The type of a column of which these are the values: whole numbers, days, or text."""
    known = [text for text in texts if text is not None]
    if known and all(map(_INTEGER.fullmatch, known)):
        bits = max((int(text) if int(text) >= 0 else ~int(text)).bit_length() + 1 for text in known)
        if bits <= BIGINT_BITS:
            return "int" if bits <= INT_BITS else "bigint"
    return "date" if known and all(map(_is_day, known)) else "string"


def _is_day(text: str) -> bool:
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
