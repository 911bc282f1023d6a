"""What may become of a table's columns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import has_room, to_arrow
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import MAX_COLUMNS, Column, Schema, is_narrower, widest
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
        (ColumnChange("v", rename="ID"), "'v' of table t cannot be called 'ID': it has a column 'id'"),
        (ColumnChange("v", rename="_txn_v"), "names that begin with _txn_"),
        (ColumnChange("x", rename="y"), "'x' is not a column"),
        (ColumnChange("p", rename="q"), "partitioned by: it keeps its name"),
        (ColumnChange("id", rename="q"), "primary key: it keeps its name"),
        (ColumnChange("p", drop=True), "partitioned by: it cannot be dropped"),
        (ColumnChange("id", drop=True), "primary key: it cannot be dropped"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: ColumnChange, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        changed(SCHEMA, [change], "t")


def test_a_table_has_so_many_columns_whenever_they_came() -> None:
    with pytest.raises(InvalidArgument, match=f"{MAX_COLUMNS} are possible"):
        changed(SCHEMA, [ColumnChange(f"c{number}", "int") for number in range(MAX_COLUMNS)], "t")


def test_a_column_keeps_its_name_in_files_whatever_it_is_called() -> None:
    renamed = changed(SCHEMA, [ColumnChange("v", rename="w")], "t")
    assert [(column.name, column.in_files) for column in renamed.columns] == [("id", "id"), ("w", "v"), ("p", "p")]
    assert (renamed.version, renamed.is_renamed) == (1, True)
    assert [column.name for column in renamed.in_files.columns] == ["id", "v", "p"]
    assert not renamed.in_files.is_renamed
    back = changed(renamed, [ColumnChange("W", rename="v")], "t")
    assert back == SCHEMA
    assert back.version == 2
    assert back.in_files is back, "nothing is made anew where all is called as in files"
    cased = changed(SCHEMA, [ColumnChange("v", rename="V")], "t")
    assert [(column.name, column.in_files) for column in cased.columns[1:2]] == [("V", "v")]


@pytest.mark.parametrize(
    ("kind", "wider"),
    [("tinyint", "int"), ("int", "bigint"), ("float", "double"), ("decimal(5,2)", "decimal(7,2)")],
)
def test_a_column_gets_room_for_more_values_and_is_marked(kind: str, wider: str) -> None:
    schema = Schema((Column("id", "bigint"), Column("v", kind)), (), ("id",))
    found = changed(schema, [ColumnChange("V", widen=wider.upper())], "t")
    assert (found.columns[1].type, found.columns[1].widened) == (wider, True)
    assert Schema.from_wire(found.to_wire()) == found
    assert changed(schema, [ColumnChange("v", widen=kind)], "t") == schema
    found.require_same_columns(schema.columns, "t")  # a file of before
    for narrower in (kind, "string", "decimal(7,3)", "array<int>"):
        with pytest.raises(InvalidArgument, match=r"and cannot become|cannot be stored|type"):
            changed(found, [ColumnChange("v", widen=narrower)], "t")
    with pytest.raises(InvalidArgument, match="primary key: it keeps its type"):
        changed(replace(schema, primary_key=("v",)), [ColumnChange("v", widen=wider)], "t")
    assert is_narrower(kind, widest(kind))


@pytest.mark.parametrize(
    ("kind", "wide", "fits"),
    [
        ("struct<a:int>", "struct<a:int,b:string>", True),
        ("array<struct<a:int>>", "array<struct<a:int,b:struct<c:int>>>", True),
        ("map<string,struct<a:int>>", "map<string,struct<a:int,b:int>>", True),
        ("struct<a:struct<b:int>>", "struct<a:struct<b:int,c:int>,d:int>", True),
        ("struct<a:int>", "struct<a:int>", False),
        ("struct<a:int,b:string>", "struct<a:int>", False),
        ("struct<a:int>", "struct<b:int,a:int>", False),
        ("struct<a:int>", "struct<a:bigint,b:int>", False),
        ("struct<a:int>", "struct<A:int,b:int>", False),
        ("map<struct<a:int>,int>", "map<struct<a:int,b:int>,int>", False),
        ("array<int>", "array<bigint>", False),
        ("array<struct<a:int>>", "struct<a:int>", False),
    ],
)
def test_structs_get_fields_behind_those_that_there_are(kind: str, wide: str, fits: bool) -> None:
    assert is_narrower(kind, wide) is fits
    one, other = (to_arrow(Schema((Column("c", each),))).field(0).type for each in (kind, wide))
    assert has_room(one, other) is (fits or kind == wide)


def test_no_two_columns_are_ever_called_alike_in_files() -> None:
    dropped = changed(SCHEMA, [ColumnChange("v", drop=True)], "t")
    assert (len(dropped.columns), dropped.retired) == (2, ("v",))
    again = changed(
        dropped, [ColumnChange("V", "string"), ColumnChange("v~2", "int"), ColumnChange("v~2~2", "int")], "t"
    )
    assert [column.in_files for column in again.columns[2:]] == ["V~2", "v~2~2", "v~2~2~2"]
    third = changed(again, [ColumnChange("V", drop=True), ColumnChange("v", "int")], "t")
    assert (third.columns[-1].in_files, third.retired) == ("v~3", ("v", "V~2"))
    beside = changed(SCHEMA, [ColumnChange("v", rename="w"), ColumnChange("v", "int")], "t")
    assert {column.name: column.in_files for column in beside.columns} == {"id": "id", "w": "v", "p": "p", "v": "v~2"}
    for schema in (dropped, again, third, beside):
        wire = schema.to_wire()
        assert Schema.from_wire(wire) == schema
        assert Schema.from_wire(wire).version == schema.version
        assert [column.name for column in wire.columns] == [column.in_files for column in schema.columns], (
            "a program that knows of no other names goes by those in files"
        )


@given(
    st.builds(
        ColumnChange,
        st.text(),
        st.text(),
        st.none() | st.text(),
        st.none() | st.text(),
        st.booleans(),
        st.text(),
        st.booleans(),
    )
)
def test_a_change_is_the_same_on_the_wire(change: ColumnChange) -> None:
    wire = pb.ColumnChange.FromString(change.to_wire().SerializeToString())
    assert ColumnChange.from_wire(wire) == change


def test_a_program_that_knows_of_names_in_files_alone_refuses_a_renamed_column() -> None:
    """It would take the one that has its name now for the one that had it, or the other way round."""
    renamed = changed(SCHEMA, [ColumnChange("v", rename="w"), ColumnChange("v", "int")], "t")
    wire = renamed.to_wire()
    assert Schema.from_wire(wire) == renamed
    known = Schema(tuple(Column(each.name, each.type, each.nullable) for each in wire.columns), ("p",), ("id",))
    for column in known.columns:
        if column.name in ("v", "v~2"):
            with pytest.raises(InvalidArgument, match="renamed: a newer txnstatus reads it"):
                to_arrow(Schema((column,)))
    assert to_arrow(Schema(known.columns[:1])).names == ["id"], "a table without such columns is what it was"


def test_columns_that_were_renamed_before_their_types_were_told_apart_are_read() -> None:
    wire = common.TableSchema(columns=[common.Column(name="v", type="int", nullable=True, shown="w")])
    assert Schema.from_wire(wire) == Schema((Column("w", "int", stored="v"),))
