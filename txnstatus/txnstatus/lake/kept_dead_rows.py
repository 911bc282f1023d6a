"""The dead rows of a scan: read in parallel, and kept, since a write's file of them never changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txnstatus.errors import DataDamaged
from txnstatus.lake import dead_rows
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.kept import Kept
from txnstatus.lake.manifest import DataFile
from txnstatus.proto import table_pb2 as pb

KEPT_BYTES = 64 << 20
"""Bytes of such files, as written, whose content is kept by a process."""


_kept = Kept[pb.DeadRowsRef, DeadRows](dead_rows.read, KEPT_BYTES)


def read(refs: Sequence[pb.DeadRowsRef]) -> DeadRows:
    """All dead rows that the refs tell of. Raises what `dead_rows.read` raises."""
    found = _kept.read(refs)
    return found[0] if len(found) == 1 else dead_rows.union(found)


def of_files(dead: DeadRows, files: Iterable[DataFile]) -> DeadRows:
    """The dead rows of these files alone. Raises DataDamaged for a row that its file does not have."""
    if not dead:
        return dead_rows.NONE
    found = {file.path: positions for file in files if (positions := dead.get(file.path))}
    for file in files if found else ():
        if file.path in found and (last := found[file.path].max()) >= file.rows:
            raise DataDamaged(f"row {last} of {file.path} is said to be deleted: the file has {file.rows} rows")
    return found
