"""What a process has of the world besides its network: clocks, chance, threads for work that blocks; and what it knows.

Handed to every shell, so that the simulator can run the shells as they are, in a world of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from txnstatus import features
from txnstatus.features import Levels
from txnstatus.measures import Measures
from txnstatus.process.disk import Disk, OsDisk
from txnstatus.process.sync_place import SyncPlace


def _wall_micros() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Environment:
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that only rise; of no meaning in another process."""
    wall_micros: Callable[[], int] = _wall_micros
    """Microseconds since 1970; may jump, so no decision rests on it (see `SteadyWall`)."""
    random: random.Random = field(default_factory=random.Random)
    blocking: Executor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=8, thread_name_prefix="blocking"))
    """Threads for file I/O: `loop.run_in_executor(environment.blocking, ...)`."""
    disk: Disk = field(default_factory=OsDisk)
    """The disk of the Raft groups."""
    sync_place: SyncPlace = field(default_factory=SyncPlace)
    """Where their journals are synced."""
    measures: Measures = field(default_factory=Measures)
    levels: Levels = features.OWN
    """The feature levels that its program does."""


class SteadyWall:
    """The wall clock as it was once, carried on by the monotonic clock: it does not jump with the machine's."""

    def __init__(self, environment: Environment) -> None:
        self._monotonic = environment.monotonic
        self._began_micros = environment.wall_micros() - int(environment.monotonic() * 1e6)

    def micros(self) -> int:
        return self._began_micros + int(self._monotonic() * 1e6)
