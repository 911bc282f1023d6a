"""What the machine is, and what its CPUs do, from /proc."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.suite.model import CLIENT
from txnstatus.process import interpreter

_TICKS = os.sysconf("SC_CLK_TCK")
_PROBES = 200


@dataclass(frozen=True)
class Machine:
    cores: int
    cpu: str
    ram_gib: float
    kernel: str
    python: str
    file_system: str
    fdatasync_us: float
    """Median of an append of 4 KiB and its fdatasync, in the directory where the data lies."""
    fdatasync_p99_us: float

    def rows(self) -> list[tuple[str, str]]:
        return [
            (name.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value))
            for name, value in asdict(self).items()
        ]


def inspect(directory: Path) -> Machine:
    """Raises ValueError for a directory that is in memory: nothing is durable there."""
    kind = file_system(directory)
    if kind in ("tmpfs", "ramfs"):
        raise ValueError(f"{directory} is on {kind}; give a directory on a disk")
    times = _fdatasync_times(directory)
    return Machine(
        cores=os.cpu_count() or 1,
        cpu=_field(Path("/proc/cpuinfo"), "model name"),
        ram_gib=round(int(_field(Path("/proc/meminfo"), "MemTotal").split()[0]) / 2**20, 1),
        kernel=platform.release(),
        python=interpreter.describe(),
        file_system=kind,
        fdatasync_us=round(1e6 * statistics.median(times), 1),
        fdatasync_p99_us=round(1e6 * statistics.quantiles(times, n=100)[98], 1),
    )


def file_system(directory: Path) -> str:
    """The kind of the longest mount point above the directory."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, of, *_ = line.split()
        if directory.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, of
    return kind


def _fdatasync_times(directory: Path) -> list[float]:
    times = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(_PROBES):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return times


def _field(path: Path, name: str) -> str:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


class CpuMeter:
    """CPU by role, and what others used, between `__init__` and `stop`."""

    def __init__(self, roles: Mapping[str, Sequence[int]]) -> None:
        self._roles = roles
        self._began = time.monotonic()
        self._busy = _busy()
        self._used = self._now()

    def stop(self) -> tuple[dict[str, float], float]:
        """Seconds of CPU by role, and the share of the machine's CPU that was used by none of them."""
        now = self._now()
        used = {role: max(0.0, now[role] - self._used.get(role, 0.0)) for role in now}
        capacity = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        foreign = (_busy() - self._busy - sum(used.values())) / capacity
        return used, min(1.0, max(0.0, foreign))

    def _now(self) -> dict[str, float]:
        children = _children()
        used = {role: sum(_cpu(pid, children) for pid in pids) for role, pids in self._roles.items()}
        used[CLIENT] = used.get(CLIENT, 0.0) + sum(os.times()[:4])  # with client processes that have ended
        return used


def used_by(pid: int) -> float:
    """Seconds of CPU, of the process and its descendants."""
    return _cpu(pid, _children())


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields:
            found.setdefault(int(fields[1]), []).append(int(path.name))
    return found


def _stat(pid: int) -> list[str]:
    """The fields after the name, of which the first is the state; empty: the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu(pid: int, children: Mapping[int, Iterable[int]]) -> float:
    """Seconds, with those of its descendants, also of those it has waited for."""
    while True:
        own = _stat(pid)[11:15]
        below = sum(_cpu(child, children) for child in children.get(pid, ()))
        if own[2:] == _stat(pid)[13:15]:  # else one of them ended meanwhile, and was counted twice or not at all
            return sum(map(int, own)) / _TICKS + below


def _busy() -> float:
    """Seconds of all CPUs spent on processes of any kind, and stolen by the host."""
    user, nice, system, _idle, _wait, _irq, _soft, steal, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, steal))) / _TICKS
