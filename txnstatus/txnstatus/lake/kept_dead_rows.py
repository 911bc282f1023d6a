"""The dead rows of a scan: read in parallel, and kept, since a write's file of them never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from txnstatus.errors import DataDamaged
from txnstatus.lake import dead_rows
from txnstatus.lake.data_files import READERS
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.proto import table_pb2 as pb

KEPT_BYTES = 64 << 20
"""Bytes of such files, as written, whose content is kept by a process."""


class Kept:
    """What was read of late, by the files that it was read from."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, int, int], DeadRows] = OrderedDict()
        self._bytes = 0

    def read(self, ref: pb.DeadRowsRef) -> DeadRows:
        """Raises what `dead_rows.read` raises."""
        key = ref.path, ref.bytes, ref.crc32
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        found = dead_rows.read(ref)
        with self._lock:
            if key not in self._found:
                self._found[key] = found
                self._bytes += ref.bytes
            while self._bytes > self._max_bytes:
                (_, size, _), _ = self._found.popitem(last=False)
                self._bytes -= size
        return found


_kept = Kept()


def read(refs: Sequence[pb.DeadRowsRef]) -> DeadRows:
    """All dead rows that the refs tell of. Raises what `dead_rows.read` raises."""
    if len(refs) < 2:
        return _kept.read(refs[0]) if refs else dead_rows.NONE
    with ThreadPoolExecutor(min(READERS, len(refs)), "dead-rows") as pool:
        return dead_rows.union(pool.map(_kept.read, refs))


def of_files(dead: DeadRows, files: Iterable[DataFile]) -> DeadRows:
    """The dead rows of these files alone. Raises DataDamaged for a row that its file does not have."""
    if not dead:
        return dead_rows.NONE
    found = {file.path: positions for file in files if (positions := dead.get(file.path))}
    for file in files if found else ():
        if file.path in found and (last := found[file.path].max()) >= file.rows:
            raise DataDamaged(f"row {last} of {file.path} is said to be deleted: the file has {file.rows} rows")
    return found
