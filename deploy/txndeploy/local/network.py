"""How the nodes of a LocalCluster reach each other, and how a test breaks that."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

ResultT = TypeVar("ResultT")

LOWEST_PORT = 10_240
PORTS_VARIABLE = "TXN_LOCAL_PORTS"
"""FIRST-LAST in the environment: programs with ranges of their own take no port of each other's nodes that are down."""


@dataclass(slots=True)
class Way:
    """How what one node sends to another fares."""

    cut: bool = False
    delay: float = 0.0
    """Seconds."""
    loss: float = 0.0
    """The part that must be sent again."""
    clogged: bool = False
    """Open, and almost nothing comes through."""


class Network:
    """Loopback as it is. What can be broken is broken by a subclass; close it after the cluster."""

    faults: frozenset[str] = frozenset()
    """What can be done to it: fields of Way, and `reset`."""
    places_processes = False
    """Whether a process has its place in the network from the thread that starts it."""

    def __init__(self) -> None:
        # A node ends with the thread that started it (see tethered), so one thread that lasts starts all of them.
        self._starter = ThreadPoolExecutor(1, "nodes")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- for LocalCluster

    def addresses(self, nodes: Sequence[str]) -> dict[str, str]:
        """Where new nodes are to listen."""
        return {node: f"127.0.0.1:{port}" for node, port in zip(nodes, free_ports(len(nodes)), strict=True)}

    def attach(self, node: str, address: str) -> str:
        """Makes room for a node that listens there; returns the address under which this process reaches it."""
        return address

    def reach(self, source: str, target: str, address: str) -> str:
        """The address under which `source` reaches `target`, which listens at `address`."""
        return address

    def start(self, node: str, start: Callable[[], ResultT]) -> ResultT:
        """Calls `start`, which starts the node's process, where the node has its place."""
        return self._starter.submit(start).result()

    # ---- for whoever breaks it

    def set(self, ways: Iterable[tuple[str, str]], **how: Any) -> None:
        """Changes what happens on the given ways, each from one node to another: fields of Way."""
        raise NotImplementedError

    def heal(self) -> None:
        """All ways as at the beginning."""
        raise NotImplementedError

    def reset(self, one: str, other: str) -> None:
        """Breaks the connections that there are between two nodes."""
        raise NotImplementedError

    def close(self) -> None:
        """Nodes that still run end with it."""
        self._starter.shutdown()


def free_ports(count: int) -> list[int]:
    """Ports that are free now, and that the kernel gives to nobody's outgoing connections.

    One from its own range could be taken while a node is down; and a connection to such a port, with nobody there, can
    even connect to itself.
    """
    found: list[int] = []
    candidates = iter(random.sample(_ports(), 1_000))
    while len(found) < count:
        port = next(candidates)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    return found


def _ports() -> range:
    first, _, last = os.environ.get(PORTS_VARIABLE, "").partition("-")
    return range(int(first), int(last) + 1) if last else range(LOWEST_PORT, _first_ephemeral_port())


def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768
