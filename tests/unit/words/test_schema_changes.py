"""What may become of a table's columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnstatus.errors import InvalidArgument
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import MAX_COLUMNS, Column, Schema
from txnstatus.schema_changes import FIRST, ColumnChange, changed

SCHEMA = Schema((Column("id", "bigint"), Column("v", "int", nullable=False), Column("p", "string")), ("p",), ("id",))


def names(*changes: ColumnChange) -> list[str]:
    return [column.name for column in changed(SCHEMA, changes, "t").columns]


def test_columns_come_last_or_where_they_are_said_to() -> None:
    assert names(ColumnChange("a", "int"), ColumnChange("b", "int", after=FIRST)) == ["b", "id", "v", "p", "a"]
    assert names(ColumnChange("a", "int", after="ID"), ColumnChange("b", "int", after="a")) == [
        "id",
        "a",
        "b",
        "v",
        "p",
    ]
    assert names(ColumnChange("P", after="id")) == ["id", "p", "v"], "whatever the case"
    assert names(ColumnChange("id", after="p"), ColumnChange("p", after=FIRST)) == ["p", "v", "id"]


def test_only_what_is_said_is_other() -> None:
    found = changed(SCHEMA, [ColumnChange("n", "INTEGER", "new"), ColumnChange("V", takes_nulls=True)], "t")
    assert found.columns[-1] == Column("n", "int", True, "new", added=True)
    assert found.columns[1] == Column("v", "int")
    assert (found.partition_by, found.primary_key) == (("p",), ("id",))
    again = changed(found, [ColumnChange("n", comment="newer"), ColumnChange("v", comment="")], "t")
    assert again.columns[-1] == Column("n", "int", True, "newer", added=True)
    assert changed(again, [], "t") == again


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (ColumnChange("ID", "int"), "'ID' cannot be added"),
        (ColumnChange("n", "varchar(3)"), "column 'n'"),
        (ColumnChange("", "int"), "column"),
        (ColumnChange("x"), "'x' is not a column of table t: it has id, v, p"),
        (ColumnChange("v", after="x"), "'x' is not a column"),
        (ColumnChange("v", after="V"), "cannot come after itself"),
        (ColumnChange("id", takes_nulls=True), "part of the primary key"),
        (ColumnChange("v", comment="x" * 1_001), "a comment of 1001 characters"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: ColumnChange, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        changed(SCHEMA, [change], "t")


def test_a_table_has_so_many_columns_whenever_they_came() -> None:
    with pytest.raises(InvalidArgument, match=f"{MAX_COLUMNS} are possible"):
        changed(SCHEMA, [ColumnChange(f"c{number}", "int") for number in range(MAX_COLUMNS)], "t")


@given(st.builds(ColumnChange, st.text(), st.text(), st.none() | st.text(), st.none() | st.text(), st.booleans()))
def test_a_change_is_the_same_on_the_wire(change: ColumnChange) -> None:
    wire = pb.ColumnChange.FromString(change.to_wire().SerializeToString())
    assert ColumnChange.from_wire(wire) == change
