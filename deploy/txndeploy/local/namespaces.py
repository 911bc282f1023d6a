"""Every node in a network namespace of its own, so that what is cut is cut: packets vanish, and nobody is told.

    node n1            node n2            this process
    e0 198.18.7.1      e0 198.18.7.2      e0 198.18.7.254 (its door)
         |                  |                  |
         p1 ------------ bridge -------------- p254        the switch; nftables on its ports

Nothing of this is in the host's own network, and nothing has a name in the file system: a namespace lasts as long as a
thread of this process, or a process, is in it. So all of it is gone when this process is, whatever ended it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from txndeploy.local.network import Network, Way
from txndeploy.local.proxies import Proxies

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

CLONE_NEWNET = 0x40000000
SUBNET = "198.18.7."
DOOR = 254
PORT = 7051
TOOLS = ("ip", "nft", "ss")
CLOG = "2 kbytes/second burst 4 kbytes"
CHAIN = "bridge txnstatus ways"


class NoNamespaces(Exception):
    """They cannot be had here; the message says why."""


class _Namespace:
    """A network namespace, and the thread that is in it."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self.run(_unshare)
        self.thread_id = self.run(threading.get_native_id)

    def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Calls `work` inside: sockets that it makes and processes that it starts belong there."""
        return self._thread.submit(work).result()

    def tool(self, *command: str, text: str = "") -> None:
        self.run(lambda: subprocess.run(command, input=text, text=True, check=True, capture_output=True))

    def ip(self, *lines: str) -> None:
        self.tool("ip", "-batch", "-", text="\n".join(lines))

    def socket(self) -> socket.socket:
        return self.run(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP))

    def close(self) -> None:
        self._thread.shutdown()


class Namespaces(Network):
    """Raises NoNamespaces where they cannot be had."""

    faults = frozenset({"cut", "loss", "clogged", "reset"})
    places_processes = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        if os.geteuid() != 0:
            raise NoNamespaces("network namespaces need root")
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise NoNamespaces(f"network namespaces need {', '.join(missing)} (apt-get install iproute2 nftables)")
        self._nodes: dict[str, _Namespace] = {}
        self._numbers: dict[str, int] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        try:
            self._switch = _Namespace("switch")
            self._switch.ip("link add bridge type bridge", "link set bridge up")
            self._switch.tool(
                "nft", f"add table bridge txnstatus; add chain {CHAIN} {{ type filter hook forward priority 0; }}"
            )
            self._outside = _Namespace("outside")
            self._plug_in(self._outside, DOOR)
        except OSError as error:
            raise NoNamespaces(f"this kernel makes no network namespace: {error.strerror}") from error
        except subprocess.CalledProcessError as error:
            raise NoNamespaces(f"{error.cmd[0]}: {error.stderr.strip()}") from error
        self._doors = Proxies(seed, self._outside.socket)

    # ---- for LocalCluster

    def addresses(self, nodes: Sequence[str]) -> dict[str, str]:
        first = max(self._numbers.values(), default=0) + 1
        return {node: f"{SUBNET}{number}:{PORT}" for number, node in enumerate(nodes, first)}

    def attach(self, node: str, address: str) -> str:
        """The way in from outside is a proxy, whose far end is in a namespace."""
        namespace = self._nodes[node] = _Namespace(node)
        self._numbers[node] = int(address.rpartition(":")[0].removeprefix(SUBNET))
        self._plug_in(namespace, self._numbers[node])
        return self._doors.reach("outside", node, address)

    def start(self, node: str, start: Callable[[], ResultT]) -> ResultT:
        return self._nodes[node].run(start)

    # ---- for whoever breaks it

    def set(self, ways: Iterable[tuple[str, str]], **how: Any) -> None:
        for pair in ways:
            way = self._ways.setdefault(pair, Way())
            for name, value in how.items():
                assert name in self.faults, name
                setattr(way, name, value)
        self._rule()

    def heal(self) -> None:
        self._ways.clear()
        self._rule()

    def reset(self, one: str, other: str) -> None:
        self._nodes[one].tool("ss", "--kill", "dst", f"{SUBNET}{self._numbers[other]}")

    def close(self) -> None:
        self._doors.close()
        for namespace in [*self._nodes.values(), self._outside, self._switch]:
            namespace.close()
        super().close()

    # ---- the wiring

    def _plug_in(self, namespace: _Namespace, number: int) -> None:
        self._switch.ip(
            f"link add p{number} type veth peer name e0 netns {namespace.thread_id}",
            f"link set p{number} master bridge up",
        )
        namespace.ip("link set lo up", f"address add {SUBNET}{number}/24 dev e0", "link set e0 up")

    def _rule(self) -> None:
        """All rules anew, in one step."""
        rules = [f"flush chain {CHAIN}"]
        for (source, target), way in self._ways.items():
            rule = f"add rule {CHAIN} iifname p{self._numbers[source]} oifname p{self._numbers[target]}"
            if way.cut:
                rules.append(f"{rule} drop")
            if way.loss:
                rules.append(f"{rule} numgen random mod 1000 < {round(way.loss * 1000)} drop")
            if way.clogged:
                rules.append(f"{rule} limit rate over {CLOG} drop")
        self._switch.tool("nft", "-f", "-", text="\n".join(rules) + "\n")


def best_network(seed: int) -> Network:
    """The network that can be broken most truly, of those that can be had here."""
    try:
        return Namespaces(seed)
    except NoNamespaces as error:
        log.info("%s: the nodes reach each other through proxies", error)
        return Proxies(seed)


def _unshare() -> None:
    """Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
