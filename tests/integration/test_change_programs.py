"""Random programs of two writers on one table without a key, against a set of rows: a note never comes twice."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from txnclient import Client, Conflict, Transaction
from txnclient.compact.worker import Worker

Row = tuple[int, str]
KEYS = range(5)
STEPS = 14


def as_table(rows: Iterable[Row]) -> pa.Table:
    ids, notes = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "note": list(notes)})


def as_rows(found: pa.Table) -> list[Row]:
    return sorted(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))


@dataclass
class Writer:
    """A transaction, and what it must see."""

    txn: Transaction
    base: frozenset[Row]
    rows: set[Row]
    changed: set[Row] = field(default_factory=set)
    """Rows of others that it has taken out."""
    added: set[int] = field(default_factory=set)
    missed: set[int] = field(default_factory=set)
    """Ids that a MERGE found nowhere."""
    overwrites: bool = False


class Program:
    def __init__(self, client: Client, table: str, seed: int) -> None:
        self.client, self.table, self.pick = client, table, random.Random(seed)
        self.versions: list[tuple[int, frozenset[Row]]] = [(client.snapshot().timestamp, frozenset())]
        self._notes = 0

    def new_row(self, id_: int) -> Row:
        self._notes += 1
        return id_, f"n{self._notes}"

    def begin(self) -> Writer:
        base = self.versions[-1][1]
        return Writer(self.client.begin(), base, set(base))

    def change(self, writer: Writer) -> None:
        pick, txn, table = self.pick, writer.txn, self.table
        some = sorted(pick.sample(KEYS, pick.randint(1, 2)))
        hit = {row for row in writer.rows if row[0] in some}
        where = f"id IN ({', '.join(map(str, some))})"
        kind = pick.choice(["append", "delete", "update", "merge", "merge", "overwrite"])
        new: set[Row] = set()
        match kind:
            case "append":
                hit, new = set(), {self.new_row(pick.choice(KEYS)) for _ in range(pick.randint(1, 3))}
                txn.write(as_table(sorted(new)), table)
            case "delete":
                assert txn.delete_where(table, where).deleted == len(hit)
            case "update":
                self._notes += 1
                new = {(id_, f"{note}.{self._notes}") for id_, note in hit}
                assert txn.update_where(table, {"note": f"concat(note, '.{self._notes}')"}, where).updated == len(hit)
            case "merge":
                self._notes += 1
                source = as_table((id_, f"n{self._notes}") for id_ in some)
                missed = {id_ for id_ in some if id_ not in {row[0] for row in hit}}
                merge = txn.merge(table, source, on="target.id = source.id")
                merge.when_matched_update({"note": f"concat(target.note, '.{self._notes}')"})
                merge.when_not_matched_insert_all().execute()
                new = {(id_, f"{note}.{self._notes}") for id_, note in hit}
                new |= {(id_, f"n{self._notes}") for id_ in missed}
                writer.missed |= missed
            case _:
                hit, new = set(writer.rows), {self.new_row(pick.choice(KEYS))}
                txn.write(as_table(new), table, mode="overwrite")
                writer.overwrites, writer.missed = True, set()
        writer.changed |= hit & writer.base
        writer.rows = writer.rows - hit | new
        writer.added = {id_ for id_, note in writer.rows - writer.base}
        assert as_rows(txn.to_arrow(table)) == sorted(writer.rows), kind

    def commit(self, writer: Writer, others: Iterable[Writer]) -> bool:
        """Whether it was; of two that changed the same row, or inserted the same id, the second must not be."""
        others = list(others)
        must_not = any(writer.changed & other.changed or writer.missed & other.missed & other.added for other in others)
        try:
            ts = writer.txn.commit().commit_timestamp
        except Conflict:
            assert others, "nobody was first"
            return False
        assert not must_not, f"{writer} was committed after {others}"
        latest = self.versions[-1][1]
        if ts:  # it has written something
            self.versions.append((ts, latest - writer.changed | (writer.rows - writer.base)))
        return True

    def look(self) -> None:
        pick = self.pick
        (one, old), (other, new) = sorted(pick.choices(self.versions, k=2))
        for at, rows in ((one, old), (other, new), self.versions[-1]):
            with self.client.snapshot(at=at) as snapshot:
                assert as_rows(snapshot.to_arrow(self.table)) == sorted(rows)
        told = Counter((row["_change_kind"], row["id"], row["note"]) for row in self._diff(one, other))
        assert told == Counter([*(("delete", *row) for row in old - new), *(("insert", *row) for row in new - old)])

    def _diff(self, since: int, until: int) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self.client.diff(self.table, since, until).to_pylist()
        return found

    def compact(self) -> None:
        self.client.compact(self.table, kind=self.pick.choice(["minor", "major"]), wait=False)
        while Worker(self.client.session, "here", threading.Event(), self.table).run_once():
            pass

    def run(self) -> int:
        """How many transactions were refused."""
        refused = 0
        for _ in range(STEPS):
            writers = [self.begin() for _ in range(2)]
            for _ in range(self.pick.randint(1, 3)):
                self.change(self.pick.choice(writers))
            if self.pick.random() < 0.5:
                self.compact()
                self.change(self.pick.choice(writers))
            first: list[Writer] = []
            for writer in self.pick.sample(writers, 2):
                if self.commit(writer, first):
                    first.append(writer)
                else:
                    refused += 1
            self.look()
        return refused


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 60))]
)
def test_two_writers_leave_what_the_model_has_whatever_is_compacted_meanwhile(
    client: Client, new_table: Callable[..., str], seed: int
) -> None:
    Program(client, new_table(), seed).run()
