"""Makes a backup of one node's directory, for a cluster that has lost its majority. The node does not run meanwhile."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from txndeploy.backup import files
from txndeploy.backup.cut import Cut, contradictions
from txndeploy.backup.gathering import gathered
from txndeploy.backup.manifest import Manifest
from txndeploy.node.machines import group_machine
from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, CatalogState
from txnstatus.catalog.options import Options
from txnstatus.catalog.service import CatalogMachine
from txnstatus.errors import IllegalState, InvalidArgument
from txnstatus.raft.entries import commands_of, is_commands
from txnstatus.raft.journal import SEGMENT_BYTES
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import Parts
from txnstatus.raft.segments import JournalCorrupt
from txnstatus.raft.snapshot import Meta, SnapshotCorrupt, framed, open_files
from txnstatus.types import NO_TIMESTAMP, HybridClock, Timestamp

CUT_ID = "recovered"
_NOTHING = CatalogState(1, {}, {}, {}, 1, 1, options=Options())


@dataclass(frozen=True, slots=True)
class Replica:
    """What a node has of a group."""

    machine: StateMachine
    meta: Meta


@dataclass(frozen=True, slots=True)
class Found:
    """What a node's directory has, and what is not in it."""

    cluster_id: str
    replicas: Mapping[str, Replica]
    missing: Sequence[str]
    """Groups of which it has no replica: what they had is lost."""
    last_commit: Timestamp
    """The last commit that the node knows; 0 = none."""
    torn: Sequence[str]
    """What contradicts itself between groups, in sentences: their logs end at different moments."""


@contextmanager
def opened(data_dir: Path) -> Iterator[Found]:
    """Reads the directory of a node, which nobody else uses meanwhile, and repairs a torn end, as a start does.

    Raises IllegalState where the node runs, InvalidArgument for what is no node's directory, or does not read.
    """
    with _alone(data_dir):
        try:
            found = _read(data_dir)
        except (JournalCorrupt, SnapshotCorrupt, ValueError) as error:
            raise InvalidArgument(f"{data_dir} cannot be read: {error}") from error
        yield found


def write(found: Found, directory: Path) -> Manifest:
    """Makes a backup of it. Raises AlreadyExists, OSError."""
    with files.new_directory(directory) as unfinished:
        written = tuple(
            files.put(unfinished, group, framed(group, replica.meta, replica.machine.snapshot()))
            for group, replica in sorted(found.replicas.items())
        )
        manifest = Manifest(found.cluster_id, CUT_ID, time.time_ns() // 1_000, written)
        files.seal(unfinished, manifest)
    return manifest


@contextmanager
def _alone(data_dir: Path) -> Iterator[None]:
    try:
        lock = os.open(data_dir / "lock", os.O_RDWR)
    except OSError as error:
        raise InvalidArgument(f"{data_dir} is no node's data directory: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise IllegalState(f"{data_dir} is in use: stop the node") from error
    try:
        yield
    finally:
        os.close(lock)


def _read(data_dir: Path) -> Found:
    raft = data_dir / "raft"
    if not (raft / CATALOG).is_dir():
        raise InvalidArgument(f"{data_dir} has no replica of the catalog: take a node that has one")
    catalog = CatalogMachine(_NOTHING, lambda _state: None)
    replicas = {CATALOG: _replica(raft / CATALOG, catalog)}
    state = catalog.catalog.state
    if not state.cluster_id:
        raise InvalidArgument(f"the cluster of {data_dir} was never founded: there is nothing to recover")
    if (refusal := features.refusal("this version", features.OWN, state.level)) is not None:
        raise InvalidArgument(f"{data_dir} cannot be read: {refusal}")
    groups: dict[str, Parts] = {}
    for group in sorted(state.groups.keys() - {CATALOG}):
        if (raft / group).is_dir():
            machine = groups[group] = group_machine(lambda: state.range_span, HybridClock(lambda: 0))
            replicas[group] = _replica(raft / group, machine)
    state = catalog.catalog.state = gathered(state, groups)
    cut, missing = Cut(state, groups), sorted(state.groups.keys() - replicas.keys())
    last_commit = max((table.last_commit_ts for table in cut.ranges()), default=NO_TIMESTAMP)
    return Found(state.cluster_id, replicas, missing, last_commit, () if missing else tuple(contradictions(cut)))


def _replica(directory: Path, machine: StateMachine) -> Replica:
    """All of the log is applied: what of its end was committed, nobody can tell any more."""
    snapshot, journal = open_files(files.DISK, directory, directory.name, SEGMENT_BYTES, (), False, machine.restoring)
    try:
        restored = snapshot.last.idx if snapshot is not None else 0
        for entry in journal[:]:
            if entry.idx > restored and is_commands(entry.command):
                machine.apply(commands_of(entry.command))
        if len(journal) < 2:
            raise ValueError(f"{directory} has nothing: its replica was new, or is to be made anew")
        return Replica(machine, Meta(journal[-2], journal[-1], journal.members.current))
    finally:
        journal.close()
