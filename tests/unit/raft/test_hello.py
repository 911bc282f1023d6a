"""Nodes of several versions as they meet: who is let in, by the cluster's feature level, and who has to go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.harness.identities import free_address
from txnstatus import features
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.errors import Unauthenticated
from txnstatus.features import Levels
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import transport
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.transport import PROTOCOL, RaftTransport
from txnstatus.rpc.connection import Purpose, connect, split_address
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.server import Registry

SECONDS = 10.0
OF_BEFORE = bytes.fromhex("0a140a0361697212026e32180120032a056169722e31")
"""The frame with which a node of the version before feature levels begins."""


class Meeting:
    """Node n1, and who else connects to it."""

    def __init__(self, level: int) -> None:
        nodes = {name: NodeInfo(free_address(), ()) for name in ("n1", "n2")}
        state = CatalogState(100, nodes, {}, {}, 3, 1, cluster_id="air.1", version=1, level=level)
        self.address, self.other = nodes["n1"].address, nodes["n2"].address
        self.cluster = ClusterMap(state)
        self.news: asyncio.Queue[str] = asyncio.Queue()
        self.raft = RaftTransport("air", "n1", 1, self.cluster, version="1.0")
        driver = SimpleNamespace(
            group=SimpleNamespace(group="g"),
            connected=lambda peer: self.news.put_nowait(f"{peer} is there"),
            disconnected=lambda peer: self.news.put_nowait(f"{peer} is gone"),
        )
        self.raft.add(cast(RaftDriver, driver))
        self.raft.start()

    def raise_level(self) -> None:
        state = self.cluster.state
        self.cluster.update(replace(state, level=state.level + 1, version=state.version + 1))

    async def say(self, hello: pb.Hello) -> pb.RaftFrame:
        """The answer to a hello of n2."""
        answers = await self.listen(hello)
        return await answers.get()

    async def listen(self, hello: pb.Hello) -> asyncio.Queue[pb.RaftFrame]:
        connection, answers = await connect(self.address, Purpose.RAFT), asyncio.Queue[pb.RaftFrame]()
        connection.send(pb.RaftFrame(hello=hello).SerializeToString())
        connection.take_up(lambda data: answers.put_nowait(pb.RaftFrame.FromString(data)), lambda _why: None)
        return answers


@asynccontextmanager
async def meeting(level: int) -> AsyncIterator[Meeting]:
    made = Meeting(level)
    listener = Listener(Registry("n1", lambda: "air.1"), {Purpose.RAFT: made.raft.accept})
    await listener.bind(made.address)
    await listener.start()
    try:
        async with asyncio.timeout(SECONDS):
            yield made
    finally:
        await made.raft.stop()
        listener.close()
        listener.stop()


def hello(levels: Levels | None) -> pb.Hello:
    said = pb.Hello(cluster_name="air", node_id="n2", incarnation=1, protocol=PROTOCOL, cluster_id="air.1")
    if levels is not None:
        said.oldest_level, said.newest_level = levels.oldest, levels.newest
    return said


async def test_a_node_says_its_version_and_what_that_does() -> None:
    async with meeting(features.FIRST) as n1:
        said = (await n1.say(hello(features.OWN))).hello
        assert said.version == "1.0"
        assert Levels(said.oldest_level, said.newest_level) == features.OWN


@pytest.mark.parametrize(
    ("level", "levels", "lets_in"),
    [
        (1, None, True),
        (1, Levels(1, 2), True),
        (1, Levels(2, 3), False),
        (2, None, False),
        (2, Levels(1, 1), False),
        (2, Levels(1, 2), True),
        (2, Levels(2, 9), True),
    ],
)
async def test_who_does_the_level_is_let_in(level: int, levels: Levels | None, lets_in: bool) -> None:
    """A node of a version before feature levels says none, and does the first."""
    async with meeting(level) as n1:
        answer = await n1.say(hello(levels))
        if lets_in:
            assert answer.hello.node_id == "n1"
            assert await n1.news.get() == "n2 is there"
        else:
            assert "node 'n2' does feature levels" in answer.refusal
            assert f"the cluster is at {level}" in answer.refusal
            assert n1.news.empty()


async def test_a_connection_ends_as_the_level_is_raised_past_the_peer() -> None:
    async with meeting(1) as n1:
        answers = await n1.listen(hello(None))
        assert (await answers.get()).hello.node_id == "n1"
        assert await n1.news.get() == "n2 is there"
        n1.raise_level()
        assert "does feature levels 1 alone, and the cluster is at 2" in (await answers.get()).refusal
        assert await n1.news.get() == "n2 is gone"


async def test_a_connection_stays_where_the_peer_does_the_new_level() -> None:
    async with meeting(1) as n1:
        answers = await n1.listen(hello(Levels(1, 2)))
        await answers.get()
        assert await n1.news.get() == "n2 is there"
        n1.raise_level()
        await n1.say(hello(Levels(1, 2)))  # by another connection, which is later than what the first would hear
        assert await n1.news.get() == "n2 is gone"  # for there is a newer one, and no refusal
        assert answers.empty()


async def test_until_the_founding_nobody_is_refused_for_a_level() -> None:
    async with meeting(9) as n1:
        n1.cluster.state = replace(n1.cluster.state, cluster_id="")
        assert (await n1.say(hello(None))).hello.node_id == "n1"


def test_the_frame_of_before_reads() -> None:
    said = pb.RaftFrame.FromString(OF_BEFORE).hello
    assert (said.cluster_name, said.node_id, said.protocol, said.cluster_id) == ("air", "n2", PROTOCOL, "air.1")
    assert not said.newest_level


# ---- who is let in no more


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("error", "most"), [(Unauthenticated("n2 is not the node that it was"), 20), (ConnectionRefusedError(), 600)]
)
async def test_who_is_refused_asks_less_and_less_often(
    error: Exception, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revoked node dialled all others ten times a second for ever. One that does not run is dialled at that pace."""
    dialled = 0

    async def refused(*_: object) -> None:
        nonlocal dialled
        dialled += 1
        raise error

    monkeypatch.setattr(transport, "connect", refused)
    n1 = Meeting(1)
    await asyncio.sleep(60)
    await n1.raft.stop()
    assert most / 2 < dialled <= most


async def test_who_is_let_in_no_more_is_dialled_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others end its connection as it says hello."""
    pauses = asyncio.Queue[float]()
    sleep = asyncio.sleep

    async def paused(seconds: float) -> None:
        pauses.put_nowait(seconds)
        await sleep(0)

    n1 = Meeting(1)
    ends = await asyncio.start_server(lambda _reader, writer: writer.close(), *split_address(n1.other))
    monkeypatch.setattr(transport.asyncio, "sleep", paused)
    async with asyncio.timeout(SECONDS):
        seen = [await pauses.get() for _ in range(8)]
        while seen[-1] < transport.REFUSED_SECONDS:
            seen.append(await pauses.get())
    monkeypatch.undo()
    ends.close()
    await n1.raft.stop()
    assert sorted(seen) == seen
