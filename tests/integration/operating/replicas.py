"""Load on a cluster whose replicas come and go, what an operator asks of it, and who its members are."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from tests.support import commit_until_known, rows, wait_until
from txnclient import Client
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.programs import Programs
from txndeploy.node.config import RaftSection
from txnstatus.catalog.catalog import shard_group

RAFT = RaftSection(heartbeat_seconds=0.08, election_min_seconds=0.4, election_max_seconds=0.8, snapshot_entries=50)
"""Snapshots come early, so the new node has to get some."""


class Load(Programs):
    """One program that commits a row after the other."""

    def __init__(self, client: Client) -> None:
        super().__init__(1)
        self._client = client
        self.committed: list[int] = []
        self.error: Exception | None = None

    def run(self, _number: int) -> None:
        number = 0
        try:
            while not self.ended.is_set():
                txn = self._client.begin()
                txn.write(rows(number), "t.one")
                txn.write(rows(number), "t.two")
                commit_until_known(txn)
                self.committed.append(number)
                number += 1
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.error = error

    def more(self, count: int) -> None:
        goal = len(self.committed) + count
        wait_until(lambda: self.error or len(self.committed) >= goal, f"{count} more commits", 90)
        assert self.error is None


def ctl(cluster: LocalCluster, *arguments: str, code: int = 0) -> str:
    """What the command says; it ends with that code."""
    result = CliRunner().invoke(app, [*arguments, "--cluster", cluster.addresses])
    assert result.exit_code == code, result.output
    return result.output


def shards(cluster: LocalCluster) -> dict[int, dict[str, Any]]:
    """Shard → what `txnctl shard list` says of it."""
    return {row["shard"]: row for row in json.loads(ctl(cluster, "shard", "list", "--json"))["shards"]}


def members(cluster: LocalCluster) -> dict[str, set[str]]:
    """What the running nodes say of each group."""
    said: dict[str, set[str]] = {}
    for node in cluster.configs:
        status = cluster.status(node)
        for group in status.groups if status else ():
            said.setdefault(group.group, set()).update(group.members)
    return said


def is_served(cluster: LocalCluster, shard: int) -> bool:
    """Whether some node leads the group that has the shard."""
    answers = filter(None, map(cluster.status, cluster.configs))
    return any(shard_group(shard) in group.parts for answer in answers for group in answer.groups if group.leader)
