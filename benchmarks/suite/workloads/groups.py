"""Transactions of a cluster whose tables are spread over several groups: each has a log and a leader of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import txnclient
from benchmarks.suite.drive import drive
from benchmarks.suite.model import OURS, Contender, Settings, Tally, Workload
from benchmarks.suite.ours import COLUMNS, OurCluster, connected, transact

MOST = 3
"""Groups: as many as there are nodes, and so one leader on each."""


class Ours(OurCluster):
    """A transaction is about two tables, of one group or of two; those in flight begin evenly over groups."""

    def __init__(self, settings: Settings, groups: int, apart: bool = False) -> None:
        super().__init__(settings, groups=groups)
        self.name = (OURS if groups == 1 else f"{OURS}-{groups}") + ("-apart" if apart else "")
        about = "each transaction in two groups" if apart else "each transaction in one group"
        self.about = f"groups: {groups}, a stream to the leader of each; {about}"
        self._names = [f"group-{number}" for number in range(groups)]
        self._further = 1 if apart else 0

    def start(self, directory: Path) -> None:
        super().start(directory)
        with txnclient.connect(self.cluster.addresses) as client:
            for group in self._names:
                for table in (_first(group), _second(group)):
                    client.create_table(table, COLUMNS, placement=group)

    async def run(self, point: int, seconds: float) -> Tally:
        async with AsyncExitStack() as streams:
            leaders = [self.cluster.address(self.cluster.leader(group)) for group in self._names]
            channels = [await streams.enter_async_context(connected(leader)) for leader in leaders]
            seconds_of = self._names[self._further :] + self._names[: self._further]
            tables = [(_first(one), _second(two)) for one, two in zip(self._names, seconds_of, strict=True)]

            async def operation(number: int) -> None:
                group = number % len(channels)
                await transact(channels[group], tables[group])

            return await drive(operation, point, seconds)

    def status_group(self) -> str:
        return self._names[0]


def _first(group: str) -> str:
    return f"first.{group.replace('-', '_')}"


def _second(group: str) -> str:
    return f"second.{group.replace('-', '_')}"


def contenders(settings: Settings) -> Sequence[Contender]:
    """What is not placed is spread by the hashes of names: with two groups, half of all pairs are apart."""
    return [*(Ours(settings, groups) for groups in range(1, MOST + 1)), Ours(settings, 2, apart=True)]


WORKLOAD = Workload(
    name="groups",
    title="Groups that tables are spread over",
    contenders=contenders,
    points=(64, 256),
    about="The same transactions on one to three groups, each with its own log and its leader on a node of its own. "
    "Where nodes share the cores, what groups add is what they do beside each other while one waits for the disk.",
)
