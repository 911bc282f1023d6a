"""Which statement takes which locks: Hive's table, row by row, and below it the rows that Hive's design has not."""

from __future__ import annotations

from collections.abc import Mapping

from txnparticipant.locks.locks import Mode
from txnstatus.types import Statement

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
    Statement.INSERT_OVERWRITE: Mode.X,
    Statement.TRUNCATE: Mode.X,
    # Two that change rows could change the same; a reader beside them has its snapshot.
    Statement.MERGE: Mode.SHARED_WRITE,
    Statement.UPDATE: Mode.SHARED_WRITE,
    Statement.DELETE: Mode.SHARED_WRITE,
}
"""The mode of the table or partition that a statement names; its parents are locked in S."""


def mode_of(statement: Statement, *, alone: bool = True, known: bool = True) -> Mode:
    """The mode in which the statement locks its target.

    `alone`: as Hive's design has it, where there are no transactions. An insert that is part of a transaction shares
    what it inserts into with others: nobody sees its rows before it commits, and no two inserts conflict.
    `known`: the target is all that the statement touches. If it only stands for partitions that are yet to be found,
    a change of rows excludes everybody from it, since a lock on it keeps nobody off the partitions below.
    """
    if statement is Statement.INSERT and not alone:
        return Mode.S
    mode = TARGET_MODE[statement]
    return Mode.X if mode is Mode.SHARED_WRITE and not known else mode
