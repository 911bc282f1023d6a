"""Nodes of several versions in one cluster.

The version before is a commit of this repository, run with the packages that are installed here. The newer one is this
version, which says that it does a feature level more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import tomli_w

from txndeploy.local import spawning
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.spawning import Spawned
from txnstatus import features

ROOT = Path(__file__).parents[3]
COMMIT = "a20c983702c671ecf9f64b3754b373b576cfd600"
"""The last commit whose nodes know of no feature levels."""
PACKAGES = ("txnstatus", "participant", "manager", "client", "deploy")
BEFORE, NOW, NEWER = "before", "now", "newer"
NEWER_LEVEL = features.OWN.newest + 1
RUNS = "txndeploy.node.tethered"


def check_out(directory: Path) -> str | None:
    """Puts the version before there; returns why that cannot be, if so."""
    command = ["git", "-C", str(ROOT), "archive", COMMIT, *PACKAGES]
    try:
        packed = subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError:
        return "there is no git here"
    except subprocess.CalledProcessError as error:
        return f"the history does not have {COMMIT[:8]}: {error.stderr.decode().strip()}"
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    return None


class Versions:
    """Starts each node of a cluster as of the version that it is to have."""

    def __init__(self, before: Path | None = None) -> None:
        """`before`: where the version before is, if it is needed."""
        self._before = before
        self.of: dict[str, str] = {}
        """Node → its version, once it is started; NOW where nothing is said."""

    def spawn(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> Spawned:
        """As `txndeploy.local.spawning.Spawn`."""
        version = self.of.get(Path(command[-1]).parent.name, NOW)
        if version == BEFORE:
            environment = {**environment, "PYTHONPATH": self._path()}
        if version == NEWER:
            command = [f"{__package__}.newer" if word == RUNS else word for word in command]
        return spawning.fresh(command, output, environment)

    def write_for_all(self, cluster: LocalCluster) -> None:
        """The configurations without what the version before does not know."""
        code = (
            "import json; from txndeploy.node.config import NodeConfig as C; print(json.dumps(C.model_json_schema()))"
        )
        schema = json.loads(self.run_before(code))
        for node in cluster.configs:
            path = cluster.config_path(node)
            path.write_text(tomli_w.dumps(_known(tomllib.loads(path.read_text()), schema, schema["$defs"])))

    def run_before(self, program: str, *arguments: str) -> str:
        """What a program prints that has the version before."""
        environment = {**os.environ, "PYTHONPATH": self._path()}
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout

    def _path(self) -> str:
        assert self._before is not None
        return os.pathsep.join(str(self._before / package) for package in PACKAGES)


def _known(found: dict[str, Any], schema: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    known = {}
    for key, value in found.items():
        if (about := schema["properties"].get(key)) is None:
            continue
        section = sections.get(about.get("$ref", "").rpartition("/")[2])
        known[key] = _known(value, section, sections) if section and "properties" in section else value
    return known
