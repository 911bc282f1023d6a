"""A server of S3 on this machine, for tests of tables in buckets; it keeps everything in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from tests.support import wait_until
from txnclient import Client
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports

BUCKET = "lake"


@contextmanager
def serving(log: Path) -> Iterator[str]:
    """The address of a server that has the bucket."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=out, stderr=out
        )
    try:
        wait_until(lambda: _made(address), "a bucket is made", 120)
        yield address
    finally:
        server.kill()
        server.wait()


@contextmanager
def object_store(log: Path) -> Iterator[Mapping[str, str]]:
    """The variables by which processes find one, which this process has meanwhile, too."""
    with serving(log) as address, found_by(_variables(address)) as variables:
        yield variables


@contextmanager
def found_by(variables: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """This process has these variables meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield variables
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _variables(address: str) -> Mapping[str, str]:
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "a key",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _made(address: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT"), timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


# ---- what is there


def ids(client: Client, table: str) -> list[int]:
    return sorted(client.snapshot().to_arrow(table)["id"].to_pylist())


def findings(cluster: LocalCluster) -> object:
    done = CliRunner().invoke(app, ["doctor", "-c", cluster.addresses, "--deep", "--json"])
    said = json.loads(done.stdout)
    return said["findings"], said["not_seen"]
