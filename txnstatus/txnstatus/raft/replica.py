"""One SyncObj, and everything that reaches below its surface; `group` builds on this.

pysyncobj 0.3.17 is used as it is. Its private names are touched here and nowhere else.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pysyncobj.syncobj
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from txnstatus.raft.journal import Journal
from txnstatus.raft.messages import Message

# A SyncObj made for `appendEntriesUseBatch=False` opens a pipe to wake its own poller; our driver wakes it.
pysyncobj.syncobj.PIPE_NOTIFIER_ENABLED = False

_REGULAR = bytes([pysyncobj.syncobj._COMMAND_TYPE.REGULAR])
_LENGTH_BYTES = 4
SUCCESS = 0
NEVER = 1 << 62


def _not_a_false_alarm(record: logging.LogRecord) -> bool:
    """pysyncobj announces a divergence whenever a message repeats entries that are applied.

    It is about to truncate them; our journal drops an entry only for another one, and ends the process if that
    contradicts an applied one (JournalDiverged).
    """
    return not str(record.msg).startswith("truncating already-applied log entries")


logging.getLogger("pysyncobj.syncobj").addFilter(_not_a_false_alarm)


class _Peer(Node):  # type: ignore[misc]
    """A node by id. The hash does not depend on the process, so sets iterate alike in every run."""

    def __hash__(self) -> int:
        return zlib.crc32(self.id.encode())


class _NoPoller:
    def poll(self, timeout: float) -> None:
        pass


class _Outbox(Transport):  # type: ignore[misc]
    """pysyncobj's transport: hands over what it sends."""

    def __init__(self, send: Callable[[str, Message], None]) -> None:
        super().__init__(None, None, [])
        self._send = send

    def send(self, node: Node, message: Message) -> bool:
        self._send(node.id, message)
        return True


class Replica(SyncObj):  # type: ignore[misc]
    """SyncObj with its pickled commands replaced by ours: an entry is a batch of length-prefixed commands."""

    def __init__(
        self,
        node_id: str,
        peers: Sequence[str],
        conf: SyncObjConf,
        journal: Journal,
        *,
        apply: Callable[[bytes], object],
        send: Callable[[str, Message], None],
    ) -> None:
        self._apply = apply
        # pysyncobj opens its journal by path, in its constructor; ours is open already.
        factory = pysyncobj.syncobj.createJournal
        pysyncobj.syncobj.createJournal = lambda _path: journal
        try:
            super().__init__(_Peer(node_id), [_Peer(p) for p in peers], conf=conf, transport=_Outbox(send))
        finally:
            pysyncobj.syncobj.createJournal = factory
        self._poller = _NoPoller()

    def _SyncObj__doApplyCommand(self, entry: bytes) -> list[object]:  # noqa: N802
        """Called for every committed entry, on every replica. Nothing is unpickled."""
        if entry[:1] != _REGULAR:
            return []  # the no-op of a new leader
        return [self._apply(command) for command in _split(entry)]

    def submit(self, commands: Sequence[bytes], ended: Callable[[list[object] | None, int], None]) -> None:
        """Queues one entry of all the commands; `ended` hears what each `apply` returned, or a reason."""
        body = b"".join(len(c).to_bytes(_LENGTH_BYTES, "little") + c for c in commands)
        self._applyCommand(_REGULAR + body, ended)

    def deliver(self, sender: str, message: Message) -> None:
        self._SyncObj__transport._onMessageReceived(_Peer(sender), message)

    def connected(self, peer: str) -> None:
        self._SyncObj__transport._onNodeConnected(_Peer(peer))

    def disconnected(self, peer: str) -> None:
        self._SyncObj__transport._onNodeDisconnected(_Peer(peer))

    def next_index(self, peer: str) -> int:
        """The first entry that this leader has not sent to the peer yet."""
        indexes: dict[Any, int] = self._SyncObj__raftNextIndex
        return indexes.get(_Peer(peer), 0)

    def set_next_index(self, peer: str, index: int) -> None:
        self._SyncObj__raftNextIndex[_Peer(peer)] = index

    @property
    def leading(self) -> bool:
        return bool(self._isLeader())

    @property
    def leader_id(self) -> str:
        """The last known leader; empty = unknown."""
        leader = self._getLeader()
        return str(leader.id) if leader else ""

    @property
    def own_noop_index(self) -> int:
        """The index of the entry with which this replica began to lead."""
        return int(self._SyncObj__noopIDx or NEVER)


def entry_size(command: bytes) -> int:
    """What a command adds to an entry."""
    return len(command) + _LENGTH_BYTES


def _split(entry: bytes) -> list[bytes]:
    commands, offset = [], len(_REGULAR)
    while offset < len(entry):
        length = int.from_bytes(entry[offset : offset + _LENGTH_BYTES], "little")
        offset += _LENGTH_BYTES
        commands.append(entry[offset : offset + length])
        offset += length
    return commands
