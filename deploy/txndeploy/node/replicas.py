"""Replicas, as operators see them: what state each is in, and how one takes the place of another."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Protocol

from txnstatus.catalog.catalog import Replacement
from txnstatus.catalog.placement import Move
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import Unavailable
from txnstatus.proto import admin_pb2
from txnstatus.raft.driver import RaftDriver, Sender
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import Parts

ASK_SECONDS = 1.0


async def status_of(driver: RaftDriver, machine: StateMachine, *, digest: bool) -> admin_pb2.GroupStatus:
    """`digest`: that of its state, too, chunk by chunk: others have their turns in between."""
    group = driver.group
    status = admin_pb2.GroupStatus(
        group=group.group,
        leader=group.is_ready,
        leader_id=group.leader,
        term=group.term,
        commit_index=group.commit_index,
        applied_index=group.applied_index,
        members=group.members,
        parts=machine.machines if isinstance(machine, Parts) else (),
    )
    if (took := driver.takeover) is not None:
        status.takeover.silence_seconds = took.silence
        status.takeover.election_seconds = took.election
        status.takeover.catching_up_seconds = took.catching_up
    if digest:
        status.digest = await _digest(machine.snapshot())
    return status


async def _digest(state: Iterator[bytes]) -> bytes:
    digest = hashlib.sha256()
    for chunk in state:
        digest.update(chunk)
        await asyncio.sleep(0)
    return digest.digest()


class Transport(Sender, Protocol):
    """Delivers the messages of the other nodes to the drivers it was given."""

    def add(self, driver: RaftDriver) -> None: ...
    def remove(self, group: str) -> None: ...


class ReplicaAdmin:
    """Implements what the Admin service has for a group, on each of its replicas."""

    def __init__(self, driver: RaftDriver, node_id: str, client: TxnSystemClient) -> None:
        self._driver = driver
        self._node_id = node_id
        self._client = client

    async def move_replica(self, request: admin_pb2.MoveReplicaRequest) -> admin_pb2.MoveReplicaResponse:
        """On the group's leader: one comes, once it has caught up, then another one goes; one change at a time.

        A dead one goes first: with it the majority that is needed would be larger, and not what there is.
        """
        group, old, new = self._driver.group.group, request.old_node, request.new_node
        state = self._client.cluster.state
        if state.replacement != Replacement(old, new) and state.move_of(group) != Move(group, old, new):
            raise Unavailable(f"the catalog of {self._node_id} does not say that {new} takes the place of {old}")
        self._driver.check_lease()
        self._check_committed()
        if new:
            await self._let_in(new, old)
        if old in self._driver.group.members:
            await self._driver.change_members(remove=old)
        if new:
            replicas = {replica.group: replica for replica in (await self._ask_node(new)).groups}
            if group not in replicas or new not in replicas[group].members:
                raise Unavailable(f"{new} has not caught up with {group} yet")
        return admin_pb2.MoveReplicaResponse(members=self._driver.group.members)

    def _check_committed(self) -> None:
        """Raises Unavailable where an earlier call's change is on its way yet: whoever took it for done could have a
        member close its replica that the next leader counts."""
        if self._driver.group.journal.members.index > self._driver.group.commit_index:
            raise Unavailable(f"a change of the members of {self._driver.group.group} is not committed yet")

    async def _let_in(self, new: str, old: str) -> None:
        await self._ask_node(new)  # it must live, before the old one goes
        group = self._driver.group
        if new in group.members:
            return
        group.learners.check_caught_up(new)
        if old in group.members and not await self._lives(old):
            await self._driver.change_members(remove=old)
        await self._driver.change_members(add=new)

    async def _lives(self, node: str) -> bool:
        try:
            await self._ask_node(node)
        except Unavailable:
            return False
        return True

    async def _ask_node(self, node: str) -> admin_pb2.GetNodeResponse:
        """Raises Unavailable."""
        return await self._client.call_node(
            node, "txnstatus.Admin/GetNode", admin_pb2.GetNodeRequest(), admin_pb2.GetNodeResponse, ASK_SECONDS
        )
