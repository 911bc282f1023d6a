"""A cluster under load, and another one that is made of what was backed up of it, or is left of it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.support import commit_until_known, rows, wait_until
from txnclient import Client
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports
from txndeploy.local.programs import Programs
from txndeploy.node import config as configuration
from txndeploy.node.config import NodeConfig, NodeEntry

TABLES = ("a.one", "b.two", "c.three")
"""Tables in which each transaction writes the same rows."""


class Load(Programs):
    """Programs that commit one number after the other, each to all tables at once."""

    def __init__(self, client: Client, count: int = 2) -> None:
        super().__init__(count)
        self._client, self._count = client, count
        self.begun: list[int] = []
        self.committed: list[int] = []
        self.errors: list[Exception] = []

    def run(self, number: int) -> None:
        at = number
        try:
            while not self.ended.is_set():
                self.begun.append(at)
                txn = self._client.begin()
                for table in TABLES:
                    txn.write(rows(at), table)
                commit_until_known(txn)
                self.committed.append(at)
                at += self._count
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.errors.append(error)

    def more(self, count: int) -> None:
        goal = len(self.committed) + count
        wait_until(lambda: self.errors or len(self.committed) >= goal, f"{count} more commits", 60)
        assert not self.errors


def new_nodes(directory: Path, old: LocalCluster, names: tuple[str, ...], **changes: object) -> list[Path]:
    """Configurations of a new cluster's nodes, in the form in which a LocalCluster finds them."""
    example = next(iter(old.configs.values()))
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(names))]
    nodes = {name: NodeEntry(address=address) for name, address in zip(names, addresses, strict=True)}
    paths = []
    for name in names:
        update = {
            "node_id": name,
            "nodes": nodes,
            "data_dir": directory / name / "data",
            "cluster_name": "another",
            "reach": {},
            **changes,
        }
        config = NodeConfig.model_validate(example.model_copy(update=update).model_dump())
        path = directory / name / "node.toml"
        path.parent.mkdir(parents=True)
        path.write_text(configuration.dump(config))
        paths.append(path)
    return paths


def restore(backup: Path, configs: list[Path]) -> None:
    cluster_id: list[str] = []
    for path in configs:
        done = CliRunner().invoke(app, ["node", "restore", str(backup), "--config", str(path), *cluster_id])
        assert done.exit_code == 0, done.output
        if not cluster_id:
            cluster_id = ["--cluster-id", done.output.split("--cluster-id ")[1].split()[0]]


def txnctl(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def examined(cluster: LocalCluster) -> tuple[list[str], list[str]]:
    """What the doctor finds, reading all files: the kinds, and what it could not look at."""
    done = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--deep", "--json"])
    found = json.loads(done.stdout)
    return [each["kind"] for each in found["findings"]], found["not_seen"]


def only_leftovers(cluster: LocalCluster) -> bool:
    kinds, not_seen = examined(cluster)
    return not not_seen and set(kinds) <= {"orphan", "whole write"}
