"""What is asked of an engine that changes rows, and what it answers: the same for every engine.

SQL text in here is Spark SQL. A row of a file is known by its position in it (see txnstatus.lake.dead_rows).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from txnstatus.errors import InvalidArgument
from txnstatus.schema import Schema

if TYPE_CHECKING:
    from pyroaring import BitMap


@dataclass(frozen=True, slots=True)
class Looked:
    """Where a MERGE looked for rows to match: no row with the column outside of this range can have matched."""

    column: str
    lowest: str
    """The lower bound as text, in the form that manifests have it (see txnclient.formats.file_statistics)."""
    highest: str


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """What a statement does to a table: rows of files that die, and rows that are added."""

    dead: Mapping[str, BitMap]
    """URI of a data file → its rows that are deleted or replaced; all were alive."""
    rows: Any = None
    """Rows to be added, with the table's columns: a pyarrow Table or a Spark DataFrame; None: there are none."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    gone: Any = None
    """Keys of rows in no file that are deleted or replaced, where there is a primary key: a pyarrow Table of it."""
    looked: tuple[Looked, ...] = ()
    """Ranges outside of which a MERGE that inserts can have missed nothing; none: any row could have matched."""


class Rows(Enum):
    """The rows that a clause of a MERGE is about."""

    MATCHED = "matched"
    """Pairs of a target row and a source row for which ON holds."""
    NOT_MATCHED = "not matched"
    """Source rows without a target row."""
    NOT_MATCHED_BY_SOURCE = "not matched by source"
    """Target rows without a source row."""


class Act(Enum):
    """What a clause of a MERGE does."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN of a MERGE. Clauses count in their order: of those about a row the first whose condition holds acts."""

    rows: Rows
    act: Act
    values: Mapping[str, str] | None = None
    """Column of the table → its new value; None, where there are values: each column is the source's of that name."""
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A MERGE: columns are qualified by `target` and `source`, or by nothing where only one of them has the name."""

    on: str
    clauses: tuple[Clause, ...] = field(default=())

    @property
    def inserts(self) -> bool:
        return any(clause.act is Act.INSERT for clause in self.clauses)

    @property
    def columns(self) -> set[str]:
        """Columns of the table that are set by name."""
        return {name for clause in self.clauses for name in clause.values or ()}

    def require(self, schema: Schema, table: str) -> None:
        """Raises InvalidArgument for a column that is set, and is not among these, which the transaction sees: its
        value would be lost.
        """
        for name in self.columns - {column.name for column in schema.columns}:
            raise InvalidArgument(
                f"column {name!r} of table {table} is set by a MERGE, and came after the transaction has read others",
                hint="run the transaction again, and it finds the columns that there are now",
            )

    @property
    def needs_all_of_target(self) -> bool:
        """Whether rows count that no source row is near to."""
        return any(clause.rows is Rows.NOT_MATCHED_BY_SOURCE for clause in self.clauses)

    def of(self, rows: Rows) -> tuple[Clause, ...]:
        """The clauses about these rows, in their order."""
        return tuple(clause for clause in self.clauses if clause.rows is rows)
