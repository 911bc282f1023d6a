"""Nodes are replaced by those of another version, one after the other, under load; and the level is raised."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.load import WRITERS, Load, table_of
from tests.integration.upgrade.versions import BEFORE, NEWER, NEWER_LEVEL, NOW, Versions, check_out
from tests.support import FAST_RAFT, SCHEMA, connect, fast_cluster, rows, wait_until
from txndeploy.local.cluster import LocalCluster
from txndeploy.terminal import listings
from txnstatus import features
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CatalogState
from txnstatus.errors import IllegalState, TxnError
from txnstatus.proto import admin_pb2 as pb
from txnstatus.types import Timestamp


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("before")
    if (why := check_out(directory)) is not None:
        pytest.skip(why)
    return directory


class Upgraded:
    """A cluster with programs that write to it all the time."""

    def __init__(self, cluster: LocalCluster, versions: Versions, load: Load) -> None:
        self.cluster, self._versions, self.load = cluster, versions, load

    def replace(self, node: str, version: str) -> None:
        """As an operator does: SIGTERM, another version, a start; and the next one when this one serves."""
        self.load.goes_on()
        assert self.cluster.stop_node(node) == 0
        self.start_as(node, version)

    def start_as(self, node: str, version: str) -> None:
        """One that does not run."""
        self._versions.of[node] = version
        self.cluster.start_node(node)
        wait_until(lambda: self.cluster.status(node), f"{node} serves again")
        self.cluster.wait_ready()
        self.load.goes_on()

    def does_not_start(self, node: str, version: str) -> str:
        """Has a node that was stopped start as of a version; returns what it says as it ends."""
        known = len(self.cluster.log_path(node).read_text())
        self._versions.of[node] = version
        self.cluster.start_node(node)
        wait_until(lambda: self.cluster.exit_code(node) is not None, f"{node} ends")
        assert self.cluster.exit_code(node) == 2
        return self.cluster.log_path(node).read_text()[known:]

    def ask(self, node: str, **request: object) -> pb.RaiseLevelResponse:
        """Asks one node to raise the level, or for the versions. Raises what it answers."""
        with connect(self.cluster) as client:
            channel = client.session.channel.to(self.cluster.address(node))
            try:
                wanted = pb.RaiseLevelRequest(**request)  # type: ignore[arg-type]
                return channel.call("txnstatus.Admin/RaiseLevel", wanted, pb.RaiseLevelResponse, timeout=10.0)
            finally:
                channel.close()

    def set_option(self, name: str, value: int) -> None:
        with connect(self.cluster) as client:
            request = pb.SetOptionRequest(name=name, value=value)
            client.call("txnstatus.Admin/SetOption", request, pb.SetOptionResponse)

    def catalog(self) -> CatalogState:
        with connect(self.cluster) as client:
            return listings.catalog(client)

    def all_are_registered(self, newest: int) -> bool:
        said = [info.levels for info in self.catalog().nodes.values()]
        return all(levels is not None and levels.newest == newest for levels in said)


@contextmanager
def running(directory: Path, before: Path | None, version: str) -> Iterator[Upgraded]:
    """All nodes are of one version. At the end no call has failed, and nothing is lost."""
    with started(directory, before, version) as (cluster, versions):
        with connect(cluster) as client:
            for writer in range(WRITERS):
                client.create_table(table_of(writer), SCHEMA)
        with Load(cluster) as load:
            yield Upgraded(cluster, versions, load)
            load.goes_on()
        assert not load.failed, load.failed
        load.check_nothing_is_lost()
        check_replicas_are_alike(cluster)


@contextmanager
def started(directory: Path, before: Path | None, version: str) -> Iterator[tuple[LocalCluster, Versions]]:
    """Snapshots are written often: who was away gets one from a leader of the other version."""
    versions = Versions(before)
    raft = FAST_RAFT.model_copy(update={"snapshot_entries": 40, "segment_bytes": 16_384})
    cluster = fast_cluster(directory / "cluster", spawn=versions.spawn, raft=raft)
    if before is not None:
        versions.write_for_all(cluster)
    versions.of = dict.fromkeys(cluster.configs, version)
    with cluster:
        yield cluster, versions


def check_replicas_are_alike(cluster: LocalCluster) -> None:
    """At one entry all that are of the cluster have the same state, byte for byte, whichever version they are of."""
    with connect(cluster) as client:
        nodes = listings.catalog(client).nodes

    def at_one_entry() -> dict[str, set[bytes]]:
        looks = [cluster.status(node, digests=True) for node in nodes]
        groups = [group for look in looks if look for group in look.groups]
        at = {(group.group, group.applied_index) for group in groups}
        if not all(looks) or len(at) != len({group.group for group in groups}):
            return {}
        return {name: {group.digest for group in groups if group.group == name} for name, _ in at}

    digests = wait_until(at_one_entry, "all replicas are at one entry")
    assert {name: len(found) for name, found in digests.items()} == dict.fromkeys(digests, 1)


def test_nodes_of_before_are_replaced_one_by_one_and_the_level_is_raised(tmp_path: Path, before: Path) -> None:
    with running(tmp_path, before, BEFORE) as upgraded:
        for node in upgraded.cluster.configs:
            with pytest.raises(TxnError):
                upgraded.ask(node)  # a node of before has no such call
            upgraded.replace(node, NOW)
            told = upgraded.ask(node, only_ask=True)
            assert told.level == features.FIRST
            done = {each.node_id for each in told.nodes if each.newest_level == features.OWN.newest}
            assert done == {name for name in upgraded.cluster.configs if name <= node}
            if node != "n3":
                with pytest.raises(IllegalState, match="n3 does 1 alone"):
                    upgraded.ask(node)
        assert all(info.levels is None for info in upgraded.catalog().nodes.values())
        with pytest.raises(IllegalState, match="SetOption needs feature level 2; the cluster is at 1"):
            upgraded.set_option("user_open_transactions", 1_000)
        assert upgraded.ask("n1").level == features.OWN.newest
        upgraded.set_option("user_open_transactions", 1_000)
        wait_until(lambda: upgraded.all_are_registered(features.OWN.newest), "all nodes say what they are")
        upgraded.load.goes_on()
        assert upgraded.cluster.stop_node("n2") == 0
        assert "format 3" in upgraded.does_not_start("n2", BEFORE)
        upgraded.start_as("n2", NOW)


def test_nodes_go_back_to_before_until_the_level_is_raised(tmp_path: Path, before: Path) -> None:
    with running(tmp_path, before, BEFORE) as upgraded:
        for node in ("n1", "n2", "n3"):
            upgraded.replace(node, NOW)
        for node in ("n2", "n1", "n3"):
            upgraded.replace(node, BEFORE)
        upgraded.load.goes_on()


@pytest.mark.parametrize("away", [BEFORE, NOW])
def test_replicas_of_two_versions_are_alike(tmp_path: Path, before: Path, away: str) -> None:
    """Also one that was away, and gets a snapshot from the other version; and what its version was itself."""
    with started(tmp_path, before, BEFORE) as (cluster, versions), connect(cluster) as client:
        client.create_table("air.t", SCHEMA)
        versions.of = {"n1": BEFORE, "n2": NOW, "n3": NOW} if away == BEFORE else {"n1": NOW}
        for node in versions.of:
            assert cluster.stop_node(node) == 0
            cluster.start_node(node)
            cluster.wait_ready()
            client.write(rows(1), "air.t")
        check_replicas_are_alike(cluster)
        cluster.kill("n1")
        for number in range(60):
            client.write(rows(number), "air.t")
        cluster.start_node("n1")
        wait_until(lambda: cluster.status("n1"), "n1 serves again")
        check_replicas_are_alike(cluster)
        assert ": installing the snapshot of" in cluster.log_path("n1").read_text()


PROGRAM = """
import sys, pyarrow, txnclient
from txnstatus.process import stop
with txnclient.connect(sys.argv[1], owner="ada") as client:
    with client.transaction("of before") as txn:
        txn.write(pyarrow.table({"id": [7], "note": ["x"]}), "air.t")
    print(stop.__file__, len(client.snapshot().to_arrow("air.t")), len(client.transactions()))
"""


def test_a_program_of_before_goes_on_at_the_new_level(tmp_path: Path, before: Path) -> None:
    with started(tmp_path, before, NOW) as (cluster, versions), connect(cluster) as client:
        client.create_table("air.t", SCHEMA)
        told = versions.run_before(PROGRAM, cluster.addresses).split()
        assert Path(told[0]).is_relative_to(before)
        assert told[1:] == ["1", "1"]


APPLY = """
import dataclasses, sys
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import NodeInfo, to_wire
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.options import Options
try:
    from txnstatus.catalog.founding import initial
except ImportError:  # the version before
    from txnstatus.catalog.catalog import initial
nodes = {name: NodeInfo(f"{name}:1", ("status", "participant")) for name in ("n1", "n2", "n3")}
state = initial(nodes, participant_shards=4, replication=3, range_span=100, options=Options())
if hasattr(state, "level"):
    state = dataclasses.replace(state, level=1)
catalog = Catalog(dataclasses.replace(state, version=1, cluster_id="air.1"))
for data in sys.argv[1:]:
    outcome = catalog.apply(cmd.decode(bytes.fromhex(data)))
    print(type(outcome).__name__, to_wire(catalog.state).SerializeToString(deterministic=True).hex())
"""
FIRST_LEVEL: list[cmd.Command] = [
    cmd.AddGroup("group-1"),
    cmd.AddRange(0),
    cmd.ReplaceNode("n2", "n9", "n9:1"),
    cmd.AddGroup("group-2"),
    cmd.ReplaceNode("n3", "n8", "n8:1"),
    cmd.MoveReplica("group-0", "n2", "n9"),
    cmd.FinishReplacement(),
    cmd.MoveReplica("group-1", "n2", "n9"),
    cmd.MoveReplica("group-1", "n2", "n9"),
    cmd.MoveReplica("catalog", "n2", "n9"),
    cmd.FinishReplacement(),
    cmd.FinishReplacement(),
    cmd.AddGroup("group-2"),
    cmd.DropRange(0, Timestamp(17)),
    cmd.AddRange(1),
    cmd.PlaceDatabase("air", "group-1"),
    cmd.SetOption("retention_ms", 5),
    cmd.SetOption("no_such", 5),
    cmd.Grant("air", "", "ada", "reader"),
    cmd.Grant("air.t", "1.1", "ada", "owner"),
    cmd.ForgetGrants("air.t", "1.1"),
    cmd.Revoke("air", "ada", "reader"),
    cmd.TurnTicketKey(0, bytes(32)),
    cmd.Distrust("user/eve"),
    cmd.Distrust("node/n9"),
    cmd.RegisterForeign("billing", "h:1", "pg"),
    cmd.RemoveForeign("billing"),
]


def test_commands_of_the_first_level_do_the_same_in_both_versions(before: Path) -> None:
    """Byte for byte, after each; also those that are refused."""
    encoded = [cmd.encode(command).hex() for command in FIRST_LEVEL]
    was = Versions(before).run_before(APPLY, *encoded).splitlines()
    now = subprocess.run([sys.executable, "-c", APPLY, *encoded], capture_output=True, check=True, text=True)
    differ = [
        (command, *pair)
        for command, *pair in zip(FIRST_LEVEL, was, now.stdout.splitlines(), strict=True)
        if pair[0] != pair[1]
    ]
    assert not differ, differ[0]
    assert {line.split()[0] for line in was} == {"CatalogState", "Rejected"}


def test_a_newer_version_comes_goes_and_stays(tmp_path: Path) -> None:
    with running(tmp_path, None, NOW) as upgraded:
        cluster = upgraded.cluster
        assert upgraded.catalog().level == features.OWN.newest
        wait_until(lambda: upgraded.all_are_registered(features.OWN.newest), "all nodes say what they are")
        for node in cluster.configs:
            upgraded.replace(node, NEWER)
        upgraded.replace("n2", NOW)
        wait_until(lambda: upgraded.catalog().nodes["n2"].levels == features.OWN, "n2 says what it is")
        with pytest.raises(IllegalState, match=f"n2 does {features.OWN}"):
            upgraded.ask("n1")
        assert cluster.stop_node("n2") == 0
        with pytest.raises(IllegalState, match=f"n2 does {features.OWN}"):
            upgraded.ask("n1")  # it does not answer, and has said so
        upgraded.start_as("n2", NEWER)
        wait_until(lambda: upgraded.all_are_registered(NEWER_LEVEL), "all nodes say what they are")
        assert upgraded.ask("n1").level == NEWER_LEVEL
        with pytest.raises(IllegalState, match="only goes up"):
            upgraded.ask("n1", level=features.OWN.newest)
        assert cluster.stop_node("n2") == 0
        story = upgraded.does_not_start("n2", NOW)
        assert f"does feature levels {features.OWN}, and the cluster is at {NEWER_LEVEL}" in story
        upgraded.start_as("n2", NEWER)


def test_a_node_that_cannot_do_the_level_does_not_join(tmp_path: Path) -> None:
    with running(tmp_path, None, NEWER) as upgraded:
        cluster = upgraded.cluster
        assert upgraded.catalog().level == NEWER_LEVEL
        address = cluster.add_node("n4")
        with connect(cluster) as client:
            request = pb.ReplaceNodeRequest(old_node="n3", new_node="n4", address=address)
            client.call("txnstatus.Admin/ReplaceNode", request, pb.ReplaceNodeResponse)
        wait_until(lambda: cluster.exit_code("n4") is not None, "n4 ends")
        assert cluster.exit_code("n4") == 2
        assert f"and the cluster is at {NEWER_LEVEL}" in cluster.log_path("n4").read_text()
        upgraded.start_as("n4", NEWER)
        wait_until(lambda: "n3" not in upgraded.catalog().nodes, "n4 has taken the place of n3")
        wait_until(lambda: cluster.exit_code("n3") is not None, "n3, whose place is taken, ends")
