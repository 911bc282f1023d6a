"""The journal: what is durable when, what survives a torn write, and what refuses to open."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.world.disk import SimDisk
from tests.unit.harness.raft import PowerCut, failing
from txnstatus.process.disk import DiskFull, OsDisk
from txnstatus.raft import frames, members
from txnstatus.raft.journal import Entry, Journal, JournalDiverged
from txnstatus.raft.segments import JournalCorrupt

DIRECTORY = Path("/raft/journal")
FIRST = DIRECTORY / "00000000000000000001.log"
GROUP = "status-0"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(random.Random(0))


def opened(disk: SimDisk, covered: int = 0, limit: int = 1 << 20) -> Journal:
    return Journal(disk, DIRECTORY, GROUP, covered, limit)


def entry(idx: int, term: int = 1) -> Entry:
    return Entry(f"command {idx} of term {term}".encode(), idx, term)


def fill(journal: Journal, first: int, last: int, term: int = 1) -> None:
    for idx in range(first, last + 1):
        journal.add(*entry(idx, term))


def contents(disk: SimDisk, covered: int = 0) -> tuple[list[Entry], int, str | None]:
    """What a process that starts now finds."""
    journal = opened(disk, covered)
    return journal[:], journal.getCurrentTerm(), journal.getVotedForNodeId()


def frames_of(data: bytes) -> list[tuple[int, int]]:
    """Beginning and end of every frame, taken from the lengths in the headers."""
    found, start = [], 0
    while start < len(data):
        end = start + 16 + int.from_bytes(data[start + 4 : start + 8], "little")
        found.append((start, end))
        start = end
    return found


def three_batches(disk: SimDisk) -> None:
    journal = opened(disk)
    journal.setCurrentTerm(1, "a")
    fill(journal, 1, 3)
    journal.sync()
    fill(journal, 4, 5)
    journal.sync()
    journal.setCurrentTerm(2, "b")
    fill(journal, 6, 7, term=2)
    journal.sync()
    assert len(frames_of(disk.read(FIRST))) == 4


def many_segments(disk: SimDisk, last: int = 12) -> Journal:
    """One entry a segment."""
    journal = opened(disk, limit=1)
    for idx in range(1, last + 1):
        journal.setCurrentTerm(idx, "a")
        fill(journal, idx, idx)
        journal.sync()
    assert len(disk.names(DIRECTORY)) == last
    return journal


def segment(number: int) -> Path:
    return DIRECTORY / f"{number:020}.log"


# ---- round trip


def test_a_new_journal_is_empty_and_writes_nothing(disk: SimDisk) -> None:
    assert contents(disk) == ([], 0, None)
    assert opened(disk).is_new
    assert disk.names(DIRECTORY) == []


def test_entries_term_and_vote_are_found_again(disk: SimDisk) -> None:
    three_batches(disk)
    assert not opened(disk).is_new
    assert contents(disk) == ([*map(entry, range(1, 6)), entry(6, 2), entry(7, 2)], 2, "b")


def test_commands_may_hold_any_bytes(disk: SimDisk) -> None:
    commands = [b"", b"\0", b"TXJ1" * 100, bytes(range(256)) * 1000]
    journal = opened(disk)
    for idx, command in enumerate(commands, 1):
        journal.add(command, idx, 1)
        journal.sync()
    assert [e.command for e in contents(disk)[0]] == commands


def test_it_is_a_sequence(disk: SimDisk) -> None:
    journal = opened(disk)
    fill(journal, 1, 5)
    assert len(journal) == 5
    assert journal[0] == entry(1)
    assert journal[-1] == entry(5)
    assert journal[1:3] == [entry(2), entry(3)]


def test_on_the_disk_of_a_machine(tmp_path: Path) -> None:
    for _ in range(2):
        journal = Journal(OsDisk(), tmp_path / "a" / "journal", GROUP, 0, 100)
        first = len(journal) + 1
        for idx in range(first, first + 10):
            journal.add(*entry(idx))
            journal.sync()
        journal.close()
    assert len(list((tmp_path / "a" / "journal").iterdir())) > 3
    assert Journal(OsDisk(), tmp_path / "a" / "journal", GROUP)[:] == [*map(entry, range(1, 21))]


def test_the_format_stays(disk: SimDisk) -> None:
    """Journals outlive releases: a change here needs a way to read the old ones."""
    journal = opened(disk)
    journal.setCurrentTerm(2, "b")
    journal.add(b"cmd", 9, 2)
    journal.abstaining = True
    journal.sync()
    assert disk.read(FIRST).hex() == FORMAT


FORMAT = (
    "54584a4812000000186417143ad7b391080212087374617475732d30180120012a00"
    "54584a311a00000026c6851b944a96070a071a0508021201620a0b0a09080910021a03636d640a022001"
)


# ---- durability


def test_nothing_is_durable_before_the_sync_and_a_batch_takes_one(disk: SimDisk) -> None:
    journal = opened(disk)
    fill(journal, 1, 1)
    journal.sync()
    before = disk.syncs
    journal.setCurrentTerm(1, "a")
    fill(journal, 2, 100)
    assert journal.dirty
    assert disk.syncs == before
    journal.sync()
    assert disk.syncs == before + 1
    assert not journal.dirty
    disk.lose_power()
    assert len(contents(disk)[0]) == 100


def test_what_is_added_while_a_frame_is_written_goes_into_the_next_one(disk: SimDisk) -> None:
    journal = opened(disk)
    fill(journal, 1, 1)
    frame = journal.take_unsynced()
    fill(journal, 2, 2)
    journal.write(frame)
    assert contents(disk)[0] == [entry(1)]
    assert journal.dirty
    journal.sync()
    assert contents(disk)[0] == [entry(1), entry(2)]


@pytest.mark.parametrize("vote", ["b", None])
def test_a_vote_is_durable_with_its_term(disk: SimDisk, vote: str | None) -> None:
    journal = opened(disk)
    journal.setCurrentTerm(7, "a")
    journal.sync()
    journal.setCurrentTerm(8, vote)
    assert journal.dirty
    journal.sync()
    disk.lose_power()
    assert contents(disk)[1:] == (8, vote)


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_write_or_sync_that_fails_is_an_error_that_ends_the_process(disk: SimDisk, operation: str) -> None:
    journal = opened(disk)
    fill(journal, 1, 1)
    journal.sync()
    disk.before = failing(operation)
    fill(journal, 2, 2)
    with pytest.raises(OSError, match="broken"):
        journal.sync()


def test_abstaining_is_durable(disk: SimDisk) -> None:
    journal = opened(disk, limit=1)
    assert not journal.abstaining
    journal.abstaining = True
    journal.sync()
    assert opened(disk).abstaining
    fill(journal, 1, 3)
    journal.sync()
    assert opened(disk).abstaining, "a new segment's header carries it"
    journal.abstaining = False
    journal.sync()
    assert not opened(disk).abstaining


# ---- a full disk


def test_without_room_nothing_of_the_frame_stays_and_it_can_be_written_later(disk: SimDisk) -> None:
    journal = opened(disk)
    fill(journal, 1, 3)
    journal.sync()
    size = disk.size(FIRST)
    disk.capacity = disk.used + 20
    fill(journal, 4, 6)
    for _ in range(2):
        with pytest.raises(DiskFull, match="no room"):
            journal.sync()
        assert journal.dirty
        assert disk.size(FIRST) == size, "the part that had room was cut away"
        assert contents(disk)[0] == [*map(entry, range(1, 4))]
    disk.capacity = None
    journal.sync()
    assert not journal.dirty
    disk.lose_power()
    assert contents(disk)[0] == [*map(entry, range(1, 7))]


def test_without_room_for_a_new_segment_the_old_one_goes_on(disk: SimDisk) -> None:
    journal = opened(disk, limit=1)
    fill(journal, 1, 1)
    journal.sync()
    real = disk.create

    def create(_path: Path) -> object:
        raise OSError(errno.ENOSPC, "no room")

    disk.create = create  # type: ignore[method-assign,assignment]
    fill(journal, 2, 2)
    journal.sync()
    disk.create = real  # type: ignore[method-assign]
    assert disk.names(DIRECTORY) == [FIRST.name]
    fill(journal, 3, 3)
    journal.sync()
    assert len(disk.names(DIRECTORY)) == 2
    assert contents(disk)[0] == [*map(entry, range(1, 4))]


def test_a_segment_for_which_there_is_no_room_is_tried_again_and_no_file_stays_open(disk: SimDisk) -> None:
    """A full disk is tried again and again: with a descriptor left open each time, the last one would end the node."""
    journal = opened(disk, limit=1)
    fill(journal, 1, 1)
    journal.sync()
    before = disk.open_files
    disk.capacity = disk.used + 20
    fill(journal, 2, 2)
    for _ in range(3):
        with pytest.raises(DiskFull):
            journal.sync()
    assert disk.open_files == before
    disk.capacity = None
    journal.sync()
    assert disk.open_files == before
    assert contents(disk)[0] == [*map(entry, range(1, 3))]


def test_without_room_for_the_first_segment_it_can_be_written_later(disk: SimDisk) -> None:
    journal = opened(disk)
    disk.capacity = 0
    fill(journal, 1, 2)
    with pytest.raises(DiskFull):
        journal.sync()
    disk.capacity = None
    journal.sync()
    assert contents(disk)[0] == [*map(entry, range(1, 3))]


# ---- torn and damaged files


def test_a_last_frame_that_is_cut_anywhere_is_dropped_and_nothing_else(disk: SimDisk) -> None:
    three_batches(disk)
    data = disk.read(FIRST)
    start, end = frames_of(data)[-1]
    for length in range(start, end):
        disk.overwrite(FIRST, data[:length])
        assert contents(disk) == ([*map(entry, range(1, 6))], 1, "a"), f"cut at {length}"
        assert disk.size(FIRST) == start, "the torn part is gone, so that the next frame follows a whole one"


def test_a_last_frame_that_reached_the_disk_in_any_other_order_is_dropped(disk: SimDisk) -> None:
    """A file system may have written the end of a frame, and not its beginning."""
    three_batches(disk)
    data = disk.read(FIRST)
    start, end = frames_of(data)[-1]
    for length in range(start, end):
        disk.overwrite(FIRST, data[:start] + bytes(length - start) + data[length:])
        expected = 7 if length == start else 5
        assert len(contents(disk)[0]) == expected, f"zeros up to {length}"


def test_after_a_torn_tail_the_journal_goes_on(disk: SimDisk) -> None:
    three_batches(disk)
    disk.overwrite(FIRST, disk.read(FIRST)[:-1])
    journal = opened(disk)
    fill(journal, 6, 6, term=3)
    journal.sync()
    disk.lose_power()
    assert contents(disk)[0] == [*map(entry, range(1, 6)), entry(6, 3)]


def test_every_damaged_byte_of_an_earlier_frame_refuses_to_open(disk: SimDisk) -> None:
    three_batches(disk)
    data = disk.read(FIRST)
    for start, end in frames_of(data)[:-1]:
        for position in range(start, end):
            disk.overwrite(FIRST, data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :])
            with pytest.raises(JournalCorrupt) as refusal:
                opened(disk)
            assert str(FIRST) in str(refusal.value)
            assert "remove its data directory" in str(refusal.value)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data, start, end: data[:start] + bytes(end - start) + data[end:], id="zeroed"),
        pytest.param(lambda data, start, end: data[:start] + b"\xff" * (end - start) + data[end:], id="overwritten"),
        pytest.param(lambda data, start, end: data[: start + 5] + data[end:], id="cut"),
        pytest.param(lambda data, start, end: data[:start] + b"more" + data[start:], id="inserted"),
    ],
)
@pytest.mark.parametrize("frame", [0, 1, 2])
def test_an_earlier_frame_that_is_damaged_otherwise_refuses_to_open(
    disk: SimDisk, damage: Callable[[bytes, int, int], bytes], frame: int
) -> None:
    three_batches(disk)
    data = disk.read(FIRST)
    start, end = frames_of(data)[frame]
    disk.overwrite(FIRST, damage(data, start, end))
    with pytest.raises(JournalCorrupt, match="does not read"):
        opened(disk)


def test_a_refused_journal_is_left_as_it_is(disk: SimDisk) -> None:
    many_segments(disk)
    disk.overwrite(segment(5), b"x" + disk.read(segment(5))[1:])
    disk.overwrite(segment(12), disk.read(segment(12))[:-1])
    before = {name: disk.read(DIRECTORY / name) for name in disk.names(DIRECTORY)}
    with pytest.raises(JournalCorrupt):
        opened(disk)
    assert {name: disk.read(DIRECTORY / name) for name in disk.names(DIRECTORY)} == before


def test_a_record_of_a_newer_release_is_refused(disk: SimDisk) -> None:
    journal = opened(disk)
    journal._unsynced.records.add()
    journal.sync()
    with pytest.raises(JournalCorrupt, match="does not know"):
        opened(disk)


def test_a_journal_of_another_group_is_refused(disk: SimDisk) -> None:
    three_batches(disk)
    with pytest.raises(JournalCorrupt, match="of group 'status-0', not 'shard-1'"):
        Journal(disk, DIRECTORY, "shard-1")


# ---- segments


def test_a_segment_that_is_full_is_sealed_and_another_one_begins(disk: SimDisk) -> None:
    journal = opened(disk, limit=300)
    for idx in range(1, 31):
        fill(journal, idx, idx)
        journal.sync()
    assert 3 <= len(disk.names(DIRECTORY)) <= 10
    disk.lose_power()
    assert contents(disk)[0] == [*map(entry, range(1, 31))]


@pytest.mark.parametrize("missing", [2, 6, 11])
def test_a_segment_that_is_missing_refuses_to_open(disk: SimDisk, missing: int) -> None:
    many_segments(disk)
    disk.unlink(segment(missing))
    with pytest.raises(JournalCorrupt, match=r"what lies before it is missing.*remove its data directory"):
        opened(disk)


def test_the_first_segment_is_missed_too(disk: SimDisk) -> None:
    many_segments(disk)
    disk.unlink(FIRST)
    with pytest.raises(JournalCorrupt, match="what lies before it is missing"):
        opened(disk)


def test_the_last_segment_is_missed_too(disk: SimDisk) -> None:
    """Pins: the seal at the end of the one before."""
    many_segments(disk)
    disk.unlink(segment(12))
    with pytest.raises(JournalCorrupt, match="the segment after it is missing"):
        opened(disk)


@pytest.mark.parametrize("cut", [17, 20, 60])
def test_a_torn_frame_in_any_but_the_last_segment_refuses_to_open(disk: SimDisk, cut: int) -> None:
    many_segments(disk)
    disk.overwrite(segment(5), disk.read(segment(5))[:-cut])
    with pytest.raises(JournalCorrupt, match="not the last segment"):
        opened(disk)


def test_a_segment_of_an_older_journal_is_noticed(disk: SimDisk) -> None:
    many_segments(disk)
    old = disk.read(segment(5))
    disk.wipe(DIRECTORY)
    journal = opened(disk, limit=1)
    for idx in range(1, 8):
        journal.setCurrentTerm(100 + idx, "z")
        fill(journal, idx, idx, term=100)
        journal.sync()
    disk.overwrite(segment(5), old)
    with pytest.raises(JournalCorrupt, match="does not go on"):
        opened(disk)


def test_a_power_cut_at_any_point_of_a_roll_loses_nothing(disk: SimDisk) -> None:
    """At every operation of the disk in turn."""
    for stop in range(1, 60):
        disk = SimDisk(random.Random(stop))
        left = stop

        def before(_operation: str, _path: Path) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise PowerCut

        disk.before = before
        synced = 0
        try:
            journal = opened(disk, limit=1)
            for idx in range(1, 8):
                journal.setCurrentTerm(idx, "a")
                fill(journal, idx, idx)
                journal.sync()
                synced = idx
        except PowerCut:
            disk.lose_power()
        disk.before = lambda _operation, _path: None
        entries, term, _ = contents(disk)
        assert len(entries) in (synced, synced + 1)
        assert term in (synced, synced + 1)


@pytest.mark.parametrize("left_over", [b"", b"TXJH", bytes(1000)])
def test_a_half_made_segment_is_removed(disk: SimDisk, left_over: bytes) -> None:
    three_batches(disk)
    disk.overwrite(DIRECTORY / "00000000000000000002.new", left_over)
    assert len(contents(disk)[0]) == 7
    assert disk.names(DIRECTORY) == [FIRST.name]


# ---- truncation


def follower_adds(journal: Journal, position: int, entries: list[Entry]) -> None:
    """What pysyncobj does for one AppendEntries: cut after the previous entry, add what came, done."""
    journal.deleteEntriesFrom(position)
    for one in entries:
        journal.add(*one)
    journal.settle()


def filled(disk: SimDisk, last: int = 5) -> Journal:
    journal = opened(disk)
    fill(journal, 1, last)
    journal.sync()
    return journal


def test_entries_that_come_again_keep_what_follows_them(disk: SimDisk) -> None:
    journal = filled(disk)
    for first in range(1, 6):
        for last in range(first, 6):
            follower_adds(journal, first - 1, [entry(idx) for idx in range(first, last + 1)])
            assert journal[:] == [entry(idx) for idx in range(1, 6)]
    assert not journal.dirty, "nothing was lost, so there is nothing to write"


def test_a_heartbeat_cuts_nothing(disk: SimDisk) -> None:
    journal = filled(disk)
    follower_adds(journal, 2, [])
    assert len(journal) == 5
    assert not journal.dirty


def test_known_entries_and_new_ones_in_one_message(disk: SimDisk) -> None:
    journal = filled(disk)
    follower_adds(journal, 3, [entry(4), entry(5), entry(6)])
    journal.sync()
    assert contents(disk)[0] == [entry(idx) for idx in range(1, 7)]


@pytest.mark.parametrize("conflict_at", [1, 3, 5])
def test_a_real_conflict_drops_the_rest_for_good(disk: SimDisk, conflict_at: int) -> None:
    journal = filled(disk)
    follower_adds(journal, conflict_at - 1, [entry(conflict_at, 2)])
    expected = [*map(entry, range(1, conflict_at)), entry(conflict_at, 2)]
    assert journal[:] == expected
    journal.sync()
    assert contents(disk)[0] == expected


def test_a_conflict_after_entries_that_match(disk: SimDisk) -> None:
    journal = filled(disk)
    follower_adds(journal, 1, [entry(2), entry(3), entry(4, 2)])
    expected = [entry(1), entry(2), entry(3), entry(4, 2)]
    assert journal[:] == expected
    journal.sync()
    assert contents(disk)[0] == expected


def test_a_conflict_is_durable_only_with_the_entries_that_caused_it(disk: SimDisk) -> None:
    """One frame holds both, so a crash leaves the old entries or the new ones, never neither."""
    journal = filled(disk)
    follower_adds(journal, 2, [entry(3, 2)])
    assert len(contents(disk)[0]) == 5
    journal.sync()
    assert contents(disk)[0] == [entry(1), entry(2), entry(3, 2)]


def test_two_cuts_in_one_message_bring_back_all_of_it(disk: SimDisk) -> None:
    journal = filled(disk)
    journal.deleteEntriesFrom(4)
    journal.deleteEntriesFrom(2)
    journal.settle()
    assert journal[:] == [entry(idx) for idx in range(1, 6)]


def test_clear_is_durable(disk: SimDisk) -> None:
    journal = filled(disk)
    journal.setCurrentTerm(4, "c")
    journal.clear()
    journal.add(*entry(20, 4))
    journal.sync()
    assert contents(disk) == ([entry(20, 4)], 4, "c")


# ---- trimming


def test_trimming_drops_whole_segments_and_rewrites_nothing(disk: SimDisk) -> None:
    journal = many_segments(disk)
    written = disk.bytes_written
    journal.deleteEntriesTo(7)
    assert journal[:] == [*map(entry, range(8, 13))]
    assert journal.dirty
    journal.sync()
    assert not journal.dirty
    assert disk.bytes_written == written
    assert disk.names(DIRECTORY) == [segment(n).name for n in range(9, 13)]
    assert contents(disk, covered=8) == ([*map(entry, range(9, 13))], 12, "a")


def test_term_and_vote_outlive_the_segment_they_were_said_in(disk: SimDisk) -> None:
    """Pins: each segment's header carries them on."""
    journal = opened(disk, limit=1)
    journal.setCurrentTerm(5, "b")
    fill(journal, 1, 1)
    journal.sync()
    for idx in range(2, 9):
        fill(journal, idx, idx)
        journal.sync()
    journal.deleteEntriesTo(6)
    journal.sync()
    assert disk.size(FIRST) is None
    assert contents(disk, covered=7)[1:] == (5, "b")


def test_the_segment_that_is_written_to_is_never_dropped(disk: SimDisk) -> None:
    journal = opened(disk)
    fill(journal, 1, 5)
    journal.sync()
    journal.deleteEntriesTo(4)
    journal.sync()
    assert disk.names(DIRECTORY) == [FIRST.name]


def test_a_journal_that_was_trimmed_does_not_open_without_its_snapshot(disk: SimDisk) -> None:
    many_segments(disk).deleteEntriesTo(7)
    journal = many_segments(SimDisk(random.Random(0)))
    journal.deleteEntriesTo(7)
    journal.sync()
    trimmed = journal._segments._disk
    assert isinstance(trimmed, SimDisk)
    with pytest.raises(JournalCorrupt, match="the snapshot ends at nothing"):
        opened(trimmed)
    with pytest.raises(JournalCorrupt, match="the snapshot ends at 7"):
        opened(trimmed, covered=7)
    assert len(opened(trimmed, covered=8)) == 4


def test_what_a_drop_left_behind_in_a_power_cut_does_no_harm(disk: SimDisk) -> None:
    """Names may go in any order: a hole among what the snapshot covers is none."""
    journal = many_segments(disk)
    journal.deleteEntriesTo(7)
    for number in (2, 3, 6):
        disk.unlink(segment(number))
    assert contents(disk, covered=8)[0] == [*map(entry, range(7, 13))]
    assert disk.names(DIRECTORY) == [segment(n).name for n in range(7, 13)]


def test_trimming_nothing_writes_nothing(disk: SimDisk) -> None:
    journal = opened(disk)
    fill(journal, 1, 2)
    journal.sync()
    journal.deleteEntriesTo(0)
    assert not journal.dirty
    assert len(journal) == 2


def test_trimming_brings_back_a_provisional_cut_first(disk: SimDisk) -> None:
    journal = filled(disk)
    journal.deleteEntriesFrom(3)
    journal.deleteEntriesTo(2)
    assert journal[:] == [entry(3), entry(4), entry(5)]


def test_entries_not_yet_synced_survive_a_trim(disk: SimDisk) -> None:
    journal = filled(disk)
    fill(journal, 6, 6)
    journal.deleteEntriesTo(3)
    journal.sync()
    assert contents(disk, covered=4)[0][-3:] == [entry(4), entry(5), entry(6)]


def test_an_applied_entry_is_never_dropped_for_another(disk: SimDisk) -> None:
    journal = filled(disk)
    journal.applied_index = 4
    journal.deleteEntriesFrom(4)
    journal.add(b"another", 5, 2)
    journal.settle()
    assert [entry.term for entry in journal[:]] == [1, 1, 1, 1, 2]
    journal.deleteEntriesFrom(3)
    with pytest.raises(JournalDiverged, match="entry 4 of term 3"):
        journal.add(b"another", 4, 3)


# ---- members


def test_the_members_are_those_of_the_latest_entry_and_go_back_with_it(disk: SimDisk) -> None:
    journal = opened(disk)
    journal.add(members.encode(("a", "b", "c")), 1, 0)
    fill(journal, 2, 3)
    journal.add(members.encode(("a", "b")), 4, 1)
    assert (journal.members.current, journal.members.index) == (("a", "b"), 4)
    assert journal.members.at(3) == ("a", "b", "c")
    journal.sync()
    assert opened(disk).members.current == ("a", "b")
    journal.deleteEntriesFrom(3)
    journal.settle()
    assert journal.members.current == ("a", "b"), "there was no conflict"
    journal.deleteEntriesFrom(2)
    journal.add(*entry(3, 2))
    journal.settle()
    assert (journal.members.current, journal.members.index) == (("a", "b", "c"), 1)
    journal.sync()
    assert opened(disk).members.current == ("a", "b", "c")


# ---- a snapshot's two entries


def test_align_keeps_what_follows_a_snapshot_and_writes_nothing(disk: SimDisk) -> None:
    """A crash between the snapshot and the trimming: pysyncobj would clear the journal, tail and all (r2)."""
    journal = opened(disk)
    fill(journal, 1, 15)
    journal.sync()
    journal.align(entry(9), entry(10), ("a", "b"))
    assert journal[:] == [*map(entry, range(9, 16))]
    assert journal.members.current == ("a", "b")
    assert not journal.dirty


def test_what_follows_a_snapshot_outlives_two_restarts(disk: SimDisk) -> None:
    """Pins: the segment with the snapshot's last entry stays. Without it the second start cleared the journal."""
    many_segments(disk, 15)
    for _ in range(3):
        journal = opened(disk, covered=10, limit=1)
        journal.align(entry(9), entry(10), ("a", "b"))
        assert journal[:] == [*map(entry, range(9, 16))]
        journal.sync()


@pytest.mark.parametrize("has", [0, 3, 9])
def test_a_journal_that_is_older_gives_way_to_the_snapshot(disk: SimDisk, has: int) -> None:
    """The snapshot came from the leader, and the node stopped before its journal followed."""
    journal = opened(disk)
    journal.setCurrentTerm(6, "b")
    fill(journal, 1, has)
    journal.align(entry(9), entry(10), ("a", "b"))
    assert journal[:] == [entry(9), entry(10)]
    journal.sync()
    assert contents(disk, covered=10) == ([entry(9), entry(10)], 6, "b")


@pytest.mark.parametrize("has", [3, 12])
def test_the_members_are_those_of_the_snapshot_whatever_the_journal_said_before(disk: SimDisk, has: int) -> None:
    journal = opened(disk)
    journal.add(members.encode(("a", "b", "c")), 1, 0)
    fill(journal, 2, has)
    journal.align(entry(9), entry(10), ("a", "b", "d"))
    assert journal.members.current == ("a", "b", "d")


def test_a_tail_of_another_history_is_dropped(disk: SimDisk) -> None:
    journal = opened(disk, limit=1)
    for idx in range(1, 16):
        fill(journal, idx, idx)
        journal.sync()
    journal.align(entry(9, 2), entry(10, 2), ("a",))
    assert journal[:] == [entry(9, 2), entry(10, 2)]
    journal.sync()
    assert contents(disk, covered=10)[0] == [entry(9, 2), entry(10, 2)]
    for idx in range(11, 20):
        fill(journal, idx, idx, term=2)
        journal.sync()
    journal.deleteEntriesTo(8)
    journal.sync()
    assert contents(disk, covered=17)[0][-2:] == [entry(18, 2), entry(19, 2)]


def test_frames_are_found_again() -> None:
    data = b"rubbish TX" + frames.frame(frames.BATCH, b"payload") + b"more"
    assert frames.find_frame(data, 0) == 10
    assert frames.read_frame(data, 10) == (frames.BATCH, b"payload")
    assert frames.find_frame(data, 11) is None


def test_it_knows_up_to_where_it_is_synced(disk: SimDisk) -> None:
    journal = opened(disk)
    assert journal.has_synced(0)
    fill(journal, 1, 3)
    assert (journal.has_synced(0), journal.has_synced(1)) == (True, False)
    journal.sync()
    assert journal.has_synced(3)
    fill(journal, 4, 5)
    assert (journal.has_synced(3), journal.has_synced(4)) == (True, False)
    journal.sync()
    # A conflict: what is to be written begins before what was.
    journal.deleteEntriesFrom(2)
    fill(journal, 3, 4, term=2)
    journal.settle()
    assert (journal.has_synced(2), journal.has_synced(3)) == (True, False)
    journal.sync()
    assert journal.has_synced(4)


def test_a_frame_for_which_there_is_no_room_is_not_synced(disk: SimDisk) -> None:
    journal = opened(disk)
    fill(journal, 1, 3)
    journal.sync()
    disk.capacity = disk.used
    fill(journal, 4, 4)
    with pytest.raises(DiskFull):
        journal.sync()
    assert not journal.has_synced(4)
    disk.capacity = disk.used + (1 << 20)
    journal.sync()
    assert journal.has_synced(4)
