"""What nodes of an older version get to read: nothing that came with a feature level which that version does not do.

What came with which level is what tests/fixtures/levels has recorded, and not what the service takes it for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from txnparticipant.shard import commands as shard_cmd
from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, CatalogState, to_wire
from txnstatus.features import Levels
from txnstatus.proto import catalog_pb2
from txnstatus.raft.entries import commands_of, is_commands
from txnstatus.raft.parts import split
from txnstatus.status import commands as status_cmd

RECORDED = Path(__file__).parents[2] / "fixtures" / "levels"
DECODE: dict[str, Callable[[bytes], Any]] = {"status": status_cmd.decode, "shard": shard_cmd.decode}


def _brought() -> Iterator[tuple[str, int]]:
    for path in RECORDED.glob("*.txt"):
        for line in path.read_text().splitlines():
            name, _, what = line.partition(" = ")
            log, _, tag = name.partition(" ")
            yield (f"{log} {what}" if tag.isdigit() else name), int(path.stem)


BROUGHT = dict(_brought())
"""Field of a message, kind of command, its field, or option → the level that brought it."""


class Legibility:
    def __init__(self, levels: Callable[[str], Levels], violated: Callable[[str, str], None]) -> None:
        """`levels`: those that a node's version does."""
        self._levels, self._violated = levels, violated

    def entry(self, node: str, group: str, entry: bytes) -> None:
        """One in a node's log of a group."""
        newest = self._levels(node).newest
        if newest < features.OWN.newest and is_commands(entry):
            for command in commands_of(entry):
                for what in _newer(_in_command(group, command), newest):
                    self._violated("levels", f"{node} does {newest} at most, and has {what} in its log of {group}")

    def catalog(self, node: str, state: CatalogState) -> None:
        """What a node hears of it."""
        newest = self._levels(node).newest
        if newest < features.OWN.newest and node in state.nodes:
            for what in _newer(_in_message(to_wire(state)), newest):
                self._violated("levels", f"{node} does {newest} at most, and hears {what} of the catalog")


def _newer(said: Iterator[str], newest: int) -> Iterator[str]:
    """What an older version does not know, and the level that brought it."""
    return (f"{what}, of level {BROUGHT[what]}," for what in said if BROUGHT[what] > newest)


def _in_command(group: str, command: bytes) -> Iterator[str]:
    if group == CATALOG:
        yield from _in_message(catalog_pb2.CatalogCommand.FromString(command))
        return
    part, own = split(command)
    if not part:
        return  # which parts there are
    log = part.partition("-")[0]
    decoded = DECODE[log](own)
    kind = type(decoded).__name__
    yield f"{log} {kind}"
    yield from (f"{log} {kind}.{name}" for name in decoded.__struct_fields__ if getattr(decoded, name))


def _in_message(message: Message) -> Iterator[str]:
    """What is set in it, at any depth."""
    kind = message.DESCRIPTOR.full_name.removeprefix("txnstatus.")
    for field, value in message.ListFields():
        yield f"{kind}.{field.name}"
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from _in_message(each)
        elif f"{kind}.{field.name}" in ("CatalogState.Option.name", "CatalogCommand.SetOption.name"):
            yield f"option {value}"
