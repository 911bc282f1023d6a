"""What a process has of the world besides its network: clocks, chance, and threads for work that blocks.

Handed to every shell, so that the simulator can run the shells as they are, in a world of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from txnstatus.raft.disk import Disk, OsDisk


def _wall_micros() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Environment:
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that only rise; of no meaning in another process."""
    wall_micros: Callable[[], int] = _wall_micros
    """Microseconds since 1970; may jump, so no decision rests on it."""
    random: random.Random = field(default_factory=random.Random)
    blocking: Executor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=8, thread_name_prefix="blocking"))
    """For file I/O: `loop.run_in_executor(environment.blocking, ...)`."""
    disk: Disk = field(default_factory=OsDisk)
    """Of the Raft groups."""
