"""Files that a filter leaves out have no row for which it holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnclient.formats.file_statistics import text_of_bound
from txnclient.read.filtered import Filter, dividing, may_hold
from txnstatus.lake.manifest import ColumnRange, DataFile
from txnstatus.partitions import name_of
from txnstatus.schema import Column, Schema

Row = dict[str, Any]
SCHEMA = Schema(
    (
        Column("n", "bigint"),
        Column("s", "string"),
        Column("x", "double"),
        Column("p", "string"),
        Column("day", "date"),
    ),
    partition_by=("p", "day"),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3),
    "s": st.sampled_from(["", "a", "ab", "abc", "b", "ключ", "\U00010000"]),
    "x": st.sampled_from([-1.5, -0.0, 0.0, 2.25, float("inf"), float("nan")]),
    "p": st.sampled_from(["", "a", "ab", "x/y=z", "__null__", "long" * 80]),
    "day": st.sampled_from([date(2024, 1, 1), date(2024, 2, 29), date(1999, 12, 31)]),
}
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


def place(value: Any) -> Any:
    """SQL's order: texts by their bytes, and NaN above all numbers."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def text(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    return str(value)


def leaves() -> st.SearchStrategy[Filter]:
    def of(column: str) -> st.SearchStrategy[Filter]:
        value = VALUES[column].map(text)
        found = [
            st.fixed_dictionaries({"is": st.sampled_from(sorted(COMPARED)), "column": st.just(column), "value": value}),
            st.fixed_dictionaries(
                {"is": st.just("in"), "column": st.just(column), "values": st.lists(value, max_size=3)}
            ),
            st.fixed_dictionaries({"is": st.sampled_from(["null", "not null"]), "column": st.just(column)}),
        ]
        if column in ("s", "p"):
            found.append(
                st.fixed_dictionaries({"is": st.just("starts with"), "column": st.just(column), "value": value})
            )
        return st.one_of(found)

    return st.one_of([of(column) for column in VALUES]) | st.sampled_from([{"is": "never"}, {"is": "unknown"}])


def several(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    return st.fixed_dictionaries({"is": st.sampled_from(["and", "or"]), "of": st.lists(inner, min_size=1, max_size=3)})


FILTERS = st.recursive(leaves(), several, max_leaves=6)


def holds(told: Filter, row: Row) -> bool:
    """Whether it does; what is `unknown` may, so that nobody can leave the row out."""
    match told["is"]:
        case "never":
            return False
        case "unknown":
            return True
        case "and":
            return all(holds(each, row) for each in told["of"])
        case "or":
            return any(holds(each, row) for each in told["of"])
        case "null":
            return row[told["column"]] is None
    value = row[told["column"]]
    if value is None:
        return False
    match told["is"]:
        case "not null":
            return True
        case "in":
            return any(place(value) == place(of_text(told["column"], each)) for each in told["values"])
        case "starts with":
            return bool(value.startswith(told["value"]))
    return COMPARED[told["is"]](place(value), place(of_text(told["column"], told["value"])))


def of_text(column: str, value: str) -> Any:
    kinds: dict[str, Callable[[str], Any]] = {"n": int, "x": float, "day": date.fromisoformat}
    return kinds.get(column, str)(value)


def file_of(rows: Sequence[Row]) -> DataFile:
    """As a writer describes it: no range where a bound is long, or where there are nulls only; NaN is in none."""
    columns = {}
    for name in VALUES:
        values = [row[name] for row in rows if row[name] is not None]
        bounded = sorted((value for value in values if value == value), key=place)
        if bounded:
            low, high = text_of_bound(bounded[0]), text_of_bound(bounded[-1])
            if low is not None and high is not None:
                columns[name] = ColumnRange(low, high, len(rows) - len(values))
    partition = name_of({name: rows[0][name] for name in SCHEMA.partition_by})
    return DataFile("file:///f", rows=len(rows), bytes=1, partition=partition, columns=columns)


@given(st.lists(FILTERS, max_size=3), st.lists(ROW, min_size=1, max_size=4))
def test_no_file_with_a_row_that_is_wanted_is_left_out(filters: list[Filter], rows: list[Row]) -> None:
    same = [{**row, **{name: rows[0][name] for name in SCHEMA.partition_by}} for row in rows]
    (kept,) = may_hold(filters, [file_of(same)], SCHEMA)
    assert kept or not any(all(holds(each, row) for each in filters) for row in same)


def is_(how: str, column: str, value: str) -> Filter:
    return {"is": how, "column": column, "value": value}


TWO = [{"n": 1, "s": "ab", "x": 0.5, "p": "a", "day": None}, {"n": 3, "s": "ac", "x": 1.5, "p": "a", "day": None}]


@pytest.mark.parametrize(
    "told",
    [
        is_("=", "n", "0"),
        is_(">", "n", "3"),
        is_("<", "s", "ab"),
        is_("starts with", "s", "b"),
        is_("=", "x", "2.0"),
        is_("=", "p", "b"),
        is_("<>", "p", "a"),
        is_("=", "day", "2024-01-01"),
        {"is": "not null", "column": "day"},
        {"is": "null", "column": "p"},
        {"is": "in", "column": "n", "values": ["0", "4"]},
        {"is": "in", "column": "p", "values": []},
        {"is": "and", "of": [is_("=", "n", "1"), is_("=", "p", "b")]},
        {"is": "or", "of": [is_("=", "n", "0"), is_("=", "p", "b")]},
        {"is": "never"},
    ],
)
def test_files_are_left_out(told: Filter) -> None:
    assert may_hold([told], [file_of(TWO)], SCHEMA) == [False]


@pytest.mark.parametrize(
    "told",
    [
        is_("=", "n", "2"),
        is_("<>", "n", "1"),
        is_(">", "x", "9.0"),
        is_("=", "p", "a"),
        is_("=", "unknown column", "1"),
        is_("=", "n", "no number"),
        {"is": "null", "column": "day"},
        {"is": "or", "of": [is_("=", "n", "0"), {"is": "unknown"}]},
    ],
)
def test_files_stay(told: Filter) -> None:
    assert may_hold([told], [file_of(TWO)], SCHEMA) == [True]


def ranged(column: str, *bounds: tuple[str, str]) -> list[DataFile]:
    return [
        DataFile(f"file:///{n}", rows=9, bytes=1, columns={column: ColumnRange(low, high, 0)})
        for n, (low, high) in enumerate(bounds)
    ]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (ranged("n", *((str(10 * n), str(10 * n + 9)) for n in range(1000))), ["n"]),
        (ranged("n", ("1", "5"), ("6", "9")), ["n"]),
        (ranged("n", *((str(n % 7), str(900 + n % 5)) for n in range(1000))), []),
        (ranged("n", ("1", "5")), []),
        (ranged("s", ("a", "b"), ("c", "d")), []),
        ([], []),
    ],
    ids=["ordered", "two", "in no order", "one", "no ranges", "none"],
)
def test_columns_divide_files_whose_ranges_are_apart(files: list[DataFile], found: list[str]) -> None:
    assert dividing(["n"], files, SCHEMA) == found


def test_a_partition_divides_files() -> None:
    files = [file_of([{**dict.fromkeys(VALUES), "p": p, "n": 1}]) for p in ["a", "b", "c"] * 40]
    assert dividing(["n", "p", "day"], files, SCHEMA) == ["p"]
