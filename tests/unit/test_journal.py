"""The journal: what is durable when, what survives a torn write, and what refuses to open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.journal import Entry, Journal, JournalCorrupt, JournalDiverged


class PowerCut(Exception):
    """The machine stops inside a sync."""


def entry(idx: int, term: int = 1) -> Entry:
    return Entry(f"command {idx} of term {term}".encode(), idx, term)


def fill(journal: Journal, first: int, last: int, term: int = 1) -> None:
    for idx in range(first, last + 1):
        journal.add(*entry(idx, term))


def contents(path: Path) -> tuple[list[Entry], int, str | None]:
    """What a process that starts now finds."""
    journal = Journal(path)
    found = journal[:], journal.getCurrentTerm(), journal.getVotedForNodeId()
    journal._destroy()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def frames_of(path: Path) -> list[tuple[int, int]]:
    """Beginning and end of every frame, taken from the lengths in the headers."""
    data, found, start = path.read_bytes(), [], 0
    while start < len(data):
        end = start + 16 + int.from_bytes(data[start + 4 : start + 8], "little")
        found.append((start, end))
        start = end
    return found


def three_frames(path: Path) -> None:
    journal = Journal(path)
    journal.setCurrentTerm(1, "a")
    fill(journal, 1, 3)
    journal.sync()
    fill(journal, 4, 5)
    journal.sync()
    journal.setCurrentTerm(2, "b")
    fill(journal, 6, 7, term=2)
    journal.sync()
    journal._destroy()
    assert len(frames_of(path)) == 3


# ---- round trip


def test_a_new_journal_is_empty(path: Path) -> None:
    assert contents(path) == ([], 0, None)
    assert path.exists()


def test_entries_term_and_vote_are_found_again(path: Path) -> None:
    three_frames(path)
    assert contents(path) == ([*map(entry, range(1, 6)), entry(6, 2), entry(7, 2)], 2, "b")


def test_commands_may_hold_any_bytes(path: Path) -> None:
    commands = [b"", b"\0", b"TXJ1" * 100, bytes(range(256)) * 1000]
    journal = Journal(path)
    for idx, command in enumerate(commands, 1):
        journal.add(command, idx, 1)
        journal.sync()
    journal._destroy()
    assert [e.command for e in contents(path)[0]] == commands


def test_it_is_a_sequence(path: Path) -> None:
    journal = Journal(path)
    fill(journal, 1, 5)
    assert len(journal) == 5
    assert journal[0] == entry(1)
    assert journal[-1] == entry(5)
    assert journal[1:3] == [entry(2), entry(3)]


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    Journal(path)
    assert path.stat().st_mode & 0o777 == 0o600


# ---- durability


def test_nothing_is_durable_before_the_sync_and_a_batch_takes_one(path: Path) -> None:
    syncs: list[int] = []
    journal = Journal(path, syncs.append)
    assert not journal.dirty
    journal.setCurrentTerm(1, "a")
    fill(journal, 1, 100)
    assert journal.dirty
    assert syncs == []
    assert path.stat().st_size == 0
    journal.sync()
    assert len(syncs) == 1
    assert not journal.dirty
    assert len(contents(path)[0]) == 100
    journal.sync()
    assert len(syncs) == 1, "there was nothing to sync"


def test_the_file_holds_the_frame_when_it_is_synced(path: Path) -> None:
    sizes: list[int] = []
    journal = Journal(path, lambda _fd: sizes.append(path.stat().st_size))
    fill(journal, 1, 1)
    frame = journal.take_unsynced()
    assert not journal.dirty
    assert path.stat().st_size == 0
    journal.write(frame)
    assert sizes == [len(frame)]


def test_what_is_added_while_a_frame_is_written_goes_into_the_next_one(path: Path) -> None:
    journal = Journal(path)
    fill(journal, 1, 1)
    frame = journal.take_unsynced()
    fill(journal, 2, 2)
    journal.write(frame)
    assert contents(path)[0] == [entry(1)]
    assert journal.dirty
    journal.sync()
    journal._destroy()
    assert contents(path)[0] == [entry(1), entry(2)]


@pytest.mark.parametrize("vote", ["b", None])
def test_a_vote_is_durable_with_its_term(path: Path, vote: str | None) -> None:
    journal = Journal(path)
    journal.setCurrentTerm(7, "a")
    journal.sync()
    journal.setCurrentTerm(8, vote)
    assert journal.dirty
    journal.sync()
    journal._destroy()
    assert contents(path)[1:] == (8, vote)


def test_a_failed_sync_is_not_swallowed(path: Path) -> None:
    def fail(_fd: int) -> None:
        raise OSError("the disk is gone")

    journal = Journal(path, fail)
    fill(journal, 1, 1)
    with pytest.raises(OSError, match="the disk is gone"):
        journal.sync()


def test_a_short_write_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path)
    fill(journal, 1, 1)
    monkeypatch.setattr("txnstatus.raft.journal.os.write", lambda _fd, data: len(data) - 1)
    with pytest.raises(OSError, match="short write"):
        journal.sync()


# ---- torn and damaged files


def test_a_last_frame_that_is_cut_anywhere_is_dropped_and_nothing_else(path: Path) -> None:
    three_frames(path)
    data, (start, end) = path.read_bytes(), frames_of(path)[-1]
    for length in range(start, end):
        path.write_bytes(data[:length])
        assert contents(path) == ([*map(entry, range(1, 6))], 1, "a"), f"cut at {length}"
        assert path.stat().st_size == start, "the torn part is gone, so that the next frame follows a whole one"


def test_a_last_frame_that_reached_the_disk_in_any_other_order_is_dropped(path: Path) -> None:
    """A file system may have written the end of a frame, and not its beginning."""
    three_frames(path)
    data, (start, end) = path.read_bytes(), frames_of(path)[-1]
    for length in range(start, end):
        path.write_bytes(data[:start] + bytes(length - start) + data[length:])
        expected = 7 if length == start else 5
        assert len(contents(path)[0]) == expected, f"zeros up to {length}"


def test_after_a_torn_tail_the_journal_goes_on(path: Path) -> None:
    three_frames(path)
    path.write_bytes(path.read_bytes()[:-1])
    journal = Journal(path)
    fill(journal, 6, 6, term=3)
    journal.sync()
    journal._destroy()
    assert contents(path)[0] == [*map(entry, range(1, 6)), entry(6, 3)]


def test_every_damaged_byte_of_an_earlier_frame_refuses_to_open(path: Path) -> None:
    three_frames(path)
    data, frames = path.read_bytes(), frames_of(path)
    for start, end in frames[:-1]:
        for position in range(start, end):
            path.write_bytes(data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :])
            with pytest.raises(JournalCorrupt) as refusal:
                Journal(path)
            assert str(path) in str(refusal.value)
            assert f"byte {start} " in str(refusal.value)
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
@pytest.mark.parametrize("frame", [0, 1])
def test_an_earlier_frame_that_is_damaged_otherwise_refuses_to_open(
    path: Path, damage: Callable[[bytes, int, int], bytes], frame: int
) -> None:
    three_frames(path)
    start, end = frames_of(path)[frame]
    path.write_bytes(damage(path.read_bytes(), start, end))
    with pytest.raises(JournalCorrupt, match=f"the frame at byte {start} does not read"):
        Journal(path)


def test_a_refused_file_is_left_as_it_is(path: Path) -> None:
    three_frames(path)
    damaged = b"x" + path.read_bytes()[1:]
    path.write_bytes(damaged)
    with pytest.raises(JournalCorrupt):
        Journal(path)
    assert path.read_bytes() == damaged


def test_a_record_of_a_newer_release_is_refused(path: Path) -> None:
    journal = Journal(path)
    journal._unsynced.records.add()
    journal.sync()
    with pytest.raises(JournalCorrupt, match="does not know"):
        Journal(path)


# ---- truncation


def follower_adds(journal: Journal, position: int, entries: list[Entry]) -> None:
    """What pysyncobj does for one AppendEntries: cut after the previous entry, add what came, done."""
    journal.deleteEntriesFrom(position)
    for one in entries:
        journal.add(*one)
    journal.settle()


def filled(path: Path, last: int = 5) -> Journal:
    journal = Journal(path)
    fill(journal, 1, last)
    journal.sync()
    return journal


def test_entries_that_come_again_keep_what_follows_them(path: Path) -> None:
    journal = filled(path)
    for first in range(1, 6):
        for last in range(first, 6):
            follower_adds(journal, first - 1, [entry(idx) for idx in range(first, last + 1)])
            assert journal[:] == [entry(idx) for idx in range(1, 6)]
    assert not journal.dirty, "nothing was lost, so there is nothing to write"


def test_a_heartbeat_cuts_nothing(path: Path) -> None:
    journal = filled(path)
    follower_adds(journal, 2, [])
    assert len(journal) == 5
    assert not journal.dirty


def test_known_entries_and_new_ones_in_one_message(path: Path) -> None:
    journal = filled(path)
    follower_adds(journal, 3, [entry(4), entry(5), entry(6)])
    journal.sync()
    journal._destroy()
    assert contents(path)[0] == [entry(idx) for idx in range(1, 7)]


@pytest.mark.parametrize("conflict_at", [1, 3, 5])
def test_a_real_conflict_drops_the_rest_for_good(path: Path, conflict_at: int) -> None:
    journal = filled(path)
    follower_adds(journal, conflict_at - 1, [entry(conflict_at, 2)])
    expected = [*map(entry, range(1, conflict_at)), entry(conflict_at, 2)]
    assert journal[:] == expected
    journal.sync()
    journal._destroy()
    assert contents(path)[0] == expected


def test_a_conflict_after_entries_that_match(path: Path) -> None:
    journal = filled(path)
    follower_adds(journal, 1, [entry(2), entry(3), entry(4, 2)])
    expected = [entry(1), entry(2), entry(3), entry(4, 2)]
    assert journal[:] == expected
    journal.sync()
    journal._destroy()
    assert contents(path)[0] == expected


def test_a_conflict_is_durable_only_with_the_entries_that_caused_it(path: Path) -> None:
    """One frame holds both, so a crash leaves the old entries or the new ones, never neither."""
    journal = filled(path)
    follower_adds(journal, 2, [entry(3, 2)])
    assert len(contents(path)[0]) == 5
    journal.sync()
    assert contents(path)[0] == [entry(1), entry(2), entry(3, 2)]


def test_two_cuts_in_one_message_bring_back_all_of_it(path: Path) -> None:
    journal = filled(path)
    journal.deleteEntriesFrom(4)
    journal.deleteEntriesFrom(2)
    journal.settle()
    assert journal[:] == [entry(idx) for idx in range(1, 6)]


def test_clear_is_durable(path: Path) -> None:
    journal = filled(path)
    journal.setCurrentTerm(4, "c")
    journal.clear()
    journal.add(*entry(20, 4))
    journal.sync()
    journal._destroy()
    assert contents(path) == ([entry(20, 4)], 4, "c")


# ---- trimming


def test_trimming_keeps_the_rest_the_term_and_the_vote(path: Path) -> None:
    journal = filled(path)
    journal.setCurrentTerm(3, "b")
    size = path.stat().st_size
    journal.deleteEntriesTo(3)
    assert journal[:] == [entry(4), entry(5)]
    assert not journal.dirty
    assert path.stat().st_size < size
    fill(journal, 6, 6)
    journal.sync()
    journal._destroy()
    assert contents(path) == ([entry(4), entry(5), entry(6)], 3, "b")
    assert not path.with_suffix(".new").exists()


def test_trimming_nothing_writes_nothing(path: Path) -> None:
    syncs: list[int] = []
    journal = Journal(path, syncs.append)
    fill(journal, 1, 2)
    journal.deleteEntriesTo(0)
    assert syncs == []
    assert len(journal) == 2


def test_trimming_brings_back_a_provisional_cut_first(path: Path) -> None:
    journal = filled(path)
    journal.deleteEntriesFrom(3)
    journal.deleteEntriesTo(2)
    assert journal[:] == [entry(3), entry(4), entry(5)]


def test_entries_not_yet_synced_survive_a_trim(path: Path) -> None:
    journal = filled(path)
    fill(journal, 6, 6)
    journal.deleteEntriesTo(3)
    assert contents(path)[0] == [entry(4), entry(5), entry(6)]


def test_a_power_cut_inside_a_trim_leaves_the_old_journal(path: Path) -> None:
    def cut(_fd: int) -> None:
        raise PowerCut

    journal = filled(path)
    journal._sync_fd = cut
    with pytest.raises(PowerCut):
        journal.deleteEntriesTo(3)
    assert path.with_suffix(".new").exists()
    assert contents(path)[0] == [entry(idx) for idx in range(1, 6)]
    assert not path.with_suffix(".new").exists()


@pytest.mark.parametrize("left_over", [b"", b"TXJ1", bytes(1000)])
def test_a_half_written_new_file_is_removed(path: Path, left_over: bytes) -> None:
    three_frames(path)
    path.with_suffix(".new").write_bytes(left_over)
    assert len(contents(path)[0]) == 7
    assert not path.with_suffix(".new").exists()


def test_a_whole_new_file_that_was_not_renamed_is_not_believed(path: Path) -> None:
    """Its entries are all in the old one, and more may have followed there."""
    three_frames(path)
    other = Journal(path.with_name("other"))
    fill(other, 100, 101)
    other.sync()
    path.with_name("other").rename(path.with_suffix(".new"))
    assert len(contents(path)[0]) == 7


def test_the_new_file_is_synced_before_it_takes_the_name(path: Path) -> None:
    journal = filled(path)
    seen: list[bool] = []
    journal._sync_fd = lambda _fd: seen.append(path.with_suffix(".new").exists())
    journal.deleteEntriesTo(3)
    assert seen == [True]


def test_replace_makes_it_the_whole_journal(path: Path) -> None:
    journal = filled(path)
    journal.setCurrentTerm(3, "b")
    journal.replace([entry(50), entry(51)])
    assert journal[:] == [entry(50), entry(51)]
    assert contents(path) == ([entry(50), entry(51)], 3, "b")


def test_the_format_of_a_frame_stays(path: Path) -> None:
    """Journals outlive releases: a change here needs a way to read the old ones."""
    journal = Journal(path)
    journal.setCurrentTerm(2, "b")
    journal.add(b"cmd", 9, 2)
    journal.sync()
    payload = pb.JournalBatch(
        records=[
            pb.JournalRecord(vote=pb.JournalRecord.Vote(term=2, voted_for="b")),
            pb.JournalRecord(entry=pb.LogEntry(index=9, term=2, command=b"cmd")),
        ]
    ).SerializeToString()
    data = path.read_bytes()
    assert data[16:] == payload
    assert data.hex() == "54584a31160000004c3b289a2dd9a8380a071a0508021201620a0b0a09080910021a03636d64"


def test_damage_to_a_rewritten_file_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    """A file that took its name by a rename was complete: pins the empty frame that ends it."""
    path = tmp_path / "journal"
    journal = Journal(path)
    for index in range(1, 6):
        journal.add(b"command", index, 1)
    journal.sync()
    journal.deleteEntriesTo(2)
    journal._destroy()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(JournalCorrupt):
        Journal(path)


def test_an_applied_entry_is_never_dropped_for_another(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for index in range(1, 6):
        journal.add(b"command", index, 1)
    journal.applied_index = 4
    journal.deleteEntriesFrom(4)
    journal.add(b"another", 5, 2)
    journal.settle()
    assert [entry.term for entry in journal[:]] == [1, 1, 1, 1, 2]
    journal.deleteEntriesFrom(3)
    with pytest.raises(JournalDiverged, match="entry 4 of term 3"):
        journal.add(b"another", 4, 3)
