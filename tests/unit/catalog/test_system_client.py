"""TxnSystemClient: finds a group's leader, wherever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.harness.calls import AsyncChannel
from txnstatus.backoff import Backoff
from txnstatus.catalog import client as catalog_client
from txnstatus.catalog import system_client
from txnstatus.catalog.catalog import CatalogState, Replacement, shard_group, status_group, to_wire
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.placement import Migration
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotTheLeader, Unavailable
from txnstatus.process.environment import Environment
from txnstatus.proto import admin_pb2 as pb
from txnstatus.rpc.calls import PassedOn, Question
from txnstatus.rpc.server import Registry


def founded() -> CatalogState:
    nodes = {name: NodeInfo(f"{name}:1", ("status", "participant")) for name in ("n1", "n2", "n3")}
    return initial(nodes, participant_shards=1, replication=3, range_span=100, options=Options())


class Channel(AsyncChannel):
    """To a node that leads or does not."""

    def __init__(self, address: str, leader: str) -> None:
        self._node, self._leader = address.partition(":")[0], leader

    async def call(self, _method: str, _request: object, _response: object, _timeout: float, group: str) -> Any:
        assert group == status_group(0)
        if self._node != self._leader:
            raise NotTheLeader(f"{self._node} does not lead", hint=self._leader)
        return pb.MoveReplicaResponse(members=[self._node])


def test_a_new_member_that_leads_before_the_catalog_knows_that_it_is_one_is_found() -> None:
    async def main() -> list[str]:
        state = founded()
        nodes = {**state.nodes, "n4": NodeInfo("n4:1", ("status", "participant"))}
        state = replace(state, nodes=nodes, replacement=Replacement("n2", "n4"))
        client = TxnSystemClient(ClusterMap(state), Environment(), lambda address: Channel(address, "n4"))
        answer = await client.call_leader(
            status_group(0), "txnstatus.Admin/MoveReplica", pb.MoveReplicaRequest(), pb.MoveReplicaResponse, 1.0
        )
        return list(answer.members)

    assert asyncio.run(main()) == ["n4"]


async def until(condition: Callable[[], bool]) -> None:
    """A few turns later."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise TimeoutError


class Electing(AsyncChannel):
    """To a node of a group that has no leader; once one leads, that one answers."""

    def __init__(self, address: str, asked: list[str], leader: list[str]) -> None:
        self._node, self._asked, self._leader = address.partition(":")[0], asked, leader

    async def call(self, _method: str, _request: object, _response: object, _timeout: float, _group: str) -> Any:
        self._asked.append(self._node)
        if [self._node] != self._leader:
            raise NotTheLeader(f"{self._node} does not lead")
        return pb.MoveReplicaResponse(members=[self._node])


def test_who_waits_for_a_leader_asks_it_when_it_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: no pause is waited for. They were most of what a failover took beyond its election."""
    monkeypatch.setattr(system_client, "RETRIES", Backoff(60.0, 60.0, 1.0))
    asked, leader = list[str](), list[str]()

    async def main() -> None:
        client = TxnSystemClient(ClusterMap(founded()), Environment(), lambda at: Electing(at, asked, leader))
        group = client.cluster.state.group_of(status_group(0))

        async def ask() -> list[str]:
            answer = await client.call_leader(
                status_group(0), "txnstatus.Admin/MoveReplica", pb.MoveReplicaRequest(), pb.MoveReplicaResponse, 100.0
            )
            return list(answer.members)

        waiting = [asyncio.create_task(ask()) for _ in range(3)]
        gives_up = asyncio.create_task(ask())
        async with asyncio.timeout(10):
            await until(lambda: len(client.pausing(group)) == 4)
            gives_up.cancel()
            await asyncio.gather(gives_up, return_exceptions=True)
            leader.append("n3")
            client.hears_leader(group, "n3")
            assert await asyncio.gather(*waiting) == [["n3"]] * 3
        assert asked[4:] == ["n3"] * 3, "whoever has given up does not ask"

    asyncio.run(main())


def test_who_is_heard_of_while_a_refusal_is_on_its_way_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_client, "RETRIES", Backoff(60.0, 60.0, 1.0))
    asked, leader = list[str](), list[str]()

    async def main() -> None:
        client = TxnSystemClient(ClusterMap(founded()), Environment(), lambda at: Handing(at, asked, leader))
        group = client.cluster.state.group_of(status_group(0))

        class Handing(Electing):
            """The new leader is heard of before the former one's refusal."""

            async def call(self, *arguments: Any) -> Any:
                if not leader:
                    leader.append("n3")
                    client.hears_leader(group, "n3")
                return await super().call(*arguments)

        async with asyncio.timeout(10):
            await client.call_leader(
                status_group(0), "txnstatus.Admin/MoveReplica", pb.MoveReplicaRequest(), pb.MoveReplicaResponse, 100.0
            )

    asyncio.run(main())
    assert asked == ["n1", "n3"]


def test_a_leader_that_is_not_ready_yet_is_asked_again() -> None:
    asked, leader = list[str](), list[str]()

    class Rising(Electing):
        async def call(self, *arguments: Any) -> Any:
            if self._node == "n2" and asked[-1:] == ["n2"]:
                leader.append("n2")
            try:
                return await super().call(*arguments)
            except NotTheLeader as error:
                raise NotTheLeader(error.message, hint="n2") from None

    async def main() -> None:
        client = TxnSystemClient(ClusterMap(founded()), Environment(), lambda at: Rising(at, asked, leader))
        request, response = pb.MoveReplicaRequest(), pb.MoveReplicaResponse
        await client.call_leader(status_group(0), "txnstatus.Admin/MoveReplica", request, response, 10.0)

    asyncio.run(main())
    assert asked[-2:] == ["n2", "n2"]


class Paused(AsyncChannel):
    """To a node that leads, or is one that takes calls and never answers."""

    def __init__(self, address: str, asked: list[str]) -> None:
        self._node, self._asked = address.partition(":")[0], asked

    async def call(self, _method: str, _request: object, _response: object, timeout: float, _group: str) -> Any:
        self._asked.append(self._node)
        if self._node != "n2":
            raise Unavailable(f"{self._node} did not answer within {timeout:g} s")
        return pb.MoveReplicaResponse(members=[self._node])


def test_a_node_that_takes_the_whole_time_of_a_call_is_not_the_first_of_the_next() -> None:
    """Every call had less time than one attempt takes: each asked the paused node that led once, and nobody else."""
    asked: list[str] = []

    async def main() -> list[str]:
        client = TxnSystemClient(ClusterMap(founded()), Environment(), lambda address: Paused(address, asked))
        call = status_group(0), "txnstatus.Admin/MoveReplica", pb.MoveReplicaRequest(), pb.MoveReplicaResponse
        with pytest.raises(Unavailable):
            await client.call_leader(*call, 0.001)
        return list((await client.call_leader(*call, 0.001)).members)

    assert asyncio.run(main()) == ["n2"]
    assert asked == ["n1", "n2"]


class Node(AsyncChannel):
    """To a node of a cluster in which n4 has taken a place, and leads the catalog."""

    def __init__(self, address: str, known: CatalogState) -> None:
        self._node, self._known = address.partition(":")[0], known

    async def call(self, method: str, _request: object, _response: object, _timeout: float, _group: str) -> Any:
        if method.endswith("GetCluster"):
            if self._node == "n1":
                raise Unavailable("n1 is dead for good")
            return pb.GetClusterResponse(catalog=to_wire(self._known))
        if self._node != "n4":
            raise NotTheLeader(f"{self._node} does not lead", hint="n4")
        return to_wire(self._known)


def test_a_catalog_that_is_led_by_a_node_unheard_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_client, "CALL_SECONDS", 0.05)

    async def main() -> int:
        old = founded()
        groups = {name: tuple("n4" if node == "n1" else node for node in old.groups[name]) for name in old.groups}
        nodes = {**old.nodes, "n4": NodeInfo("n4:1", ("status", "participant"))}
        now = replace(old, nodes=nodes, groups=groups, version=9)
        cluster = ClusterMap(old)
        client = TxnSystemClient(cluster, Environment(), lambda address: Node(address, now))
        following = asyncio.create_task(catalog_client.CatalogClient(client).run())
        try:
            return (await cluster.wait_for(lambda state: state.version > 0, "news", 5.0)).version
        finally:
            following.cancel()

    assert asyncio.run(main()) == 9


async def test_a_call_that_another_node_answered_says_where_that_is() -> None:
    """Whoever asked may ask there from then on, and so is told of nobody where this node answers by itself."""

    class Here:
        async def move_replica(self, _request: pb.MoveReplicaRequest) -> pb.MoveReplicaResponse:
            return pb.MoveReplicaResponse()

    client = TxnSystemClient(ClusterMap(founded()), Environment(), lambda address: Channel(address, "n2"))
    registry, group, heard = Registry(), status_group(0), asyncio.Queue[object]()
    registry.add(pb.DESCRIPTOR.services_by_name["Admin"], Here(), group)
    client.serve_here("n1", registry)
    for leader, address in (("n2", "n2:1"), ("n1", "")):
        client.leads(leader, group)
        origin = Question(None, 10.0 + asyncio.get_running_loop().time(), heard.put_nowait)
        on = PassedOn(origin, pb.MoveReplicaRequest())
        client.ask_leader(group, "txnstatus.Admin/MoveReplica", [on], pb.MoveReplicaResponse, 10.0)
        async with asyncio.timeout(10):
            assert isinstance(await heard.get(), pb.MoveReplicaResponse)
        assert origin.led_at == address


def test_who_asks_a_shard_in_vain_hears_that_it_is_on_its_way() -> None:
    """That no node had a replica of it was all that was said."""

    class Without(AsyncChannel):
        async def call(self, *_: object) -> Any:
            raise NotTheLeader("has no replica")

    async def main() -> str:
        state = replace(founded(), migrations={shard_group(0): Migration("group-1", 7)})
        client = TxnSystemClient(ClusterMap(state), Environment(), lambda _: Without())
        with pytest.raises(Unavailable) as told:
            await client.call_leader(
                shard_group(0), "txnstatus.Admin/MoveReplica", pb.MoveReplicaRequest(), pb.MoveReplicaResponse, 0.1
            )
        return told.value.message

    assert "no leader of shard-0, which is on its way to group-1, answered" in asyncio.run(main())
