"""Bare files: those without the columns that the table is partitioned by, as Hive and Spark lay tables out.

They are others' that have come in as they are: what this service writes has all columns. All rows of such a file are
in one partition, whose name tells the values of these columns, none of them shortened. Readers take them from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from txnstatus.lake import absent
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import text_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


def texts(file: DataFile) -> dict[str, str | None]:
    """The columns that the file does not have → the text of their value; None: a null."""
    if not file.bare:
        return {}
    named = (part.partition("=") for part in file.partition.split("/"))
    return {column: text_of(value) for column, _, value in named}


def column(file: DataFile, field: pa.Field, rows: int) -> pa.Array:
    """Rows of a column of the table that is not in the file, so many: it came later, or the file is bare."""
    import pyarrow as pa

    told = texts(file)
    if field.name not in told:
        return absent.column(field, rows)
    text = told[field.name]
    return pa.nulls(rows, field.type) if text is None else pa.repeat(absent.scalar(text, field.type), rows)


def expression(file: DataFile, schema: pa.Schema, lacking: Mapping[str, str]) -> pc.Expression | None:
    """What the file does not say of its rows, for a dataset to fill these columns; None: nothing.

    `schema`: the table's columns, or those that are read. `lacking`: columns that came later → the text of their value.
    """
    import pyarrow.compute as pc

    found: pc.Expression | None = None
    for name, text in {**lacking, **texts(file)}.items():
        if name not in schema.names:
            continue
        asked = pc.field(name)
        fact = asked.is_null() if text is None else asked == absent.scalar(text, schema.field(name).type)
        found = fact if found is None else found & fact
    return found
