"""Compaction: writes a snapshot a slice at a time, between the cycles of a group, so that heartbeats go on.

It takes the place of pysyncobj's `Serializer`, whose interface it has: that one opens files by path, writes everything
at once, and takes what it cannot read for nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from pysyncobj.config import SERIALIZER_STATE

from txnstatus.process.disk import Disk, DiskFull
from txnstatus.process.failpoints import failpoint
from txnstatus.raft import snapshot
from txnstatus.raft.jobs import Jobs
from txnstatus.raft.journal import Entry
from txnstatus.raft.members import Members
from txnstatus.raft.settings import SLICE_SECONDS
from txnstatus.raft.snapshot import Meta

log = logging.getLogger(__name__)

SLICE_BYTES = 1 << 20
"""Bytes at which a slice, made in one cycle, ends, if its time is not over before; it has at least one chunk."""
FULL_RETRY_SECONDS = 5.0


class Snapshotted(Protocol):
    def snapshot(self) -> Iterator[bytes]: ...


class Compaction:
    def __init__(
        self,
        disk: Disk,
        path: Path,
        group: str,
        machine: Snapshotted,
        jobs: Jobs,
        monotonic: Callable[[], float],
        members_at: Callable[[int], Members],
    ) -> None:
        self._disk = disk
        self._path = path
        self._group = group
        self._machine = machine
        self._jobs = jobs
        self._monotonic = monotonic
        self._members_at = members_at
        self._writer: snapshot.Writer | None = None
        self._chunks: Iterator[bytes] | None = None
        self._id: object = None
        self._state = SERIALIZER_STATE.NOT_SERIALIZING
        self._busy = False
        """Whether a slice is being written."""
        self._not_before = float("-inf")
        self.loaded: Meta | None = None
        """The snapshot that the state machine was restored from, for pysyncobj to take note of."""
        self.completed = 0
        """Number of times that the file was replaced by one of our own."""
        self.bytes = 0
        """Size of the last one of these."""
        self.seconds = 0.0
        """Time from its first slice until it was in its place."""
        self._began = self._newest_since = monotonic()
        self.allowed = True
        """Whether to write; not while a snapshot of a leader arrives: it will replace what would be written here."""

    @property
    def is_idle(self) -> bool:
        """No snapshot is being written, and none has just been."""
        return bool(self._state == SERIALIZER_STATE.NOT_SERIALIZING)

    @property
    def age(self) -> float:
        """Seconds since the last one was in its place; before there is one, since the group was opened."""
        return self._monotonic() - self._newest_since

    @property
    def has_work(self) -> bool:
        return self._chunks is not None and not self._busy

    def step(self) -> None:
        """Makes the next slice, if the one before is written."""
        if self._chunks is None or self._writer is None or self._busy:
            return
        end, size, made = self._monotonic() + SLICE_SECONDS, 0, []
        for chunk in self._chunks:
            made.append(chunk)
            size += len(chunk)
            if size >= SLICE_BYTES or self._monotonic() >= end:
                break
        else:
            self._chunks = None
        self._busy = True
        writer, last = self._writer, self._chunks is None

        def work() -> None:
            writer.write(made)
            if last:
                writer.finish()

        self._jobs.add(work, lambda outcome: self._written(writer, outcome))

    def cancel(self) -> None:
        """Gives up what is being written."""
        if self._writer is not None:
            self._jobs.add(self._writer.abandon)
        self._end(SERIALIZER_STATE.NOT_SERIALIZING)

    def _written(self, writer: snapshot.Writer, outcome: DiskFull | None) -> None:
        if writer is not self._writer:
            return  # it was cancelled meanwhile
        self._busy = False
        if outcome is not None:
            log.error("%s: %s; the journal grows until there is room", self._group, outcome)
            self._not_before = self._monotonic() + FULL_RETRY_SECONDS
            self._end(SERIALIZER_STATE.NOT_SERIALIZING)
        elif self._chunks is None:
            self._newest_since = self._monotonic()
            self.seconds, self.bytes = self._newest_since - self._began, writer.bytes
            self.completed += 1
            self._end(SERIALIZER_STATE.SUCCESS)
            failpoint("raft.after_snapshot")

    def _end(self, state: int) -> None:
        self._writer = self._chunks = None
        self._busy = False
        self._state = state

    # ---- pysyncobj's interface

    def checkSerializing(self) -> tuple[int, Any]:  # noqa: N802
        state = self._state
        if state == SERIALIZER_STATE.SUCCESS:
            self._state = SERIALIZER_STATE.NOT_SERIALIZING
        return state, self._id

    def serialize(self, data: tuple[Any, Entry, Entry, Any], identifier: object) -> None:
        if not self.allowed or self._monotonic() < self._not_before:
            return
        _, last, previous, _ = data
        meta = Meta(Entry(*previous), Entry(*last), self._members_at(last[1]))
        failpoint("raft.before_snapshot")
        self._id = identifier
        self._state = SERIALIZER_STATE.SERIALIZING
        self._began = self._monotonic()
        self._writer = snapshot.Writer(self._disk, self._path, self._group, meta)
        self._chunks = self._machine.snapshot()

    def deserialize(self) -> tuple[None, Entry, Entry, list[object]]:
        assert self.loaded is not None
        return None, self.loaded.last, self.loaded.previous, []

    def setTransmissionData(self, data: object) -> bool:  # noqa: N802
        """The snapshot that has arrived is in its place, and the state machine holds it."""
        return data is not None

    def cancelTransmisstion(self, node: object) -> None:  # noqa: N802
        """Transfers are not its business (see `transfer`)."""
