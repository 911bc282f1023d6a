"""A table of any kind and its past, by a naive model: rows by their ids, columns by when they came.

Whatever became of the table is a step, and after each one the table is what the model says. What the model knows of an
undo is what the page of history says: rows that came go, rows that went come back, and a later change of one of them is
in the way.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from txnclient import Client, CommitReceipt, Conflict, IllegalState, TxnError
from txnclient.compact.worker import Worker

DAYS = 2
Row = Mapping[int, Any]
"""Values by the numbers of columns; null where there is none."""
Rows = Mapping[int, Row]
"""Rows by their ids."""


@dataclass(frozen=True, slots=True)
class Column:
    number: int
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Commit:
    txn_id: int
    at: int
    before: Rows
    after: Rows
    overwrote: frozenset[int] = frozenset()
    """Days of which it has replaced what there was, or an undo has."""

    @property
    def changed(self) -> frozenset[int]:
        """Ids of rows that came, went or were replaced."""
        ids = self.before.keys() | self.after.keys()
        return frozenset(id_ for id_ in ids if self.before.get(id_) != self.after.get(id_))

    @property
    def days(self) -> frozenset[int]:
        """Days of the rows that it changed."""
        return frozenset(rows[id_][DAY] for id_ in self.changed for rows in (self.before, self.after) if id_ in rows)

    def may_be_in_the_way(self, undone: Commit) -> bool:
        return bool(
            self.changed & undone.changed
            or self.overwrote & (undone.overwrote | undone.days)
            or undone.overwrote & self.days
        )


ID, DAY = 0, 1


@dataclass
class Past:
    """One table. Steps are drawn from `dice`."""

    client: Client
    table: str
    dice: random.Random
    directory: Path
    keyed: bool
    parted: bool
    rows: Rows = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """Steps, in the order in which they were done."""
    _shown: list[tuple[int, Sequence[Column], Rows]] = field(default_factory=list)
    """Timestamps, and what readers see there."""
    _count: int = 0

    def create(self) -> None:
        self.columns = [
            Column(ID, "id", pa.int64()),
            Column(DAY, "day", pa.int32()),
            Column(2, "v", pa.int32()),
            Column(3, "w", pa.string()),
        ]
        self.client.create_table(
            self.table,
            "id bigint NOT NULL, day int NOT NULL, v int, w string",
            primary_key=["id", "day"][: 1 + self.parted] if self.keyed else (),
            partition_by=["day"] if self.parted else (),
        )

    # ---- what a step may be

    def step(self) -> None:
        """One of all that may be done now; and a look."""
        steps: list[tuple[int, Callable[[], object]]] = [
            (4, self._append),
            (3, self._update),
            (3, self._delete),
            (2, self._overwrite),
            (2, self._several),
            (2, self._upsert if self.keyed else self._import),
            (2, self._compact),
            (3, self._change_columns),
            (6, self._undo),
            (2, self._restore),
        ]
        weights, kinds = zip(*steps, strict=True)
        (chosen,) = self.dice.choices(kinds, weights)
        self.done.append(chosen.__name__.strip("_"))
        chosen()
        self._check(None)

    def _append(self) -> None:
        new = self._new()
        self._did(self.client.write(self._arrow(new), self.table), {**self.rows, **new})

    def _update(self) -> None:
        some, column = self._some(), self.dice.choice(self.columns[2:])
        value = self._value(column)
        literal = f"'{value}'" if isinstance(value, str) else str(value)
        receipt = self.client.update_where(self.table, {column.name: literal}, _among(some))
        self._did(receipt, {**self.rows, **{id_: {**self.rows[id_], column.number: value} for id_ in some}})

    def _delete(self) -> None:
        some = self._some()
        receipt = self.client.delete_where(self.table, _among(some))
        self._did(receipt, {id_: row for id_, row in self.rows.items() if id_ not in some})

    def _overwrite(self) -> None:
        """A day, where that may be; or all."""
        day = self.dice.randrange(DAYS) if self.parted and not self.keyed else None
        new = self._new(day)
        options = {} if day is None else {"partition": {"day": day}}
        receipt = self.client.write(self._arrow(new), self.table, mode="overwrite", **options)
        left = {id_: row for id_, row in self.rows.items() if day is not None and row[DAY] != day}
        self._did(receipt, {**left, **new}, frozenset(range(DAYS) if day is None else [day]))

    def _several(self) -> None:
        """A load, and a deletion of what was there and of a row of the load, as one transaction."""
        new, some = self._new(), self._some()
        gone = {*some, min(new)}
        with self.client.transaction() as txn:
            txn.write(self._arrow(new), self.table)
            txn.delete_where(self.table, _among(gone))
        assert txn.receipt is not None
        self._did(txn.receipt, {id_: row for id_, row in {**self.rows, **new}.items() if id_ not in gone})

    def _upsert(self) -> None:
        new = self._new()
        for id_ in self._some():
            new[id_] = {each.number: self._value(each) for each in self.columns} | {
                ID: id_,
                DAY: self.rows[id_][DAY],
            }
        self._did(self.client.upsert(self.table, self._arrow(new)), {**self.rows, **new})

    def _import(self) -> None:
        """Files of others, in place where that may be: as long as columns have the names that they came with."""
        new = self._new(0)
        if self.columns[2:] != [Column(2, "v", pa.int32()), Column(3, "w", pa.string())]:
            return
        folder = self.directory / f"{self.table}-{len(self.done)}"
        folder.mkdir(parents=True)
        pq.write_table(self._arrow(new), folder / "part-0.parquet")
        self._did(self.client.import_files(self.table, str(folder), copy=self.parted), {**self.rows, **new})

    def _compact(self) -> None:
        self.client.compact(self.table, wait=False)
        worker = Worker(self.client.session, "here", threading.Event(), self.table)
        while worker.run_once():
            pass

    def _change_columns(self) -> None:
        """A rename, also to a name that one had before; a drop; a new column; a wider type; two names exchanged."""
        others = self.columns[2:]
        column, self._count = self.dice.choice(others), self._count + 1
        names = {each.name for each in self.columns}
        free = [name for name in ("v", "w", "x", "y") if name not in names]
        match self.dice.choice(["rename", "drop", "add", "widen", "exchange"]):
            case "rename" if free:
                name = self.dice.choice(free)
                self.client.alter_table(self.table, rename={column.name: name})
                self._replace(column, Column(column.number, name, column.type))
            case "drop" if len(others) > 1:
                self.client.alter_table(self.table, drop=[column.name])
                self.columns.remove(column)
            case "add" if free:
                name = self.dice.choice(free)
                self.client.alter_table(self.table, add=f"{name} int")
                self.columns.append(Column(100 + self._count, name, pa.int32()))
            case "widen" if column.type == pa.int32():
                self.client.alter_table(self.table, widen={column.name: "bigint"})
                self._replace(column, Column(column.number, column.name, pa.int64()))
            case "exchange" if len(others) > 1:
                one, other = others[:2]
                for old, new in ((one.name, "swap"), (other.name, one.name), ("swap", other.name)):
                    self.client.alter_table(self.table, rename={old: new})
                self._replace(one, Column(one.number, other.name, one.type))
                self._replace(other, Column(other.number, one.name, other.type))

    def _undo(self) -> None:
        if not self.commits:
            return
        undone = self.dice.choice(self.commits[-6:])
        later = [each for each in self.commits if each.at > undone.at]
        must_be_refused = [each for each in later if each.changed & undone.changed]
        try:
            receipt = self.client.undo(undone.txn_id)
        except IllegalState as error:
            self._require(not undone.changed, error)
        except Conflict as error:
            in_the_way = {each.txn_id for each in later if each.may_be_in_the_way(undone)}
            self._require(error.winner in in_the_way if error.winner is not None else bool(in_the_way), error)
            self.done[-1] = "undo refused"
        else:
            assert not must_be_refused, f"undone though {must_be_refused[0].txn_id} is in the way"
            wanted = {id_: row for id_, row in self.rows.items() if id_ not in undone.changed}
            wanted |= {id_: row for id_, row in undone.before.items() if id_ in undone.changed}
            self._did(receipt, wanted, undone.overwrote | (undone.days if undone.overwrote else frozenset()))

    @staticmethod
    def _require(holds: bool, refusal: TxnError) -> None:
        assert holds, f"refused without a cause: {refusal.message}"

    def _restore(self) -> None:
        if not self.commits:
            return
        to = self.dice.choice(self.commits)
        self._did(self.client.restore(to.at, [self.table]), to.after, frozenset(range(DAYS)))

    # ---- what is there

    def _check(self, at: int | None) -> None:
        with self.client.snapshot(at) as snapshot:
            self._compare(snapshot.to_arrow(self.table), self.columns, self.rows)
            self._shown.append((snapshot.timestamp, list(self.columns), self.rows))

    def check_past(self) -> None:
        """What readers of before see is what they saw then."""
        for at, columns, rows in self._shown:
            with self.client.snapshot(at) as snapshot:
                self._compare(snapshot.to_arrow(self.table), columns, rows)

    def _compare(self, found: pa.Table, columns: Sequence[Column], rows: Rows) -> None:
        assert found.schema.types == [each.type for each in columns]
        assert found.column_names == [each.name for each in columns]
        there = sorted(found.to_pylist(), key=lambda row: row["id"])
        wanted = [{each.name: rows[id_].get(each.number) for each in columns} for id_ in sorted(rows)]
        assert there == wanted

    def _did(self, receipt: CommitReceipt, after: Rows, overwrote: frozenset[int] = frozenset()) -> None:
        there = {each.number for each in self.columns}
        after = {id_: {number: row.get(number) for number in there} for id_, row in after.items()}
        before = {id_: {number: row.get(number) for number in there} for id_, row in self.rows.items()}
        self.rows = after
        if receipt.commit_timestamp:
            self.commits.append(Commit(receipt.txn_id, receipt.commit_timestamp, before, after, overwrote))

    def _new(self, day: int | None = None) -> dict[int, Row]:
        found = {}
        for _ in range(self.dice.randint(1, 4)):
            self._count += 1
            row = {each.number: self._value(each) for each in self.columns}
            found[self._count] = row | {ID: self._count, DAY: self.dice.randrange(DAYS) if day is None else day}
        return found

    def _value(self, column: Column) -> Any:
        self._count += 1
        return f"text {self._count}" if column.type == pa.string() else self._count

    def _arrow(self, rows: Rows) -> pa.Table:
        schema = pa.schema([(each.name, each.type) for each in self.columns])
        listed = [{each.name: row.get(each.number) for each in self.columns} for row in rows.values()]
        return pa.Table.from_pylist(listed, schema=schema)

    def _some(self) -> list[int]:
        return self.dice.sample(sorted(self.rows), min(len(self.rows), self.dice.randint(1, 3)))

    def _replace(self, column: Column, new: Column) -> None:
        self.columns[self.columns.index(column)] = new


def _among(ids: Iterable[int]) -> str:
    return f"id IN ({', '.join(map(str, [-1, *ids]))})"
