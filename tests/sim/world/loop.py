"""An asyncio event loop in virtual time, on which many processes live, each with a queue of its own.

Everything a process schedules belongs to that process: a dead one never runs again, not even its `finally` blocks; a
paused one keeps what is due until it goes on. Within a process callbacks run in asyncio's order; which process runs
next is drawn from the seed. `run_in_executor` runs its function a while later, so a kill can come before it.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import random
import struct
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, NoReturn

from tests.sim.world.clock import Clock

HANDLE_SECONDS = 10e-6
"""What running one callback takes, on average."""
LOOK_SECONDS = 20e-6
"""What looking at a clock takes, on average: pysyncobj has loops that only time ends."""


class Killed(BaseException):
    """Unwinds the stack of a process that has just died. No handler of the code under test may catch it."""


class Process:
    """One life of a process."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.alive = True
        self.paused = False
        self.blocking_seconds = (0.0002, 0.002)
        """Shortest and longest time that a call in a worker thread takes."""
        self.ready: deque[_Handle] = deque()

    def __repr__(self) -> str:
        return self.name


class _Handle:
    __slots__ = ("args", "callback", "context", "is_cancelled", "when_due")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None, when: float
    ) -> None:
        self.callback, self.args, self.when_due = callback, args, when
        self.context = context if context is not None else contextvars.copy_context()
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_due


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks iterate alike in every run."""

    def __init__(self, coro: Coroutine[Any, Any, Any], loop: VirtualLoop, **kwargs: Any) -> None:
        self._number = next(loop.task_numbers)
        super().__init__(coro, loop=loop, **kwargs)

    def __hash__(self) -> int:
        return self._number


class NoThreads(Executor):
    """Marks what would block; VirtualLoop.run_in_executor does it."""

    def submit(self, *_args: Any, **_kwargs: Any) -> Future[Any]:
        raise AssertionError("the simulation has no threads: use run_in_executor")

    def shutdown(self, *_args: Any, **_kwargs: Any) -> None:
        pass


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self, seed: int) -> None:
        self.now = 0.0
        """True time in seconds; every process has its own clock."""
        self.digest = 0
        self.handles = 0
        """Callbacks that have run."""
        self.world = Process("world", Clock())
        self.current = self.world
        self.task_numbers = itertools.count()
        self.connect: Callable[[Callable[[], asyncio.Protocol], str], Awaitable[tuple[Any, Any]]]
        """The network's."""
        self.on_error: Callable[[Process, str, BaseException | None], None] = lambda *_: None
        self._rng = random.Random(seed)
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, Process, _Handle]] = []
        self._runnable: list[Process] = []
        self._tasks: dict[_Task, Process] = {}
        """All that are not done, and some that are."""
        self._many_tasks = 100
        self._corpses: list[_Task] = []

    # ---- running

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Runs for so long, or until the condition holds; answers whether it does."""
        end = self.now + seconds
        with _Running(self):
            while self.now < end:
                if until is not None and until():
                    return True
                if not self._step(end):
                    self.now = end
        return until is not None and until()

    def _step(self, end: float) -> bool:
        """Runs one callback; False = none is due before the end."""
        timers, runnable, chance = self._timers, self._runnable, self._rng.random
        if not runnable and timers and timers[0][0] > self.now:
            if timers[0][0] > end:
                return False
            self.now = timers[0][0]
        while timers and timers[0][0] <= self.now:
            _, _, process, handle = heapq.heappop(timers)
            if process is self.world:
                handle.callback(*handle.args)  # the network's and the disks' own work takes no processor's time
            elif process.alive and not handle.is_cancelled:
                self._queue(process, handle)
        if not runnable:
            return bool(timers)
        process = runnable[0] if len(runnable) == 1 else runnable[int(chance() * len(runnable))]
        handle = process.ready.popleft()
        if not process.ready:
            runnable.remove(process)
        if handle.is_cancelled:
            return True
        self.now += HANDLE_SECONDS * 2 * chance()
        self.handles += 1
        self.current = process
        try:
            handle.context.run(handle.callback, *handle.args)
        except Killed:
            assert not process.alive, "only the dead unwind"
        except Exception as error:  # noqa: BLE001
            self.on_error(process, "a callback failed", error)
        finally:
            self.current = self.world
        return True

    def _queue(self, process: Process, handle: _Handle) -> None:
        process.ready.append(handle)
        if len(process.ready) == 1 and not process.paused:
            self._runnable.append(process)

    def note(self, data: bytes) -> None:
        """Makes the digest of the run depend on the data, and on when it came."""
        self.digest = zlib.crc32(data, zlib.crc32(struct.pack("<dII", self.now, self.handles, self.digest)))

    # ---- processes

    def post(self, process: Process, callback: Callable[..., object], *args: Any) -> None:
        """Runs the callback in another process, as the network or the kernel does."""
        if process.alive:
            self._queue(process, _Handle(callback, args, None, 0.0))

    def post_at(self, when: float, process: Process, callback: Callable[..., object], *args: Any) -> None:
        """Likewise, at a true time."""
        handle = _Handle(callback, args, None, when)
        heapq.heappush(self._timers, (when, next(self._numbers), process, handle))

    def post_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> None:
        """In the world itself, which never dies."""
        self.post_at(self.now + seconds, self.world, callback, *args)

    def kill(self, process: Process) -> None:
        """Nothing of the process runs from now on. If it is the running one, the caller raises Killed."""
        process.alive = False
        process.ready.clear()
        if process in self._runnable:
            self._runnable.remove(process)
        for task in [task for task, owner in self._tasks.items() if owner is process]:
            del self._tasks[task]
            self._corpses.append(task)

    def die(self) -> NoReturn:
        """Kills the running process at this very line."""
        self.kill(self.current)
        raise Killed

    def pause(self, process: Process) -> None:
        process.paused = True
        if process in self._runnable:
            self._runnable.remove(process)

    def resume(self, process: Process) -> None:
        process.paused = False
        if process.alive and process.ready and process not in self._runnable:
            self._runnable.append(process)

    def close(self) -> None:
        """Ends every coroutine, so that none is finalised later, somewhere else."""
        for process in [self.world, *self._tasks.values()]:
            process.alive = False
        with _Running(self):
            for task in [*self._corpses, *self._tasks]:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                if not task.done() and isinstance(coroutine, Coroutine):
                    try:
                        coroutine.close()
                    except (Killed, RuntimeError, AttributeError):
                        continue  # it awaits in a `finally`, and the dead do not
        self._timers.clear()
        self._tasks.clear()
        self._corpses.clear()

    # ---- clocks

    def time(self) -> float:
        return self.current.clock.monotonic(self.now)

    def look(self) -> float:
        """As `time`, and takes some."""
        self.now += LOOK_SECONDS * 2 * self._rng.random()
        return self.current.clock.monotonic(self.now)

    # ---- what asyncio asks of a loop

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, context, 0.0)
        if self.current.alive:
            self._queue(self.current, handle)
        return handle  # type: ignore[return-value]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        process, handle = self.current, _Handle(callback, args, context, when)
        due = process.clock.true_time(when)
        heapq.heappush(self._timers, (max(due, self.now), next(self._numbers), process, handle))
        return handle  # type: ignore[return-value]

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], **kwargs: Any
    ) -> asyncio.Task[Any]:
        if not self.current.alive:
            coro.close()
            raise Killed
        task = _Task(coro, loop=self, **kwargs)
        self._tasks[task] = self.current
        if len(self._tasks) > self._many_tasks:
            self._tasks = {task: process for task, process in self._tasks.items() if not task.done()}
            self._many_tasks = 2 * len(self._tasks) + 100
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        assert isinstance(executor, NoThreads), "work that blocks goes to Environment.blocking"
        future = self.create_future()
        shortest, longest = self.current.blocking_seconds
        delay = shortest + (longest - shortest) * self._rng.random() ** 3
        self.post_at(self.now + delay, self.current, _perform, future, func, args)
        return future

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, _port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        return await self.connect(protocol_factory, host)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.on_error(self.current, str(context.get("message")), context.get("exception"))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


def _perform(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        result = func(*args)
    except Exception as error:  # noqa: BLE001
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)


class _Running:
    """Makes the loop the running one; outside, asyncio is as it was."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        asyncio._set_running_loop(self._loop)

    def __exit__(self, *_: object) -> None:
        asyncio._set_running_loop(None)
