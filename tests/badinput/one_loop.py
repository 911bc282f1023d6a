"""A node on a loop of this process, in which the work of each turn is counted.

A step is a line of Python that runs, each time it does: what a machine makes of it differs, the count does not. What
C does in one line (a sort, a copy, protobuf) is one step, however long; for that there are bounds in bytes.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.support import FAST_RAFT
from txndeploy.local.network import free_ports
from txndeploy.node.config import NodeConfig, NodeEntry, TxnSection
from txndeploy.node.process import Node

START_SECONDS = 60.0


class Turns:
    """What the turns of a loop cost, the heaviest of them in front."""

    def __init__(self) -> None:
        self.counting = False
        self.timing = False
        self.most = 0
        self.longest = 0.0
        self.where: Counter[str] = Counter()
        """The steps of the heaviest turn, by function."""
        self._turn = threading.Lock()
        """Held for each turn: what answers within a turn is known to others before the turn is over, and counted."""

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        with self._turn:
            self.most, self.where, self.counting = 0, Counter(), True
        try:
            yield
        finally:
            with self._turn:
                self.counting = False

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        with self._turn:
            self.longest, self.timing = 0.0, True
        try:
            yield
        finally:
            with self._turn:
                self.timing = False

    def run(self, handle: Any, run: Any) -> None:
        """Runs one callback of the loop."""
        with self._turn:
            self._run(handle, run)

    def _run(self, handle: Any, run: Any) -> None:
        if self.counting:
            self._count(handle, run)
        elif self.timing:
            began = time.perf_counter()
            run(handle)
            self.longest = max(self.longest, time.perf_counter() - began)
        else:
            run(handle)

    def _count(self, handle: Any, run: Any) -> None:
        steps: Counter[Any] = Counter()

        def step(frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line":
                steps[frame.f_code] += 1
            return step

        sys.settrace(step)
        try:
            run(handle)
        finally:
            sys.settrace(None)
        total = steps.total()
        if total > self.most:
            self.most = total
            self.where = Counter({code.co_qualname: count for code, count in steps.items()})


class OneLoop:
    """A context manager. `configs` and `addresses` are what a `LocalCluster` has."""

    def __init__(self, directory: Path) -> None:
        port, grpc_port = list(free_ports(8))[:2]
        config = NodeConfig(
            cluster_name="one",
            insecure=True,
            node_id="n1",
            data_dir=directory / "data",
            warehouse=(directory / "warehouse").as_uri(),
            participant_shards=2,
            nodes={"n1": NodeEntry(address=f"127.0.0.1:{port}")},
            grpc_address=f"127.0.0.1:{grpc_port}",
            raft=FAST_RAFT,
            txn=TxnSection(staleness_interval_ms=0, zombie_grace_seconds=3600.0, in_doubt_seconds=3600.0),
        )
        self.configs = {"n1": config}
        self.addresses = f"127.0.0.1:{port}"
        self.turns = Turns()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> OneLoop:
        self._patch = pytest.MonkeyPatch()
        plain = asyncio.events.Handle._run
        self._patch.setattr(asyncio.events.Handle, "_run", lambda handle: self.turns.run(handle, plain))
        self._thread.start()
        assert self._started.wait(START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._patch.undo()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self.node = Node(self.configs["n1"])
        await self.node.start()
        self._started.set()
        await self._stopping.wait()
        await self.node.stop()
