"""pysyncobj as it is shipped, with its own journal, dumps and compaction, in the same simulated world.

None of our adapter is between it and the world: what it loses here is what the adapter is for. Dumps are made without
fork, because a forked child would live outside of the simulation.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from pathlib import Path
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated
from pysyncobj import pickle as wire_format
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from tests.sim.world import seams
from tests.sim.world.clock import Clock
from tests.sim.world.loop import Process, VirtualLoop
from tests.sim.world.wire import Wire, _Pipe

NAMES = ("n1", "n2", "n3")
TICK_SECONDS = 0.05
MISSED_SECONDS = 3.5
"""Silence after which both ends of a connection close it: pysyncobj's default."""


class _Node(Node):  # type: ignore[misc]
    def __hash__(self) -> int:
        return zlib.crc32(self.id.encode())


class _Log(SyncObj):  # type: ignore[misc]
    """A state machine that keeps what it applied."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.applied: list[int] = []

    @replicated  # type: ignore[untyped-decorator]
    def put(self, number: int) -> None:
        self.applied.append(number)


class _NoPoller:
    def poll(self, _timeout: float) -> None:
        pass

    subscribe = unsubscribe = lambda *_: None


class Stock:
    """Three nodes under one seed; links are cut and healed, and commands are given to any node."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.loop = VirtualLoop(seed)  # type: ignore[abstract]
        self.rng = random.Random(f"{seed} stock")
        self.wire = Wire(self.loop, random.Random(f"{seed} wire"))
        self.acknowledged: set[int] = set()
        self._directory = directory
        self._nodes: dict[str, _Log] = {}
        self._processes = {name: Process(name, Clock()) for name in NAMES}
        self._pipes: dict[tuple[str, str], _Pipe] = {}
        self._connected: set[frozenset[str]] = set()
        self._seams = [
            ("pysyncobj.syncobj:monotonicTime", self.loop.look),
            ("pysyncobj.syncobj:random", random.Random(f"{seed} pysyncobj")),
            ("pysyncobj.syncobj:createPoller", lambda _kind: _NoPoller()),
        ]

    def play(self, seconds: float = 40.0) -> set[int]:
        """Returns what was acknowledged and is on no replica in the end."""
        with seams.replaced(self._seams), seams.no_collection(), seams.quiet():
            for name in NAMES:
                self.loop.post(self._processes[name], self._start, name)
            self.loop.run(5)
            number = 0
            end = self.loop.now + seconds
            while self.loop.now < end:
                if self.rng.random() < 0.02:
                    self._isolate(self.rng.choice(NAMES), self.rng.uniform(1, 12))
                number += 1
                name = self.rng.choice(NAMES)
                self.loop.post(self._processes[name], self._put, name, number)
                self.loop.run(0.03)
            self.loop.run(30)
            self.loop.close()
        return self.acknowledged - {number for node in self._nodes.values() for number in node.applied}

    def _start(self, name: str) -> None:
        conf = SyncObjConf(
            autoTick=False,
            useFork=False,
            journalFile=str(self._directory / f"{name}.journal"),
            fullDumpFile=str(self._directory / f"{name}.dump"),
            logCompactionMinEntries=60,
        )
        stock = self

        class Messages(Transport):  # type: ignore[misc]
            def send(self, node: Node, message: Any) -> bool:
                if frozenset((name, node.id)) not in stock._connected:
                    return False
                stock._pipes[name, node.id].put(wire_format.dumps(message))
                return True

        others = [_Node(other) for other in NAMES if other != name]
        self._nodes[name] = _Log(_Node(name), others, conf=conf, transportClass=Messages)
        for other in NAMES:
            if other in self._nodes and other != name:
                self._connect(name, other)
        self.loop.create_task(self._tick(name))

    async def _tick(self, name: str) -> None:
        while True:
            self._nodes[name].doTick(0)
            await asyncio.sleep(TICK_SECONDS)

    def _put(self, name: str, number: int) -> None:
        def ended(_result: object, error: int) -> None:
            if error == 0:
                self.acknowledged.add(number)

        self._nodes[name].put(number, callback=ended)

    # ---- connections: one of each pair, first in first out, and nothing of an old one arrives on a new one

    def _connect(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        if pair in self._connected:
            return
        self._connected.add(pair)
        for source, target in ((one, other), (other, one)):
            self._pipes[source, target] = self._pipe(source, target)
            self.loop.post(self._processes[source], self._transport(source)._onNodeConnected, _Node(target))

    def _pipe(self, source: str, target: str) -> _Pipe:
        pipe = _Pipe(self.wire, source, target, lambda data: arrive(data))

        def arrive(data: object) -> None:
            if self._pipes.get((source, target)) is pipe:
                self.loop.post(self._processes[target], self._receive, source, target, data)

        return pipe

    def _receive(self, source: str, target: str, data: bytes) -> None:
        self._transport(target)._onMessageReceived(_Node(source), wire_format.loads(data))
        self._nodes[target].doTick(0)

    def _transport(self, name: str) -> Any:
        return self._nodes[name]._SyncObj__transport

    def _isolate(self, name: str, seconds: float) -> None:
        others = [other for other in NAMES if other != name]
        for other in others:
            # Not Wire.cut: pysyncobj's own time-out closes the connection, not gRPC's.
            self.wire.link(name, other).cuts += 1
            self.wire.link(other, name).cuts += 1
            self.loop.post_later(MISSED_SECONDS, self._miss, name, other)
        self.loop.post_later(seconds, self._heal, name, others)

    def _miss(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        if self.wire.link(one, other).cuts and pair in self._connected:
            self._connected.discard(pair)
            for source, target in ((one, other), (other, one)):
                del self._pipes[source, target]
                self.loop.post(self._processes[source], self._transport(source)._onNodeDisconnected, _Node(target))

    def _heal(self, name: str, others: list[str]) -> None:
        for other in others:
            self.wire.heal(name, other)
            self.wire.heal(other, name)
            if not self.wire.link(name, other).cuts:
                self._connect(name, other)
