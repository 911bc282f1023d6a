"""Which files can have rows for which filters hold, by their partitions and by the ranges of their columns.

A filter is what Spark makes of a condition: of values as text, as manifests have them. A file is left out only where no
row of it can be wanted: nothing is known of what is not understood here, nor of a column that has no range. A NaN is in
no range, and above all numbers.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from txnstatus.key_ranges import rank_by
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import SHORTENED, WHOLE_TABLE, text_of
from txnstatus.schema import Schema

Filter = Mapping[str, Any]
"""`is`: one of and, or (with filters `of`), =, <>, <, <=, >, >=, starts with (with the `column` and a `value`), in
(with `values`), null, not null (with the `column`), never; or anything else, of which nothing is known."""


class Known(NamedTuple):
    """What is known of a column in one file."""

    lowest: Any
    """The least value's rank, and `highest` the greatest one's; None: there are nulls and nothing else."""
    highest: Any
    nulls: bool


_Look = Callable[[DataFile], Known | None]
"""File → what is known of a column; None: nothing."""
_Judge = Callable[[Known], bool]
"""Whether rows of what is known may be wanted."""
_Test = Callable[[DataFile], bool]


def may_hold(filters: Sequence[Filter], files: Sequence[DataFile], schema: Schema) -> list[bool]:
    """Whether each of the files can have rows for which all filters hold."""
    test = _Tests(schema).all_of(filters)
    return [True] * len(files) if test is None else list(map(test, files))


_SAMPLE = 64
"""Files that are looked at to say whether others are apart."""


def dividing(columns: Sequence[str], files: Sequence[DataFile], schema: Schema) -> list[str]:
    """Columns, of those, of which a value lies in the ranges of no more than half of the files, as a sample of them
    has it: by others, values that are looked for would leave hardly a file out.
    """
    sample = files[:: -(-len(files) // _SAMPLE)] if files else []
    look_by = _Tests(schema).look
    return [column for column in columns if _divides([look_by(column)(file) for file in sample])]


def _divides(known: Sequence[Known | None]) -> bool:
    ranges = [(each.lowest, each.highest) for each in known if each is not None and each.lowest is not None]
    unknown = sum(each is None for each in known)
    hits = sum(lowest <= value <= highest for value, _ in ranges for lowest, highest in ranges)
    return 2 * (hits + unknown * len(ranges)) <= len(ranges) * len(known) and len(ranges) > 0


class _Tests:
    """Makes tests of filters; None is the test that every file passes."""

    def __init__(self, schema: Schema) -> None:
        self._types = {column.name: column.type for column in schema.columns}
        self._in_files = schema.names_in_files
        self._split_by = set(schema.partition_by)
        self._looks: dict[str, _Look] = {}

    def all_of(self, filters: Sequence[Filter]) -> _Test | None:
        # What a partition tells is looked at first: many files share one.
        ordered = sorted(filters, key=lambda each: each.get("column") not in self._split_by)
        tests = [test for each in ordered if (test := self._of(each)) is not None]
        if len(tests) < 2:
            return tests[0] if tests else None
        return lambda file: all(test(file) for test in tests)

    def _any_of(self, filters: Sequence[Filter]) -> _Test | None:
        tests = [self._of(each) for each in filters]
        known = [test for test in tests if test is not None]
        return (lambda file: any(test(file) for test in known)) if len(known) == len(tests) else None

    def _of(self, told: Filter) -> _Test | None:
        match told["is"]:
            case "and":
                return self.all_of(told["of"])
            case "or":
                return self._any_of(told["of"])
            case "never":
                return lambda _: False
        column = told.get("column")
        if column not in self._types:
            return None
        judge = _judge(told, self._types[column])
        if judge is None:
            return None
        look = self.look(column)
        return lambda file: (known := look(file)) is None or judge(known)

    def look(self, column: str) -> _Look:
        if column not in self._looks:
            by_range = _by_range(self._in_files[column], _rank(self._types[column]))
            by_partition = column in self._split_by
            self._looks[column] = (
                _by_partition(column, _rank(self._types[column]), by_range) if by_partition else by_range
            )
        return self._looks[column]


# ---- what is known


def _by_range(column: str, rank: Callable[[str], Any]) -> _Look:
    def look(file: DataFile) -> Known | None:
        found = file.columns.get(column)
        if found is None:
            return None
        lowest, highest = rank(found.lowest), rank(found.highest)
        return None if lowest is None or highest is None else Known(lowest, highest, found.nulls > 0)

    return look


def _by_partition(column: str, rank: Callable[[str], Any], otherwise: _Look) -> _Look:
    """What partitions tell of a column by which the table is split; a long text's name does not tell all of it."""
    found: dict[str, Known | None] = {}

    def look(file: DataFile) -> Known | None:
        if file.partition not in found:
            found[file.partition] = _value_in(file.partition, column, rank)
        return found[file.partition] or otherwise(file)

    return look


def _value_in(partition: str, column: str, rank: Callable[[str], Any]) -> Known | None:
    for part in partition.split("/") if partition != WHOLE_TABLE else ():
        name, _, value = part.partition("=")
        if name == column and SHORTENED not in value:
            text = text_of(value)
            if text is None:
                return Known(None, None, nulls=True)
            found = rank(text)
            return None if found is None else Known(found, found, nulls=False)
    return None


_FRACTIONS = ("float", "double")
_NOT_NAN = ("=", "<", "<=", "in", "null", "not null")
"""What holds for no NaN, or is known of columns that have some."""


def _rank(kind: str) -> Callable[[str], Any]:
    """The rank of a value, by its text; it gives None for one that has none."""
    if kind in _FRACTIONS:
        return _fraction
    by_bytes = rank_by(kind)

    def rank(text: str) -> Any:
        try:
            return by_bytes(text.encode())
        except UnicodeEncodeError:  # half a character, which is no text
            return None

    return rank


def _fraction(text: str) -> float | None:
    found = float(text)
    return None if math.isnan(found) else found


# ---- what follows for a filter


def _judge(told: Filter, kind: str) -> _Judge | None:
    """None: nothing follows."""
    how = told["is"]
    if kind in _FRACTIONS and how not in _NOT_NAN:
        return None
    match how:
        case "null":
            return lambda known: known.nulls
        case "not null":
            return lambda known: known.lowest is not None
        case "in":
            return _among([_rank(kind)(value) for value in told["values"]])
        case "starts with":
            return _beginning(told["value"].encode()) if kind == "string" else None
    value = _rank(kind)(told["value"]) if how in _COMPARISONS else None
    return None if value is None else _comparison(_COMPARISONS[how], value)


_COMPARISONS: Mapping[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda lowest, highest, value: lowest <= value <= highest,
    "<>": lambda lowest, highest, value: not lowest == highest == value,
    "<": lambda lowest, _, value: lowest < value,
    "<=": lambda lowest, _, value: lowest <= value,
    ">": lambda _, highest, value: highest > value,
    ">=": lambda _, highest, value: highest >= value,
}
"""Whether a value between the lowest and the highest one can compare so."""


def _comparison(holds: Callable[[Any, Any, Any], bool], value: Any) -> _Judge:
    return lambda known: known.lowest is not None and holds(known.lowest, known.highest, value)


def _among(values: Sequence[Any]) -> _Judge | None:
    """Whether one of the values is in the range. None: the rank of one is not known."""
    if any(value is None for value in values):
        return None
    ordered = sorted(values)

    def judge(known: Known) -> bool:
        if known.lowest is None:
            return False
        return bisect_left(ordered, known.lowest) < bisect_right(ordered, known.highest)

    return judge


def _beginning(prefix: bytes) -> _Judge:
    def judge(known: Known) -> bool:
        if known.lowest is None:
            return False
        return bool(known.highest >= prefix and (known.lowest <= prefix or known.lowest.startswith(prefix)))

    return judge
