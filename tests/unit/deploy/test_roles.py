"""What a node's roles begin with, without a process around them."""

from __future__ import annotations

import asyncio
import errno
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.sim.world.disk import SimDisk
from tests.unit.harness.cluster import CONFIG
from txndeploy.node.roles import Roles
from txnstatus.catalog.catalog import CATALOG, CatalogState, to_wire
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.service import CatalogMachine
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.process.environment import Environment
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.transport import RaftTransport


def roles_that_heard(state: CatalogState) -> Roles:
    environment = Environment(disk=SimDisk(random.Random(1)))
    transport = cast(RaftTransport, SimpleNamespace(add=lambda _driver: None))
    return Roles(CONFIG, environment, TxnSystemClient(ClusterMap(state), environment), transport, 1)


def test_the_catalogs_log_is_replayed_on_what_the_cluster_began_with_not_on_what_the_node_heard_last() -> None:
    """Else the entries apply a second time, and the replica's versions are not the others'."""
    founded = CONFIG.initial_catalog()
    roles = roles_that_heard(replace(founded, version=7))
    machine = roles._groups[CATALOG].machine
    assert isinstance(machine, CatalogMachine)
    assert machine.catalog.state == founded
    assert roles.catalog.version == 7


def test_a_node_opens_what_its_replica_of_the_catalog_says_where_that_is_newer_than_what_it_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ended between installing a snapshot of the catalog and noting what was new: the group it knew is gone."""
    founded = CONFIG.initial_catalog()
    groups = {**founded.groups, "group-1": founded.groups["group-0"]}
    del groups["group-0"]
    newer = replace(founded, groups=groups, parts=dict.fromkeys(founded.parts, "group-1"), version=9)
    opened = []

    def open_group(
        name: str, _node: str, _bootstrap: object, machine: StateMachine, *_: object, never_here: bool
    ) -> SimpleNamespace:
        assert not never_here, "nobody has looked yet"
        opened.append(name)
        if name == CATALOG:
            state = machine.restoring()
            state.add(to_wire(newer).SerializeToString())
            state.finish()
        return SimpleNamespace(group=name)

    monkeypatch.setattr("txndeploy.node.roles.RaftGroup", open_group)
    roles_that_heard(founded)
    assert sorted(opened) == sorted(groups)


def test_a_disk_that_fails_when_the_catalog_brings_a_group_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop would log it and go on, without the group."""
    ended: list[BaseException] = []
    monkeypatch.setattr("txndeploy.node.roles.stop_process", lambda _story, error: ended.append(error))

    async def change() -> None:
        founded = CONFIG.initial_catalog()
        roles = roles_that_heard(founded)
        roles._environment.disk.before = fail  # type: ignore[attr-defined]
        groups = {**founded.groups, "group-1": founded.groups["group-0"]}
        roles._cluster.update(replace(founded, groups=groups, version=9))
        roles._catalog_changed(roles.catalog)
        await asyncio.sleep(0)

    def fail(_operation: str, _path: Path) -> None:
        raise OSError(errno.EIO, "the disk fails")

    asyncio.run(change())
    assert [error.errno for error in ended if isinstance(error, OSError)] == [errno.EIO]


def test_a_group_that_the_catalog_brings_to_a_full_disk_is_opened_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("txndeploy.node.roles.LOOK_SECONDS", 0.01)
    started: list[str] = []

    async def change() -> None:
        opened = asyncio.Event()
        monkeypatch.setattr(
            Roles, "_start", lambda _roles, group: (started.append(group.driver.group.group), opened.set())
        )
        founded = CONFIG.initial_catalog()
        roles = roles_that_heard(founded)
        disk = roles._environment.disk
        assert isinstance(disk, SimDisk)
        disk.capacity = disk.used
        groups = {**founded.groups, "group-1": founded.groups["group-0"]}
        roles._cluster.update(replace(founded, groups=groups, version=9))
        roles._follow()
        assert started == []
        disk.capacity = None
        async with asyncio.timeout(10):
            await opened.wait()

    asyncio.run(change())
    assert started == ["group-1"]


def test_a_node_starts_on_a_full_disk_without_the_groups_that_it_has_no_room_for() -> None:
    disk = SimDisk(random.Random(1))
    disk.make_directory(CONFIG.data_dir / "raft")
    disk.capacity = 0
    environment = Environment(disk=disk)
    client = TxnSystemClient(ClusterMap(CONFIG.initial_catalog()), environment)
    assert not Roles(CONFIG, environment, client, cast(RaftTransport, None), 1)._groups
