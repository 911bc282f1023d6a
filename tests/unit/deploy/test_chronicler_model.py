"""The timeline against a naive model: whatever leaders and the storage do, what has ended is in it once all is well."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.harness.restoring import restore
from txndeploy.node import chronicler
from txndeploy.node.chronicler import Chronicler
from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import Unavailable
from txnstatus.lake import timeline
from txnstatus.status import commands as cmd
from txnstatus.status.manager import FOREVER
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import AbortCause, AbortCode, Participant, ParticipantId, Timestamp, TxnId

SEEDS = 60
STEPS = 25
SPAN = 1_000
RANGES = 2


class Lost(Exception):
    """The timeline is not what the model says."""


class Now(Executor):
    """Does at once what it is given: what one step leaves is there for the next."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done = Future[Any]()
        try:
            done.set_result(work(*args, **kwargs))
        except OSError as error:
            done.set_exception(error)
        return done


class World:
    """Two ranges, and whoever leads them; the storage is there, or takes and tells nothing."""

    def __init__(self, directory: Path, dice: random.Random) -> None:
        self._dice, self._warehouse, self._micros = dice, directory.as_uri(), 1_000_000
        self._tables = [TxnStatusTable(number * SPAN, (number + 1) * SPAN) for number in range(RANGES)]
        self._well = True
        self._ended: dict[int, tuple[str, str, int]] = {}
        """Transaction → its state, label and commit timestamp."""
        self._leader = self._new_leader()

    async def step(self) -> None:
        steps = (self._end, self._end, self._look, self._look, self._forget, self._forget, self._break)
        await self._dice.choice((*steps, self._elect, self._restart, self._return))()

    async def judge(self) -> None:
        """Once the storage is there, and a leader has had its time."""
        self._well = True
        await self._look()
        found = {each.txn_id: each for each in timeline.read(timeline.files(self._warehouse, 0, 1 << 62))}
        for txn_id, ended in self._ended.items():
            past = found.pop(txn_id, None)
            if past is None or (past.state, past.label, past.commit_timestamp) != ended:
                raise Lost(f"{txn_id} is {ended}, and told as {past}")
        if found:
            raise Lost(f"{found} never ended")

    # ---- steps

    async def _end(self) -> None:
        for _ in range(self._dice.randint(1, 4)):
            self._micros += 1_000
            table, participant = self._dice.choice(self._tables), Participant(ParticipantId("0.0"), "air.flights")
            txn_id, label = table.next_txn_id, f"label {self._micros}"
            apply = table.apply
            apply(cmd.BeginTxns(f"request {txn_id}", 1, "ada", label, 1_000, self._micros))
            apply(cmd.RegisterParticipants(txn_id, "ada", (participant,)))
            if self._dice.random() < 0.7:
                at = Timestamp(self._micros << 12)
                apply(cmd.BeginCommit(txn_id, "ada", self._micros))
                apply(cmd.FinalizeCommit(txn_id, at, self._micros, 1))
                apply(cmd.CompleteCommit(txn_id, self._micros))
                self._ended[txn_id] = "COMMITTED", label, at
            else:
                apply(cmd.BeginAbort(txn_id, "ada", AbortCause(AbortCode.REQUESTED, "", "ada"), self._micros))
                apply(cmd.FinalizeAbort(txn_id, self._micros))
                self._ended[txn_id] = "ABORTED", label, 0

    async def _look(self) -> None:
        await self._leader.run_once()

    async def _forget(self) -> None:
        """As a manager does, whose retention is over for some, or for all."""
        over = self._dice.choice([FOREVER, self._micros - self._dice.randint(0, 10_000)])
        for table in self._tables:
            table.apply(cmd.Forget(min(over, self._leader.kept_from(table))))

    async def _break(self) -> None:
        self._well = not self._well

    async def _elect(self) -> None:
        self._leader = self._new_leader()

    async def _restart(self) -> None:
        """The replicas are what a snapshot tells."""
        self._restore()
        self._leader = self._new_leader()

    async def _return(self) -> None:
        """The leader is back: between two looks it was another one's follower, and has a snapshot of that one."""
        for _ in range(self._dice.randint(0, 3)):
            await self._end()
        self._restore()

    def _restore(self) -> None:
        for number, table in enumerate(self._tables):
            self._tables[number] = TxnStatusTable(table.first_txn_id, table.end_txn_id)
            restore(self._tables[number], list(table.snapshot()))

    # ---- the leader's surroundings

    def _new_leader(self) -> Chronicler:
        state = SimpleNamespace(options=SimpleNamespace(retention_ms=0), range_span=SPAN)
        cluster = SimpleNamespace(state=state, shard_of=shard_of_table_id)
        client = SimpleNamespace(cluster=cluster, call_leader=self._nobody_counts)
        return Chronicler(
            lambda: self._tables, cast(TxnSystemClient, client), self._warehouse, cast(ThreadPoolExecutor, Now())
        )

    async def _nobody_counts(self, *_: Any) -> Any:
        raise Unavailable("nobody leads")

    def storage(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not self._well:
                raise OSError("the store does not answer")
            return work(*args)

        return call


def play(seed: int, directory: Path, plant: Callable[[pytest.MonkeyPatch], None] | None = None) -> None:
    """Raises Lost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chronicler, "TAKEN_OVER", 2)
        patch.setattr(chronicler, "FILE_RECORDS", 3)
        world = World(directory, random.Random(seed))
        if plant is not None:
            plant(patch)
        for name in ("write", "files"):
            patch.setattr(timeline, name, world.storage(getattr(timeline, name)))

        async def run() -> None:
            for _ in range(STEPS):
                await world.step()
            await world.judge()

        asyncio.run(run())


def test_what_has_ended_is_in_the_timeline_whatever_leaders_and_the_storage_do(tmp_path: Path) -> None:
    for seed in range(SEEDS):
        play(seed, tmp_path / str(seed))


# ---- what an implementation might get wrong


def all_may_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chronicler, "kept_from", lambda *_: FOREVER)


def who_has_not_looked_lets_all_go(patch: pytest.MonkeyPatch) -> None:
    kept_from = Chronicler.kept_from

    def at_once(self: Chronicler, table: TxnStatusTable) -> int:
        return kept_from(self, table) if table.first_txn_id in self._places else FOREVER

    patch.setattr(Chronicler, "kept_from", at_once)


def the_oldest_unwritten_may_go(patch: pytest.MonkeyPatch) -> None:
    kept_from = Chronicler.kept_from
    patch.setattr(Chronicler, "kept_from", lambda self, table: kept_from(self, table) + 1)


def what_failed_counts_as_written(patch: pytest.MonkeyPatch) -> None:
    look = Chronicler._write_down

    async def careless(self: Chronicler, table: TxnStatusTable, ids: Any) -> None:
        try:
            await look(self, table, ids)
        except OSError:
            return

    patch.setattr(Chronicler, "_write_down", careless)


def a_new_leader_takes_all_for_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(timeline, "last_written", lambda *_: 1 << 62)
    patch.setattr(chronicler, "TAKEN_OVER", 0)


def a_new_leader_goes_by_files_of_all_ranges(patch: pytest.MonkeyPatch) -> None:
    written = timeline.last_written
    patch.setattr(
        timeline, "last_written", lambda where, _, since: max(written(where, n, since) for n in range(RANGES))
    )


def a_storage_that_does_not_tell_has_all(patch: pytest.MonkeyPatch) -> None:
    written = timeline.last_written

    def trusting(*args: Any) -> int:
        try:
            return written(*args)
        except OSError:
            return 1 << 62

    patch.setattr(timeline, "last_written", trusting)


def only_the_first_part_is_written(patch: pytest.MonkeyPatch) -> None:
    write = Chronicler._write_down

    async def cut(self: Chronicler, table: TxnStatusTable, ids: Any) -> None:
        await write(self, table, ids[:2])

    patch.setattr(Chronicler, "_write_down", cut)


def aborts_are_left_out(patch: pytest.MonkeyPatch) -> None:
    write = Chronicler._write_down

    async def commits(self: Chronicler, table: TxnStatusTable, ids: list[TxnId]) -> None:
        await write(self, table, [each for each in ids if table.get(each).commit_ts])

    patch.setattr(Chronicler, "_write_down", commits)


def a_count_goes_on_over_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Where it is no higher than what there is by then."""

    def known(self: Chronicler, table: TxnStatusTable) -> Any:
        place = self._places.get(table.first_txn_id)
        if place is None or place.ended > table.finished.count:
            return None
        place.of = table.finished
        return place

    patch.setattr(Chronicler, "_known", known)


def labels_are_those_of_others(patch: pytest.MonkeyPatch) -> None:
    add = timeline.Chapter.add

    def mixed(self: timeline.Chapter, *args: Any) -> None:
        add(self, *args)
        self.label.reverse()

    patch.setattr(timeline.Chapter, "add", mixed)


PLANTED = (
    all_may_go,
    who_has_not_looked_lets_all_go,
    the_oldest_unwritten_may_go,
    what_failed_counts_as_written,
    a_new_leader_takes_all_for_written,
    a_new_leader_goes_by_files_of_all_ranges,
    a_storage_that_does_not_tell_has_all,
    only_the_first_part_is_written,
    aborts_are_left_out,
    a_count_goes_on_over_a_snapshot,
    labels_are_those_of_others,
)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
def test_the_model_finds_what_an_implementation_might_get_wrong(
    tmp_path: Path, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    for seed in range(SEEDS):
        try:
            play(seed, tmp_path / str(seed), plant)
        except Lost:
            return
        finally:
            shutil.rmtree(tmp_path / str(seed), ignore_errors=True)
    pytest.fail("nothing was found")
