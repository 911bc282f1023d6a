"""Five tables of all kinds, and a naive model of what is in them: sets of rows, and changes one after the other.

The model knows what each program was about to do, as that program wrote it down before, and which of it has committed
when. What a restore or an undo makes of the tables it works out from its own states alone: nothing of how they are done
is in it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from txnclient import Client, Past
from txnclient.snapshot import Snapshot
from txnstatus.types import TERMINAL

SCHEMA = "id bigint NOT NULL, day int NOT NULL, note string"
TABLES: Mapping[str, Mapping[str, Any]] = {
    "five.plain": {},
    "five.log": {},
    "five.days": {"partition_by": ["day"]},
    "five.keyed": {"primary_key": ["id"]},
    "five.keyed_days": {"primary_key": ["id", "day"], "partition_by": ["day"]},
}
OVERWRITTEN = "five.days"
"""The table of which an overwrite replaces a day; it adds its rows to the others."""
Row = tuple[int, int, str]
Rows = Counter[Row]
State = Mapping[str, Rows]
EMPTY: State = {table: Counter() for table in TABLES}


def create(client: Client) -> None:
    for table, options in TABLES.items():
        client.create_table(table, SCHEMA, **options)


def arrow(rows: Iterable[Row]) -> pa.Table:
    ids, days, notes = zip(*rows, strict=True)
    schema = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("note", pa.string())])
    return pa.table([list(ids), list(days), list(notes)], schema=schema)


def seen(snapshot: Snapshot) -> State:
    """All that is in the five tables; the snapshot is closed then."""
    with snapshot:
        return {
            table: Counter(tuple(row.values()) for row in snapshot.to_arrow(table).to_pylist())  # type: ignore[misc]
            for table in TABLES
        }


@dataclass(frozen=True, slots=True)
class Delta:
    gone: State
    came: State

    @property
    def back(self) -> Delta:
        return Delta(self.came, self.gone)


def between(before: State, after: State) -> Delta:
    return Delta(
        {table: before[table] - after[table] for table in TABLES},
        {table: after[table] - before[table] for table in TABLES},
    )


def changed(state: State, delta: Delta) -> State:
    return {table: state[table] - delta.gone[table] + delta.came[table] for table in TABLES}


def unlike(found: State, wanted: State) -> str:
    """In what they differ; empty: in nothing."""
    stories = []
    for table in TABLES:
        more, less = found[table] - wanted[table], wanted[table] - found[table]
        if more or less:
            stories.append(f"{table} has {sorted(more)[:5]} and lacks {sorted(less)[:5]}")
    return "; ".join(stories)


# ---- what programs wrote down


@dataclass(slots=True)
class Notes:
    """What was about to be done, by label, and what programs saw, and were told."""

    begun: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    """Label → commit timestamp that was acknowledged."""
    refused: dict[str, str] = field(default_factory=dict)
    """Label → error."""
    read: list[tuple[int, State]] = field(default_factory=list)
    killed: int = 0
    """Programs that died over a restore or an undo."""


def notes_of(directory: Path) -> Notes:
    """All that was written down in files of this directory, each by one program."""
    found = Notes()
    for file in sorted(directory.glob("*.jsonl")):
        last = ""
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # it was killed as it wrote this, and has done nothing of it
            match json.loads(line):
                case {"begins": label} as noted:
                    found.begun[label] = noted
                    last = label if noted["does"] in ("restore", "undo") else ""
                case {"ends": label, "at": at}:
                    found.told[label], last = at, ""
                case {"ends": label, "refused": why}:
                    found.refused[label], last = why, ""
                case {"reads": at, "rows": tables}:
                    found.read.append((at, {name: Counter(map(tuple, rows)) for name, rows in tables.items()}))
        found.killed += bool(last)
    return found


# ---- the model


class Model:
    """The states of the tables, one for each commit."""

    def __init__(self) -> None:
        self._states: list[tuple[int, State]] = [(0, EMPTY)]
        self._done: dict[int, Delta] = {}
        """Transaction → what it did."""

    def at(self, timestamp: int) -> State:
        return self._states[bisect_right(self._states, timestamp, key=lambda each: each[0]) - 1][1]

    def commit(self, past: Past, noted: Mapping[str, Any], there: State) -> Iterator[str]:
        """What is wrong with a commit, where `there` is what readers at its timestamp see."""
        (_, latest), stories = self._states[-1], []
        for delta in self._possible(noted):
            stories = list(_faults(delta, latest, there))
            if not stories:
                break
        yield from (f"{past.txn_id} {past.label}: {story}" for story in stories)
        self._done[past.txn_id] = between(latest, there)
        self._states.append((past.commit_timestamp, there))

    def _possible(self, noted: Mapping[str, Any]) -> Iterator[Delta]:
        """What it may do: a restore works from a snapshot that it does not tell, which is the same for all tables."""
        match noted:
            case {"does": "restore", "to": to, "since": since}:
                for at in dict.fromkeys([since, *(at for at, _ in self._states if at > since)]):
                    yield between(self.at(at), self.at(to))
            case {"does": "undo", "of": txn_id}:
                yield self._done[txn_id].back
            case {"at": at, **what}:
                yield _written(what, self.at(at))


def _written(what: Mapping[str, Any], state: State) -> Delta:
    """What a writer does who sees the state."""
    gone = {table: Counter[Row]() for table in TABLES}
    came = {table: Counter[Row](map(tuple, what.get("rows", ()))) for table in TABLES}
    for table in TABLES:
        for row, count in state[table].items():
            id_, day, _ = row
            match what:
                case {"does": "delete", "ids": ids} if id_ in ids:
                    gone[table][row] += count
                case {"does": "update", "ids": ids, "note": note} if id_ in ids:
                    gone[table][row] += count
                    came[table][id_, day, note] += count
                case {"does": "overwrite", "day": replaced} if day == replaced and table == OVERWRITTEN:
                    gone[table][row] += count
    return Delta(gone, came)


def _faults(delta: Delta, latest: State, there: State) -> Iterator[str]:
    for table in TABLES:
        if lost := delta.gone[table] - latest[table]:
            yield f"changed rows {sorted(lost)[:5]} of {table}, which others had changed"
        if twice := delta.came[table] & latest[table]:
            yield f"brought rows {sorted(twice)[:5]} of {table}, which are there"
    if story := unlike(there, changed(latest, delta)):
        yield story


def judge(client: Client, notes: Notes, timeline: Sequence[Past]) -> list[str]:
    """What is wrong with a run. Raises TxnError where something cannot be read."""
    model, problems = Model(), list[str]()
    by_label = {each.label: each for each in timeline if each.label}
    commits = sorted((each for each in timeline if each.commit_timestamp), key=lambda each: each.commit_timestamp)
    for past in commits:
        if any(change.table in TABLES for change in past.tables):
            noted = notes.begun.get(past.label)
            if noted is None:
                problems.append(f"nobody was about to do {past.txn_id} {past.label!r}")
                continue
            problems += model.commit(past, noted, seen(client.snapshot(past.commit_timestamp)))
    for at, tables in notes.read:
        if story := unlike(tables, model.at(at)):
            problems.append(f"a reader at {at}: {story}")
    for label, at in notes.told.items():
        if by_label[label].commit_timestamp != at:
            problems.append(f"{label} was told to be committed at {at}: {by_label[label]}")
    for label, why in notes.refused.items():
        if why == "CONFLICT" and label in by_label and by_label[label].commit_timestamp:
            problems.append(f"{label} was told {why}: {by_label[label]}")
    return problems


def is_at_rest(client: Client) -> bool:
    return all(txn.state in TERMINAL for txn in client.transactions())


Told = Callable[[Mapping[str, Any]], None]
