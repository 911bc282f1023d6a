"""The faults, each from its beginning to its end.

A fault is a context: entered, it is there; left, it is over. `torment` lets them happen; when all that overlap are
over, everything must work again. None of them loses what was synced. So whatever happens at once, every promise holds;
only whether anybody is there to make new ones depends on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.faults.rig import Rig
from tests.support import wait_until

CANNOT_GO_ON = 70
"""The exit code of a process that no longer trusts itself."""
JUMP_SECONDS = 300
NETWORK, CLOCKS, DISKS = "network", "clocks", "disks"


@dataclass(frozen=True, slots=True)
class Fault:
    begin: Callable[[Rig], AbstractContextManager[None]]
    nodes: int
    """The processes and disks of so many nodes are its own as long as it lasts."""
    about: str
    """The part of the rig that it takes."""
    way: str
    """What the network must be able to do."""
    first: bool
    """Whether the fault goes through its course only where everything else works."""

    def overlaps(self, inner: Fault, nodes: int) -> bool:
        """Whether `inner` can begin and end while this one is there, in a cluster of so many nodes."""
        apart = self.about != inner.about or self.about == DISKS or not self.about
        return apart and not inner.first and self.nodes + inner.nodes <= nodes


FAULTS: dict[str, Fault] = {}


def possible(rig: Rig) -> list[str]:
    """The faults for which the rig has what they need."""
    has = {"": True, NETWORK: rig.network, CLOCKS: rig.clocks, DISKS: rig.disks}
    ways = rig.network.faults if rig.network else ()
    return [name for name, fault in FAULTS.items() if has[fault.about] and (not fault.way or fault.way in ways)]


def draw(rig: Rig) -> tuple[str, ...]:
    """A fault, or two that overlap."""
    names = possible(rig)
    outer = rig.dice.choice(names)
    nodes = len(rig.cluster.configs)
    inner = [name for name in names if FAULTS[outer].overlaps(FAULTS[name], nodes)]
    return (outer, rig.dice.choice(inner)) if inner and rig.dice.random() < 0.5 else (outer,)


def torment(rig: Rig, faults: Sequence[tuple[str, ...]], *, shortest: float = 0.3, longest: float = 2.0) -> None:
    """One after the other, each alone or while another one is there; all must be got over, which new commits prove."""
    for names in faults:
        with contextlib.ExitStack() as there:
            for name in names:
                there.enter_context(FAULTS[name].begin(rig))
                rig.hold(shortest, longest)
        rig.faults[" + ".join(names)] += 1
        rig.await_nodes()
        rig.await_progress()


def _fault(
    name: str, about: str = "", *, nodes: int = 0, way: str = "", first: bool = False
) -> Callable[[Callable[[Rig], Iterator[None]]], None]:
    """Enters a fault under its name; the rest as in Fault."""

    def register(body: Callable[[Rig], Iterator[None]]) -> None:
        @contextlib.contextmanager
        def begin(rig: Rig) -> Iterator[None]:
            taken = set(rig.taken)
            with contextlib.contextmanager(body)(rig):
                rig.under_way += 1
                yield
                rig.under_way -= 1
            rig.taken = taken

        FAULTS[name] = Fault(begin, nodes, about, way, first)

    return register


def _victim(rig: Rig, among: Sequence[str] = ()) -> str:
    """Often the leader of the status range, because most depends on it; under another fault there may be none."""
    if not rig.under_way and rig.dice.random() < 0.5:
        return rig.leader()
    return rig.dice.choice(among or sorted(rig.cluster.configs))


def _take(rig: Rig, *nodes: str) -> Sequence[str]:
    """For as long as the fault lasts, no other one touches their processes and disks."""
    rig.taken.update(nodes)
    return nodes


def _take_one(rig: Rig) -> str:
    return _take(rig, _victim(rig, _free(rig)))[0]


def _free(rig: Rig) -> list[str]:
    return sorted(set(rig.cluster.configs) - rig.taken)


def _others(rig: Rig, node: str) -> list[str]:
    return [other for other in sorted(rig.cluster.configs) if other != node]


# ---- processes


@_fault("kill", nodes=1)
def kill(rig: Rig) -> Iterator[None]:
    node = _take_one(rig)
    rig.cluster.kill(node)
    yield
    rig.cluster.start_node(node)


@_fault("pause", nodes=1)
def pause(rig: Rig) -> Iterator[None]:
    node = _take_one(rig)
    rig.cluster.pause(node)
    yield
    rig.cluster.resume(node)


@_fault("restart", nodes=1)
def restart(rig: Rig) -> Iterator[None]:
    """A clean shutdown, which hands leaderships over."""
    node = _take_one(rig)
    assert rig.cluster.stop_node(node) == 0
    yield
    rig.cluster.start_node(node)


@_fault("kill two", nodes=2)
def kill_two(rig: Rig) -> Iterator[None]:
    """Nobody can promise anything until one of them is back."""
    nodes = _take(rig, *rig.dice.sample(_free(rig), 2))
    for node in nodes:
        rig.cluster.kill(node)
    yield
    for node in nodes:
        rig.cluster.start_node(node)


@_fault("kill all", nodes=3)
def kill_all(rig: Rig) -> Iterator[None]:
    for node in _take(rig, *rig.cluster.configs):
        rig.cluster.kill(node)
    yield
    for node in rig.cluster.configs:
        rig.cluster.start_node(node)


@_fault("rolling restart", nodes=3, first=True)
def rolling_restart(rig: Rig) -> Iterator[None]:
    yield
    for node in _take(rig, *rig.cluster.configs):
        assert rig.cluster.stop_node(node) == 0
        rig.cluster.start_node(node)
        wait_until(lambda node=node: rig.cluster.status(node) is not None, f"{node} answers")  # type: ignore[misc]
        rig.cluster.wait_ready()


# ---- the network between nodes


@_fault("partition", NETWORK, way="cut")
def partition(rig: Rig) -> Iterator[None]:
    """One node from all others, both ways."""
    node = _victim(rig)
    yield from _links(rig, [way for other in _others(rig, node) for way in ((node, other), (other, node))], cut=True)


@_fault("mute", NETWORK, way="cut")
def mute(rig: Rig) -> Iterator[None]:
    """One way: the node hears the others, and nobody hears it."""
    node = _victim(rig)
    yield from _links(rig, [(node, other) for other in _others(rig, node)], cut=True)


@_fault("deaf", NETWORK, way="cut")
def deaf(rig: Rig) -> Iterator[None]:
    """One way: the others hear the node, and it hears nobody."""
    node = _victim(rig)
    yield from _links(rig, [(other, node) for other in _others(rig, node)], cut=True)


@_fault("bridge", NETWORK, way="cut")
def bridge(rig: Rig) -> Iterator[None]:
    """Two nodes do not reach each other; the third reaches both."""
    one, other = rig.dice.sample(sorted(rig.cluster.configs), 2)
    yield from _links(rig, [(one, other), (other, one)], cut=True)


@_fault("split", NETWORK, way="cut")
def split(rig: Rig) -> Iterator[None]:
    """Nobody reaches anybody."""
    yield from _links(rig, _every_way(rig), cut=True)


@_fault("delay", NETWORK, way="delay")
def delay(rig: Rig) -> Iterator[None]:
    yield from _links(rig, _every_way(rig), delay=rig.dice.uniform(0.02, 0.1))


@_fault("loss", NETWORK, way="loss")
def loss(rig: Rig) -> Iterator[None]:
    yield from _links(rig, _every_way(rig), loss=rig.dice.uniform(0.05, 0.5))


@_fault("clog", NETWORK, way="clogged")
def clog(rig: Rig) -> Iterator[None]:
    node = _victim(rig)
    yield from _links(rig, [(node, other) for other in _others(rig, node)], clogged=True)


@_fault("reset", NETWORK, way="reset")
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


@_fault("clock jumps", CLOCKS)
def clock(rig: Rig) -> Iterator[None]:
    """One node's wall clock, far ahead or back, and then right again, which is a jump as well."""
    assert rig.clocks is not None
    node = _victim(rig)
    rig.clocks.jump(node, rig.dice.choice([-JUMP_SECONDS, JUMP_SECONDS]))
    yield
    rig.clocks.jump(node, 0)


@_fault("clocks apart", CLOCKS, nodes=1)
def clocks_apart(rig: Rig) -> Iterator[None]:
    """All wall clocks at once; the one that is ahead then loses its leaderships to one that is behind."""
    assert rig.clocks is not None
    offsets = [JUMP_SECONDS, 0, -JUMP_SECONDS]
    rig.dice.shuffle(offsets)
    for node, offset in zip(sorted(rig.cluster.configs), offsets, strict=True):
        rig.clocks.jump(node, offset)
    rig.hold(0.3, 1.0)
    node = _take_one(rig)
    rig.cluster.kill(node)
    yield
    rig.cluster.start_node(node)
    for node in rig.cluster.configs:
        rig.clocks.jump(node, 0)


# ---- disks


@_fault("slow disk", nodes=1)
def slow_disk(rig: Rig) -> Iterator[None]:
    """Every sync takes far longer than usual; leaders may change, promises may not."""
    yield from _slow(rig, _take_one(rig))


@_fault("slow disks", nodes=3)
def slow_disks(rig: Rig) -> Iterator[None]:
    """All of them: there is no majority that is any faster."""
    yield from _slow(rig, *_take(rig, *rig.cluster.configs))


def _slow(rig: Rig, *nodes: str) -> Iterator[None]:
    for node in nodes:
        rig.cluster.arm(node, "journal.before_sync=delay:0.15")
    yield
    for node in nodes:
        rig.cluster.arm(node, "")


@_fault("full disk", DISKS, nodes=1)
def full_disk(rig: Rig) -> Iterator[None]:
    """The node steps back until there is room, and goes on."""
    node = _take_one(rig)
    rig.disks[node].fill()
    yield
    assert rig.cluster.running(node), f"{node} ended: {rig.cluster.log_path(node).read_text()[-2_000:]}"
    rig.disks[node].make_room()


@_fault("failed disk", DISKS, nodes=1, first=True)
def failed_disk(rig: Rig) -> Iterator[None]:
    """Every write and sync gets EIO. What the disk holds is then unknown, so the node ends, and says why."""
    node = _take_one(rig)
    rig.disks[node].cut()
    wait_until(lambda: not rig.cluster.running(node), f"{node} ends")
    assert rig.cluster.exit_code(node) == CANNOT_GO_ON
    story = rig.cluster.log_path(node).read_text()
    assert "Input/output error" in story or "Read-only file system" in story, "ext4 says the one or the other"
    yield
    rig.disks[node].back()
    rig.cluster.start_node(node)


@_fault("power cut", DISKS, nodes=3)
def power_cut(rig: Rig) -> Iterator[None]:
    """All nodes at once: only what was synced is there afterwards."""
    for disk in rig.disks.values():
        disk.cut()
    for node in _take(rig, *rig.cluster.configs):
        if rig.cluster.running(node):
            rig.cluster.kill(node)
    for disk in rig.disks.values():
        disk.back()
    yield
    for node in rig.cluster.configs:
        rig.cluster.start_node(node)
