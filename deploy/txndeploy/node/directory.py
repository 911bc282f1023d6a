"""A node's data directory: whose it is, which versions can read it, and what the node last heard of the catalog."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from txndeploy.errors import StartError
from txndeploy.node.config import NodeConfig
from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, CatalogState, from_wire, to_wire
from txnstatus.features import Levels
from txnstatus.process.descriptors import NO_MORE
from txnstatus.process.disk import GONE, is_full
from txnstatus.process.durable import make_directory, write_file
from txnstatus.proto import catalog_pb2 as pb

log = logging.getLogger(__name__)

FORMATS = {features.FIRST: 2}
"""Feature level → number of what is in the directory. Versions that know no levels look at it alone."""
LATER_FORMAT = 3
"""The number at all other levels."""
NODE = "node.json"


def own(config: NodeConfig, levels: Levels) -> int:
    """Makes the data directory this node's, or finds that it is; holds its lock. Raises StartError.

    `levels`: those that this program does.
    """
    directory = config.data_dir
    try:
        make_directory(directory)
        directory.chmod(0o700)  # journals and snapshots have the keys of tickets
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartError(f"data_dir {directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StartError(f"data_dir {directory} is in use by another process") from error
    try:
        _make_or_check(config, levels)
        for left in (directory / "raft").glob(f"*{GONE}"):
            shutil.rmtree(left, ignore_errors=True)  # who ended the last process may have done so in the middle of it
    except BaseException:
        os.close(lock)
        raise
    return lock


def _make_or_check(config: NodeConfig, levels: Levels) -> None:
    path, wanted = config.data_dir / NODE, made_for(config)
    if not path.exists():
        _write(path, wanted, features.FIRST)
        return
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise StartError(f"{path} does not read: {error}") from error
    _check(found, wanted, config, levels)


def made_for(config: NodeConfig) -> dict[str, Any]:
    """What the directory is made for, and stays."""
    return {
        "cluster_name": config.cluster_name,
        "node_id": config.node_id,
        "participant_shards": config.participant_shards,
        "groups": config.groups,
        "replication": config.replication,
        "range_span": config.txn.range_span,
        "roles": {node: sorted(entry.roles) for node, entry in sorted(config.nodes.items())},
    }


def _check(found: dict[str, Any], wanted: dict[str, Any], config: NodeConfig, levels: Levels) -> None:
    """Raises StartError where the directory is another node's, was made otherwise, or is of another version."""
    directory, level = config.data_dir, found.get("level", features.FIRST)
    if (refusal := features.refusal(f"this version of node {config.node_id}", levels, level)) is not None:
        raise StartError(f"data_dir {directory}: {refusal}")
    identity = {key: wanted[key] for key in ("cluster_name", "node_id")} | {"format": _format(level)}
    if any(found.get(key) != value for key, value in identity.items()):
        raise StartError(
            f"data_dir {directory} belongs to node {found.get('node_id')!r} of cluster {found.get('cluster_name')!r} "
            f"(format {found.get('format')}), not to node {config.node_id!r} of cluster {config.cluster_name!r} "
            f"(format {_format(level)}): give this node a directory of its own"
        )
    for key, value in wanted.items():
        if found.get(key) != value:
            raise StartError(
                f"{key} is {value!r}; data_dir {directory} was made with {found.get(key)!r}. It decides which node "
                "holds what, and cannot be changed for a cluster that has data"
            )


def saved_catalog(config: NodeConfig) -> CatalogState | None:
    """The last state this node has heard of: what it holds, before it has found anybody. Raises StartError."""
    path = config.data_dir / CATALOG
    try:
        return from_wire(pb.CatalogState.FromString(path.read_bytes())) if path.exists() else None
    except (DecodeError, ValueError) as error:
        raise StartError(f"{path} does not read: {error}. Remove it: the node gets it from the others") from error


def keep(config: NodeConfig, state: CatalogState) -> None:
    """Saves what was heard, and first, that it takes a version which does the cluster's feature level to go on.

    An older state stays where there is no room for it: whoever starts from that hears of the rest from the others.
    """
    path = config.data_dir / NODE
    try:
        if state.cluster_id and (found := json.loads(path.read_text())).get("level", features.FIRST) < state.level:
            _write(path, found, state.level)
        write_file(config.data_dir / CATALOG, to_wire(state).SerializeToString(), 0o600)
    except OSError as error:
        if not is_full(error) and error.errno not in NO_MORE:
            raise
        log.warning("version %d of the catalog is not saved: %s", state.version, error)


def _write(path: Path, made_for: dict[str, Any], level: int) -> None:
    noted = {"format": _format(level), "level": level} if level > features.FIRST else {"format": _format(level)}
    write_file(path, json.dumps({**made_for, **noted}).encode())


def _format(level: int) -> int:
    return FORMATS.get(level, LATER_FORMAT)
