"""Which compaction a worker is given: by its size, which a shard's leader knows."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.harness.leader.compactions import IN_PARTITIONS, MAJOR, MINOR, Compacted
from txnparticipant.leader import moving
from txnparticipant.versions.compactions import Kind
from txnstatus.errors import InvalidArgument
from txnstatus.proto import compaction_pb2 as pb

LARGE = 1_000
"""Bytes: each row of these tables has 100."""


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Compacted]:
    """A small partition and a large one, of two files each."""
    with Compacted(tmp_path, IN_PARTITIONS) as table:
        for txn_id, (partition, count) in enumerate([("p=1", 2), ("p=2", 8)] * 2, 1):
            table.append(txn_id, count, partition=partition)
            table.commit(txn_id)
        yield table


def given(table: Compacted, worker: str, *, least: int = 0, below: int = 0) -> str:
    """The partition that the worker is to compact; empty: none."""
    request = pb.LeaseCompactionRequest(worker=worker, lease_id=worker, min_bytes=least, max_bytes=below)
    answer = table.run(table.service.compactions.lease_compaction(request))
    assert isinstance(answer, pb.LeaseCompactionResponse)
    return answer.task.partition if answer.HasField("task") else ""


def later(table: Compacted, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    async def clock() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    loop = table.run(clock())
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + seconds)


def told(table: Compacted) -> dict[str, tuple[int, str]]:
    """Partition → bytes, and why nobody works at it."""
    answer = table.run(table.service.compactions.list_compactions(pb.ListCompactionsRequest()))
    return {each.partition: (each.input_bytes, each.reason) for each in answer.compactions}


def test_each_size_has_its_worker(table: Compacted) -> None:
    table.change_leader()
    table.request()
    assert given(table, "a", below=LARGE) == "p=1"
    assert given(table, "b", below=LARGE) == ""
    assert given(table, "c", least=LARGE) == "p=2"


def test_what_checks_an_output_is_loaded_while_the_worker_works(
    table: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first compaction of a leader's process took half a second longer, after all was written."""
    loaded = threading.Event()
    monkeypatch.setattr(moving, "is_loaded", loaded.is_set)
    monkeypatch.setattr(moving, "load", loaded.set)
    table.change_leader()
    table.request()
    assert not loaded.is_set()
    assert given(table, "a") == "p=1"
    assert loaded.wait(10)


def test_a_large_one_is_anybodys_when_nobody_who_takes_it_is_there(
    table: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.change_leader()
    table.request()
    assert given(table, "spark", least=LARGE) == "p=2", "it is there, and works at something"
    table.append(10, 8, partition="p=3")
    table.append(11, 8, partition="p=3")
    for txn_id in (10, 11):
        table.commit(txn_id)
    table.request()
    assert given(table, "a", below=LARGE) == "p=1"
    assert given(table, "b", below=LARGE) == ""
    assert told(table)["p=3"] == (1_600, "")
    later(table, monkeypatch, 500)  # the clock goes on by itself, too
    assert given(table, "b", below=LARGE) == ""
    bytes_, why = told(table)["p=3"]
    assert re.search(r"no worker that takes one of 1,600 bytes was heard of for 5\d\d s", why)
    later(table, monkeypatch, 100)
    assert given(table, "b", below=LARGE) == "p=3"
    assert told(table)["p=3"] == (bytes_, "")


def test_a_small_one_is_anybodys_too_and_large_ones_come_first(
    table: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.change_leader()
    table.request()
    later(table, monkeypatch, 600)
    assert given(table, "b", least=LARGE) == "p=2"
    assert given(table, "c", least=LARGE) == "p=1"


def test_one_that_has_grown_while_it_waited_has_another_worker(table: Compacted) -> None:
    """It went by the size that it had when it was opened, to a worker for which it was too large by then."""
    table.change_leader()
    table.request()
    assert given(table, "c", least=LARGE) == "p=2"
    table.append(10, 8, partition="p=1")
    table.commit(10)
    assert told(table)["p=1"] == (400, "")
    assert given(table, "a", below=LARGE) == ""
    assert told(table)["p=1"] == (1_200, "")
    assert given(table, "a", below=LARGE) == ""
    assert given(table, "d", least=LARGE) == "p=1"
    assert told(table)["p=1"] == (1_200, "")


def test_bounds_between_which_there_is_nothing_are_refused(table: Compacted) -> None:
    with pytest.raises(InvalidArgument, match="1000 bytes or more and less than 1000"):
        given(table, "a", least=LARGE, below=LARGE)


@pytest.mark.parametrize(("kind", "expected"), [(MAJOR, 2_000), (MINOR, 2_000)])
def test_a_snapshot_has_the_sizes(table: Compacted, kind: pb.CompactionKind, expected: int) -> None:
    table.request(kind)
    before = told(table)
    table.restart()
    assert told(table) == before
    assert sum(size for size, _ in before.values()) == expected


def test_what_comes_by_itself_has_its_size(tmp_path: Path) -> None:
    with Compacted(tmp_path, IN_PARTITIONS) as table:
        for txn_id in range(1, 13):
            table.append(txn_id, 2, partition="p=1")
            table.commit(txn_id)
        table.run(table.service._initiator.run_once())
        (wanted,) = table.table.compactions.open.values()
        assert (wanted.kind, wanted.input_bytes) == (Kind.MINOR, 2_400)
