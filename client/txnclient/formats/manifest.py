"""Files as a program has them in hand: those of a snapshot, and those that it has staged."""

from __future__ import annotations

from dataclasses import dataclass

from txnstatus.lake.manifest import ColumnRange, DataFile, read, write

__all__ = ["ColumnRange", "DataFile", "StagedFiles", "read", "write"]


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """Files that one process wrote under a transaction; visible only once a handle adds them.

    Small and picklable: a Spark task returns it to the driver.
    """

    table: str
    write_id: str
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)
