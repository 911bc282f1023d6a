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
_NEEDS: dict[str, str] = {}
"""Of each fault, the part of the rig that it is about; of the network, what must be possible there."""
CANNOT_GO_ON = 70
"""The exit code of a process that no longer trusts itself."""
JUMP_SECONDS = 300


def possible(rig: Rig) -> list[str]:
    """The faults for which the rig has what they need."""
    network = rig.network.faults if rig.network else frozenset()
    has = {"clocks": rig.clocks, "disks": rig.disks, **dict.fromkeys(network, True)}
    return [name for name in FAULTS if name not in _NEEDS or has.get(_NEEDS[name])]


def torment(rig: Rig, names: Sequence[str], *, shortest: float = 0.3, longest: float = 2.0) -> None:
    """One fault after the other; each must be got over, which new commits prove."""
    for name in names:
        with FAULTS[name](rig):
            rig.hold(shortest, longest)
        rig.faults[name] += 1
        rig.await_nodes()
        rig.await_progress()


def _fault(name: str, needs: str = "") -> Callable[[Callable[[Rig], Iterator[None]]], Fault]:
    """Enters a fault under its name; `needs` as in _NEEDS."""

    def register(body: Callable[[Rig], Iterator[None]]) -> Fault:
        FAULTS[name] = contextlib.contextmanager(body)
        if needs:
            _NEEDS[name] = needs
        return FAULTS[name]

    return register


def _victim(rig: Rig) -> str:
    """Often the leader of the status partition, because most depends on it."""
    return rig.leader() if rig.dice.random() < 0.5 else rig.dice.choice(sorted(rig.cluster.configs))


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


@_fault("partition", "cut")
def partition(rig: Rig) -> Iterator[None]:
    """One node from all others, both ways."""
    node = _victim(rig)
    yield from _links(rig, [way for other in _others(rig, node) for way in ((node, other), (other, node))], cut=True)


@_fault("mute", "cut")
def mute(rig: Rig) -> Iterator[None]:
    """One way: the node hears the others, and nobody hears it."""
    node = _victim(rig)
    yield from _links(rig, [(node, other) for other in _others(rig, node)], cut=True)


@_fault("deaf", "cut")
def deaf(rig: Rig) -> Iterator[None]:
    """One way: the others hear the node, and it hears nobody."""
    node = _victim(rig)
    yield from _links(rig, [(other, node) for other in _others(rig, node)], cut=True)


@_fault("bridge", "cut")
def bridge(rig: Rig) -> Iterator[None]:
    """Two nodes do not reach each other; the third reaches both."""
    one, other = rig.dice.sample(sorted(rig.cluster.configs), 2)
    yield from _links(rig, [(one, other), (other, one)], cut=True)


@_fault("split", "cut")
def split(rig: Rig) -> Iterator[None]:
    """Nobody reaches anybody."""
    yield from _links(rig, _every_way(rig), cut=True)


@_fault("delay", "delay")
def delay(rig: Rig) -> Iterator[None]:
    yield from _links(rig, _every_way(rig), delay=rig.dice.uniform(0.02, 0.1))


@_fault("loss", "loss")
def loss(rig: Rig) -> Iterator[None]:
    yield from _links(rig, _every_way(rig), loss=rig.dice.uniform(0.05, 0.5))


@_fault("clog", "clogged")
def clog(rig: Rig) -> Iterator[None]:
    node = _victim(rig)
    yield from _links(rig, [(node, other) for other in _others(rig, node)], clogged=True)


@_fault("reset", "reset")
def reset(rig: Rig) -> Iterator[None]:
    """Connections break, and can be made again at once."""
    assert rig.network is not None
    for one, other in _every_way(rig):
        rig.network.reset(one, other)
    yield


def _links(rig: Rig, ways: list[tuple[str, str]], **how: bool | float) -> Iterator[None]:
    assert rig.network is not None
    rig.network.set(ways, **how)
    yield
    rig.network.heal()


def _every_way(rig: Rig) -> list[tuple[str, str]]:
    return [(node, other) for node in sorted(rig.cluster.configs) for other in _others(rig, node)]


# ---- wall clocks


@_fault("clock jumps", "clocks")
def clock(rig: Rig) -> Iterator[None]:
    """One node's wall clock, far ahead or back, and then right again, which is a jump as well."""
    assert rig.clocks is not None
    node = _victim(rig)
    rig.clocks.jump(node, rig.dice.choice([-JUMP_SECONDS, JUMP_SECONDS]))
    yield
    rig.clocks.jump(node, 0)


@_fault("clocks apart", "clocks")
def clocks_apart(rig: Rig) -> Iterator[None]:
    """All wall clocks at once; the one that is ahead then loses its leaderships to one that is behind."""
    assert rig.clocks is not None
    offsets = [JUMP_SECONDS, 0, -JUMP_SECONDS]
    rig.dice.shuffle(offsets)
    for node, offset in zip(sorted(rig.cluster.configs), offsets, strict=True):
        rig.clocks.jump(node, offset)
    rig.hold(0.3, 1.0)
    node = _victim(rig)
    rig.cluster.kill(node)
    yield
    rig.cluster.start_node(node)
    for node in rig.cluster.configs:
        rig.clocks.jump(node, 0)


# ---- disks


@_fault("slow disk")
def slow_disk(rig: Rig) -> Iterator[None]:
    """Every sync of some nodes takes far longer than usual; leaders may change, promises may not."""
    nodes = rig.dice.sample(sorted(rig.cluster.configs), rig.dice.randint(1, 3))
    for node in nodes:
        rig.cluster.arm(node, "journal.before_sync=delay:0.15")
    yield
    for node in nodes:
        rig.cluster.arm(node, "")


@_fault("failed disk", "disks")
def failed_disk(rig: Rig) -> Iterator[None]:
    """Every write and sync gets EIO. What the disk holds is then unknown, so the node ends, and says why."""
    node = _victim(rig)
    rig.disks[node].cut()
    wait_until(lambda: not rig.cluster.running(node), f"{node} ends")
    assert rig.cluster.exit_code(node) == CANNOT_GO_ON
    assert "Input/output error" in rig.cluster.log_path(node).read_text()
    yield
    rig.disks[node].back()
    rig.cluster.start_node(node)


@_fault("power cut", "disks")
def power_cut(rig: Rig) -> Iterator[None]:
    """All nodes at once: only what was synced is there afterwards."""
    for disk in rig.disks.values():
        disk.cut()
    for node in rig.cluster.configs:
        if rig.cluster.running(node):
            rig.cluster.kill(node)
    for disk in rig.disks.values():
        disk.back()
    yield
    for node in rig.cluster.configs:
        rig.cluster.start_node(node)
