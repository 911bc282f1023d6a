"""The files of a journal: numbered segments, each a header and then frames that were written and synced one by one.

A segment takes its name once its header is durable, so every segment begins with a header that reads. The one before
is then sealed by an empty frame, so that a last segment that is missing is missed. Only the last frame of the last
segment can be torn: it was never acknowledged, and it is cut off. Whatever else does not read, or is missing, is
corruption, and the journal refuses to open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message

from txnstatus.codec import wholly_known
from txnstatus.process.disk import Disk, DiskFile, DiskFull, is_full
from txnstatus.process.failpoints import failpoint
from txnstatus.process.stop import REPAIR
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import frames

VERSION = 2
MessageT = TypeVar("MessageT", bound=Message)


class JournalCorrupt(Exception):
    """The journal cannot be trusted: the node must not start."""


@dataclass(slots=True)
class _Segment:
    number: int
    path: Path
    last: int
    """The highest index of an entry that was ever in this segment, or in one before."""
    identity: object
    """The file, as the disk tells it from others under its name."""


class Segments:
    def __init__(self, disk: Disk, directory: Path, limit: int) -> None:
        """`limit`, in bytes: a segment that has them is sealed, and the next frame begins another one."""
        self._disk = disk
        self.directory = directory
        self._limit = limit
        self._segments: list[_Segment] = []
        self._file: DiskFile | None = None
        self._size = 0

    @property
    def exist(self) -> bool:
        return bool(self._segments)

    def is_there(self) -> bool:
        """Whether the name of the file that is written to still leads to it. May be asked while it is written to."""
        last = self._segments[-1] if self._segments else None
        return last is None or self._disk.identity(last.path) == last.identity

    # ---- reading

    def open(
        self,
        covered: int,
        on_header: Callable[[pb.SegmentHeader, Path], None],
        on_batch: Callable[[pb.JournalBatch, Path], int],
    ) -> None:
        """Reads all there is. `covered` is the last index that a snapshot holds; 0 = there is none.

        `on_batch` returns the highest index in it. Raises JournalCorrupt, and then nothing was changed.
        """
        self._disk.make_directory(self.directory)
        names = self._disk.names(self.directory)
        numbers = [int(name.removesuffix(".log")) for name in names if name.endswith(".log")]
        # What lies before a gap was being dropped, as far as a snapshot covers it.
        start = next((n for n in reversed(numbers) if n - 1 not in numbers), 0)
        dropped, numbers = [n for n in numbers if n < start], [n for n in numbers if n >= start]
        last = 0
        coming = self._read(numbers[0]) if numbers else None
        for number in numbers:
            assert coming is not None
            path, (data, header) = self._path(number), coming
            coming = self._read(number + 1) if number < numbers[-1] else None
            if number == start and header.next_index > covered + 1:
                raise JournalCorrupt(
                    f"{path} begins at entry {header.next_index}, what lies before it is missing, and the snapshot "
                    f"ends at {covered or 'nothing'}. {REPAIR}"
                )
            on_header(header, path)
            last = max(last, header.next_index - 1)
            end = coming[1].previous_bytes if coming else None
            self._size, last = self._replay(data, end, path, last, on_batch)
            self._segments.append(_Segment(number, path, last, self._disk.identity(path)))
        self._tidy(dropped, [name for name in names if name.endswith(".new")])

    def _tidy(self, dropped: list[int], unfinished: list[str]) -> None:
        for path in [*map(self._path, dropped), *(self.directory / name for name in unfinished)]:
            self._disk.unlink(path)
        if self._segments:
            self._file = self._disk.open(self._segments[-1].path)
            self._file.truncate(self._size)
            self._file.sync()
        self._disk.sync_directory(self.directory)

    def _read(self, number: int) -> tuple[bytes, pb.SegmentHeader]:
        path = self._path(number)
        data = self._disk.read(path)
        found = frames.read_frame(data)
        if found is None or found[0] != frames.SEGMENT:
            raise JournalCorrupt(f"{path}: its first frame does not read. {REPAIR}")
        header = _whole(pb.SegmentHeader.FromString(found[1]), path)
        if header.version != VERSION or header.number != number:
            raise JournalCorrupt(
                f"{path} says that it is segment {header.number}, version {header.version}; this release reads "
                f"version {VERSION}. {REPAIR}"
            )
        return data, header

    def _replay(
        self, data: bytes, end: int | None, path: Path, last: int, on_batch: Callable[[pb.JournalBatch, Path], int]
    ) -> tuple[int, int]:
        """Reads all frames but the header; returns the length of the good part, and the highest index so far.

        `end` is where the frames end, by the word of the segment after it; None = it is the last one.
        """
        found = frames.read_frame(data)
        offset = frames.HEADER_BYTES + len(found[1]) if found else 0
        while offset < (len(data) if end is None else end):
            found = frames.read_frame(data, offset)
            if found is None:
                later = frames.find_frame(data, offset + 1)
                if later is None and end is None:
                    break
                story = f"yet there is a good one at {later}" if later else "and this is not the last segment"
                raise JournalCorrupt(f"{path}: the frame at byte {offset} does not read, {story}. {REPAIR}")
            kind, payload = found
            if kind == frames.SEAL:
                raise JournalCorrupt(f"{path} is sealed, and the segment after it is missing. {REPAIR}")
            if kind != frames.BATCH:
                raise JournalCorrupt(f"{path}: the frame at byte {offset} is of kind {kind!r}. {REPAIR}")
            last = max(last, on_batch(_whole(pb.JournalBatch.FromString(payload), path), path))
            offset += frames.HEADER_BYTES + len(payload)
        return offset, last

    # ---- writing

    def append(self, data: bytes, last: int, header: pb.SegmentHeader) -> None:
        """Writes and syncs one frame. `header` is what a segment says that begins with this frame.

        Raises DiskFull: then nothing of the frame is in the file. After any other OSError nobody knows what the disk
        holds, and the process must end: a sync that is repeated may succeed without the data (the fsync fault of 2018).
        """
        if self._file is None or self._size >= self._limit:
            self._roll(header)
        assert self._file is not None
        try:
            self._file.write(data)
        except OSError as error:
            if not is_full(error):
                raise
            self._file.truncate(self._size)
            raise DiskFull(f"{len(data)} bytes in {self._segments[-1].path}", error) from error
        failpoint("journal.before_sync")
        self._file.sync()
        self._size += len(data)
        self._segments[-1].last = max(self._segments[-1].last, last)

    def drop(self, covered: int) -> None:
        """Removes the segments of which a snapshot holds all entries; never the one that is written to."""
        while len(self._segments) > 1 and self._segments[0].last <= covered:
            failpoint("journal.before_drop")
            self._disk.unlink(self._segments.pop(0).path)
            failpoint("journal.after_drop")

    def can_drop(self, covered: int) -> bool:
        return len(self._segments) > 1 and self._segments[0].last <= covered

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _roll(self, header: pb.SegmentHeader) -> None:
        """Begins a segment. Without room for one the last goes on, if there is one."""
        header.number = self._segments[-1].number + 1 if self._segments else 1
        header.version = VERSION
        header.previous_bytes = self._size
        data = frames.frame(frames.SEGMENT, header.SerializeToString())
        path = self._path(header.number)
        new = path.with_suffix(".new")
        file: DiskFile | None = None
        try:
            file = self._disk.create(new)
            file.write(data)
        except OSError as error:
            if not is_full(error):
                raise
            if file is not None:
                file.close()
            self._disk.unlink(new)
            if self._file is None:
                raise DiskFull(f"{path}", error) from error
            return
        file.sync()
        failpoint("journal.before_rename")
        self._disk.rename(new, path)
        failpoint("journal.after_rename")
        self._disk.sync_directory(self.directory)
        if self._file is not None:
            self._seal(self._file)
        self._file, self._size = file, len(data)
        last = self._segments[-1].last if self._segments else 0
        self._segments.append(_Segment(header.number, path, last, self._disk.identity(path)))

    def _seal(self, file: DiskFile) -> None:
        try:
            file.write(frames.frame(frames.SEAL, b""))
            file.sync()
        except OSError as error:
            if not is_full(error):
                raise
            file.truncate(self._size)
        file.close()

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:020}.log"


def _whole(message: MessageT, path: Path) -> MessageT:
    """Raises JournalCorrupt where there is more in it than this version knows."""
    try:
        return wholly_known(message)
    except ValueError as error:
        raise JournalCorrupt(
            f"{path}: {error}: start this node with the version that wrote it, or a newer one"
        ) from error
