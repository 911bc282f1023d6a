"""Does to the world what a scenario's faults say, and undoes it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tests.sim.campaign.failing import DEPARTURES
from tests.sim.campaign.fault import Fault
from tests.sim.judges.watch import WatchedGroup
from tests.sim.world.cluster import Machine
from tests.sim.world.loop import Process
from txndeploy.node.roles import Roles

if TYPE_CHECKING:
    from tests.sim.world.world import World


class Nemesis:
    def __init__(self, world: World, rng: random.Random) -> None:
        self.inflicted: Counter[str] = Counter()
        self._world = world
        self._rng = rng
        self.quiet_since = 0.0
        """Time since which no fault has been at work on the cluster; infinite while one is."""
        self._at_work = 0
        self._undo: dict[int, Callable[[], None]] = {}

    def inflict(self, fault: Fault) -> None:
        world = self._world
        world.log("nemesis", str(fault))
        self.inflicted[fault.kind] += 1
        successor = world.operator.successor
        fault = replace(fault, target=successor(fault.target), other=successor(fault.other))
        undo: Callable[[], None] | None = getattr(self, f"_{fault.kind}")(fault)
        self._note(fault, undo is not None)
        if undo is not None:
            key = len(self._undo)
            self._undo[key] = undo
            world.loop.post_later(fault.seconds, self._end, key, fault)

    def _end(self, key: int, fault: Fault) -> None:
        undo = self._undo.pop(key, None)
        if undo is not None:
            self._world.log("nemesis", f"end of {fault.kind} {fault.target}")
            self._undo.setdefault(key, lambda: None)
            undo()
            self._note(fault, -1)

    def _note(self, fault: Fault, at_work: int) -> None:
        if not fault.kind.startswith("client_"):
            self._at_work += at_work
            self.quiet_since = float("inf") if self._at_work else self._world.loop.now

    def end_all(self) -> None:
        """Heals the world."""
        undos, self._undo = self._undo, {}
        for undo in undos.values():
            undo()
        self._at_work, self.quiet_since = 0, self._world.loop.now
        self._world.wire.heal_all()
        for machine in self._world.cluster.machines.values():
            machine.disarm()
            machine.disk.capacity = None

    # ---- deaths

    def _kill(self, fault: Fault) -> Callable[[], None]:
        self._world.cluster.kill(fault.target)
        return lambda: self._restart(fault.target)

    def _power_cut(self, fault: Fault) -> Callable[[], None]:
        self._world.cluster.cut_power(fault.target)
        return lambda: self._restart(fault.target)

    def _blackout(self, fault: Fault) -> Callable[[], None]:
        names = self._names()
        for name in names:
            self._world.cluster.cut_power(name)

        def undo() -> None:
            for name in names:
                self._restart(name)

        return undo

    def _kill_at_disk(self, fault: Fault) -> Callable[[], None]:
        self._machine(fault).armed = int(fault.amount)
        return lambda: self._restart(fault.target)

    def _kill_at_failpoint(self, fault: Fault) -> Callable[[], None]:
        self._machine(fault).failpoint = fault.other
        return lambda: self._restart(fault.target)

    def _rot(self, fault: Fault) -> Callable[[], None]:
        self._world.cluster.kill(fault.target)
        if not self._world.operator.rot(self._machine(fault)):
            self._instead(fault, "kill")
        return lambda: self._restart(fault.target)

    def _lost_sync(self, fault: Fault) -> Callable[[], None]:
        self._machine(fault).disk.fails_next_sync = True
        return lambda: self._restart(fault.target)

    def _hand_over(self, fault: Fault) -> None:
        """Every leader on the node gives way, as before a restart that is planned."""
        machine = self._machine(fault)
        process = machine.process
        if process is not None and process.alive and not process.paused and machine.roles is not None:
            self._world.loop.post(process, _give_way, machine.roles)

    def _depart(self, fault: Fault) -> Callable[[], None] | None:
        """The node is stopped, as before a restart that is planned; `other`, if any, dies in the middle of it."""
        machine, cluster = self._machine(fault), self._world.cluster
        process = machine.process
        if process is None or not process.alive or process.paused or machine.roles is None:
            return None
        comes_back = False

        async def depart(roles: Roles) -> None:
            for group in roles._groups.values():
                cast(WatchedGroup, group.driver.group).departs = True
            await roles.leave()
            cluster.kill(machine.name)
            if comes_back:
                self._restart(machine.name)
            self._world.loop.die()

        def undo() -> None:
            nonlocal comes_back
            comes_back = True
            for name in filter(None, dict.fromkeys((machine.name, fault.other))):
                self._restart(name)

        if fault.other:
            cluster.machines[fault.other].failpoint = DEPARTURES[int(fault.amount)]
        leaving = machine.roles
        self._world.loop.post(process, lambda: self._world.loop.create_task(depart(leaving)))
        return undo

    def _add_group(self, fault: Fault) -> None:
        self._world.operator.reshape(fault.kind, fault.amount)

    _migrate = _split = _add_group

    def _install(self, fault: Fault) -> Callable[[], None]:
        self._world.operator.install(fault.target, int(fault.amount))
        return lambda: self._restart(fault.target)

    def _raise_level(self, _fault: Fault) -> None:
        self._world.operator.raise_level()

    def _drain(self, fault: Fault) -> Callable[[], None]:
        self._world.operator.drain(fault.target, "LEADS_NOTHING")
        return lambda: self._world.operator.drain(fault.target, "SERVES")

    def _spread(self, fault: Fault) -> Callable[[], None] | None:
        return self._or_kill(fault, self._world.operator.spread)

    def _replace(self, fault: Fault) -> Callable[[], None] | None:
        return self._or_kill(fault, self._world.operator.replace)

    def _displace(self, fault: Fault) -> Callable[[], None] | None:
        return self._or_kill(fault, self._world.operator.displace)

    def _or_kill(self, fault: Fault, order: Callable[[str], bool]) -> Callable[[], None] | None:
        """What the operator is to do; a kill, where he may not."""
        if order(fault.target):
            return None
        self._instead(fault, "kill")
        return self._kill(fault)

    def _instead(self, fault: Fault, kind: str) -> None:
        self.inflicted[fault.kind] -= 1
        self.inflicted[kind] += 1

    def _restart(self, name: str) -> None:
        machine = self._world.cluster.machines[name]
        machine.disarm()
        if not machine.is_up and not machine.gone:
            self._world.cluster.start(name)

    # ---- network

    def _isolate(self, fault: Fault) -> Callable[[], None]:
        pairs = [(fault.target, other) for other in self._names() if other != fault.target]
        return self._cut_pairs([*pairs, *((b, a) for a, b in pairs)])

    def _cut(self, fault: Fault) -> Callable[[], None]:
        return self._cut_pairs([(fault.target, fault.other), (fault.other, fault.target)])

    def _one_way(self, fault: Fault) -> Callable[[], None]:
        return self._cut_pairs([(fault.target, fault.other)])

    _client_cut = _cut

    def _cut_pairs(self, pairs: list[tuple[str, str]]) -> Callable[[], None]:
        wire = self._world.wire
        for pair in pairs:
            wire.cut(*pair)

        def undo() -> None:
            for pair in pairs:
                wire.heal(*pair)

        return undo

    def _swizzle(self, fault: Fault) -> Callable[[], None]:
        """Isolates the nodes one by one, and lets them back in another order."""
        wire, loop = self._world.wire, self._world.loop
        order = self._names()
        self._rng.shuffle(order)
        pairs = [(name, other) for name in order for other in sorted(order) if other != name]
        done: list[tuple[str, str]] = []
        healed = False

        def cut(pair: tuple[str, str]) -> None:
            if not healed:
                wire.cut(*pair)
                done.append(pair)

        def undo() -> None:
            nonlocal healed
            healed = True
            for pair in self._rng.sample(done, len(done)):
                wire.heal(*pair)

        for number, pair in enumerate(pairs):
            loop.post_later(fault.seconds / 2 * number / len(pairs), cut, pair)
        return undo

    def _reset(self, fault: Fault) -> None:
        self._world.wire.reset(fault.target, fault.other)

    def _clog(self, fault: Fault) -> Callable[[], None]:
        links = [self._world.wire.link(fault.target, fault.other), self._world.wire.link(fault.other, fault.target)]
        delay = fault.amount / 4, fault.amount
        for link in links:
            link.clogs.append(delay)

        def undo() -> None:
            for link in links:
                link.clogs.remove(delay)

        return undo

    def _depose(self, fault: Fault) -> Callable[[], None] | None:
        """A group's leader is cut off until others have another one; when it is back, its power fails."""
        machine = self._leader(fault.target)
        if machine is None:
            return None
        heal = self._isolate(replace(fault, target=machine.name))
        is_cut_off = True

        def back() -> None:
            nonlocal is_cut_off
            if is_cut_off:
                is_cut_off = False
                heal()

        def back_and_armed() -> None:
            if is_cut_off:
                back()
                machine.armed = int(fault.amount)

        def undo() -> None:
            back()
            self._restart(machine.name)

        self._world.loop.post_later(fault.seconds * 0.7, back_and_armed)
        return undo

    def _cut_off(self, fault: Fault) -> Callable[[], None]:
        """A leader that changes the members of its group is cut off before it can tell, or another node is: the next
        one that does so, or after so many others."""
        watch, left = self._world.watch, int(fault.amount)
        heal: Callable[[], None] = lambda: None  # noqa: E731 until it is cut off

        def cut(leader: str) -> None:
            nonlocal heal, left
            left -= 1
            if left >= 0:
                return
            watch.on_change = lambda _leader: None
            others = [name for name in self._names() if name != leader]
            heal = self._isolate(replace(fault, target=leader if fault.other == "leader" else self._rng.choice(others)))

        def undo() -> None:
            watch.on_change = lambda _leader: None
            heal()

        watch.on_change = cut
        return undo

    # ---- slowness

    def _pause(self, fault: Fault) -> Callable[[], None] | None:
        return self._pause_process(self._machine(fault).process)

    def _stall(self, fault: Fault) -> Callable[[], None] | None:
        """A group's leader stands still, and the others go on."""
        machine = self._leader(fault.target)
        return self._pause_process(machine.process) if machine is not None else None

    def _drag(self, fault: Fault) -> Callable[[], None] | None:
        """The disk of a group's leader is slow, and the others' are not."""
        machine = self._leader(fault.target)
        return self._slow_disk(replace(fault, target=machine.name)) if machine is not None else None

    def _pause_process(self, process: Process | None) -> Callable[[], None] | None:
        if process is None or process.paused:
            return None
        self._world.loop.pause(process)
        return lambda: self._world.loop.resume(process)

    def _slow_disk(self, fault: Fault) -> Callable[[], None]:
        machine = self._machine(fault)
        seconds = fault.amount / 4, fault.amount
        machine.slowness.append(seconds)
        machine.set_pace()

        def undo() -> None:
            machine.slowness.remove(seconds)
            machine.set_pace()

        return undo

    def _disk_full(self, fault: Fault) -> Callable[[], None]:
        disk = self._machine(fault).disk
        disk.capacity = disk.used + int(fault.amount)
        return lambda: setattr(disk, "capacity", None)

    def _host_dies(self, _fault: Fault) -> Callable[[], None]:
        self._world.host.kill()
        return self._world.host.start

    def _wall_jump(self, fault: Fault) -> None:
        self._machine(fault).clock.wall_offset += fault.amount
        self._world.note_clocks()

    def _hasten(self, fault: Fault) -> None:
        """The wall clock of a group's leader jumps ahead of all that any has shown."""
        machine = self._leader(fault.target)
        if machine is not None:
            offsets = [each.clock.wall_offset for each in self._world.cluster.machines.values()]
            machine.clock.wall_offset = max(offsets) + fault.amount
            self._world.note_clocks()

    def _store_fails(self, fault: Fault) -> Callable[[], None]:
        warehouse = self._world.warehouse
        warehouse.failing = fault.amount
        return lambda: setattr(warehouse, "failing", 0.0)

    # ---- what fails and goes on

    def _fails(self, fault: Fault) -> Callable[[], None]:
        failing = self._world.cluster.failing
        failing[fault.target] = fault.amount

        def undo() -> None:
            failing.pop(fault.target, None)

        return undo

    def _till_fails(self, fault: Fault) -> Callable[[], None]:
        till = self._world.till
        till.failing = fault.amount
        return lambda: setattr(till, "failing", 0.0)

    # ---- clients

    def _client_dies(self, fault: Fault) -> Callable[[], None]:
        self._world.kill_client(fault.target)
        return lambda: self._world.start_client(fault.target)

    def _client_pauses(self, fault: Fault) -> Callable[[], None] | None:
        return self._pause_process(self._world.clients.get(fault.target))

    def _machine(self, fault: Fault) -> Machine:
        return self._world.cluster.machines[fault.target]

    def _leader(self, group: str) -> Machine | None:
        """The last one that was seen to lead the group."""
        history = self._world.watch.history_of(group)
        if history is None or not history.leaders:
            return None
        return self._world.cluster.machines[history.leaders[max(history.leaders)]]

    def _names(self) -> list[str]:
        return [machine.name for machine in self._world.cluster.living]


def _give_way(roles: Roles) -> None:
    for group in roles._groups.values():
        group.driver.group.hand_over()
        group.driver._wake.set()
