"""What is measured: workloads, who contends in them, what a run gave, and what is wanted of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

OURS = "ours"
"""Names of our own contenders begin with it."""
CLIENT = "client"
"""The role whose CPU is that of the process that drives the load, and of others that the contender names."""


@dataclass(frozen=True)
class Settings:
    """Settings of one pass over a workload."""

    fsync_ms: float = 0.0
    """Delay of every fsync of every process."""
    rounds_of: tuple[int, ...] = (4,)
    """Numbers of durable rounds in which the peers do one transaction."""
    quick: bool = False
    """Whether to run only as little as shows that everything works."""


@dataclass
class Tally:
    """What one run did. A contender fills it in."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Seconds, one an operation."""
    operations: int | None = None
    """Where one latency is that of several operations; None: one each."""
    failures: int = 0
    errors: list[str] = field(default_factory=list)
    """The first few, to be read by people."""
    extra: dict[str, float] = field(default_factory=dict)
    """Other measures, by name and unit: `longest pause, ms`."""
    client_cpu: float | None = None
    """Seconds; None: of the process that drives the load, and of those it started and waited for."""

    MOST_ERRORS = 3

    def failed(self, error: BaseException) -> None:
        self.failures += 1
        if len(self.errors) < self.MOST_ERRORS:
            self.errors.append(f"{type(error).__name__}: {error}")

    @property
    def count(self) -> int:
        return len(self.latencies) if self.operations is None else self.operations


@dataclass(frozen=True)
class Sample:
    """A tally, summed up, and what the machine did meanwhile."""

    count: int
    seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    failures: int
    cpu_us: Mapping[str, float]
    """Microseconds of CPU an operation, by role."""
    foreign: float
    """The share of the machine's CPU that others used."""
    errors: Sequence[str] = ()
    extra: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.count / self.seconds if self.seconds else 0.0

    def measure(self, name: str) -> float | None:
        """`rate`, `p50`, `p99`, `max` (ms), `failures`, `cpu ROLE`, `cpu` (us an operation; of all roles), or an extra.

        None: it was not measured.
        """
        if name == "failures":
            return float(self.failures)
        known = {"rate": self.rate, "p50": self.p50_ms, "p99": self.p99_ms, "max": self.max_ms}
        if name in known:
            return known[name] if self.count else None
        if name == "cpu":
            return sum(self.cpu_us.values()) if self.cpu_us else None
        if name.startswith("cpu "):
            return self.cpu_us.get(name.removeprefix("cpu "))
        return self.extra.get(name)


def _unheard(_what: str) -> None: ...


class Contender(ABC):
    """Somebody who can do the workload. It is started anew in every round, in a directory of its own."""

    name: str
    about: str = ""
    """One line for the report: what is done, and with what batching."""
    tell: Callable[[str], None] = staticmethod(_unheard)
    """The ear of whoever waits, for a contender whose run takes minutes: how far it is."""

    def missing(self) -> str | None:
        """What has to be installed first, as a command; None: nothing."""
        return None

    def version(self) -> str:
        """Asked while it runs."""
        return ""

    @abstractmethod
    def start(self, directory: Path) -> None:
        """Returns when operations can begin."""

    @abstractmethod
    def stop(self) -> None:
        """Ends every process; also after a start that failed."""

    def pids(self) -> Mapping[str, Sequence[int]]:
        """The processes of each role; their descendants count with them."""
        return {}

    async def prepare(self, point: int) -> None:  # noqa: B027 most need nothing
        """Makes what the point needs to be there; nothing of it is measured."""

    async def warm_up(self, point: int, seconds: float) -> None:
        """Before the first run of a round; nothing is prepared for it."""
        await self.run(point, seconds)

    @abstractmethod
    async def run(self, point: int, seconds: float) -> Tally:
        """Does operations for so long; `point` is a value of the workload's axis."""


@dataclass(frozen=True)
class Goal:
    """What a measure is to reach: a ratio to a peer in the same round, or without a peer a plain value."""

    ours: str
    measure: str
    point: int
    bound: float
    peer: str | None = None
    peer_point: int | None = None
    """The peer's point, where it is another one than ours."""
    at_most: bool = False
    fsync_ms: float = 0.0
    """The delay of every fsync in the pass that it is for."""

    @property
    def text(self) -> str:
        against = "" if self.peer is None else f" / {self.peer}"
        where = f" at {self.point}" if self.peer_point is None else f" at {self.point} / at {self.peer_point}"
        slow = f", {self.fsync_ms:g} ms added to every fsync" if self.fsync_ms else ""
        return f"{self.measure} of {self.ours}{against}{where}{slow}"

    @property
    def wanted(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"

    def reached(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    contenders: Callable[[Settings], Sequence[Contender]]
    points: tuple[int, ...] = (1, 16, 64, 256)
    axis: str = "in flight"
    operation: str = "transaction"
    goals: tuple[Goal, ...] = ()
    rounds: int | None = None
    """Rounds at most; None: as many as are asked for."""
    slow_disk: bool = False
    """Whether it is also run with slower fsyncs."""
    about: str = ""
    """A paragraph for the report."""

    IN_FLIGHT = "in flight"

    def points_of(self, in_flight: Sequence[int]) -> tuple[int, ...]:
        return tuple(in_flight) if in_flight and self.axis == self.IN_FLIGHT else self.points
