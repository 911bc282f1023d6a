"""Files of many manifests as one list, of which a file is made when somebody asks for it: there may be a million."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

from txnstatus.lake.manifest import DataFile, Listed, MadeFiles


class Files(MadeFiles):
    """The files of some lists, one list after the other."""

    __slots__ = ("_ends", "parts")

    def __init__(self, parts: Iterable[Sequence[DataFile]]) -> None:
        self.parts = tuple(filter(len, parts))
        self._ends = list(accumulate(map(len, self.parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[DataFile]:
        return chain.from_iterable(self.parts)

    def file(self, number: int) -> DataFile:
        part = bisect_right(self._ends, number)
        return self.parts[part][number - self._ends[part]]

    def __eq__(self, other: object) -> bool:
        """As sequences: what it is the list of, and not how."""
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(DataFile.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} files>"

    def __reduce__(self) -> tuple[type[tuple[DataFile, ...]], tuple[list[DataFile]]]:
        return tuple, (list(self),)


def sizes_of(files: Sequence[DataFile]) -> Iterator[tuple[str, int]]:
    """The path and the bytes of each."""
    if isinstance(files, Files):
        return chain.from_iterable(map(sizes_of, files.parts))
    if isinstance(files, Listed):
        return zip(files.paths, files.sizes, strict=True)
    return ((file.path, file.bytes) for file in files)


def rows_of(files: Sequence[DataFile]) -> int:
    """The rows in all of them, dead ones and all."""
    if isinstance(files, Files):
        return sum(map(rows_of, files.parts))
    return sum(files.rows) if isinstance(files, Listed) else sum(file.rows for file in files)


def bytes_of(files: Sequence[DataFile]) -> int:
    if isinstance(files, Files):
        return sum(map(bytes_of, files.parts))
    return sum(files.sizes) if isinstance(files, Listed) else sum(file.bytes for file in files)


def by_bareness(files: Sequence[DataFile]) -> list[Sequence[DataFile]]:
    """The files that are not bare, and those that are: see txnstatus.lake.bare_files. Of each there are some."""
    if not has_bare(files):
        return [files] if files else []
    groups = ([file for file in files if file.bare is bare] for bare in (False, True))
    return [group for group in groups if group]


def has_bare(files: Sequence[DataFile]) -> bool:
    """Whether one of them is bare: see txnstatus.lake.bare_files."""
    if isinstance(files, Files):
        return any(map(has_bare, files.parts))
    return files.has_bare if isinstance(files, Listed) else any(file.bare for file in files)


def in_lots(files: Sequence[DataFile], most: int) -> list[list[DataFile]]:
    """The files in lots of about the same size, the largest files first: no more lots than `most`, and none is empty.

    Within a lot, too, the largest is the first.
    """
    order = sorted(files, key=lambda file: -file.bytes)
    return [order[number::most] for number in range(min(most, len(order)))]
