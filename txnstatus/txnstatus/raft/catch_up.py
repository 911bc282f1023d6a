"""CatchUp: how a replica that lags gets a snapshot, on both sides; `transfer` moves the bytes.

pysyncobj sends the whole file in one go from the tick, installs what arrives, whole or not, and clears its journal for
it, also of entries that the replica has acknowledged. Here a snapshot counts only if it is whole, durable, and brings
something new; and a part of one says nothing of the receiver's own entries. It is restored beside the state in force,
a slice at a time, so that a large one stops nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from txnstatus.process.disk import Disk, is_full
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import snapshot
from txnstatus.raft.compaction import Compaction
from txnstatus.raft.jobs import Jobs
from txnstatus.raft.journal import Journal
from txnstatus.raft.machine import Restoring
from txnstatus.raft.replica import Replica
from txnstatus.raft.settings import SLICE_SECONDS, RaftSettings
from txnstatus.raft.snapshot import Meta, SnapshotCorrupt
from txnstatus.raft.transfer import SnapshotReceiver, SnapshotSender

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Loading:
    """A snapshot that has arrived, on its way into the state machine."""

    state: Restoring
    chunks: Iterator[None]


class CatchUp:
    def __init__(
        self,
        group: str,
        disk: Disk,
        path: Path,
        jobs: Jobs,
        journal: Journal,
        replica: Replica,
        compaction: Compaction,
        restoring: Callable[[], Restoring],
        monotonic: Callable[[], float],
        settings: RaftSettings,
    ) -> None:
        self._group = group
        self._disk = disk
        self._path = path
        self._journal = journal
        self._replica = replica
        self._compaction = compaction
        self._restoring = restoring
        self._monotonic = monotonic
        self._sender = SnapshotSender(disk, path, group, 4 * settings.heartbeat_seconds)
        self._receiver = SnapshotReceiver(disk, path, group, jobs, monotonic)
        self._loading: _Loading | None = None

    # ---- the leader's side

    def part_for(self, peer: str) -> pb.RaftMessage.SnapshotPart:
        now = self._monotonic()
        if self._disk.size(self._path) is None:
            self._replica.forceLogCompaction()
            return pb.RaftMessage.SnapshotPart(sent_micros=int(now * 1e6))
        try:
            part = self._sender.part(peer, self._compaction.completed, now)
        except SnapshotCorrupt as error:
            log.error("%s: cannot send %s a snapshot, a new one is made: %s", self._group, peer, error)
            self._replica.forceLogCompaction()
            part = pb.RaftMessage.SnapshotPart()
        part.sent_micros = int(now * 1e6)
        return part

    def answered(self, peer: str, reply: pb.RaftMessage.SnapshotReply) -> bool:
        """Whether the next part should go now."""
        if reply.damaged:
            # It left here damaged, or was damaged there: a new file ends the first.
            self._replica.forceLogCompaction()
        return self._sender.answered(peer, reply)

    def stop_sending(self) -> None:
        self._sender.forget_all()

    # ---- the side of the replica that lags

    def take(self, sender: str, part: pb.RaftMessage.SnapshotPart) -> int | None:
        """A part has come. Returns the index up to which this replica has what the snapshot holds, if it has."""
        if self._has(part.last_index, part.last_term):
            self._receiver.drop()
            return part.last_index
        if part.size:
            self._compaction.cancel()
            self._receiver.take(sender, part)
        return None

    @property
    def has_work(self) -> bool:
        """Whether the next step should come at once."""
        return self._loading is not None

    def step(self) -> list[tuple[str, pb.RaftMessage.SnapshotReply]]:
        """Once a tick: goes on with installing what has arrived. Returns answers to parts."""
        arrived = self._receiver.arrived()
        if arrived is None:
            self._loading = None  # another one has begun to come
        elif arrived[0] != self._replica.leader_id or self._has(arrived[1].last.idx, arrived[1].last.term):
            self._drop_arrived()
        elif (state := self._load(*arrived)) is not None:
            self._drop_arrived()
            self._install(*arrived, state)
        self._compaction.allowed = not self._receiver.active
        replies, self._receiver.replies = self._receiver.replies, []
        return replies

    def _drop_arrived(self) -> None:
        self._loading = None
        self._receiver.drop()

    def _load(self, sender: str, meta: Meta) -> Restoring | None:
        """Restores another slice beside the state in force; returns it when only the end is missing."""
        if self._loading is None:
            log.info("%s: loading the snapshot of %s, up to entry %d", self._group, sender, meta.last.idx)
            state = self._restoring()
            self._loading = _Loading(state, snapshot.load(self._disk, self._receiver.incoming, state))
        end = self._monotonic() + SLICE_SECONDS
        for _ in self._loading.chunks:
            if self._monotonic() >= end:
                return None
        return self._loading.state

    def _has(self, index: int, term: int) -> bool:
        return index <= self._replica.raftLastApplied or self._journal.has(index, term)

    def _install(self, sender: str, meta: Meta, state: Restoring) -> None:
        log.info("%s: installing the snapshot of %s, up to entry %d", self._group, sender, meta.last.idx)
        failpoint("raft.before_install")
        try:
            snapshot.install(self._disk, self._receiver.incoming, self._path)
        except OSError as error:
            if not is_full(error):
                raise
            log.error("%s: no room to install a snapshot: %s", self._group, error)
            return
        snapshot.finish(self._path, state)
        self._compaction.loaded = meta
        self._compaction.completed += 1
        message = {"type": "append_entries", "term": int(self._replica.raftCurrentTerm), "commit_index": 0}
        self._replica.deliver(sender, {**message, "serialized": True})
        self._journal.members.rebase(meta.last.idx, meta.members)
        failpoint("raft.after_install")
