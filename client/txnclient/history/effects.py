"""What a span of a table's history did, and what takes it back: of files and of rows by their positions, no data.

A table at a timestamp is its files, and which of their rows are dead. Dead rows stay dead, and a file that has gone
does not come back: so rows are brought back by a copy of their file, which on a local file system is another name for
it, and in which all other rows are dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from txnclient.read.table_files import TableFiles
from txnstatus.lake.manifest import DataFile

if TYPE_CHECKING:
    from pyroaring import BitMap


@dataclass(frozen=True, slots=True)
class Copy:
    """A file that is to be there once more."""

    file: DataFile
    dead: BitMap
    """Rows of it that are not to be."""


@dataclass(frozen=True, slots=True)
class Inverse:
    """What makes of a table what it was. It speaks of the files as they were seen after the span."""

    replaced: frozenset[str] = frozenset()
    """Partitions of which files have gone: all that is seen of them is replaced."""
    copies: tuple[Copy, ...] = ()
    """Files for those partitions, and files with rows that have died in others."""
    dead: Mapping[str, BitMap] = field(default_factory=dict)
    """URI of a file in the other partitions → rows that die, since they have come; and rows that are dead already, and
    come back in a copy: whoever has to do with these since is in the way."""

    def copies_in(self, *, replaced: bool) -> list[Copy]:
        """The copies in partitions that are replaced, or in the others."""
        return [copy for copy in self.copies if (copy.file.partition in self.replaced) is replaced]

    def __bool__(self) -> bool:
        return bool(self.replaced or self.copies or self.dead)


def inverse(before: TableFiles, after: TableFiles) -> Inverse:
    """What leads from the second back to the first: the same table without a primary key, at two timestamps."""
    old, new = ({file.path: file for file in side.files} for side in (before, after))
    replaced = frozenset(file.partition for path, file in old.items() if path not in new)
    copies = [Copy(file, _dead(before, file)) for file in old.values() if file.partition in replaced]
    dead: dict[str, BitMap] = {}
    for path, file in _outside(replaced, new.values()):
        if path not in old:
            dies = _all(file) - _dead(after, file)
        elif before.dead.get(path) == after.dead.get(path):
            continue  # most are: a span touches few of the files that there are
        else:
            comes_back = _dead(after, file) - _dead(before, file)
            if comes_back:
                copies.append(Copy(file, _all(file) - comes_back))
            # A file of others that has gone, and was imported once more, has rows alive that were dead before.
            dies = comes_back | _dead(before, file) - _dead(after, file)
        if dies:
            dead[path] = dies
    return Inverse(replaced, tuple(copies), dead)


def _outside(replaced: frozenset[str], files: Iterable[DataFile]) -> Iterable[tuple[str, DataFile]]:
    return ((file.path, file) for file in files if file.partition not in replaced)


def _all(file: DataFile) -> BitMap:
    from pyroaring import BitMap

    return BitMap(range(file.rows))


def _dead(side: TableFiles, file: DataFile) -> BitMap:
    from pyroaring import BitMap

    return side.dead.get(file.path) or BitMap()
