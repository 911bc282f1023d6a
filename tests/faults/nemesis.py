"""The faults, each from its beginning to its end; between two of them everything works again.

A fault is a context: entered, it is there; left, it is over. `torment` draws them from the rig's seed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from tests.faults.rig import Rig
from tests.support import wait_until

Fault = Callable[[Rig], AbstractContextManager[None]]

FAULTS: dict[str, Fault] = {}
NEEDS_LINKS: set[str] = set()


def torment(rig: Rig, names: Sequence[str], *, shortest: float = 0.3, longest: float = 2.0) -> None:
    """One fault after the other; each must be got over, which new commits prove."""
    for name in names:
        with FAULTS[name](rig):
            rig.hold(shortest, longest)
        rig.faults[name] += 1
        rig.await_nodes()
        rig.await_progress()


def _fault(name: str, *, links: bool = False) -> Callable[[Callable[[Rig], Iterator[None]]], Fault]:
    def register(body: Callable[[Rig], Iterator[None]]) -> Fault:
        fault = contextlib.contextmanager(body)
        FAULTS[name] = fault
        if links:
            NEEDS_LINKS.add(name)
        return fault

    return register


def _victim(rig: Rig) -> str:
    """Often the leader of the status partition, because most depends on it."""
    return rig.cluster.leader() if rig.dice.random() < 0.5 else rig.dice.choice(sorted(rig.cluster.configs))


def _others(rig: Rig, node: str) -> list[str]:
    return [other for other in sorted(rig.cluster.configs) if other != node]


# ---- processes


@_fault("kill")
def kill(rig: Rig) -> Iterator[None]:
    node = _victim(rig)
    rig.cluster.kill(node)
    yield
    rig.cluster.start_node(node)


@_fault("pause")
def pause(rig: Rig) -> Iterator[None]:
    node = _victim(rig)
    rig.cluster.pause(node)
    yield
    rig.cluster.resume(node)


@_fault("restart")
def restart(rig: Rig) -> Iterator[None]:
    """A clean shutdown, which hands leaderships over."""
    node = _victim(rig)
    assert rig.cluster.stop_node(node) == 0
    yield
    rig.cluster.start_node(node)


@_fault("kill two")
def kill_two(rig: Rig) -> Iterator[None]:
    """Nobody can promise anything until one of them is back."""
    nodes = rig.dice.sample(sorted(rig.cluster.configs), 2)
    for node in nodes:
        rig.cluster.kill(node)
    yield
    for node in nodes:
        rig.cluster.start_node(node)


@_fault("kill all")
def kill_all(rig: Rig) -> Iterator[None]:
    for node in rig.cluster.configs:
        rig.cluster.kill(node)
    yield
    for node in rig.cluster.configs:
        rig.cluster.start_node(node)


@_fault("rolling restart")
def rolling_restart(rig: Rig) -> Iterator[None]:
    yield
    for node in rig.cluster.configs:
        assert rig.cluster.stop_node(node) == 0
        rig.cluster.start_node(node)
        wait_until(lambda node=node: rig.cluster.status(node) is not None, f"{node} answers")  # type: ignore[misc]
        rig.cluster.wait_ready()


# ---- the network between nodes


@_fault("partition", links=True)
def partition(rig: Rig) -> Iterator[None]:
    """One node from all others, both ways."""
    node = _victim(rig)
    yield from _links(rig, [way for other in _others(rig, node) for way in ((node, other), (other, node))], cut=True)


@_fault("mute", links=True)
def mute(rig: Rig) -> Iterator[None]:
    """One way: the node hears the others, and nobody hears it."""
    node = _victim(rig)
    yield from _links(rig, [(node, other) for other in _others(rig, node)], cut=True)


@_fault("deaf", links=True)
def deaf(rig: Rig) -> Iterator[None]:
    """One way: the others hear the node, and it hears nobody."""
    node = _victim(rig)
    yield from _links(rig, [(other, node) for other in _others(rig, node)], cut=True)


@_fault("bridge", links=True)
def bridge(rig: Rig) -> Iterator[None]:
    """Two nodes do not reach each other; the third reaches both."""
    one, other = rig.dice.sample(sorted(rig.cluster.configs), 2)
    yield from _links(rig, [(one, other), (other, one)], cut=True)


@_fault("split", links=True)
def split(rig: Rig) -> Iterator[None]:
    """Nobody reaches anybody."""
    yield from _links(rig, _every_way(rig), cut=True)


@_fault("delay", links=True)
def delay(rig: Rig) -> Iterator[None]:
    yield from _links(rig, _every_way(rig), delay=rig.dice.uniform(0.02, 0.1))


@_fault("loss", links=True)
def loss(rig: Rig) -> Iterator[None]:
    yield from _links(rig, _every_way(rig), loss=rig.dice.uniform(0.05, 0.5))


@_fault("clog", links=True)
def clog(rig: Rig) -> Iterator[None]:
    node = _victim(rig)
    yield from _links(rig, [(node, other) for other in _others(rig, node)], clogged=True)


@_fault("reset", links=True)
def reset(rig: Rig) -> Iterator[None]:
    """Connections break, and can be made again at once."""
    assert rig.links is not None
    for one, other in _every_way(rig):
        rig.links.reset(one, other)
    yield


def _links(rig: Rig, ways: list[tuple[str, str]], **how: bool | float) -> Iterator[None]:
    assert rig.links is not None
    rig.links.set(ways, **how)
    yield
    rig.links.heal()


def _every_way(rig: Rig) -> list[tuple[str, str]]:
    return [(node, other) for node in sorted(rig.cluster.configs) for other in _others(rig, node)]
