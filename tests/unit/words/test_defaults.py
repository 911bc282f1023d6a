"""What a default of a column may be, and how it is kept."""

from __future__ import annotations

import pyarrow as pa
import pytest

from txnclient.formats.schemas import to_columns
from txnstatus import defaults
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.schema import HAS_DEFAULT, Column, Schema
from txnstatus.schema_changes import ColumnChange, changed


@pytest.mark.parametrize(
    ("text", "kind", "kept"),
    [
        ("+05", "int", "5"),
        ("-128", "tinyint", "-128"),
        ("1.5", "decimal(5,2)", "1.50"),
        ("-999.99", "decimal(5,2)", "-999.99"),
        ("1e2", "double", "100.0"),
        ("0.1", "float", "0.1"),
        ("TRUE", "boolean", "true"),
        ("", "string", ""),
        ("it's\n", "string", "it's\n"),
        ("2024-02-29", "date", "2024-02-29"),
        ("2024-01-01T10:00:00+02:00", "timestamp", "2024-01-01 08:00:00+00:00"),
        ("2024-01-01 10:00:00.5", "timestamp_ntz", "2024-01-01 10:00:00.500000"),
    ],
)
def test_a_value_has_one_text_which_arrow_reads(text: str, kind: str, kept: str) -> None:
    assert defaults.checked(text, kind, "c") == kept
    assert defaults.checked(kept, kind, "c") == kept
    (field,) = to_arrow(Schema((Column("c", kind),)))
    assert pa.scalar(kept, pa.string()).cast(field.type).is_valid


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("128", "tinyint", "'128' is no value of it"),
        ("1.5", "int", "'1.5' is no value"),
        ("x", "bigint", "column 'c' is bigint: 'x' is no value"),
        ("1.555", "decimal(5,2)", "no value"),
        ("1000", "decimal(5,2)", "no value"),
        ("NaN", "decimal(5,2)", "no value"),
        ("NaN", "double", "no value"),
        ("1e39", "float", "no value"),
        ("Infinity", "decimal(5,2)", "no value"),
        ("yes", "boolean", "no value"),
        ("2023-02-29", "date", "no value"),
        ("2024-01-01 10:00:00", "timestamp", "no value"),
        ("2024-01-01 10:00:00Z", "timestamp_ntz", "no value"),
        ("x" * 1_001, "string", "1001 characters"),
        ("00", "binary", "column 'c' of type binary cannot have a default"),
        ("[]", "array<int>", "cannot have a default"),
    ],
)
def test_what_is_no_value_is_refused_by_name(text: str, kind: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        defaults.checked(text, kind, "c")


def test_a_default_goes_with_its_column() -> None:
    schema = Schema((Column("id", "bigint"), Column("v", "int", nullable=False)), (), ("id",))
    found = changed(schema, [ColumnChange("V", default="07")], "t")
    assert found.columns[1] == Column("v", "int", False, default="7")
    assert Schema.from_wire(found.to_wire()) == found
    assert found.to_wire().columns[1].type == HAS_DEFAULT, "a program of before reads and writes no nulls there"
    wide = changed(found, [ColumnChange("v", rename="w"), ColumnChange("w", widen="bigint", comment="x")], "t")
    assert (wide.columns[1].default, wide.columns[1].in_files) == ("7", "v")
    assert changed(wide, [ColumnChange("w", drop_default=True)], "t").columns[1].default is None
    for change, why in (
        (ColumnChange("id", default="1"), "'id' .* part of the primary key: it has no default"),
        (ColumnChange("n", "int", default="x"), "'n' is int: 'x' is no value"),
        (ColumnChange("v", default="x"), "'x' is no value"),
        (ColumnChange("x", default="1"), "'x' is not a column"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            changed(schema, [change], "t")


def test_a_column_that_is_added_keeps_for_rows_of_before_what_it_came_with() -> None:
    schema = changed(Schema((Column("id", "bigint"),)), [ColumnChange("v", "float", default="0.10")], "t")
    assert schema.columns[1] == Column("v", "float", added=True, default="0.1", initial="0.1")
    later = [ColumnChange("v", default="2"), ColumnChange("v", rename="w"), ColumnChange("w", widen="double")]
    found = changed(schema, later, "t")
    assert (found.columns[1].default, found.columns[1].in_files) == ("2.0", "v")
    assert found.columns[1].initial == "0.10000000149011612", "as it was read as a float"
    assert Schema.from_wire(found.to_wire()) == found
    assert changed(found, [ColumnChange("w", drop_default=True)], "t").columns[1].initial == found.columns[1].initial
    assert changed(found, [ColumnChange("id", comment="x")], "t").fills == [found.columns[1]]


@pytest.mark.parametrize(
    ("text", "default", "comment"),
    [
        ("c int DEFAULT 5", "5", ""),
        ("c int NOT NULL DEFAULT -5 COMMENT 'x'", "-5", "x"),
        ("c double DEFAULT -1.05", "-1.05", ""),
        ("c decimal(5,2) DEFAULT 1.05", "1.05", ""),
        ("c string DEFAULT 'it''s' COMMENT \"DEFAULT 7\"", "it's", "DEFAULT 7"),
        ("c boolean DEFAULT TRUE", "true", ""),
        ("c date DEFAULT DATE '2024-02-29'", "2024-02-29", ""),
        ("c timestamp DEFAULT TIMESTAMP '2024-02-29 10:00:00'", "2024-02-29 10:00:00+00:00", ""),
        ("c timestamp DEFAULT '2024-02-29 10:00:00+01:00'", "2024-02-29 09:00:00+00:00", ""),
        ("c int DEFAULT NULL", None, ""),
        ("c int", None, ""),
    ],
)
def test_columns_are_declared_with_defaults(text: str, default: str | None, comment: str) -> None:
    (found,) = to_columns(text)
    assert (found.default, found.comment) == (default, comment)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("c int DEFAULT now()", "expected a literal after DEFAULT, not 'now'"),
        ("c int DEFAULT", "expected a literal after DEFAULT, not the end"),
        ("c int DEFAULT DATE 5", "expected a literal after DEFAULT"),
        ("c int DEFAULT 'x'", "'x' is no value of it"),
        ("c double DEFAULT 1.", "expected digits"),
        ("c int COMMENT 'x' DEFAULT 5", "in this order, not 'DEFAULT'"),
    ],
)
def test_what_is_no_literal_is_no_default(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        to_columns(text)
