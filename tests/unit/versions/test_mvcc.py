"""What a reader at a timestamp sees."""

from __future__ import annotations

from collections.abc import Mapping

from txnparticipant.versions.mvcc import FileSet, Manifest, PendingWrite, Prepared, file_set_id, undecided_at, visible
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId


def manifest(name: str) -> Manifest:
    return Manifest(name, 1, 1, 1, 1, 1)


def file_set(name: str, ts: int, *, replaced_by: int | None = None, replaced_ts: int = 0) -> FileSet:
    replacer = None if replaced_by is None else TxnId(replaced_by)
    return FileSet(name, TxnId(0), "", manifest(name), Timestamp(ts), replacer, Timestamp(replaced_ts))


def prepared(txn: int, ts: int, *writes: PendingWrite) -> Prepared:
    return Prepared(TxnId(txn), Timestamp(ts), writes)


def write(name: str, *replaces: str, of: int = 0) -> PendingWrite:
    """One that replaces writes of another transaction."""
    removed = tuple(file_set_id(TxnId(of), replaced, "") for replaced in replaces)
    return PendingWrite(name, manifest(name), ("",), ("",) if replaces else (), replaces=removed)


def seen(file_sets: list[FileSet], waiting: list[Prepared], outcomes: Mapping[int, int], ts: int) -> list[str]:
    by_txn = {TxnId(txn): Timestamp(commit) for txn, commit in outcomes.items()}
    return [m.path for m in visible(file_sets, waiting, by_txn, Timestamp(ts))]


def test_a_committed_write_is_seen_from_its_timestamp_on() -> None:
    sets = [file_set("a", 100)]
    assert [seen(sets, [], {}, ts) for ts in (0, 99, 100, 101)] == [[], [], ["a"], ["a"]]


def test_a_replaced_write_is_seen_until_the_replacement() -> None:
    sets = [file_set("a", 100, replaced_by=9, replaced_ts=200), file_set("b", 200)]
    assert [seen(sets, [], {}, ts) for ts in (100, 199, 200)] == [["a"], ["a"], ["b"]]


def test_a_replacement_that_is_only_prepared_hides_nothing() -> None:
    sets = [file_set("a", 100, replaced_by=9)]
    waiting = [prepared(9, 150, write("b", "a"))]
    assert seen(sets, waiting, {TxnId(9): NO_TIMESTAMP}, 500) == ["a"]
    assert seen(sets, waiting, {}, 500) == ["a"]


def test_a_decided_commit_is_seen_before_its_finalisation_arrives() -> None:
    """All of it or nothing: what it adds and what it removes, together, and with other tables."""
    sets = [file_set("a", 100, replaced_by=9), file_set("c", 100)]
    waiting = [prepared(9, 150, write("b", "a"), write("d"))]
    assert seen(sets, waiting, {9: 160}, 500) == ["c", "b", "d"]


def test_it_is_seen_alike_before_and_after_its_finalisation() -> None:
    before = seen([file_set("a", 100, replaced_by=9)], [prepared(9, 150, write("b", "a"))], {9: 160}, 160)
    after = seen([file_set("a", 100, replaced_by=9, replaced_ts=160), file_set("b", 160)], [], {}, 160)
    assert before == after == ["b"]


def test_undecided_are_those_that_prepared_at_or_below_the_timestamp() -> None:
    waiting = [prepared(1, 99), prepared(2, 100), prepared(3, 101)]
    assert undecided_at(waiting, Timestamp(100)) == [1, 2]


def test_an_overwrite_that_is_decided_hides_what_another_decided_one_adds() -> None:
    waiting = [prepared(1, 100, write("a")), prepared(2, 110, write("b", "a", of=1))]
    assert seen([], waiting, {1: 100, 2: 110}, 200) == ["b"]
    assert seen([], waiting, {1: 100}, 105) == ["a"]
