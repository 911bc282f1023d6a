"""Server processes of peers: started on loopback, ended by their pid."""

from __future__ import annotations

import contextlib
import importlib.util
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.05
APT = "apt-get install -y --no-install-recommends"
INSTALL = {
    "etcd": f"{APT} etcd-server",
    "java": f"{APT} default-jre-headless",
    "postgres": f"{APT} postgresql",
    "strace": f"{APT} strace",
    "zookeeper": f"{APT} zookeeper",
}
"""How to install each program, on Debian."""
PIP = "pip install -e '.[bench]'"


def slow_disk(fsync_ms: float) -> list[str]:
    """Words before a command, for which every fsync then takes so much longer; none for none.

    strace stops the process at these two calls alone (--seccomp-bpf), and is not its parent (-D).
    """
    if not fsync_ms:
        return []
    calls = "fsync,fdatasync"
    inject = f"inject={calls}:delay_exit={round(1000 * fsync_ms)}"
    return ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject]


def needs(*programs: str) -> str | None:
    """How to install the first of them that is not there; None: all are."""
    return next((INSTALL[program] for program in programs if shutil.which(program) is None), None)


def needs_modules(*modules: str) -> str | None:
    """How to install what is not there of these Python modules; None: all are."""
    return PIP if any(importlib.util.find_spec(module) is None for module in modules) else None


def tethered(owner: str | None = None) -> list[str]:
    """Words before a command that then ends with the suite, however that ends; and that `owner` runs."""
    words = ["setpriv", "--pdeathsig", "KILL"]
    if owner is not None:
        entry = pwd.getpwnam(owner)
        words += [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    return words


@dataclass
class Processes:
    """The servers of one contender, by name; what they say is in NAME.log."""

    directory: Path
    launcher: Sequence[str] = ()
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str | Path], owner: str | None = None) -> None:
        with self.log(name).open("ab") as output:
            self.running[name] = subprocess.Popen(
                [*self.launcher, *tethered(owner), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C is for the suite, which then ends them
            )

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def pid(self, name: str) -> int:
        return self.running[name].pid

    def await_ready(self, is_ready: Callable[[], bool], what: str) -> None:
        """Raises RuntimeError with the end of its log when one ends instead, or TimeoutError."""
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready():
            for name, process in self.running.items():
                if process.poll() is not None:
                    story = self.log(name).read_text(errors="replace").splitlines()[-5:]
                    raise RuntimeError(f"{name} ended with {process.returncode}: {' / '.join(story)}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {READY_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """The one started last ends first."""
        for process in reversed(self.running.values()):
            process.send_signal(signal.SIGINT)  # PostgreSQL does not wait for its clients then
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            process.kill()
            process.wait()
        self.running.clear()
