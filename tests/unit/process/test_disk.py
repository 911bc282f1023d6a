"""The disk of the machine and the one in memory behave alike; and the one in memory loses what it should."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from tests.sim.world.disk import SimDisk
from txnstatus.process.disk import Disk, OsDisk, is_full


@pytest.fixture(params=["os", "sim"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return OsDisk() if request.param == "os" else SimDisk(random.Random(0))


@pytest.fixture
def sim() -> SimDisk:
    return SimDisk(random.Random(0))


def put(disk: Disk, path: Path, data: bytes) -> None:
    file = disk.create(path)
    file.write(data)
    file.sync()
    file.close()
    disk.sync_directory(path.parent)


# ---- both


def test_files_hold_what_was_written(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    disk.make_directory(path.parent)
    disk.make_directory(path.parent)
    assert disk.size(path) is None
    put(disk, path, b"0123")
    file = disk.open(path)
    file.write(b"456789")
    file.sync()
    assert (disk.read(path), disk.size(path)) == (b"0123456789", 10)
    assert disk.read(path, 3, 4) == b"3456"
    assert disk.read(path, 8, 100) == b"89"
    assert disk.read(path, 20, 5) == b""
    file.truncate(2)
    file.write(b"x")
    assert disk.read(path) == b"01x"
    put(disk, path, b"anew")
    assert disk.read(path) == b"anew"


def test_names_come_and_go(disk: Disk, tmp_path: Path) -> None:
    directory = tmp_path / "d"
    disk.make_directory(directory)
    for name in ("b", "a", "c"):
        put(disk, directory / name, name.encode())
    assert disk.names(directory) == ["a", "b", "c"]
    disk.rename(directory / "a", directory / "b")
    disk.unlink(directory / "c")
    disk.unlink(directory / "never was")
    assert disk.names(directory) == ["b"]
    assert disk.read(directory / "b") == b"a"


def test_what_is_missing_is_file_not_found(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path)
    for action in (disk.open, disk.read):
        with pytest.raises(FileNotFoundError):
            action(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        disk.create(tmp_path / "no directory" / "file")


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    OsDisk().create(tmp_path / "file").close()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_short_write_goes_on_until_all_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    whole = os.write
    monkeypatch.setattr("txnstatus.process.disk.os.write", lambda fd, data: whole(fd, data[:3]))
    put(OsDisk(), tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


# ---- in memory: power cuts


def test_synced_bytes_and_names_survive(sim: SimDisk, tmp_path: Path) -> None:
    sim.make_directory(tmp_path)
    put(sim, tmp_path / "file", b"kept")
    for _ in range(5):
        sim.lose_power()
        assert sim.read(tmp_path / "file") == b"kept"


def test_a_name_that_was_not_synced_may_go_and_the_old_one_come_back(tmp_path: Path) -> None:
    seen = set()
    for seed in range(40):
        sim = SimDisk(random.Random(seed))
        sim.make_directory(tmp_path)
        put(sim, tmp_path / "old", b"old")
        put(sim, tmp_path / "new", b"new")
        sim.rename(tmp_path / "new", tmp_path / "old")
        sim.unlink(tmp_path / "old")
        sim.lose_power()
        seen.add(tuple(sim.names(tmp_path)))
    assert seen == {("new", "old"), ("old",), ()}


def test_bytes_that_were_not_synced_may_be_lost_in_part_torn_or_zeros(tmp_path: Path) -> None:
    lengths, torn = set(), 0
    for seed in range(200):
        sim = SimDisk(random.Random(seed))
        sim.make_directory(tmp_path)
        put(sim, tmp_path / "file", b"kept")
        file = sim.open(tmp_path / "file")
        file.write(b"x" * 2000)
        sim.lose_power()
        data = sim.read(tmp_path / "file")
        assert data.startswith(b"kept")
        lengths.add(len(data))
        torn += b"\0" in data
    assert len(lengths) > 50
    assert torn > 20


def test_a_truncation_that_was_not_synced_may_not_have_happened(tmp_path: Path) -> None:
    seen = set()
    for seed in range(20):
        sim = SimDisk(random.Random(seed))
        sim.make_directory(tmp_path)
        put(sim, tmp_path / "file", b"0123456789")
        sim.open(tmp_path / "file").truncate(4)
        sim.lose_power()
        seen.add(sim.read(tmp_path / "file"))
    assert seen == {b"0123456789", b"0123"}


def test_a_file_that_was_open_in_a_power_cut_is_useless(sim: SimDisk, tmp_path: Path) -> None:
    sim.make_directory(tmp_path)
    file = sim.create(tmp_path / "file")
    sim.lose_power()
    with pytest.raises(OSError, match="in a power cut"):
        file.write(b"x")


# ---- in memory: other faults


def test_a_full_disk_takes_what_has_room_and_says_so(sim: SimDisk, tmp_path: Path) -> None:
    sim.make_directory(tmp_path)
    sim.capacity = 10
    file = sim.create(tmp_path / "file")
    file.write(b"012345")
    with pytest.raises(OSError) as full:  # noqa: PT011
        file.write(b"67890123")
    assert is_full(full.value)
    assert sim.read(tmp_path / "file") == b"0123456789"
    with pytest.raises(OSError, match="No space"):
        sim.create(tmp_path / "another")
    file.truncate(6)
    file.write(b"abcd")


def test_any_operation_can_fail(sim: SimDisk, tmp_path: Path) -> None:
    heard = []

    def before(operation: str, path: Path) -> None:
        heard.append((operation, path.name))
        if operation == "sync":
            raise OSError(errno.EIO, "the disk is broken")

    sim.make_directory(tmp_path)
    sim.before = before
    with pytest.raises(OSError, match="broken") as error:
        put(sim, tmp_path / "file", b"x")
    assert not is_full(error.value)
    assert heard == [("create", "file"), ("write", "file"), ("sync", "file")]


def test_rot_stays(sim: SimDisk, tmp_path: Path) -> None:
    sim.make_directory(tmp_path)
    put(sim, tmp_path / "file", bytes(100))
    position = sim.flip_bit(tmp_path / "file")
    sim.lose_power()
    assert sim.read(tmp_path / "file").count(0) == 99
    assert sim.read(tmp_path / "file")[position] != 0


def test_wipe_empties_a_directory(sim: SimDisk, tmp_path: Path) -> None:
    for directory in ("a", "b"):
        sim.make_directory(tmp_path / directory)
        put(sim, tmp_path / directory / "file", b"x")
        sim.create(tmp_path / directory / "unsynced")
    sim.wipe(tmp_path / "a")
    assert sim.names(tmp_path / "a") == []
    assert sim.names(tmp_path / "b") == ["file", "unsynced"]


def test_a_directory_that_is_being_wiped_is_whole_or_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a journal was left under its name, by who was killed in the middle of it."""
    disk, directory = OsDisk(), tmp_path / "group-1"
    disk.make_directory(directory)
    for name in ("1.log", "2.log"):
        put(disk, directory / name, b"entries")

    class Killed(BaseException):
        pass

    def killed(path: Path) -> None:
        (path / "1.log").unlink()
        raise Killed

    monkeypatch.setattr("txnstatus.process.disk.shutil.rmtree", killed)
    with pytest.raises(Killed):
        disk.wipe(directory)
    monkeypatch.undo()
    assert not directory.exists()
    disk.wipe(directory)
    assert not list(tmp_path.iterdir())
