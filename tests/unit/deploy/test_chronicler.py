"""What a leader writes down of what has ended: each transaction, whatever fails in between, and not at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from txndeploy.node import chronicler
from txndeploy.node.chronicler import Chronicler
from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import Unavailable
from txnstatus.lake import timeline
from txnstatus.proto import timeline_pb2 as pb
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.manager import FOREVER
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock, Participant, ParticipantId, Timestamp, TxnId


class World:
    """One range, its leader's chronicler, and a shard that may not answer."""

    def __init__(self, directory: Path, retention_ms: int) -> None:
        self.table = TxnStatusTable(0, 1_000_000)
        self.led = [self.table]
        self.warehouse = directory.as_uri()
        self.answers = True
        options = SimpleNamespace(retention_ms=retention_ms)
        state = SimpleNamespace(options=options, range_span=1_000_000)
        cluster = SimpleNamespace(state=state, shard_of=shard_of_table_id)
        client = SimpleNamespace(cluster=cluster, call_leader=self._count)
        self.chronicler = self.new(client)
        self._client = client
        self._micros = 1_000_000

    def new(self, client: Any = None) -> Chronicler:
        used = cast(TxnSystemClient, client or self._client)
        return Chronicler(lambda: self.led, used, self.warehouse, ThreadPoolExecutor(1))

    async def _count(self, _group: str, _method: str, request: pb.CountCommitsRequest, *_: Any) -> Any:
        if not self.answers:
            raise Unavailable("nobody leads")
        found = pb.CountCommitsResponse()
        for txn_id in self.table.finished.latest(1_000):
            found.counts.add(table_id=request.table_ids[0], txn_id=txn_id, added_rows=txn_id + 10)
        return found

    def end(self, count: int = 1) -> list[TxnId]:
        """Transactions that commit, so many."""
        ids = []
        for _ in range(count):
            self._micros += 1_000
            first, table = self.table.next_txn_id, ParticipantId("0.0")
            self._apply(cmd.BeginTxns(f"request {first}", 1, "ada", "nightly", 1_000, self._micros))
            self._apply(cmd.RegisterParticipants(first, "ada", (Participant(table, "air.flights"),)))
            self._apply(cmd.BeginCommit(first, "ada", self._micros))
            self._apply(cmd.FinalizeCommit(first, Timestamp(self._micros << 12), self._micros, 1))
            self._apply(cmd.CompleteCommit(first, self._micros))
            ids.append(first)
        return ids

    def _apply(self, command: cmd.Command) -> None:
        self.table.apply(command)

    def written(self) -> Sequence[Sequence[int]]:
        """The ids in each file."""
        return [[each.txn_id for each in timeline.read([uri])] for uri in timeline.files(self.warehouse, 0, 1 << 62)]


def ended(table: TxnStatusTable, number: int) -> int:
    """Microseconds."""
    return table.finished.at(number).last_transition_micros


Play = Callable[[World], Coroutine[Any, Any, None]]


def played(directory: Path, play: Play, retention_ms: int = 0) -> World:
    world = World(directory, retention_ms)
    asyncio.run(play(world))
    return world


def test_each_is_written_once_and_what_the_shards_say_with_it(tmp_path: Path) -> None:
    async def play(world: World) -> None:
        for count in (2, 0, 3):
            world.end(count)
            await world.chronicler.run_once()

    world = played(tmp_path, play)
    assert world.written() == [[0, 1], [2, 3, 4]]
    (first, *_) = timeline.read(timeline.files(world.warehouse, 0, 1 << 62))
    assert (first.tables[0].table, first.tables[0].added_rows) == ("air.flights", 10)


def test_a_shard_that_does_not_answer_holds_up_nothing(tmp_path: Path) -> None:
    async def play(world: World) -> None:
        world.answers = False
        world.end()
        await world.chronicler.run_once()

    (past,) = timeline.read(timeline.files(played(tmp_path, play).warehouse, 0, 1 << 62))
    assert past.tables == (timeline.TableChange("air.flights"),)


def test_what_is_little_waits_and_what_is_much_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chronicler, "FILE_RECORDS", 5)

    async def play(world: World) -> None:
        world.end(4)
        await world.chronicler.run_once()
        assert world.written() == []
        world.end(1)
        await world.chronicler.run_once()

    assert played(tmp_path, play, retention_ms=3_600_000).written() == [[0, 1, 2, 3, 4]]


def test_a_storage_that_fails_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = timeline.write

    def fails(*_: Any) -> str:
        raise OSError("the store does not answer")

    async def play(world: World) -> None:
        world.end(2)
        monkeypatch.setattr(timeline, "write", fails)
        await world.chronicler.run_once()
        world.end(1)
        monkeypatch.setattr(timeline, "write", write)
        await world.chronicler.run_once()

    assert played(tmp_path, play).written() == [[0, 1, 2]]


def test_a_storage_that_does_not_tell_is_to_be_asked_again_by_who_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told as a fault of the service."""

    def fails(*_: Any) -> Sequence[str]:
        raise OSError("the store does not answer")

    async def play(world: World) -> None:
        monkeypatch.setattr(timeline, "files", fails)
        with pytest.raises(Unavailable, match="cannot be listed: the store does not answer"):
            await world.chronicler.list_timeline(pb.ListTimelineRequest())

    played(tmp_path, play)


def test_a_new_leader_writes_what_a_former_one_may_not_have_written(tmp_path: Path) -> None:
    async def play(world: World) -> None:
        world.end(2)
        await world.chronicler.run_once()
        world.led = []
        world.end(2)
        await world.chronicler.run_once()
        world.led = [world.table]
        await world.chronicler.run_once()

    assert played(tmp_path, play).written() == [[0, 1], [0, 1, 2, 3]]


def test_a_state_that_is_restored_loses_nothing(tmp_path: Path) -> None:
    """Its count begins anew."""

    async def play(world: World) -> None:
        world.end(3)
        (last,) = world.table.finished.latest(1)
        world.table.apply(cmd.Forget(world.table.get(last).last_transition_micros))
        await world.chronicler.run_once()
        restored = StatusMachine(TxnStatusTable(0, 1_000_000), HybridClock(lambda: 0), lambda _id: None)
        restoring = restored.restoring()
        for chunk in world.table.snapshot():
            restoring.add(chunk)
        restoring.finish()
        world.table = restored.table
        world.led = [restored.table]
        world.end(1)
        await world.chronicler.run_once()

    assert played(tmp_path, play).written() == [[2], [2, 3]]


def test_nothing_is_forgotten_before_it_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before the first look, nor while the storage takes nothing; and then all."""
    write = timeline.write

    def fails(*_: Any) -> str:
        raise OSError("the store does not answer")

    async def play(world: World) -> None:
        table, kept_from = world.table, world.chronicler.kept_from
        assert kept_from(table) == FOREVER
        world.end(2)
        assert kept_from(table) == ended(table, 0)
        await world.chronicler.run_once()
        assert kept_from(table) == FOREVER
        world.end(2)
        assert kept_from(table) == ended(table, 2)
        monkeypatch.setattr(timeline, "write", fails)
        await world.chronicler.run_once()
        assert kept_from(table) == ended(table, 2)
        monkeypatch.setattr(timeline, "write", write)
        await world.chronicler.run_once()
        assert kept_from(table) == FOREVER

    assert played(tmp_path, play).written() == [[0, 1], [2, 3]]


def test_so_many_are_held_back_and_of_more_the_log_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chronicler, "HELD_BACK", 3)
    write = timeline.write

    def fails(*_: Any) -> str:
        raise OSError("the store does not answer")

    async def play(world: World) -> None:
        monkeypatch.setattr(timeline, "write", fails)
        world.end(5)
        await world.chronicler.run_once()
        assert world.chronicler.kept_from(world.table) == ended(world.table, 2)
        world.table.apply(cmd.Forget(ended(world.table, 2)))
        monkeypatch.setattr(timeline, "write", write)
        await world.chronicler.run_once()

    assert played(tmp_path, play).written() == [[2, 3, 4]]
    assert "2 transactions were forgotten before they could be written down" in caplog.text


def test_a_new_leader_sees_how_far_a_former_one_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the times of its files: more may have ended while the storage took none than are written once more."""
    monkeypatch.setattr(chronicler, "TAKEN_OVER", 1)
    files = timeline.files

    def fails(*_: Any) -> list[str]:
        raise OSError("the store does not answer")

    async def play(world: World) -> None:
        world.end(2)
        await world.chronicler.run_once()
        world.end(3)
        follower = world.new()
        assert follower.kept_from(world.table) == ended(world.table, 0), "it has not looked"
        monkeypatch.setattr(timeline, "files", fails)
        await follower.run_once()
        assert follower.kept_from(world.table) == ended(world.table, 0), "it could not look"
        monkeypatch.setattr(timeline, "files", files)
        await follower.run_once()
        await world.new().run_once()

    assert played(tmp_path, play).written() == [[0, 1], [2, 3, 4], [4]]


def test_those_that_ended_come_in_the_order_in_which_they_did(tmp_path: Path) -> None:
    world = World(tmp_path, 0)
    ids = world.end(3)
    assert world.table.finished.latest(2) == ids[:0:-1]
    assert world.table.finished.count == 3


def test_others_have_their_turns_while_much_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of them no more transactions are looked at than one slice has, in either pass."""
    monkeypatch.setattr(chronicler, "SLICE", 10)
    found, most = 0, 0

    async def play(world: World) -> None:
        nonlocal found, most
        world.end(100)
        find, add = world.table.find, timeline.Chapter.add

        def counted(of: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any) -> Any:
                nonlocal found
                found += 1
                return of(*args)

            return call

        monkeypatch.setattr(world.table, "find", counted(find))
        monkeypatch.setattr(timeline.Chapter, "add", counted(add))
        writing = asyncio.ensure_future(world.chronicler.run_once())
        while not writing.done():
            found = 0
            await asyncio.sleep(0)
            most = max(most, found)

    assert len(played(tmp_path, play).written()[0]) == 100
    assert most == 10
