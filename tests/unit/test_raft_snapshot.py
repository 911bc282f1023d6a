"""Snapshot files, and how a journal and a snapshot are made to agree at start."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import snapshot
from txnstatus.raft.journal import Entry, Journal
from txnstatus.raft.snapshot import SnapshotCorrupt

GROUP = "status-0"
STATE = b"the state of the machine" * 10


def entry(idx: int, term: int = 1) -> Entry:
    return Entry(f"command {idx}".encode(), idx, term)


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    return [entry(idx, term) for idx in range(first, last + 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "snapshot"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def fill(journal: Journal, added: list[Entry]) -> None:
    for one in added:
        journal.add(*one)
    journal.sync()


def save(path: Path, last: int, term: int = 1) -> None:
    snapshot.write(path, GROUP, entry(last, term), entry(last - 1, term), STATE)


def reopened(journal: Journal) -> list[Entry]:
    return Journal(journal.path)[:]


# ---- files


def test_what_is_written_is_read(path: Path) -> None:
    save(path, 10)
    assert snapshot.read(path, GROUP) == (entry(10), entry(9), STATE)


def test_an_empty_state_and_empty_commands_are_possible(path: Path) -> None:
    snapshot.write(path, GROUP, Entry(b"", 2, 1), Entry(b"", 1, 0), b"")
    assert snapshot.read(path, GROUP) == (Entry(b"", 2, 1), Entry(b"", 1, 0), b"")


def test_every_cut_is_noticed(path: Path) -> None:
    save(path, 10)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(SnapshotCorrupt, match="remove its data directory") as refusal:
            snapshot.read(path, GROUP)
        assert str(path) in str(refusal.value)


def test_every_damaged_byte_of_the_state_is_noticed(path: Path) -> None:
    save(path, 10)
    data = path.read_bytes()
    start = data.index(STATE)
    for position in range(start, start + len(STATE)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(SnapshotCorrupt, match="damaged"):
            snapshot.read(path, GROUP)


def test_every_damaged_byte_outside_the_state_is_noticed(path: Path) -> None:
    """A changed index or term would let the replica go on from where no other one is."""
    save(path, 10)
    data = path.read_bytes()
    start = data.index(STATE)
    unnoticed = []
    for position in [*range(start), *range(start + len(STATE), len(data))]:
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        try:
            snapshot.read(path, GROUP)
        except SnapshotCorrupt:
            continue
        unnoticed.append(position)
    assert unnoticed == []


def test_a_snapshot_of_another_group_is_refused(path: Path) -> None:
    save(path, 10)
    with pytest.raises(SnapshotCorrupt, match=r"group 'status-0'.*expected 'shard-1'"):
        snapshot.read(path, "shard-1")


def test_a_snapshot_of_another_version_is_refused(path: Path) -> None:
    save(path, 10)
    wire = pb.GroupSnapshot.FromString(path.read_bytes()[snapshot.DIGEST_BYTES :])
    wire.version = 2
    body = wire.SerializeToString()
    path.write_bytes(hashlib.sha256(body).digest() + body)
    with pytest.raises(SnapshotCorrupt, match="version 2"):
        snapshot.read(path, GROUP)


# ---- align


def test_a_new_node_has_neither(journal: Journal, path: Path) -> None:
    snapshot.align(journal, path, GROUP)
    assert journal[:] == []


def test_a_journal_from_the_first_entry_needs_no_snapshot(journal: Journal, path: Path) -> None:
    fill(journal, entries(1, 5))
    snapshot.align(journal, path, GROUP)
    assert journal[:] == entries(1, 5)


def test_a_journal_that_was_trimmed_does_not_start_without_its_snapshot(journal: Journal, path: Path) -> None:
    fill(journal, entries(9, 12))
    with pytest.raises(SnapshotCorrupt, match=r"begins at entry 9.*missing"):
        snapshot.align(journal, path, GROUP)


def test_a_pair_that_agrees_is_left_alone(journal: Journal, path: Path) -> None:
    fill(journal, entries(9, 15))
    save(path, 10)
    before = journal.path.stat()
    snapshot.align(journal, path, GROUP)
    assert journal[:] == entries(9, 15)
    assert journal.path.stat().st_ino == before.st_ino


def test_a_journal_that_was_not_trimmed_yet_keeps_what_follows(journal: Journal, path: Path) -> None:
    """A crash between the snapshot and the trimming: pysyncobj would clear the journal, tail and all (r2)."""
    fill(journal, entries(1, 15))
    save(path, 10)
    snapshot.align(journal, path, GROUP)
    assert journal[:] == reopened(journal) == entries(9, 15)


def test_a_journal_that_ends_at_the_snapshot_keeps_only_its_two_entries(journal: Journal, path: Path) -> None:
    fill(journal, entries(1, 10))
    save(path, 10)
    snapshot.align(journal, path, GROUP)
    assert journal[:] == reopened(journal) == entries(9, 10)


@pytest.mark.parametrize("has", [0, 3, 9])
def test_a_journal_that_is_older_gives_way_to_the_snapshot(journal: Journal, path: Path, has: int) -> None:
    """The snapshot came from the leader, and the node stopped before its journal followed."""
    fill(journal, entries(1, has))
    save(path, 10)
    snapshot.align(journal, path, GROUP)
    assert journal[:] == reopened(journal) == entries(9, 10)


def test_a_tail_of_another_history_is_dropped(journal: Journal, path: Path) -> None:
    fill(journal, [*entries(1, 8), *entries(9, 15, term=1)])
    save(path, 10, term=2)
    snapshot.align(journal, path, GROUP)
    assert journal[:] == reopened(journal) == entries(9, 10, term=2)


def test_a_hole_between_the_two_refuses_to_start(journal: Journal, path: Path) -> None:
    fill(journal, entries(20, 25))
    save(path, 10)
    with pytest.raises(SnapshotCorrupt, match=r"begins at entry 20, after the end .* at 10"):
        snapshot.align(journal, path, GROUP)
    assert journal[:] == entries(20, 25)


def test_a_damaged_snapshot_refuses_to_start(journal: Journal, path: Path) -> None:
    fill(journal, entries(9, 15))
    path.write_bytes(b"not a snapshot")
    with pytest.raises(SnapshotCorrupt):
        snapshot.align(journal, path, GROUP)
    assert journal[:] == entries(9, 15)


def test_term_and_vote_survive(journal: Journal, path: Path) -> None:
    journal.setCurrentTerm(6, "b")
    fill(journal, entries(1, 15))
    save(path, 10)
    snapshot.align(journal, path, GROUP)
    again = Journal(journal.path)
    assert (again.getCurrentTerm(), again.getVotedForNodeId()) == (6, "b")


def test_leftovers_of_a_snapshot_that_was_not_finished_are_removed(journal: Journal, path: Path) -> None:
    leftovers = [path.with_name("snapshot.tmp"), path.with_name("snapshot.1.tmp")]
    for leftover in leftovers:
        leftover.write_bytes(b"half a snap")
    snapshot.align(journal, path, GROUP)
    assert not any(leftover.exists() for leftover in leftovers)
