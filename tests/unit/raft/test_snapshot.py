"""Snapshot files: written in slices, checked whole; and how a journal and a snapshot are made to agree at start."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.sim.world.disk import SimDisk
from tests.unit.harness.raft import PowerCut, failing
from txnstatus.process.disk import DiskFull
from txnstatus.raft import frames, snapshot
from txnstatus.raft.journal import Entry, Journal
from txnstatus.raft.machine import RestoringWhole
from txnstatus.raft.segments import JournalCorrupt
from txnstatus.raft.snapshot import Meta, SnapshotCorrupt, Writer

GROUP = "status-0"
DIRECTORY = Path("/raft")
PATH = DIRECTORY / "snapshot"
NEW = DIRECTORY / "snapshot.new"
CHUNKS = [b"the state " * 10, b"", b"of the machine" * 10]
MEMBERS = ("a", "b", "c")


def entry(idx: int, term: int = 1) -> Entry:
    return Entry(f"command {idx}".encode(), idx, term)


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(random.Random(0))
    disk.make_directory(DIRECTORY)
    return disk


def save(disk: SimDisk, last: int, term: int = 1, chunks: Iterable[bytes] = CHUNKS, group: str = GROUP) -> None:
    writer = Writer(disk, PATH, group, Meta(entry(last - 1, term), entry(last, term), MEMBERS))
    for chunk in chunks:
        writer.write([chunk])
    writer.finish()


def fill(disk: SimDisk, first: int, last: int, term: int = 1) -> None:
    journal = Journal(disk, DIRECTORY / "journal", GROUP, first - 1)
    for idx in range(first, last + 1):
        journal.add(*entry(idx, term))
    journal.setCurrentTerm(6, "b")
    journal.sync()


def start(disk: SimDisk, bootstrap: tuple[str, ...] = MEMBERS) -> tuple[Meta | None, Journal, list[bytes]]:
    restored: list[bytes] = []
    meta, journal = snapshot.open_files(
        disk, DIRECTORY, GROUP, 1 << 20, bootstrap, False, lambda: RestoringWhole(restored.append)
    )
    return meta, journal, restored


# ---- files


def test_what_is_written_is_read(disk: SimDisk) -> None:
    save(disk, 10)
    assert snapshot.verify(disk, PATH, GROUP) == Meta(entry(9), entry(10), MEMBERS)
    assert list(snapshot.read_chunks(disk, PATH)) == CHUNKS
    disk.lose_power()
    assert list(snapshot.read_chunks(disk, PATH)) == CHUNKS


def test_a_state_may_be_empty(disk: SimDisk) -> None:
    save(disk, 10, chunks=[])
    assert snapshot.verify(disk, PATH, GROUP).last == entry(10)
    assert list(snapshot.read_chunks(disk, PATH)) == []


def test_every_cut_is_noticed(disk: SimDisk) -> None:
    save(disk, 10)
    data = disk.read(PATH)
    for length in range(len(data)):
        disk.overwrite(PATH, data[:length])
        with pytest.raises(SnapshotCorrupt, match="remove its data directory") as refusal:
            snapshot.verify(disk, PATH, GROUP)
        assert str(PATH) in str(refusal.value)


def test_every_damaged_byte_is_noticed(disk: SimDisk) -> None:
    """A changed index or term would let the replica go on from where no other one is."""
    save(disk, 10)
    data = disk.read(PATH)
    for position in range(len(data)):
        disk.overwrite(PATH, data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(SnapshotCorrupt):
            snapshot.verify(disk, PATH, GROUP)


@pytest.mark.parametrize("change", ["left out", "repeated", "exchanged"])
def test_whole_frames_in_the_wrong_place_are_noticed(disk: SimDisk, change: str) -> None:
    save(disk, 10, chunks=[b"one", b"two"])
    one, two = (frames.frame(frames.CHUNK, chunk) for chunk in (b"one", b"two"))
    wrong = {"left out": two, "repeated": one + one + two, "exchanged": two + one}[change]
    disk.overwrite(PATH, disk.read(PATH).replace(one + two, wrong))
    with pytest.raises(SnapshotCorrupt, match="digest"):
        snapshot.verify(disk, PATH, GROUP)


def test_a_snapshot_of_another_group_is_refused(disk: SimDisk) -> None:
    save(disk, 10, group="shard-1")
    with pytest.raises(SnapshotCorrupt, match=r"group 'shard-1'.*expected 'status-0'"):
        snapshot.verify(disk, PATH, GROUP)


def test_a_power_cut_at_any_point_leaves_the_old_snapshot_or_the_new_one() -> None:
    for stop in range(1, 40):
        disk = SimDisk(random.Random(stop))
        disk.make_directory(DIRECTORY)
        save(disk, 10)
        left = stop

        def before(_operation: str, _path: Path) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise PowerCut

        disk.before = before
        finished = False
        try:
            save(disk, 20)
            finished = True
        except PowerCut:
            disk.lose_power()
        disk.before = lambda _operation, _path: None
        last = snapshot.verify(disk, PATH, GROUP).last
        assert last == entry(20) if finished else last in (entry(10), entry(20))


def test_without_room_the_old_snapshot_stays_and_nothing_is_left_behind(disk: SimDisk) -> None:
    save(disk, 10)
    for room in (0, 1, 30, 200, 300):
        disk.capacity = disk.used + room
        with pytest.raises(DiskFull):
            save(disk, 20, chunks=[bytes(100)] * 3)
        assert disk.size(NEW) is None
        assert snapshot.verify(disk, PATH, GROUP).last == entry(10)
    disk.capacity = None
    save(disk, 20)
    assert snapshot.verify(disk, PATH, GROUP).last == entry(20)


@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
def test_any_other_error_is_passed_on(disk: SimDisk, operation: str) -> None:
    disk.before = failing(operation)
    with pytest.raises(OSError, match="broken"):
        save(disk, 20)


def test_what_is_finished_or_given_up_may_be_abandoned(disk: SimDisk) -> None:
    """A leader's snapshot may begin to arrive while the last slice of our own is being written."""
    save(disk, 5)
    finished = Writer(disk, PATH, GROUP, Meta(entry(6), entry(7), MEMBERS))
    finished.write(CHUNKS)
    finished.finish()
    finished.abandon()
    assert snapshot.verify(disk, PATH, GROUP).last == entry(7)
    given_up = Writer(disk, PATH, GROUP, Meta(entry(8), entry(9), MEMBERS))
    disk.capacity = disk.used + 100
    with pytest.raises(DiskFull):
        given_up.write([bytes(1000)])
    given_up.abandon()
    assert snapshot.verify(disk, PATH, GROUP).last == entry(7)


def test_a_large_snapshot_is_synced_in_pieces(disk: SimDisk) -> None:
    save(disk, 10, chunks=[bytes(1 << 20)] * 10)
    assert disk.syncs >= 3


# ---- start


def test_a_new_node_begins_with_the_members_it_was_given(disk: SimDisk) -> None:
    meta, journal, restored = start(disk)
    assert (meta, restored) == (None, [])
    assert journal.members.current == MEMBERS
    assert journal.abstaining, "it may have been a member before, with a directory that is gone"


def test_a_node_that_joins_has_no_members_yet(disk: SimDisk) -> None:
    _, journal, _ = start(disk, bootstrap=())
    assert (len(journal), journal.members.current, journal.abstaining) == (0, (), True), "it may have been one before"


def test_members_that_are_given_do_not_count_once_there_are_files(disk: SimDisk) -> None:
    start(disk)[1].sync()
    assert start(disk, bootstrap=("x", "y"))[1].members.current == MEMBERS
    save(disk, 10)
    assert start(disk, bootstrap=("x", "y"))[1].members.current == MEMBERS


def test_a_journal_from_the_first_entry_needs_no_snapshot(disk: SimDisk) -> None:
    fill(disk, 1, 5)
    assert start(disk)[1][:] == [*map(entry, range(1, 6))]


def test_a_journal_that_was_trimmed_does_not_start_without_its_snapshot(disk: SimDisk) -> None:
    fill(disk, 9, 12)
    with pytest.raises((SnapshotCorrupt, JournalCorrupt), match="missing"):
        start(disk)


def test_a_snapshot_does_not_start_without_its_journal(disk: SimDisk) -> None:
    """The term and the vote are in the journal."""
    save(disk, 10)
    with pytest.raises(SnapshotCorrupt, match="journal is missing"):
        start(disk)


def test_the_state_is_restored_and_the_journal_begins_with_the_two_entries(disk: SimDisk) -> None:
    """A crash between the snapshot and the trimming: pysyncobj would clear the journal, tail and all (r2)."""
    fill(disk, 1, 15)
    save(disk, 10)
    meta, journal, restored = start(disk)
    assert meta is not None
    assert (meta.last, restored) == (entry(10), [b"".join(CHUNKS)])
    assert journal[:] == [*map(entry, range(9, 16))]
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId()) == (6, "b")


def test_a_hole_between_the_two_refuses_to_start(disk: SimDisk) -> None:
    journal = Journal(disk, DIRECTORY / "journal", GROUP)
    for idx in range(20, 26):
        journal.add(*entry(idx))
    journal.sync()
    save(disk, 10)
    with pytest.raises(SnapshotCorrupt, match=r"begins at entry 20, after the end .* at 10"):
        start(disk)


@pytest.mark.parametrize("position", [0, 20, -40])
def test_a_damaged_snapshot_refuses_to_start(disk: SimDisk, position: int) -> None:
    fill(disk, 1, 15)
    save(disk, 10)
    disk.flip_bit(PATH, position % (disk.size(PATH) or 1))
    with pytest.raises(SnapshotCorrupt, match="remove its data directory"):
        start(disk)


def test_a_state_that_the_machine_does_not_know_refuses_to_start(disk: SimDisk) -> None:
    fill(disk, 1, 15)
    save(disk, 10)

    def restore(_state: bytes) -> None:
        raise ValueError("a snapshot of version 99")

    with pytest.raises(SnapshotCorrupt, match="version 99"):
        snapshot.open_files(disk, DIRECTORY, GROUP, 1 << 20, MEMBERS, False, lambda: RestoringWhole(restore))


def test_leftovers_of_what_was_not_finished_are_removed(disk: SimDisk) -> None:
    for name in ("snapshot.new", "snapshot.incoming"):
        disk.overwrite(DIRECTORY / name, b"half a snap")
    start(disk)
    assert disk.names(DIRECTORY) == []
