"""Hive's table of statements and the locks that each takes, as it was written down."""

from __future__ import annotations

from txnparticipant.locks.locks import Mode
from txnstatus.types import Statement

# The statement, what it names, what it reads, and the second column of the table in Hive's own words.
ROWS: list[tuple[Statement, str, tuple[str, ...], str]] = [
    (Statement.SELECT, "T1.P1", (), "S on T1, T1.P1"),
    (Statement.INSERT, "T2.P2", ("T1.P1",), "S on T2, T1, T1.P1 and X on T2.P2"),
    (Statement.INSERT, "T2.P.Q", ("T1.P1",), "S on T2, T2.P, T1, T1.P1 and X on T2.P.Q"),
    (Statement.RENAME, "T1", (), "X on T1"),
    (Statement.ADD_COLUMNS, "T1", (), "X on T1"),
    (Statement.REPLACE_COLUMNS, "T1", (), "X on T1"),
    (Statement.CHANGE_COLUMNS, "T1", (), "X on T1"),
    (Statement.ADD_PARTITION, "T1.P1", (), "S on T1, X on T1.P1"),
    (Statement.DROP_PARTITION, "T1.P1", (), "S on T1, X on T1.P1"),
    (Statement.TOUCH_PARTITION, "T1.P1", (), "S on T1, X on T1.P1"),
    (Statement.SET_SERDE_PROPERTIES, "T1", (), "S on T1"),
    (Statement.SET_SERIALIZER, "T1", (), "S on T1"),
    (Statement.SET_FILE_FORMAT, "T1", (), "S on T1"),
    (Statement.SET_TABLE_PROPERTIES, "T1", (), "X on T1"),
    (Statement.DROP_TABLE, "T1", (), "X on T1"),
]
OWN: dict[Statement, Mode] = {
    Statement.INSERT_OVERWRITE: Mode.X,
    Statement.TRUNCATE: Mode.X,
    Statement.MERGE: Mode.SHARED_WRITE,
    Statement.UPDATE: Mode.SHARED_WRITE,
    Statement.DELETE: Mode.SHARED_WRITE,
}
"""The statements that Hive's table lacks."""
