"""The simulated operator: repairs nodes that refuse to start, and replaces those that are dead for good.

What he may do is what docs/operations.md says. A majority of each group must always have its data: so at most one node
at a time is without some of it, from when its disk rots, or it is dead, until its place is filled and has caught up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.sim.world.cluster import Machine
from txnstatus import features
from txnstatus.process.stop import REPAIR

if TYPE_CHECKING:
    from tests.sim.actors.client import Client
    from tests.sim.world.world import World

REPAIR_SECONDS = 0.5
"""Time from the refusal to the new start."""
JOIN_SECONDS = 0.5
"""Time from the start of a new node to the order that it takes a place."""


class Operator:
    def __init__(self, world: World, new_machine: Callable[[str], Machine]) -> None:
        self.successors: dict[str, str] = {}
        """The node that follows each one that is dead for ever, or about to go."""
        self._world = world
        self._new_machine = new_machine
        self._ordered = False
        """Whether somebody has ever wanted the level raised: from then on no node goes back."""
        self._raised = not world.scenario.two_versions
        """Whether it is."""
        world.cluster.on_refusal = self._refused
        world.cluster.on_start = self._started

    # ---- a disk that rots

    def rot(self, machine: Machine) -> bool:
        """Damages a file of a machine that is down; False: it may not now, or there is nothing to damage."""
        if not self._all_have_their_data() or self.replacing:
            return False
        paths = self._files(machine)
        found = machine.disk.rot_at(paths)
        if found is None:
            return False
        path, position = found
        machine.disk.flip_bit(path, position)
        machine.rotten = path.relative_to(machine.directory / "raft").parts[0]
        self._world.log("nemesis", f"byte {position} of {path} rots")
        return True

    def _files(self, machine: Machine) -> list[Path]:
        """The files that a start reads."""
        groups = self._world.watch.histories
        files = [path for name in groups for path in machine.disk.files(machine.directory / "raft" / name)]
        logs = {path for path in files if path.suffix == ".log"}
        # What lies before a gap is about to be dropped.
        whole = {path for path in logs if all(later in logs for later in _up_to_the_last(path, logs))}
        return [path for path in files if path in whole or path.name == "snapshot"]

    def _refused(self, machine: Machine, error: Exception) -> None:
        if not machine.rotten or REPAIR not in str(error):
            self._world.violated("no process ends itself", f"{machine.name}: cannot start: {error!r}")
            return
        self._world.log(machine.name, f"refuses to start: {error}")
        self._world.loop.post_later(REPAIR_SECONDS, self._repair, machine)

    def _repair(self, machine: Machine) -> None:
        """Removes its data directory, and starts it under its old name."""
        if machine.is_up or not machine.rotten:
            return
        self._world.log("operator", f"wipes {machine.name}")
        self._world.nemesis.inflicted["wiped"] += 1
        machine.disk.wipe(machine.directory)
        machine.catalog, machine.rotten, machine.wiped = None, "", True
        for history in self._world.watch.histories.values():
            history.promises.pop(machine.name, None)  # it says so itself, and abstains
            history.needed[machine.name] = history.committed
        self._world.cluster.start(machine.name)

    def _started(self, machine: Machine) -> None:
        if machine.rotten:
            group, machine.rotten = machine.rotten, ""
            opened = self._world.watch.history(group).groups.get(machine.name)
            # A group that the node knows to be dropped is not opened; an earlier life's is no sign.
            if opened is not None and opened[0] is machine.process:
                self._world.violated("corruption is found", f"{machine.name} starts with a damaged file of {group}")

    def _all_have_their_data(self) -> bool:
        for machine in self._world.cluster.living:
            if machine.rotten or (machine.wiped and not self._has_caught_up(machine)):
                return False
            machine.wiped = False
        return True

    def _has_caught_up(self, machine: Machine) -> bool:
        if machine.roles is None:
            return False
        members = machine.roles.catalog.groups
        histories = self._world.watch.histories
        replicas = [histories[name].groups.get(machine.name) for name in members if machine.name in members[name]]
        return all(
            found is not None and found[0] is machine.process and not found[1].journal.abstaining for found in replicas
        )

    # ---- groups that come, and shards that go elsewhere, or are split

    def reshape(self, how: str, which: float) -> None:
        """`how`: `add_group`, `migrate` or `split`. `which`: a number from 0 to 1, by which a shard is chosen."""
        if how != "add_group" and not self._raised:
            return

        async def order(client: Client) -> None:
            if how == "add_group":
                await client.add_group()
            else:
                await (client.migrate if how == "migrate" else client.split)(which)

        self._world.launch_client("operator", order)

    # ---- nodes that are drained, come and leave

    def drain(self, node: str, drain: str) -> None:
        """Not of one that is about to leave: that is drained, and stays so."""
        machine = self._world.cluster.machines[node]
        if machine.leaves or machine.gone or not self._raised:
            return

        async def order(client: Client) -> None:
            await client.drain_if_it_may(node, drain)

        self._world.launch_client("operator", order)

    def spread(self, old: str) -> bool:
        """Has a new node join and get replicas, and then `old` give its own away and leave; False: not now."""
        machine = self._world.cluster.machines[old]
        if not self._may_go(old) or not machine.is_up or not self._raised:
            return False
        machine.leaves = True
        world, new = self._world, f"n{len(self._world.cluster.machines) + 1}"
        self.successors[old] = new
        world.cluster.machines[new] = self._new_machine(new)
        world.note_clocks()
        world.cluster.start(new)

        async def order(client: Client) -> None:
            if await client.spread(new, f"{new}:7050", old):
                self._switch_off(machine)
            else:
                machine.leaves = False
                del self.successors[old]

        world.loop.post_later(JOIN_SECONDS, world.launch_client, "operator", order)
        return True

    # ---- versions

    def install(self, node: str, newest: int) -> None:
        """Ends the node; it begins again as the version whose newest level this is, where it may."""
        machine = self._world.cluster.machines[node]
        self._world.cluster.kill(node)
        if newest >= machine.levels.newest or not self._ordered:
            machine.levels = replace(machine.levels, newest=newest)

    def install_everywhere(self) -> None:
        for machine in self._world.cluster.living:
            if machine.levels != features.OWN:
                self.install(machine.name, features.OWN.newest)

    def raise_level(self) -> None:
        self._ordered = True
        self._world.launch_client("operator", self._raise_level)

    async def _raise_level(self, client: Client) -> None:
        self._raised = await client.raise_level(features.OWN.newest) or self._raised

    async def finish_upgrade(self, client: Client) -> None:
        while not self._raised:
            await self._raise_level(client)

    def unrest(self) -> str:
        """Why the nodes of several versions are not at rest yet; empty: they are, or there are none."""
        if not self._world.scenario.two_versions:
            return ""
        nodes = [(machine.name, machine.catalog) for machine in self._world.cluster.living]
        unheard = [
            name
            for name, state in nodes
            if state is None or any(each.levels != features.OWN for each in state.nodes.values())
        ]
        return f"{unheard} have not heard what all nodes do" if unheard else ""

    # ---- a node that goes for good

    def replace(self, old: str) -> bool:
        """Ends a node for ever, and has a new one take its place; False: not now."""
        if not self._may_go(old):
            return False
        self._world.cluster.kill(old)
        self._world.cluster.machines[old].gone = True
        self._send_for_another(old)
        return True

    def displace(self, old: str) -> bool:
        """The same of a node that runs, and goes on until its place is taken; False: not now."""
        machine = self._world.cluster.machines[old]
        if not self._may_go(old) or not machine.is_up:
            return False
        machine.leaves = True
        self._send_for_another(old)
        return True

    def _may_go(self, node: str) -> bool:
        return self._all_have_their_data() and node not in self.successors and not self.replacing

    def _send_for_another(self, old: str) -> None:
        world = self._world
        new = f"n{len(world.cluster.machines) + 1}"
        self.successors[old] = new
        world.cluster.machines[new] = self._new_machine(new)
        world.note_clocks()
        world.cluster.start(new)
        world.loop.post_later(JOIN_SECONDS, self._order, old, new)

    @property
    def replacing(self) -> bool:
        """Whether somebody still counts on a node that goes for good, as far as anybody knows, running or down."""
        if not self.successors:
            return False
        states = [machine.catalog for machine in self._world.cluster.living if machine.catalog is not None]
        return not states or any(
            old in state.nodes or state.replacement is not None for old in self.successors for state in states
        )

    def _order(self, old: str, new: str) -> None:
        async def order(client: Client) -> None:
            await client.replace_node(old, new, f"{new}:7050")
            self._switch_off(self._world.cluster.machines[old])

        self._world.launch_client("operator", order)

    def _switch_off(self, machine: Machine) -> None:
        self._world.cluster.kill(machine.name)
        machine.gone, machine.leaves = True, False

    def successor(self, name: str) -> str:
        """The machine that has the node's place now."""
        while name in self.successors:
            name = self.successors[name]
        return name


def _up_to_the_last(path: Path, logs: set[Path]) -> list[Path]:
    last = max(int(log.stem) for log in logs if log.parent == path.parent)
    return [path.with_name(f"{number:020}.log") for number in range(int(path.stem), last + 1)]
