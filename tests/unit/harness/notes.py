"""State machines that keep what they are told, as parts of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from txnstatus.raft.machine import Restoring, RestoringWhole
from txnstatus.raft.parts import Parts


class Notes:
    """Keeps what it is told, and answers with how much that is."""

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def apply(self, commands: Sequence[bytes]) -> list[int]:
        self.told += commands
        return [len(self.told)] * len(commands)

    def snapshot(self) -> Iterator[bytes]:
        return iter(list(self.told))

    def restoring(self) -> Restoring:
        return RestoringWhole(lambda data: setattr(self, "told", [data] if data else []))


def told(group: Parts) -> dict[str, list[bytes]]:
    return {part: machine.told for part, machine in group.machines.items() if isinstance(machine, Notes)}


def restored(group: Parts, snapshot: Sequence[bytes]) -> Parts:
    restoring = group.restoring()
    for chunk in snapshot:
        restoring.add(chunk)
    restoring.finish()
    return group
