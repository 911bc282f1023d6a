"""What of a program's data fits a table, and what the refusals say."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from txnclient.formats import fitting, schemas
from txnstatus.ddl import parse
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.schema import Column, Schema

WIDENED = {
    ("tinyint", "smallint"),
    ("tinyint", "int"),
    ("tinyint", "bigint"),
    ("tinyint", "float"),
    ("tinyint", "double"),
    ("tinyint", "decimal(10,0)"),
    ("tinyint", "decimal(9,2)"),
    ("smallint", "int"),
    ("smallint", "bigint"),
    ("smallint", "float"),
    ("smallint", "double"),
    ("smallint", "decimal(10,0)"),
    ("smallint", "decimal(9,2)"),
    ("tinyint", "decimal(12,4)"),
    ("smallint", "decimal(12,4)"),
    ("int", "bigint"),
    ("int", "double"),
    ("int", "decimal(10,0)"),
    ("float", "double"),
    ("decimal(9,2)", "decimal(12,4)"),
    ("array<int>", "array<bigint>"),
    ("struct<a:int>", "struct<a:bigint>"),
}
KINDS = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"]
KINDS += ["timestamp", "timestamp_ntz", "decimal(10,0)", "decimal(9,2)", "decimal(12,4)"]
KINDS += ["array<int>", "array<bigint>", "struct<a:int>", "struct<a:bigint>", "struct<b:int>", "map<int,int>"]


def fitted(rows: pa.Table, ddl: str) -> list[Any]:
    schema = Schema(schemas.to_columns(ddl))
    table = fitting.fitted(rows, schema, to_arrow(schema), "t.t")
    table.validate(full=True)
    return table.to_pylist()


def one(values: list[Any], kind: pa.DataType, wanted: str) -> list[Any]:
    return [row["c"] for row in fitted(pa.table({"c": pa.array(values, kind)}), f"c {wanted}")]


@pytest.mark.parametrize(("found", "wanted"), list(product(KINDS, KINDS)))
def test_only_types_with_room_for_every_value_are_widened(found: str, wanted: str) -> None:
    assert fitting.widens(parse(found), parse(wanted)) == (found == wanted or (found, wanted) in WIDENED)


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        ([-(2**31), 2**31 - 1, None], pa.int32(), "bigint"),
        ([-(2**31), 2**31 - 1, None], pa.int32(), "double"),
        ([255, 0], pa.uint8(), "smallint"),
        ([2**32 - 1], pa.uint32(), "bigint"),
        ([1.5, None], pa.float32(), "double"),
        ([1.5], pa.float16(), "float"),
        (["a", None], pa.large_string(), "string"),
        (["a", None, "a"], pa.dictionary(pa.int32(), pa.large_string()), "string"),
        (["a"], pa.string_view(), "string"),
        ([b"ab"], pa.binary(2), "binary"),
        ([None, None], pa.null(), "array<int>"),
        ([[], []], pa.list_(pa.null()), "array<int>"),
        ([[1, 2]], pa.list_(pa.int32(), 2), "array<bigint>"),
        ([{"a": 1}], pa.struct([("a", pa.int8())]), "struct<a:bigint>"),
        ([[(1, 2)]], pa.map_(pa.int32(), pa.int32()), "map<int,bigint>"),
        ([date(2026, 1, 31)], pa.date64(), "date"),
        ([datetime(2026, 1, 31, 12, 0, 0, 5)], pa.timestamp("ns"), "timestamp_ntz"),
        ([datetime(2026, 1, 31, 12, tzinfo=UTC)], pa.timestamp("s", "UTC"), "timestamp"),
        ([Decimal("9.25")], pa.decimal128(9, 2), "decimal(12,4)"),
        ([2**31 - 1], pa.int32(), "decimal(10,0)"),
    ],
    ids=str,
)
def test_values_arrive_as_they_were(values: list[Any], kind: pa.DataType, wanted: str) -> None:
    assert one(values, kind, wanted) == values


def test_a_time_that_needs_nanoseconds_is_refused_by_column_and_value() -> None:
    with pytest.raises(InvalidArgument, match=r"column 'c' of table t\.t .*1001"):
        one([1000, 1001], pa.timestamp("ns"), "timestamp_ntz")


def test_a_null_where_none_may_be_is_refused_by_column_and_row() -> None:
    with pytest.raises(InvalidArgument, match=r"column 'c' of table t\.t is NOT NULL: row 1"):
        one([1, None], pa.int64(), "bigint NOT NULL")


@pytest.mark.parametrize("wanted", ["string", "array<string>"])
def test_text_that_is_none_is_refused(wanted: str) -> None:
    """It was committed, and nobody could look at it; as a partition it was Python's error."""
    text = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    column = text if wanted == "string" else pa.ListArray.from_arrays([0, 1, 2], text)
    schema = Schema((Column("v", wanted),))
    with pytest.raises(InvalidArgument, match=r"'v' of table air\.t is .*: .*Invalid UTF8"):
        fitting.fitted(pa.table({"v": column}), schema, to_arrow(schema), "air.t")


def test_so_is_a_null_that_a_dictionary_has() -> None:
    """Such a column has no nulls by its own count: the error was pyarrow's, of a file that was not written."""
    rows = pa.table({"v": pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["a", None]))})
    schema = Schema((Column("v", "string", nullable=False),))
    with pytest.raises(InvalidArgument, match=r"'v' of table air\.t is NOT NULL: row 1 of the data has a null"):
        fitting.fitted(rows, schema, to_arrow(schema), "air.t")


@pytest.mark.parametrize(("days", "shown"), [(2_932_897, "10000-01-01"), (-719_163, "0000-12-31")])
def test_a_day_that_names_no_partition_is_refused(days: int, shown: str) -> None:
    """It was a bare OverflowError; where a column is none to split by, it is a day as any other."""
    rows = pa.table({"d": pa.array([0, days], pa.int32()).cast(pa.date32()), "v": [1, 2]})
    columns = schemas.to_columns("d date, v bigint")
    by_day, whole = Schema(columns, ("d",)), Schema(columns)
    with pytest.raises(InvalidArgument, match=f"'d' of table t.t .* from 0001-01-01 to 9999-12-31, .* has {shown}$"):
        fitting.fitted(rows, by_day, to_arrow(by_day), "t.t")
    assert fitting.fitted(rows, whole, to_arrow(whole), "t.t").num_rows == 2


@pytest.mark.parametrize("inner", [pa.list_view, pa.large_list_view])
@pytest.mark.parametrize("within", [lambda kind: kind, pa.list_, lambda kind: pa.struct([("l", kind)])])
def test_views_of_lists_are_refused(inner: Any, within: Any) -> None:
    """They were a bare ArrowInvalid, or rows that did not read back."""
    kind = within(inner(pa.int32()))
    rows = pa.table({"c": pa.array([None], kind)})
    with pytest.raises(InvalidArgument, match=r"column 'c': the Arrow type (large_)?list_view<.*pyarrow.list_"):
        fitted(rows, "c array<int>")


def test_the_fields_of_a_struct_are_matched_as_they_are_written() -> None:
    rows = pa.table({"c": pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))})
    assert fitted(rows, "c struct<a:int>") == [{"c": {"a": 1}}]
    with pytest.raises(InvalidArgument, match=r"is struct<A:int>; in the data it is struct<a:int>") as refused:
        fitted(rows, "c struct<A:int>")
    assert "matched as they are written, in case and order" in str(refused.value)


def test_columns_are_found_by_their_names_in_any_case_and_order() -> None:
    rows = pa.table({"GRÖSSE": [2], "Unit Price": [1.5], "id": [1]})
    assert fitted(rows, "ID bigint, `unit price` double, größe bigint") == [{"ID": 1, "unit price": 1.5, "größe": 2}]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["id", "ID", "note"], "columns 'id' and 'ID' of the data mean one column of table t.t"),
        (["id"], r"'note' \(bigint\) of table t.t is missing"),
        (["id", "note", "Extra"], "'Extra' of the data is not a column of table t.t"),
    ],
)
def test_columns_that_are_not_those_of_the_table(names: list[str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        fitted(pa.Table.from_arrays([pa.array([1])] * len(names), names), "id bigint, note bigint")


def test_a_type_whose_values_may_not_fit_is_refused_though_these_would() -> None:
    with pytest.raises(InvalidArgument, match=r"'c' of table t\.t is int; in the data it is bigint"):
        one([1], pa.int64(), "int")
