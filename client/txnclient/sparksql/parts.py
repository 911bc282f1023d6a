"""The partitions in which a snapshot has rows, for `SHOW PARTITIONS` and its like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from txnclient.formats import arrow
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import SHORTENED, WHOLE_TABLE, name_of, text_of, value_name
from txnstatus.schema import Schema

Values = tuple[str | None, ...]
"""Texts of the values of a partition's columns; None for a null."""


def with_rows(files: Sequence[DataFile], dead: DeadRows, loose: Any, schema: Schema) -> list[Values]:
    """The values of each partition, in the order of their names. `loose`: rows in no file, a pyarrow Table, or None.

    Names tell them, and of a long text, whose name is shortened, a file of the partition. Raises DataDamaged.
    """
    found: dict[str, Values | DataFile] = {}
    for file in files:
        if file.partition not in found and file.rows > len(dead.get(file.path, ())):
            found[file.partition] = file
    found.update(_of_rows(loose, schema) if loose is not None else ())
    found.pop(WHOLE_TABLE, None)
    return [_of_file(each, schema) if isinstance(each, DataFile) else each for _, each in sorted(found.items())]


def _of_rows(rows: Any, schema: Schema) -> Iterator[tuple[str, Values]]:
    columns = list(schema.partition_by)
    for values in rows.group_by(columns).aggregate([]).to_pylist() if columns else ():
        ordered = {column: values[column] for column in columns}
        yield name_of(ordered), tuple(map(_text, ordered.values()))


def _of_file(file: DataFile, schema: Schema) -> Values:
    names = [part.partition("=")[2] for part in file.partition.split("/")]
    if not any(SHORTENED in name for name in names):
        return tuple(map(text_of, names))
    columns = list(schema.partition_by)
    (row,) = arrow.read_files([file], schema, columns).slice(0, 1).to_pylist()
    return tuple(_text(row[column]) for column in columns)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else value_name(value)
