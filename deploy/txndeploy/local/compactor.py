"""A worker of compactions beside the nodes of a cluster on this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from txndeploy.local.spawning import Spawn, Spawned, fresh
from txndeploy.node import compactor

STOP_SECONDS = 10.0


class LocalCompactor:
    """A process of its own, which ends with this one."""

    def __init__(
        self, addresses: str, log_path: Path, environment: Mapping[str, str] | None = None, spawn: Spawn = fresh
    ) -> None:
        """`addresses`: of nodes. `environment`: variables besides this process's own."""
        self._addresses, self.log_path = addresses, log_path
        self._environment = dict(environment or {})
        self._spawn = spawn
        self._process: Spawned | None = None

    def start(self) -> None:
        """Starts it, unless it runs."""
        if self.running:
            return
        environment = {**os.environ, **self._environment}
        self._process = self._spawn(compactor.command(self._addresses), self.log_path, environment)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """As subprocess has it; None: it runs, or was never started."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was never started"
        return self._process.pid

    def stop(self) -> int | None:
        """Lets it give back what it has; kills it where that takes too long. Returns the exit code."""
        if self._process is None:
            return None
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        return self.kill()

    def kill(self) -> int | None:
        """kill -9; returns the exit code."""
        if self._process is None:
            return None
        self._process.kill()
        return self._process.wait()

    def wait(self, timeout: float) -> int:
        """Until it has ended by itself; returns the exit code. Raises subprocess.TimeoutExpired."""
        assert self._process is not None, "it was never started"
        return self._process.wait(timeout)
