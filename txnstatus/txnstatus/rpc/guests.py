"""Who may stay at a port: strangers for a while, clients up to a number, processes of the cluster beside them.

A connection is a stranger's until a whole frame has come over it: it may be silent, slow, or of somebody who is lost.
Strangers have places of their own, and the one that came first makes room for the one that comes, so that they take no
place from anybody who speaks. What is known may rest as long as it likes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from txnstatus.values import value

GuestT = TypeVar("GuestT", bound=Hashable)

OPENING_SECONDS = 5.0
"""Time in which a stranger has to say what its connection is for, and to begin a frame."""
FRAME_SECONDS = 30.0
"""Time in which a frame that has begun has to be whole."""
UNFINISHED_BYTES = 256 << 20
FEWEST_CLIENTS = 32
"""A node that has room for fewer does not start."""


@value
class Bounds:
    clients: int = 10_000
    peers: int = 256
    """Connections from the cluster's processes: other nodes, hosts of foreign participants."""
    strangers: int = 1_000
    unfinished_bytes: int = UNFINISHED_BYTES
    """Bytes of frames that have begun and are not whole, over all connections."""

    @classmethod
    def within(cls, descriptors: int, clients: int | None = None, unfinished_bytes: int = UNFINISHED_BYTES) -> Bounds:
        """What so many descriptors allow. `clients`: what was asked for. Raises ValueError where they are too few."""
        most = cls()
        peers = min(most.peers, descriptors // 8)
        strangers = min(most.strangers, descriptors // 4)
        left = descriptors - peers - strangers
        if left < (clients or FEWEST_CLIENTS):
            raise ValueError(
                f"{left} connections of clients are possible with the open files this process may have (ulimit -n): "
                f"{clients or FEWEST_CLIENTS} are needed"
            )
        return cls(clients or min(most.clients, left), peers, strangers, unfinished_bytes)


@dataclass(slots=True)
class _Unfinished:
    since: float
    bytes: int


class Guests(Generic[GuestT]):
    """Whoever is told to go here has gone: `left` need not be called for it, and may be."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._strangers: dict[GuestT, float] = {}
        """When each came; the first to come in front."""
        self._clients: set[GuestT] = set()
        self._peers: set[GuestT] = set()
        self._unfinished: dict[GuestT, _Unfinished] = {}
        """The frames that are not whole, the first to begin in front."""
        self._unfinished_bytes = 0

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Kind → how many there are, and how many there may be."""
        return {
            "client": (len(self._clients), self._bounds.clients),
            "peer": (len(self._peers), self._bounds.peers),
            "stranger": (len(self._strangers), self._bounds.strangers),
        }

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of frames that are not whole."""
        return self._unfinished_bytes

    def came(self, guest: GuestT, now: float) -> list[GuestT]:
        """A stranger. Returns those that have to go for it."""
        self._strangers[guest] = now
        return self._gone(list(self._strangers)[: max(0, len(self._strangers) - self._bounds.strangers)])

    def known(self, guest: GuestT, *, is_peer: bool) -> bool:
        """A whole frame has come from a stranger. Returns whether there is room for one more of its kind."""
        self._strangers.pop(guest, None)
        kind, most = (self._peers, self._bounds.peers) if is_peer else (self._clients, self._bounds.clients)
        if len(kind) >= most:
            return False
        kind.add(guest)
        return True

    def holds(self, guest: GuestT, count: int, now: float, *, begun: bool) -> list[GuestT]:
        """Notes how many bytes are here of a frame that is not whole. `begun`: it is another frame than before.

        Returns those that have to go for it.
        """
        before = self._unfinished.get(guest)
        if before is None or begun or not count:
            self._forget_frame(guest)
            before = None
        if count:
            if before is None:
                before = self._unfinished[guest] = _Unfinished(now, 0)
            self._unfinished_bytes += count - before.bytes
            before.bytes = count
        gone: list[GuestT] = []
        while self._unfinished_bytes > self._bounds.unfinished_bytes:
            gone += self._gone([next(iter(self._unfinished))])
        return gone

    def late(self, now: float) -> list[GuestT]:
        """Takes out those that have to go because their time is over."""
        silent = [
            guest
            for guest, came in self._strangers.items()
            if now - came >= OPENING_SECONDS and guest not in self._unfinished
        ]
        slow = [guest for guest, frame in self._unfinished.items() if now - frame.since >= FRAME_SECONDS]
        return self._gone(silent + slow)

    @property
    def any_may_be_late(self) -> bool:
        return bool(self._strangers or self._unfinished)

    def left(self, guest: GuestT) -> None:
        self._strangers.pop(guest, None)
        self._clients.discard(guest)
        self._peers.discard(guest)
        self._forget_frame(guest)

    def _gone(self, guests: list[GuestT]) -> list[GuestT]:
        for guest in guests:
            self.left(guest)
        return guests

    def _forget_frame(self, guest: GuestT) -> None:
        frame = self._unfinished.pop(guest, None)
        if frame is not None:
            self._unfinished_bytes -= frame.bytes
