"""Who belongs to a group: that is said by entries of its own log.

A replica obeys the latest such entry that its log has, committed or not, and goes back to the one before when the entry
is cut off (Raft thesis, 4.1). One member is added or removed at a time, so that the majorities of two successive sets
overlap. The first entry of a log, of index 1 and term 0, is the set that the group was made with.
"""

from __future__ import annotations

from txnstatus.errors import InvalidArgument
from txnstatus.proto import raft_pb2 as pb

MEMBERS = b"\x02"
"""The first byte of an entry that changes the members; the others are pysyncobj's: 0 = commands, 1 = a new
leader's no-op."""

Members = tuple[str, ...]


def encode(members: Members) -> bytes:
    return MEMBERS + pb.Members(node_ids=members).SerializeToString()


def decode(command: bytes) -> Members | None:
    """None = an entry of another kind."""
    if command[:1] != MEMBERS:
        return None
    return tuple(pb.Members.FromString(command[1:]).node_ids)


def changed(group: str, current: Members, add: str, remove: str) -> Members:
    """The members once one is added or removed. Raises InvalidArgument."""
    new = tuple(member for member in current if member != remove)
    if add and add not in new:
        new = (*new, add)
    if bool(add) == bool(remove) or not new:
        raise InvalidArgument(f"one member of {group} is added or removed at a time, and never the last one")
    return new


class Configurations:
    """The member sets of a log: `base`, as of its beginning, and those of the entries after it."""

    def __init__(self) -> None:
        self._base: Members = ()
        self._changes: list[tuple[int, Members]] = []

    @property
    def current(self) -> Members:
        return self._changes[-1][1] if self._changes else self._base

    @property
    def index(self) -> int:
        """The index of the entry that made the current set; 0 = it is the base."""
        return self._changes[-1][0] if self._changes else 0

    def at(self, index: int) -> Members:
        """The set in force once the entry `index` is the last."""
        return next((members for changed, members in reversed(self._changes) if changed <= index), self._base)

    def added(self, index: int, command: bytes) -> None:
        members = decode(command)
        if members is not None:
            self._changes.append((index, members))

    def cut(self, index: int) -> None:
        """The entry `index` and all after it are gone."""
        while self._changes and self._changes[-1][0] >= index:
            self._changes.pop()

    def rebase(self, index: int, members: Members) -> None:
        """The log up to `index` is now what a snapshot says."""
        self._base = members
        self._changes = [change for change in self._changes if change[0] > index]
