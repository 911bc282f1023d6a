"""Where a MERGE of Spark's SQL has looked, by the manifests of what it has written."""

from __future__ import annotations

from txnclient.change.plan import Looked
from txnclient.sparksql.changes import looked
from txnstatus.lake.manifest import ColumnRange, DataFile
from txnstatus.schema import Column, Schema

SCHEMA = Schema((Column("id", "bigint"), Column("x", "double"), Column("name", "string")))


def file(**ranges: tuple[str, str]) -> DataFile:
    return DataFile("file:/f", 1, 1, columns={name: ColumnRange(*ends, 0) for name, ends in ranges.items()})


def test_it_is_from_the_least_to_the_greatest_value_of_all_files() -> None:
    files = [file(id=("9", "10"), name=("b", "c")), file(id=("-2", "9"), name=("B", "bb"))]
    assert looked(files, ["id", "name"], SCHEMA) == (Looked("id", "-2", "10"), Looked("name", "B", "c"))
    assert looked(files, ["name"], SCHEMA) == (Looked("name", "B", "c"),)


def test_nothing_is_known_where_a_file_tells_nothing() -> None:
    assert looked([file(id=("1", "2")), file()], ["id"], SCHEMA) == ()
    assert looked([], ["id"], SCHEMA) == ()


def test_fractions_tell_nothing_since_a_nan_is_in_no_range() -> None:
    assert looked([file(x=("1.0", "2.0"))], ["x"], SCHEMA) == ()
