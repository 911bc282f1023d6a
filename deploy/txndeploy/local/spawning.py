"""How the processes of a LocalCluster are started: each anew, or forked from one that has imported what they need.

Most of a node's start is imports, which a fork has behind it. Whoever starts hundreds of nodes wants that; whoever
starts three does not notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from txndeploy.node import tethered

LOADER_VARIABLE = "LD_PRELOAD"
"""A variable that the dynamic loader reads: a fork, which loads nothing, would miss it."""


class Spawned(Protocol):
    """A process, with what subprocess.Popen has of the same names."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Spawn = Callable[[Sequence[str], Path, Mapping[str, str]], Spawned]
"""Starts a command, with where its output goes and its whole environment, in a session of its own: Ctrl-C is for
whoever runs the cluster, who then stops it in order."""


def fresh(command: Sequence[str], output: Path, environment: Mapping[str, str]) -> Spawned:
    """A process of its own from the start, which ends with the thread that calls."""
    with output.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**environment, tethered.VARIABLE: str(os.getpid())},
            start_new_session=True,
        )


class ForkServer:
    """Starts processes by forking one that has imported what nodes and compactors need; for any number of clusters.

    Linux only. The server, and with it whatever it forked, ends with this process, however that ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None

    def spawn(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> Spawned:
        """A Spawn. What is no module of this interpreter, or wants a library loaded before others, is started fresh."""
        if list(command[:2]) != [sys.executable, "-m"] or LOADER_VARIABLE in environment:
            return fresh(command, output, environment)
        wanted = {
            "command": list(command),
            "output": str(output.absolute()),
            "environment": dict(environment),
            "directory": str(Path.cwd()),
        }
        output.open("ab").close()  # it is there from now on, and whoever cannot write it hears of it here
        with self._lock:
            if self._server is None or self._server.poll() is not None:
                self._start()
            pid = self._ask(wanted)
            return Forked(pid, os.pidfd_open(pid), command, self._reap)

    def close(self) -> None:
        """Ends the server, and whatever still runs of what it forked."""
        with self._lock:
            if self._server is not None and self._connection is not None:
                self._connection.close()
                self._server.wait()
                self._server = None

    def _start(self) -> None:
        ours, its = socket.socketpair()
        with its:
            command = [sys.executable, "-m", "txndeploy.local.fork_server", str(its.fileno()), str(os.getpid())]
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()], start_new_session=True
            )
        self._connection = ours

    def _ask(self, request: object) -> int:
        """The answer, which is a number. Raises OSError where the server has ended."""
        assert self._connection is not None
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._connection.recv(64)
            if not part:
                raise ConnectionResetError("the fork server has ended, and with it what it started")
            answer += part
        return int(answer)

    def _reap(self, pid: int) -> int:
        with self._lock:
            try:
                return self._ask({"reap": pid})
            except OSError:
                return -signal.SIGKILL  # what the kernel does to the server's children when that ends


class Forked:
    """A process that the fork server forked; its number is nobody else's before its exit code was asked for."""

    def __init__(self, pid: int, handle: int, command: Sequence[str], reap: Callable[[int], int]) -> None:
        """`handle`: a descriptor of the process, to be closed by this object. `reap`: tells how one that ended did."""
        self.pid = pid
        self._handle, self._command, self._reap = handle, command, reap
        self._lock = threading.Lock()
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self._ended_within(None if deadline is None else max(0, deadline - time.monotonic()))) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(self._command, cast(float, timeout))
        return code

    def send_signal(self, sig: int) -> None:
        with self._lock:
            if self._code is None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, timeout: float | None) -> int | None:
        """The exit code; None: it runs after `timeout` seconds."""
        if self._code is None:
            waiting = select.poll()
            waiting.register(self._handle, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                return None
            with self._lock:
                if self._code is None:
                    self._code = self._reap(self.pid)
                    os.close(self._handle)
        return self._code
