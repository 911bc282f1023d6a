"""Strangers at a node's port: they connect, and say nothing, or a byte now and then, or half of something long."""

from __future__ import annotations

import contextlib
import itertools
import resource
import socket
import struct
import threading
from collections import deque

from txnstatus.rpc.connection import LENGTH, Purpose, split_address

SLOWLY = 1.0
"""Seconds between two bytes of a slow one."""
LONGEST_BYTES, TOO_LONG_BYTES = 16 << 20, 50 << 20
"""Lengths of frames of which a part is sent: as long as they may be, and longer."""
CONNECT_SECONDS = 10.0


class Crowd:
    """A context manager: they stay, and come again when they are ended, until it is left."""

    def __init__(self, address: str, *, silent: int, slow: int, half_sent: int) -> None:
        self._address = split_address(address)
        self._wanted = deque([*["silent"] * silent, *["slow"] * slow, *["half"] * half_sent])
        self._lengths = itertools.cycle([TOO_LONG_BYTES, LONGEST_BYTES])
        self._here: dict[socket.socket, str] = {}
        self._stopping = threading.Event()
        self._all_came = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.most_at_once = 0
        self.came_again = 0

    def __enter__(self) -> Crowd:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for each in self._here:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.close()

    def wait_until_all_came(self, timeout: float) -> None:
        assert self._all_came.wait(timeout), f"{len(self._wanted)} have not come yet"

    def _run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(len(self._wanted)):
                if self._stopping.is_set():
                    return
                self._come(self._wanted.popleft())
            self._all_came.set()
            self.most_at_once = max(self.most_at_once, len(self._here))
            self._stopping.wait(SLOWLY)
            for each, kind in list(self._here.items()):
                if not self._goes_on(each, kind):
                    del self._here[each]
                    each.close()
                    self._wanted.append(kind)
                    self.came_again += 1

    def _come(self, kind: str) -> None:
        try:
            each = socket.create_connection(self._address, CONNECT_SECONDS)
        except OSError:
            self._wanted.append(kind)
            return
        self._here[each] = kind
        with contextlib.suppress(OSError):
            if kind == "slow":
                each.sendall(Purpose.CALLS.opening + LENGTH.pack(1_000))
            if kind == "half":
                each.sendall(Purpose.CALLS.opening + LENGTH.pack(next(self._lengths)) + bytes(LONGEST_BYTES // 2))
        each.setblocking(False)

    def _goes_on(self, each: socket.socket, kind: str) -> bool:
        try:
            if kind == "slow":
                each.send(b"x")
            return bool(each.recv(1))
        except BlockingIOError:
            return True
        except OSError:
            return False
