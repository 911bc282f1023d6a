"""Partitions as programs name them: what names no value of a column's type is refused, as nothing is ever in there."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnclient.formats.arrow import partitions_of
from txnclient.formats.partitions import name_of
from txnclient.formats.schemas import to_columns
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.schema import Schema

INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
DECIMALS = ("decimal(5,2)", "decimal(3,0)", "decimal(2,2)")
TYPES = (*INTEGERS, *DECIMALS, "boolean", "string", "date")


def table_of(kind: str) -> Schema:
    return Schema(to_columns(f"id bigint, p {kind}"), partition_by=("p",))


def values_of(kind: str) -> st.SearchStrategy[Any]:
    if bits := INTEGERS.get(kind):
        return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if kind in DECIMALS:
        digits, scale = map(int, kind[8:-1].split(","))
        return st.integers(1 - 10**digits, 10**digits - 1).map(lambda units: Decimal(units).scaleb(-scale))
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=230)
    return {"boolean": st.booleans(), "string": texts, "date": st.dates()}[kind]


@given(st.sampled_from(TYPES).flatmap(lambda kind: st.tuples(st.just(kind), st.none() | values_of(kind))))
def test_the_partition_of_every_row_is_one_by_its_value_and_by_its_name(drawn: tuple[str, Any]) -> None:
    kind, value = drawn
    schema = table_of(kind)
    rows = pa.table({"id": [1], "p": [value]}, schema=to_arrow(schema))
    (name,) = partitions_of(rows, ["p"])
    assert name_of({"P": value}, schema, "db.t") == name_of(name, schema, "db.t") == name


@pytest.mark.parametrize(
    ("kind", "partition", "shown"),
    [
        ("int", "p=abc", "'abc'"),
        ("int", {"p": "abc"}, "'abc'"),
        ("int", {"p": 1.0}, "'1.0'"),
        ("int", "p=01", "'01'"),
        ("int", "p=__empty__", "'__empty__'"),
        ("tinyint", {"p": 128}, "'128'"),
        ("boolean", "p=True", "'True'"),
        ("date", "p=2026-02-30", "'2026-02-30'"),
        ("date", "p=20260228", "'20260228'"),
        ("decimal(5,2)", {"p": Decimal("1.5")}, "'1.5'"),
        ("decimal(5,2)", "p=1000.00", "'1000.00'"),
        ("string", "p=New York", "'New York'"),
    ],
)
def test_what_names_no_value_of_the_type_is_refused(kind: str, partition: Any, shown: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        name_of(partition, table_of(kind), "db.t")
    assert f"is no partition of db.t: no {kind}, as column 'p' is, is named {shown}" in str(refused.value)
    assert "{'p': ...}" in str(refused.value)


def test_of_several_columns_each_value_is_looked_at() -> None:
    schema = Schema(to_columns("id bigint, month int, day date"), partition_by=("month", "day"))
    assert name_of({"day": date(2026, 1, 31), "month": 1}, schema, "db.t") == "month=1/day=2026-01-31"
    assert name_of("month=1", schema, "db.t") == "month=1"
    with pytest.raises(InvalidArgument, match="no date, as column 'day' is, is named '31'"):
        name_of("month=1/day=31", schema, "db.t")
