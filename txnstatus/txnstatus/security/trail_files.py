"""The trail of a process, in files below a directory: lines are appended, synced in batches, and never changed.

What is recorded before it is done is done once the line is durable: where there is no room for it, it is not done. What
can only be told afterwards, such as a refusal, is told as far as there is room, and so many an hour.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

from txnstatus.errors import TxnError, Unavailable
from txnstatus.process.durable import make_directory, sync
from txnstatus.trail import START, Deed, line, split, verified

log = logging.getLogger(__name__)

FILE_BYTES = 16 << 20
FILES = 64
"""Files that are kept: of more the oldest goes."""
REFUSALS_PER_HOUR = 1_000
"""Refusals that are recorded; how many more there were is told with the next one. Strangers must not have the files
with what others did go: a GiB of files is two months of a thousand lines an hour."""
SAME_SECONDS = 60
"""A refusal like one so lately is only counted: a process that goes on asking tells the same many times a second."""
MOST_WAITING = 1_000
"""Lines of what is done, or refused, that wait for room."""
_NAME = "trail-{:012d}.jsonl"
_PATTERN = "trail-*.jsonl"

Heard = Callable[[TxnError | None], object]
"""Hears once: that the line is durable, or why it is not."""


def files(directory: Path) -> list[Path]:
    """The files of a trail, the oldest first. Raises OSError."""
    return sorted(directory.glob(_PATTERN))


def lines(directory: Path) -> Iterator[bytes]:
    """The whole lines of a trail, without their ends. Raises OSError."""
    for file in files(directory):
        yield from split(file.read_bytes())[0]


class Refusals:
    """Which refusals are told, and how many were not. Pure."""

    def __init__(self) -> None:
        self._hour = 0
        self._told: dict[tuple[str, str, str], int] = {}
        """This hour's → the second of the last one that was told."""
        self._count = 0
        self._same: Counter[tuple[str, str, str]] = Counter()
        self._others = 0

    def told(self, second: int, refusal: tuple[str, str, str]) -> dict[str, str] | None:
        """What is recorded of whoever was refused what, and why; None: it is counted."""
        if second // 3600 != self._hour:
            self._others += self._same.total()
            self._hour, self._told, self._count, self._same = second // 3600, {}, 0, Counter()
        last = self._told.get(refusal)
        if last is not None and second - last < SAME_SECONDS:
            self._same[refusal] += 1
            return None
        if self._count == REFUSALS_PER_HOUR:
            self._others += 1
            return None
        self._told[refusal], self._count = second, self._count + 1
        what = {"why": refusal[2]}
        if same := self._same.pop(refusal, 0):
            what["more of it before"] = str(same)
        if self._others:
            what["others before"], self._others = str(self._others), 0
        return what


class TrailFiles:
    """Everything but the writing itself happens on one loop."""

    def __init__(self, directory: Path, node: str, wall_micros: Callable[[], int], blocking: Executor) -> None:
        """Goes on where the last one ended; what it had not written to the end is cut off, and that is recorded. Raises
        OSError; TrailBroken where the last file has a line that does not follow from the one before it."""
        self._directory, self._node, self._wall_micros, self._blocking = directory, node, wall_micros, blocking
        self._last = START
        self._size = 0
        self._file: int | None = None
        self._lost: str = ""
        """Why nothing more can be written by this process."""
        self._waiting: list[tuple[Deed, Heard | None]] = []
        self._writing: asyncio.Task[None] | None = None
        self._refusals = Refusals()
        make_directory(directory)
        torn = self._open_last()
        self._append([Deed(f"node/{node}", "start", {"cut off": f"{torn} bytes"} if torn else {}, "done")])

    # ---- on the loop

    def record(self, deed: Deed, heard: Heard | None = None) -> None:
        """Appends it, with all that comes meanwhile."""
        self._waiting.append((deed, heard))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def refused(self, who: str, did: str, why: str) -> None:
        """Records that somebody was refused."""
        if (what := self._refusals.told(self._wall_micros() // 1_000_000, (who, did, why[:300]))) is not None:
            self.record(Deed(who, did, what, "refused"))

    async def close(self) -> None:
        """Returns when all is written that was recorded."""
        if self._writing is not None:
            await self._writing
        if self._waiting:
            await self._write()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    async def _write(self) -> None:
        told: TxnError | None = None
        while self._waiting and (told is None or any(heard for _, heard in self._waiting)):
            batch, self._waiting = self._waiting, []
            told = await self._write_batch([deed for deed, _ in batch])
            if told is not None:  # what is done already is told as soon as there is room
                self._waiting[:0] = [(deed, None) for deed, heard in batch if heard is None][-MOST_WAITING:]
            for _, heard in batch:
                if heard is not None:
                    heard(told)
        self._writing = None

    async def _write_batch(self, deeds: Sequence[Deed]) -> TxnError | None:
        """Why they are not written."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._blocking, self._append, deeds)
        except OSError as error:
            log.error("what was done cannot be recorded in %s: %s", self._directory, error)
            return Unavailable(
                f"{self._node} cannot record what it is to do: {error.strerror or error}",
                hint="nothing was done; make room on the node's disk, or restart it if it cannot write any more",
            )
        return None

    # ---- in a thread, one batch at a time

    def _append(self, deeds: Sequence[Deed]) -> None:
        """All of them, or none. Raises OSError."""
        if self._lost:
            raise OSError(self._lost)
        at, last, texts = self._wall_micros(), self._last, list[bytes]()
        for deed in deeds:
            text, last = line(last, at, self._node, deed)
            texts.append(text)
        data = b"".join(texts)
        if self._file is None or (self._size and self._size + len(data) > FILE_BYTES):
            self._next_file()
        assert self._file is not None
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        try:
            os.fsync(self._file)
        except OSError as error:
            self._lost = f"a sync has failed, and what is in the file is not known: {error.strerror}"
            raise
        self._size += len(data)
        self._last = last

    def _next_file(self) -> None:
        path = self._directory / _NAME.format(self._last.number + 1)
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        sync(self._directory)
        if self._file is not None:
            os.close(self._file)
        self._file, self._size = new, 0
        for old in files(self._directory)[:-FILES]:
            old.unlink()

    def _open_last(self) -> int:
        """Returns how many bytes were cut off. A file without a whole line is one that was not begun."""
        torn = 0
        while there := files(self._directory):
            path = there[-1]
            texts, cut = split(path.read_bytes())
            torn += cut
            for _, self._last in verified(texts):
                pass
            if texts:
                self._size = path.stat().st_size - cut
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
                if cut:
                    os.ftruncate(self._file, self._size)
                    os.fsync(self._file)
                return torn
            path.unlink()
        return torn
