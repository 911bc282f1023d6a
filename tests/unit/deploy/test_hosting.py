"""Services of a group's parts: each serves one stay of its part in the group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.unit.harness.notes import Notes, restored
from txndeploy.node.hosting import Hosting
from txnstatus.raft.migration import Arrives
from txnstatus.raft.parts import Parts, arriving, opening, releasing

PART = "shard-1"


class Serves:
    def __init__(self, part: str) -> None:
        self.part = part

    def start(self) -> None: ...
    async def stop(self) -> None: ...
    def on_leadership(self, leading: bool) -> None: ...


def a_group() -> Parts:
    group = Parts(lambda _part: Notes())
    group.apply([opening("shard-0"), opening(PART)])
    return group


def goes_and_comes_back(group: Parts) -> None:
    group.apply([releasing(PART, 5), arriving(Arrives(PART, 8, 0, b"more", is_last=True))])


async def test_a_part_that_comes_back_is_served_by_another_one() -> None:
    group = a_group()
    hosting, closed = hosted(group)
    before = dict(hosting.services)
    goes_and_comes_back(group)
    assert hosting.services["shard-0"] is before["shard-0"]
    assert hosting.services[PART] is not before[PART]
    assert closed == [before[PART]]
    await hosting.stop()


async def test_so_it_is_where_a_snapshot_says_that_it_was_away() -> None:
    """The service of before would go on, as that of an older stay than the other group's on the same node."""
    ahead, behind = a_group(), a_group()
    hosting, closed = hosted(behind)
    before = dict(hosting.services)
    goes_and_comes_back(ahead)
    restored(behind, list(ahead.snapshot()))
    assert hosting.services["shard-0"] is before["shard-0"]
    assert hosting.services[PART] is not before[PART]
    assert closed == [before[PART]]
    restored(behind, list(ahead.snapshot()))
    assert len(closed) == 1
    await hosting.stop()


def hosted(group: Parts) -> tuple[Hosting, list[object]]:
    """On a node that follows, and the services that were closed."""
    closed = list[object]()
    driver: Any = SimpleNamespace(group=SimpleNamespace(group="group-0"))
    client: Any = SimpleNamespace(cluster=None)
    return Hosting(
        group, driver, client, lambda part, _hosting: Serves(part), lambda _part, it: closed.append(it)
    ), closed
