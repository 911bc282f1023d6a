"""The simulated machines: each runs a node's roles, as txndeploy.node.process does, over the simulated world."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.sim.world.clock import Clock
from tests.sim.world.disk import SimDisk
from tests.sim.world.loop import Killed, NoThreads, Process, VirtualLoop
from tests.sim.world.wire import Wire
from txndeploy.node.chronicler import Chronicler
from txndeploy.node.config import NodeConfig
from txndeploy.node.registering import Registering
from txndeploy.node.roles import SERVICES, Roles
from txnstatus import features
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.features import Levels
from txnstatus.process.background import Tasks
from txnstatus.process.environment import Environment
from txnstatus.process.failpoints import Fault
from txnstatus.process.sync_place import SyncPlace
from txnstatus.raft.segments import JournalCorrupt
from txnstatus.raft.snapshot import SnapshotCorrupt
from txnstatus.raft.transport import RaftTransport
from txnstatus.rpc.connection import Purpose
from txnstatus.rpc.listener import Listener

BLOCKING_SECONDS = 0.0002, 0.002
"""What blocking work takes at usual."""
END_SECONDS = 1.0
"""Time that a process may live after a sync has failed."""


@dataclass
class Machine:
    """What outlives a process: its disk and its clocks."""

    name: str
    directory: Path
    disk: SimDisk
    clock: Clock = field(default_factory=Clock)
    process: Process | None = None
    roles: Roles | None = None
    catalog: CatalogState | None = None
    """The catalog as the node saves it beside its Raft groups."""
    lives: int = 0
    armed: int = 0
    """The power fails in the so-manieth operation on the disk from now; 0 = it does not."""
    failpoint: str = ""
    """Where it dies next."""
    gone: bool = False
    """Whether the machine is dead for ever."""
    leaves: bool = False
    """Whether a new one takes its place while it runs."""
    rotten: str = ""
    """The group of which a file has rotted since the last start; it must be found at the next."""
    wiped: bool = False
    """Whether the node began anew, and was not seen to have caught up."""
    levels: Levels = features.OWN
    """The feature levels that the version which is installed does."""
    failed_in: Process | None = None
    """The process in which a sync failed: it must end itself."""
    slowness: list[tuple[float, float]] = field(default_factory=list)
    """How long faults let blocking work take; the last one counts."""

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    def disarm(self) -> None:
        self.armed = 0
        self.failpoint = ""
        self.disk.fails_next_sync = False

    def set_pace(self) -> None:
        """Gives its process the pace that it has now."""
        if self.process is not None:
            self.process.blocking_seconds = self.slowness[-1] if self.slowness else BLOCKING_SECONDS


class AnyPlace(SyncPlace):
    """Drawn for each sync: here none takes any time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)

    def is_loop(self, _size: int, _now: float) -> bool:
        return self._rng.random() < 0.5


class Cluster:
    def __init__(
        self,
        loop: VirtualLoop,
        wire: Wire,
        seed: int,
        config: Callable[[str, Path], NodeConfig],
        machines: list[Machine],
        *,
        chronicles: bool = False,
        registers: bool = False,
    ) -> None:
        """`chronicles`: whether nodes write down what has ended. `registers`: whether they say what they are."""
        self.machines = {machine.name: machine for machine in machines}
        self.on_stop: Callable[[str, str, BaseException, bool], None] = lambda *_: None
        """Hears which process ends itself, why, and whether it must."""
        self.on_survival: Callable[[str], None] = lambda _name: None
        self.on_start: Callable[[Machine], None] = lambda *_: None
        self.on_refusal: Callable[[Machine, Exception], None] = lambda *_: None
        self.on_catalog: Callable[[str, CatalogState], None] = lambda *_: None
        """Hears what each node hears of the catalog."""
        self.failing: dict[str, float] = {}
        """Failpoints at which things fail, in whatever process, each with the chance that they do."""
        self._loop, self._wire, self._config = loop, wire, config
        self._chronicles, self._registers = chronicles, registers
        self._rng = random.Random(seed)

    @property
    def living(self) -> list[Machine]:
        """All but those that are dead for ever."""
        return [machine for machine in self.machines.values() if not machine.gone]

    def start(self, name: str) -> None:
        """In the machine's new process."""
        machine = self.machines[name]
        assert not machine.is_up
        assert not machine.gone
        if self._is_unfit(machine):
            return  # its directory is another version's
        machine.lives += 1
        process = machine.process = Process(name, machine.clock)
        machine.set_pace()
        self._loop.post(process, self._boot, machine, process)

    def _boot(self, machine: Machine, process: Process) -> None:
        loop = self._loop
        machine.disk.before = lambda _operation, _path: self._at_disk(machine)
        machine.disk.on_failed_sync = lambda: self._sync_failed(machine)
        environment = Environment(
            monotonic=lambda: machine.clock.monotonic(loop.now),
            wall_micros=lambda: machine.clock.wall_micros(loop.now),
            random=random.Random(self._rng.getrandbits(64)),
            blocking=NoThreads(),
            disk=machine.disk,
            sync_place=AnyPlace(self._rng.getrandbits(64)),
            levels=machine.levels,
        )
        config = self._config(machine.name, machine.directory)
        incarnation = self._rng.getrandbits(63)
        cluster = ClusterMap(machine.catalog or config.initial_catalog(machine.levels.newest))
        cluster.subscribe(lambda state: self._heard(machine, state))
        client = TxnSystemClient(cluster, environment)
        transport = RaftTransport(config.cluster_name, machine.name, incarnation, cluster, levels=machine.levels)
        chronicler = Chronicler(lambda: roles.led_ranges(), client, config.warehouse, environment.blocking)
        kept_from = chronicler.kept_from if self._chronicles else None
        try:
            roles = Roles(config, environment, client, transport, incarnation, kept_from)
        except (JournalCorrupt, SnapshotCorrupt) as error:
            self.on_refusal(machine, error)
            loop.die()
        except OSError as error:
            self.stop_process("cannot start", error)
        machine.roles = roles
        self.on_start(machine)
        self._wire.listen(process, Listener(roles.registry, {Purpose.RAFT: transport.accept}).protocol)
        roles.start()
        transport.start()
        if self._chronicles:
            roles.registry.add(SERVICES["Timeline"], chronicler)
            Tasks("what has ended cannot be written down").spawn(chronicler.run())
        if self._registers:
            registering = Registering(client, machine.name, "simulated", machine.levels)
            Tasks("what a node is cannot be said").spawn(registering.run())

    def _heard(self, machine: Machine, state: CatalogState) -> None:
        """As a node that cannot do the cluster's level ends itself."""
        machine.catalog = state
        self.on_catalog(machine.name, state)
        if self._is_unfit(machine):
            self._loop.post(self._loop.world, self.kill, machine.name)

    def _is_unfit(self, machine: Machine) -> bool:
        state = machine.catalog
        return state is not None and bool(state.cluster_id) and not machine.levels.can(state.level)

    def kill(self, name: str, *, told: bool = True) -> None:
        """`told`: the peers' connections break at once."""
        machine = self.machines[name]
        if machine.process is None or not machine.process.alive:
            return
        self._loop.kill(machine.process)
        self._wire.died(machine.process, told=told)
        machine.roles = None

    def _at_disk(self, machine: Machine) -> None:
        """Before every operation of the machine's process on its disk."""
        if not self._loop.current.alive:
            raise Killed
        if machine.armed:
            machine.armed -= 1
            if not machine.armed:
                self.cut_power(machine.name)
                raise Killed

    def _sync_failed(self, machine: Machine) -> None:
        process = machine.failed_in = self._loop.current
        self._loop.post_later(END_SECONDS, self._check_end, process)

    def _check_end(self, process: Process) -> None:
        if process.alive and not process.paused:
            self.on_survival(process.name)

    def cut_power(self, name: str) -> None:
        self.kill(name, told=False)
        self.machines[name].disk.lose_power()

    def failpoint(self, name: str) -> Callable[[Fault], None] | None:
        """In place of what is armed in txnstatus.process.failpoints: the running machine dies where it was told to,
        or what it does there fails."""
        machine = self.machines.get(self._loop.current.name)
        if machine is not None and machine.failpoint == name:
            machine.failpoint = ""
            return lambda _fault: self._die_here(machine.name)
        if name in self.failing and self._rng.random() < self.failing[name]:
            return partial(_fail, name)
        return None

    @property
    def any_armed(self) -> bool:
        return bool(self.failing) or any(machine.failpoint for machine in self.machines.values())

    def _die_here(self, name: str) -> None:
        self.kill(name)
        self._loop.die()

    def stop_process(self, story: str, error: BaseException) -> NoReturn:
        """In place of txnstatus.raft.group.stop_process: the running process ends itself."""
        name = self._loop.current.name
        self.on_stop(name, story, error, self.machines[name].failed_in is self._loop.current)
        self.kill(name)
        self._loop.die()


class Failpoints(dict[str, Callable[[Fault], None]]):
    """What txnstatus.process.failpoints finds armed."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster

    def get(self, name: str, _default: Any = None) -> Any:
        return self._cluster.failpoint(name)

    def __bool__(self) -> bool:
        """Whether it is to be asked at all: as a dict it is empty."""
        return self._cluster.any_armed


def _fail(name: str, fault: Fault) -> None:
    raise fault(f"failpoint {name}")
