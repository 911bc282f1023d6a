"""A leader's snapshot on its way to a replica that lags: in parts, one under way at a time, from file to file.

The receiver says how much it has, and the leader sends what follows; so a part or an answer that gets lost is sent
again, and a restart of either side begins anew. What has arrived counts once all of it was checked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from txnstatus.process.disk import Disk, DiskFile, DiskFull, is_full
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import snapshot
from txnstatus.raft.jobs import Jobs
from txnstatus.raft.snapshot import Meta, SnapshotCorrupt

log = logging.getLogger(__name__)

PART_BYTES = 1 << 18
FULL_RETRY_SECONDS = 1.0
"""The pause on a full disk: a group that loses another member meanwhile has to wait for this one."""


@dataclass(slots=True)
class _Sending:
    version: int
    meta: Meta
    size: int
    offset: int = 0
    """The bytes that the receiver said it has."""
    sent_at: float = float("-inf")
    """Time when the part from `offset` on was sent; it is sent again if no answer comes."""


class SnapshotSender:
    """The leader's side."""

    def __init__(self, disk: Disk, path: Path, group: str, resend_seconds: float) -> None:
        self._disk = disk
        self._path = path
        self._group = group
        self._resend_seconds = resend_seconds
        self._sending: dict[str, _Sending] = {}

    def part(self, peer: str, version: int, now: float) -> pb.RaftMessage.SnapshotPart:
        """What to send next; without data while the peer is busy. `version` changes with the file."""
        state = self._sending.get(peer)
        if state is None or state.version != version:
            meta = snapshot.read_meta(self._disk, self._path, self._group)
            state = self._sending[peer] = _Sending(version, meta, self._disk.size(self._path) or 0)
            log.info("%s: sending %s a snapshot of %d bytes", self._group, peer, state.size)
        part = pb.RaftMessage.SnapshotPart(
            last_index=state.meta.last.idx, last_term=state.meta.last.term, offset=state.offset, size=state.size
        )
        if now - state.sent_at >= self._resend_seconds and state.offset < state.size:
            part.data = self._disk.read(self._path, state.offset, PART_BYTES)
            state.sent_at = now
        return part

    def answered(self, peer: str, reply: pb.RaftMessage.SnapshotReply) -> bool:
        """Whether the next part can go at once."""
        state = self._sending.get(peer)
        if state is None or (reply.last_index, reply.last_term) != (state.meta.last.idx, state.meta.last.term):
            return False
        if reply.offset == state.offset:
            return False
        state.offset = reply.offset
        state.sent_at = float("-inf")
        return True

    def forget(self, peer: str) -> None:
        self._sending.pop(peer, None)

    def forget_all(self) -> None:
        self._sending.clear()


@dataclass(slots=True)
class _Receiving:
    sender: str
    last_index: int
    last_term: int
    size: int
    offset: int = 0
    busy: bool = False
    """Whether a part is being written, or the whole is being checked."""
    file: DiskFile | None = None
    meta: Meta | None = None
    """The snapshot's place in the log, once all of it was checked and is durable, beside the snapshot in force."""


class SnapshotReceiver:
    """The side of the replica that lags."""

    def __init__(self, disk: Disk, path: Path, group: str, jobs: Jobs, monotonic: Callable[[], float]) -> None:
        self._disk = disk
        self._path = path
        self._group = group
        self._jobs = jobs
        self._monotonic = monotonic
        self._state: _Receiving | None = None
        self._not_before = float("-inf")
        self.replies: list[tuple[str, pb.RaftMessage.SnapshotReply]] = []
        """Replies to be sent; what they say is on the disk, though not yet for good."""

    @property
    def incoming(self) -> Path:
        return self._path.with_name(self._path.name + ".incoming")

    @property
    def active(self) -> bool:
        return self._state is not None

    def take(self, sender: str, part: pb.RaftMessage.SnapshotPart) -> None:
        """Writes the part if it is the one that is missing; answers it then, or else at once."""
        state = self._state
        which = (sender, part.last_index, part.last_term, part.size)
        if state is None or which != (state.sender, state.last_index, state.last_term, state.size):
            free = state is None or not (state.busy or state.meta is not None)  # what is whole is about to be installed
            if free and self._monotonic() >= self._not_before:
                self.drop()
                state = self._state = _Receiving(*which)
            else:
                state = None
        if state is None or state.busy or state.meta is not None or part.offset != state.offset or not part.data:
            self._reply(sender, part.last_index, part.last_term, state.offset if state else 0)
            return
        state.busy = True
        data = part.data
        self._jobs.add(lambda: self._write(state, data), lambda outcome: self._written(state, len(data), outcome))

    def _reply(self, sender: str, index: int, term: int, offset: int, *, damaged: bool = False) -> None:
        reply = pb.RaftMessage.SnapshotReply(last_index=index, last_term=term, offset=offset, damaged=damaged)
        self.replies.append((sender, reply))

    def arrived(self) -> tuple[str, Meta] | None:
        """Sender and meta of a snapshot that is whole, checked and durable at `incoming`."""
        state = self._state
        return (state.sender, state.meta) if state is not None and state.meta is not None else None

    def drop(self) -> None:
        """Forgets what has come so far; the file is overwritten by the next one."""
        state, self._state = self._state, None
        if state is not None:
            self._jobs.add(partial(_close, state))  # the write that makes the file may have to come yet

    def _write(self, state: _Receiving, data: bytes) -> Meta | SnapshotCorrupt | None:
        try:
            if state.file is None:
                state.file = self._disk.create(self.incoming)
            state.file.write(data)
        except OSError as error:
            if not is_full(error):
                raise
            self._disk.unlink(self.incoming)
            raise DiskFull(f"a snapshot in {self.incoming}", error) from error
        if state.offset + len(data) < state.size:
            return None
        state.file.sync()
        try:
            return snapshot.verify(self._disk, self.incoming, self._group)
        except SnapshotCorrupt as error:
            return error

    def _written(self, state: _Receiving, length: int, outcome: Meta | SnapshotCorrupt | DiskFull | None) -> None:
        state.busy = False
        if state is not self._state:
            return
        if isinstance(outcome, DiskFull):
            log.error("%s: %s", self._group, outcome)
            self._not_before = self._monotonic() + FULL_RETRY_SECONDS
            self.drop()
        elif isinstance(outcome, SnapshotCorrupt):
            log.error("%s: a snapshot from %s came damaged: %s", self._group, state.sender, outcome)
            self.drop()
            self._reply(state.sender, state.last_index, state.last_term, 0, damaged=True)
        else:
            state.offset += length
            state.meta = outcome
            self._reply(state.sender, state.last_index, state.last_term, state.offset)


def _close(state: _Receiving) -> None:
    if state.file is not None:
        state.file.close()
