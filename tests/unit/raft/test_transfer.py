"""Snapshots that arrive: what is done with the file that they are kept in."""

from __future__ import annotations

import random
from pathlib import Path

from tests.sim.world.disk import SimDisk
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.jobs import Jobs
from txnstatus.raft.transfer import SnapshotReceiver


def run(jobs: Jobs) -> None:
    while (work := jobs.take()) is not None:
        work()
        jobs.finish()


def test_what_is_dropped_before_its_first_part_is_written_leaves_no_file_open() -> None:
    """Leaders that follow each other send a snapshot each."""
    disk, jobs = SimDisk(random.Random(0)), Jobs()
    disk.make_directory(Path("/raft"))
    receiver = SnapshotReceiver(disk, Path("/raft/snapshot"), "group-0", jobs, lambda: 0.0)
    for term in (1, 2, 3):
        receiver.take("n1", pb.RaftMessage.SnapshotPart(last_index=9, last_term=term, size=100, data=b"part"))
        receiver.drop()
        run(jobs)
        assert disk.open_files == 0
    receiver.take("n1", pb.RaftMessage.SnapshotPart(last_index=9, last_term=4, size=100, data=b"part"))
    run(jobs)
    assert disk.open_files == 1
    receiver.drop()
    run(jobs)
    assert disk.open_files == 0
