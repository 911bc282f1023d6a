"""What the timeline promises: all that has ended is told, once and as it was, also when its record is forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sim.judges.ledger import NEVER, Ledger
from tests.sim.world.warehouse import Warehouse
from txnstatus.lake import timeline
from txnstatus.lake.timeline import Past
from txnstatus.raft.machine import StateMachine
from txnstatus.status.machine import StatusMachine
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied
from txnstatus.types import TERMINAL, TxnId, micros_at
from txnstatus.undoes import undone_by

SEAMS: list[tuple[str, Any]] = [
    ("txndeploy.node.chronicler:PASS_SECONDS", 0.3),
    ("txndeploy.node.chronicler:FILE_SECONDS", 0.5),
    ("txndeploy.node.chronicler:FILE_RECORDS", 5),
]
"""Files of few transactions, so that a small world has many."""


@dataclass(slots=True)
class _Range:
    ended: list[TxnRecord] = field(default_factory=list)
    """Records, in the order in which they ended."""
    kept: int = 0
    """How many of the first ones are forgotten."""
    written: int = 0
    """How many of the first ones are in files."""


class Annals:
    """Hears what ends and is forgotten as replicas apply it, and compares what is written down and shown with that."""

    def __init__(
        self,
        tables: Collection[str],
        span: int,
        ledger: Ledger,
        now: Callable[[], float],
        warehouse: Warehouse,
    ) -> None:
        """`tables`: those whose writes the ledger knows."""
        self._tables, self._span, self._ledger, self._now, self._warehouse = tables, span, ledger, now, warehouse
        warehouse.on_chapter = self.written
        self._ranges: defaultdict[int, _Range] = defaultdict(_Range)
        self._numbers: dict[int, int] = {}
        """Transaction → its number among those of its range that have ended."""
        self._ended_at: dict[int, float] = {}

    @property
    def unwritten(self) -> list[TxnId]:
        return [each.txn_id for place in self._ranges.values() for each in place.ended[place.written :]]

    def applied(self, machine: StateMachine, outcome: object) -> None:
        """By the first replica that came there."""
        if not isinstance(machine, StatusMachine):
            return
        place = self._ranges[machine.table.first_txn_id // self._span]
        for record in outcome.records if isinstance(outcome, StatusApplied) else ():
            if record.state in TERMINAL and record.txn_id not in self._numbers:
                self._numbers[record.txn_id], self._ended_at[record.txn_id] = len(place.ended), self._now()
                place.ended.append(record)
        finished = machine.table.finished
        while place.kept < len(place.ended) and place.ended[place.kept].txn_id not in finished:
            if place.kept >= place.written:
                self._violated(f"{place.ended[place.kept]} is forgotten, and not written down")
            place.kept += 1

    def written(self, uri: str) -> None:
        """A file is there: of those that ended one after the other, with none left out before them."""
        with self._warehouse.well():
            told = timeline.read([uri])
        first, last, number, _ = uri.rpartition("/")[2].split("-")
        place = self._ranges[int(number)]
        numbers = sorted(self._numbers.get(each.txn_id, -1) for each in told)
        if numbers[0] < 0 or numbers != list(range(numbers[0], numbers[0] + len(told))) or numbers[0] > place.written:
            self._violated(f"{uri} has {numbers}, and {place.written} of {len(place.ended)} were written down")
        place.written = max(place.written, numbers[-1] + 1)
        for past in told:
            self._compare(past, uri)
            self._count(past)
            if not int(first) <= micros_at(past.ended) <= int(last):
                self._violated(f"{uri} has {past}")

    def shown(self, told: Mapping[int, Past], asked_at: float) -> None:
        """All that a program was told, which asked then."""
        for txn_id, ended_at in self._ended_at.items():
            if ended_at < asked_at and txn_id not in told:
                self._violated(f"{txn_id} ended at {ended_at:.3f}, and who asks at {asked_at:.3f} is not told")
        for past in told.values():
            self._compare(past, "a reader")

    def _compare(self, past: Past, where: str) -> None:
        number = self._numbers.get(past.txn_id)
        record = None if number is None else self._ranges[past.txn_id // self._span].ended[number]
        if record is None or _facts(past) != _truth(record):
            self._violated(f"{where} tells of {past}: it is {record}")

    def _count(self, past: Past) -> None:
        """The files of tables are as many as were added for sure, and not more than programs have tried to."""
        for change in past.tables:
            if change.added_files is None or change.table not in self._tables:
                continue
            tried = [each for each in self._ledger.txn(past.txn_id).writes if each.table == change.table]
            replaced = any(each.overwrite for each in tried)
            least = 0 if replaced or past.state == "ABORTED" else sum(each.acked_at < NEVER for each in tried)
            if not least <= change.added_files <= len(tried):
                self._violated(f"{past.txn_id} has added {least} to {len(tried)} files: {change}")

    def _violated(self, story: str) -> None:
        self._ledger.violation("timeline", story)


def _facts(past: Past) -> tuple[object, ...]:
    return (
        past.state,
        past.owner,
        past.label,
        micros_at(past.began),
        micros_at(past.ended),
        past.commit_timestamp,
        [each.table for each in past.tables],
        (past.abort_code, past.aborted_by, past.abort_reason, past.winner, past.conflicts),
        past.undoes,
    )


def _truth(record: TxnRecord) -> tuple[object, ...]:
    cause = record.cause
    return (
        record.state.name,
        record.owner,
        record.label,
        record.begin_micros,
        record.last_transition_micros,
        record.commit_ts,
        sorted(each.name for each in record.participants.values()),
        (cause.code.name, cause.by, cause.message, cause.winner, cause.objects) if cause else ("", "", "", None, ()),
        undone_by(record.request.request_id),
    )
