"""Which groups there were when this data directory first saw the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from txnstatus.process.disk import Disk, is_full
from txnstatus.raft import frames


class FirstLook:
    """A node whose data directory was lost may once have had replicas of the groups that there were: those abstain.

    It never had one of a group that came later; nor of any group, if it helped to found the catalog itself. Kept in a
    file; where that is missing or damaged, or the catalog's journal is gone, the next look counts as the first, which
    makes more replicas abstain.
    """

    def __init__(self, disk: Disk, directory: Path, catalog_journal: Path) -> None:
        self._disk = disk
        self._path = directory / "first-look"
        self._older: frozenset[str] | None = None
        if disk.size(self._path) is not None:
            disk.make_directory(catalog_journal)
            found = frames.read_frame(disk.read(self._path)) if disk.names(catalog_journal) else None
            self._older = frozenset(found[1].decode().split()) if found else None

    @property
    def was_taken(self) -> bool:
        return self._older is not None

    def never_here(self, group: str) -> bool:
        """Whether it is certain that this node never had a replica of the group that it has no files of now."""
        return self._older is not None and group not in self._older

    def take(self, groups: Iterable[str]) -> None:
        """Durable when this returns; on a full disk it is as if it had not been called."""
        older = frozenset(groups)
        new = self._path.with_name(self._path.name + ".new")
        try:
            file = self._disk.create(new)
            file.write(frames.frame(frames.NAMES, "\n".join(sorted(older)).encode()))
            file.sync()
            file.close()
            self._disk.rename(new, self._path)
            self._disk.sync_directory(self._path.parent)
        except OSError as error:
            if not is_full(error):
                raise
            return
        self._older = older
