"""Which statement takes which locks, as Hive's design has it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from txnparticipant.locks import Lock, Mode, with_parents


class Statement(enum.StrEnum):
    SELECT = "select"
    INSERT = "insert into"
    RENAME = "alter table rename"
    ADD_COLUMNS = "alter table add cols"
    REPLACE_COLUMNS = "alter table replace cols"
    CHANGE_COLUMNS = "alter table change cols"
    ADD_PARTITION = "alter table add partition"
    DROP_PARTITION = "alter table drop partition"
    TOUCH_PARTITION = "alter table touch partition"
    SET_SERDE_PROPERTIES = "alter table set serdeproperties"
    SET_SERIALIZER = "alter table set serializer"
    SET_FILE_FORMAT = "alter table set file format"
    SET_TABLE_PROPERTIES = "alter table set tblproperties"
    DROP_TABLE = "drop table"


TARGET_MODE: Mapping[Statement, Mode] = {
    Statement.SELECT: Mode.S,
    Statement.INSERT: Mode.X,
    Statement.RENAME: Mode.X,
    Statement.ADD_COLUMNS: Mode.X,
    Statement.REPLACE_COLUMNS: Mode.X,
    Statement.CHANGE_COLUMNS: Mode.X,
    Statement.ADD_PARTITION: Mode.X,
    Statement.DROP_PARTITION: Mode.X,
    Statement.TOUCH_PARTITION: Mode.X,
    # Only partitions that are yet to come are concerned: the others may be read and written meanwhile.
    Statement.SET_SERDE_PROPERTIES: Mode.S,
    Statement.SET_SERIALIZER: Mode.S,
    Statement.SET_FILE_FORMAT: Mode.S,
    Statement.SET_TABLE_PROPERTIES: Mode.X,
    Statement.DROP_TABLE: Mode.X,
}
"""Of the table or partition that the statement names; its parents are locked in S."""


def locks_of(statement: Statement, target: str, reads: Iterable[str] = ()) -> tuple[Lock, ...]:
    """What the statement locks, in the order of acquisition. `reads`: the tables or partitions it selects from."""
    return with_parents([Lock(target, TARGET_MODE[statement]), *(Lock(name, Mode.S) for name in reads)])


def known_prefix(table: str, partition: Sequence[tuple[str, str | None]]) -> str:
    """What stands for a dynamic partition: its columns up to the first without a value, or the whole table."""
    name = table
    for column, value in partition:
        if value is None:
            break
        name = f"{name}/{column}={value}"
    return name
