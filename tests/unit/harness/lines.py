"""Parts whose states have many chunks, and the commands that bring those to another group."""

from __future__ import annotations

from collections.abc import Iterator

from tests.unit.harness.notes import Notes
from txnstatus.raft.machine import Restoring
from txnstatus.raft.migration import Arrives
from txnstatus.raft.parts import Parts, address, arriving
from txnstatus.replicated import Rejected

PART = "shard-1"


class Lines(Notes):
    """Notes whose snapshot is one chunk for each, after a first one."""

    def snapshot(self) -> Iterator[bytes]:
        return iter([b"lines", *self.told])

    def restoring(self) -> Restoring:
        return _RestoringLines(self)


class _RestoringLines:
    def __init__(self, lines: Lines) -> None:
        self._lines, self._chunks = lines, list[bytes]()

    def add(self, chunk: bytes) -> None:
        if not self._chunks and chunk != b"lines":
            raise ValueError("no lines")
        self._chunks.append(chunk)

    def finish(self) -> None:
        self._lines.told = self._chunks[1:]


def written(group: Parts, *lines: bytes, part: str = PART) -> Parts:
    assert not any(isinstance(each, Rejected) for each in group.apply([address(part) + line for line in lines]))
    return group


def chunks_of(source: Parts, number: int) -> list[bytes]:
    """Commands that bring what was released."""
    commands, is_last = list[bytes](), False
    while not is_last:
        data, is_last, goes_on = source.migrations.released[PART].chunk(len(commands))
        commands.append(arriving(Arrives(PART, number, len(commands), data, is_last, goes_on)))
    return commands
