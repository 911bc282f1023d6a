"""Faults in the timeline, put in on purpose, as in faults.py; in worlds where nodes write down what has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.sim.actors.annalist import Annalist
from tests.sim.planted.faults import CORE, Planted, Seams
from txndeploy.node.chronicler import Chronicler
from txnstatus.lake import timeline
from txnstatus.lake.timeline import Chapter
from txnstatus.status.manager import FOREVER
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import TxnId

WRITE_DOWN = "txndeploy.node.chronicler:Chronicler._write_down"
write_down = Chronicler._write_down


def records_go_before_they_are_written() -> Seams:
    return [("txndeploy.node.chronicler:Chronicler.kept_from", lambda *_: FOREVER)]


def who_has_not_looked_lets_all_go() -> Seams:
    kept_from = Chronicler.kept_from

    def at_once(self: Chronicler, table: TxnStatusTable) -> int:
        return kept_from(self, table) if self._known(table) is not None else FOREVER

    return [("txndeploy.node.chronicler:Chronicler.kept_from", at_once)]


def what_failed_counts_as_written() -> Seams:
    async def careless(self: Chronicler, table: TxnStatusTable, ids: Sequence[TxnId]) -> None:
        try:
            await write_down(self, table, ids)
        except OSError:
            return

    return [(WRITE_DOWN, careless)]


def a_new_leader_takes_all_for_written() -> Seams:
    return [
        ("txnstatus.lake.timeline:last_written", lambda *_: 1 << 62),
        ("txndeploy.node.chronicler:TAKEN_OVER", 0),
    ]


def aborted_ones_are_left_out() -> Seams:
    async def commits(self: Chronicler, table: TxnStatusTable, ids: Sequence[TxnId]) -> None:
        await write_down(self, table, [each for each in ids if not (found := table.find(each)) or found.commit_ts])

    return [(WRITE_DOWN, commits)]


def only_the_first_of_a_file_are_written() -> Seams:
    async def cut(self: Chronicler, table: TxnStatusTable, ids: Sequence[TxnId]) -> None:
        await write_down(self, table, ids[:4])

    return [(WRITE_DOWN, cut)]


def labels_are_those_of_others() -> Seams:
    add = Chapter.add

    def mixed(self: Chapter, *args: Any) -> None:
        add(self, *args)
        self.label.reverse()

    return [("txnstatus.lake.timeline:Chapter.add", mixed)]


def files_are_named_by_their_first() -> Seams:
    write = timeline.write

    def misnamed(warehouse: str, range_number: int, chapter: Chapter) -> str:
        ended, chapter.ended = chapter.ended, chapter.ended[:1] * len(chapter.ended)
        try:
            return write(warehouse, range_number, chapter)
        finally:
            chapter.ended = ended

    return [("txnstatus.lake.timeline:write", misnamed)]


def a_reader_asks_for_files_first() -> Seams:
    kept_records, chapters = Annalist._kept_records, Annalist._chapters

    async def files(self: Annalist) -> Any:
        self.found = await chapters(self)  # type: ignore[attr-defined]
        return await kept_records(self)

    async def found(self: Annalist) -> Any:
        return self.found  # type: ignore[attr-defined]

    return [
        ("tests.sim.actors.annalist:Annalist._kept_records", files),
        ("tests.sim.actors.annalist:Annalist._chapters", found),
    ]


TOLD = ("timeline", CORE)
PLANTED_ANNALS: Mapping[str, Planted] = {
    "records go before they are written": Planted(TOLD, "storage", 10, records_go_before_they_are_written),
    "who has not looked lets all go": Planted(TOLD, "deaths", 6, who_has_not_looked_lets_all_go, 12),
    "what failed counts as written": Planted(TOLD, "storage", 10, what_failed_counts_as_written),
    "a new leader takes all for written": Planted(TOLD, "deaths", 10, a_new_leader_takes_all_for_written),
    "aborted ones are left out": Planted(TOLD, "calm", 3, aborted_ones_are_left_out),
    "only the first of a file are written": Planted(TOLD, "calm", 10, only_the_first_of_a_file_are_written),
    "labels are those of others": Planted(TOLD, "calm", 3, labels_are_those_of_others),
    "files are named by their first": Planted(TOLD, "calm", 3, files_are_named_by_their_first),
    "a reader asks for files first": Planted(TOLD, "calm", 10, a_reader_asks_for_files_first),
}
