"""What was read of files that never change once they are written: it is kept, and what is not is read in parallel."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from txnstatus.lake import parallel
from txnstatus.proto import table_pb2 as pb

RefT = TypeVar("RefT", pb.ManifestRef, pb.DeadRowsRef)
T = TypeVar("T")


class Kept(Generic[RefT, T]):
    """What was read of late, by the files that it was read from: their paths, lengths and CRCs.

    It is what was written, whatever became of the file since. Nobody may change it.
    """

    def __init__(self, read: Callable[[RefT], T], max_bytes: int) -> None:
        """`read`: reads a file, and checks it. `max_bytes`: of files, as written, whose content is kept."""
        self._read: Callable[[RefT], T] = read
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, int, int], T] = OrderedDict()
        self._bytes = 0

    def read(self, refs: Sequence[RefT]) -> list[T]:
        """The content of each. Raises what `read` raises."""
        with self._lock:
            known = {key: self._found[key] for key in map(_key, refs) if key in self._found}
            for key in known:
                self._found.move_to_end(key)
        missing = {key: ref for ref in refs if (key := _key(ref)) not in known}
        found = dict(zip(missing, parallel.each(self._read, list(missing.values())), strict=True))
        with self._lock:
            for key, content in found.items():
                if key not in self._found:
                    self._found[key] = content
                    self._bytes += key[1]
            while self._bytes > self._max_bytes:
                (_, size, _), _ = self._found.popitem(last=False)
                self._bytes -= size
        known |= found
        return [known[_key(ref)] for ref in refs]


def _key(ref: pb.ManifestRef | pb.DeadRowsRef) -> tuple[str, int, int]:
    return ref.path, ref.bytes, ref.crc32
