"""Connections that are nobody's, by the thousand: who works is served, and nodes stay within their memory and files."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import txnclient
from tests.faults.crowd import Crowd
from tests.support import FAST_RAFT, SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txndeploy.local.cluster import LocalCluster
from txndeploy.node import config as configuration
from txnstatus.proto import rpc_pb2
from txnstatus.rpc.connection import Purpose, split_address

COMMITS = 40
COME_SECONDS = 120.0
SMALL_SEGMENTS = FAST_RAFT.model_copy(update={"segment_bytes": 4_096})
"""A new file every few commits: a node without descriptors would notice."""


def with_open_files(count: int) -> Sequence[str]:
    """Words before a command that is to have so many descriptors, and cannot get more."""
    return ("sh", "-c", f'ulimit -n {count}; exec "$@"', "sh")


class Idle:
    """A client that has called once, and rests."""

    def __init__(self, address: str) -> None:
        self._connection = socket.create_connection(split_address(address), 10)
        self._connection.sendall(Purpose.CALLS.opening)
        self.first_answer = self.call()

    def call(self) -> str:
        """The code of the error, empty for none."""
        call = rpc_pb2.Call(id=1, method="txnstatus.Admin/GetCluster", timeout_millis=10_000)
        frame = rpc_pb2.Frame(calls=[call]).SerializeToString()
        self._connection.sendall(struct.pack(">I", len(frame)) + frame)
        replies: Sequence[rpc_pb2.Reply] = ()
        with self._connection.makefile("rb") as stream:
            while not replies:  # a hello comes first
                (length,) = struct.unpack(">I", stream.read(4))
                replies = rpc_pb2.Frame.FromString(stream.read(length)).replies
        (reply,) = replies
        return reply.error.code


def open_files(cluster: LocalCluster, node: str) -> int:
    return len(list(Path(f"/proc/{cluster.pid(node)}/fd").iterdir()))


def commit_some(cluster: LocalCluster) -> list[float]:
    """Transactions of clients that come one after the other; how long each took."""
    took = []
    for number in range(COMMITS):
        began = time.monotonic()
        with connect(cluster) as client, client.transaction() as txn:
            txn.write(rows(number), "t.crowded")
        took.append(time.monotonic() - began)
    return sorted(took)


def told(name: str, took: list[float]) -> None:
    print(f"{name}: median {took[len(took) // 2]:.3f} s, longest {took[-1]:.3f} s")


@pytest.mark.parametrize(
    ("limit", "silent", "slow", "half_sent"),
    [
        pytest.param(700, 500, 500, 4, id="more than there are descriptors"),
        pytest.param(0, 5_000, 5_000, 8, id="ten thousand", marks=pytest.mark.campaign),
    ],
)
def test_others_are_served_while_strangers_stand_at_the_door(
    limit: int, silent: int, slow: int, half_sent: int, tmp_path: Path
) -> None:
    """Some 950 of them ended a node: the next segment of a journal could not be opened."""
    launcher = with_open_files(limit) if limit else ()
    with fast_cluster(tmp_path, raft=SMALL_SEGMENTS, launcher=launcher) as cluster:
        idle = Idle(cluster.address("n1"))
        assert not idle.first_answer
        with connect(cluster) as client:
            client.create_table("t.crowded", SCHEMA)
        told("alone", commit_some(cluster))
        before = cluster.resident_bytes("n1")
        with Crowd(cluster.address("n1"), silent=silent, slow=slow, half_sent=half_sent) as crowd:
            crowd.wait_until_all_came(COME_SECONDS)
            took = commit_some(cluster)
            most, files = cluster.resident_bytes("n1"), open_files(cluster, "n1")
            assert not idle.call()
        told(f"beside {silent} silent, {slow} slow, {half_sent} with a part of 16 or 50 MiB", took)
        print(f"memory of the node: {before >> 20} MiB before, {most >> 20} MiB beside them; {files} open files")
        print(f"{crowd.most_at_once} of them there at once, {crowd.came_again} came again")
        assert most - before < 300 << 20
        assert not limit or files < limit
        assert all(map(cluster.running, cluster.configs))
        with connect(cluster) as client:
            assert visible(client, "t.crowded") == [sorted([*range(COMMITS)] * 2)]


def test_nodes_find_each_other_where_no_client_more_is_let_in(tmp_path: Path) -> None:
    cluster = fast_cluster(tmp_path)
    few = cluster.configs["n1"].model_copy(update={"max_connections": 40})
    cluster.config_path("n1").write_text(configuration.dump(few))
    with cluster:
        clients = [Idle(cluster.address("n1")) for _ in range(41)]
        assert clients[-1].first_answer == "OVERLOADED"
        cluster.kill("n3")
        cluster.restart("n2")  # from here on nothing goes without n1, and it meets n2 anew
        with txnclient.connect(cluster.address("n2")) as client:
            client.create_table("t.together", SCHEMA)
            client.write(rows(1), "t.together")
        assert not clients[0].call(), "who is there stays"


@pytest.mark.parametrize("lost", ["the directory", "a journal"])
def test_a_node_whose_files_are_removed_ends_and_comes_back_from_the_others(lost: str, tmp_path: Path) -> None:
    """It went on, and acknowledged what it wrote into files that no longer had a name."""
    with fast_cluster(tmp_path) as cluster:
        data = cluster.configs["n2"].data_dir
        if lost == "a journal":
            (journal,) = (data / "raft" / "group-0" / "journal").glob("*.log")
            kept = journal.read_bytes()
            journal.unlink()
            journal.write_bytes(kept)  # all is there, and what is written next is not
        else:
            shutil.rmtree(data.rename(data.with_name("removed")))  # at once: the node goes on making files meanwhile
        wait_until(lambda: cluster.exit_code("n2") is not None, "n2 ends")
        assert cluster.exit_code("n2") == os.EX_SOFTWARE
        assert "removed or replaced while the node ran" in cluster.log_path("n2").read_text()
        shutil.rmtree(data, ignore_errors=True)
        cluster.start_node("n2")
        cluster.wait_ready()
        with connect(cluster) as client:
            client.create_table("t.after", SCHEMA)
