"""What is kept of files that never change."""

from __future__ import annotations

import threading

import pytest

from txnstatus.lake import parallel
from txnstatus.lake.kept import Kept
from txnstatus.proto import table_pb2 as pb


def ref(name: str, size: int = 10, crc32: int = 0) -> pb.ManifestRef:
    return pb.ManifestRef(path=name, bytes=size, crc32=crc32)


def kept(max_bytes: int) -> tuple[Kept[pb.ManifestRef, str], list[str]]:
    read: list[str] = []

    def content(ref: pb.ManifestRef) -> str:
        read.append(ref.path)
        return f"{ref.path} {ref.crc32}"

    return Kept[pb.ManifestRef, str](content, max_bytes), read


def test_what_was_read_is_notread_again() -> None:
    found, read = kept(100)
    assert found.read([ref("a"), ref("b"), ref("a")]) == ["a 0", "b 0", "a 0"]
    assert found.read([ref("b"), ref("c")]) == ["b 0", "c 0"]
    assert sorted(read) == ["a", "b", "c"]
    assert found.read([]) == []


def test_another_file_of_the_name_is_another_file() -> None:
    found, _ = kept(100)
    assert found.read([ref("a"), ref("a", crc32=1)]) == ["a 0", "a 1"]


def test_what_was_not_asked_for_of_late_goes_first_and_what_does_not_fit_is_answered() -> None:
    found, read = kept(25)
    found.read([ref("a")])
    found.read([ref("b")])
    found.read([ref("a")])
    found.read([ref("c")])
    assert found.read([ref("large", 26)]) == ["large 0"]
    read.clear()
    found.read([ref("large", 26)])
    assert read == ["large"]
    found.read([ref("a"), ref("c")])
    read.clear()
    found.read([ref("b")])
    found.read([ref("b"), ref("c"), ref("a")])
    assert read == ["b", "a"]


def test_a_failure_is_told_and_not_kept() -> None:
    failing = True

    def content(ref: pb.ManifestRef) -> str:
        if failing and ref.path == "b":
            raise OSError(ref.path)
        return ref.path

    found = Kept[pb.ManifestRef, str](content, 100)
    with pytest.raises(OSError, match="b"):
        found.read([ref("a"), ref("b"), ref("c")])
    failing = False
    assert found.read([ref("a"), ref("b"), ref("c")]) == ["a", "b", "c"]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_work_in_parallel_answers_in_order(count: int) -> None:
    assert parallel.each(lambda number: number * 2, range(count)) == [number * 2 for number in range(count)]


def test_as_many_are_at_work_as_there_are_readers() -> None:
    together = threading.Barrier(parallel.READERS, timeout=30)
    parallel.each(lambda _: together.wait(), range(parallel.READERS))
