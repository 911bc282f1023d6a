"""Columns of tables that change under readers and writers: random programs against a model, and what is refused."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from txnclient import Client, InvalidArgument, Transaction
from txnclient.compact.asking import Kind
from txnclient.compact.worker import Worker
from txnclient.snapshot import Snapshot

NewTable = Callable[..., str]
Row = dict[str, Any]
KINDS: dict[str, pa.DataType] = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(20,2)": pa.decimal128(20, 2),
}
WIDER = {"smallint": "int", "int": "bigint", "float": "double", "decimal(5,2)": "decimal(20,2)"}
FIXED = ("id", "p")
"""Columns that keep their names: the key, and what the table is partitioned by."""
NAMES = ("v", "w", "x", "y", "z", "w~2", "Ä b")
KEYS = 12
STEPS = 14
SEED = 100 * int(os.environ.get("TXN_SEED", "1"))


class Model:
    """A table as a list of columns, and rows by id, whose values are known by when their columns came."""

    def __init__(self, client: Client, table: str, seed: int, *, keyed: bool) -> None:
        self.client, self.table, self.keyed, self.pick = client, table, keyed, random.Random(seed)
        self.columns: list[tuple[str, str]] = [("id", "bigint"), ("p", "string"), ("v", "smallint")]
        self.numbers = {"id": 0, "p": 1, "v": 2}
        """Which of all columns that there ever were one of now is, by its name."""
        self.v = "v"
        """What that column is called now."""
        self.rows: dict[int, dict[int, Any]] = {}
        """Rows as they were written, by columns; of what came later there is nothing."""
        self.initial: dict[int, Any] = {}
        """The values of columns, by their numbers, in rows from before them."""
        self.defaults: dict[int, Any] = {}
        """The values of columns in rows that are written without them."""
        self.next_id = KEYS
        self.ever = 3
        self.past: list[tuple[Snapshot, list[str], list[Row], dict[int, dict[int, Any]]]] = []

    def steps(self) -> None:
        """One step of whatever kind."""
        kinds = [self.write, self.write, self.update, self.update, self.delete, self.merge, self.alter, self.compact]
        if self.keyed:
            kinds += [self.upsert, self.update_rows]
        self.pick.choice(kinds)()

    # ---- what changes the columns

    def alter(self) -> None:
        self.pick.choice(
            [
                self.move,
                self.add,
                self.add,
                self.rename,
                self.rename,
                self.drop,
                self.widen,
                self.widen,
                self.set_default,
            ]
        )()

    def set_default(self) -> None:
        """For rows to come; those that there are stay as they are."""
        name, kind = self.pick.choice([each for each in self.columns if each[0] not in FIXED])
        value = self.pick.choice([None, self.value(name, kind, 0)])
        self.client.alter_table(self.table, defaults={name.upper(): value})
        self.defaults[self.numbers[name]] = value

    def widen(self) -> None:
        """A whole number or a fraction of few bits gets more; from then on there are values that had no room before."""
        narrow = [n for n, (_, kind) in enumerate(self.columns) if kind in WIDER]
        if narrow:
            at = self.pick.choice(narrow)
            name, kind = self.columns[at]
            self.client.alter_table(self.table, widen={name.upper(): WIDER[kind]})
            self.columns[at] = (name, WIDER[kind])

    def move(self) -> None:
        known = [name for name, _ in self.columns]
        moved = self.pick.choice(known)
        before = self.pick.choice([None, *(each for each in known if each != moved)])
        self.client.alter_table(self.table, move={moved.upper(): before}, comments={moved: f"was {moved}"})
        self.put(self.columns.pop(known.index(moved)), before)

    def add(self) -> None:
        """A column of a new name, or of one that another column has had."""
        name, kind = self.free_name(), self.pick.choice(list(KINDS))
        default = {name: self.value(name, kind, 0)} if self.pick.random() < 0.5 else {}
        if self.pick.random() < 0.5:
            self.client.alter_table(self.table, add={name: kind}, defaults=default)
            self.columns.append((name, kind))
        else:
            before = self.pick.choice([None, *(each for each, _ in self.columns)])
            self.client.alter_table(self.table, add={name: kind}, move={name: before}, defaults=default)
            self.put((name, kind), before)
        self.numbers[name], self.ever = self.ever, self.ever + 1
        self.initial[self.numbers[name]] = self.defaults[self.numbers[name]] = default.get(name)

    def rename(self) -> None:
        at, new = (
            self.pick.choice([n for n, (name, _) in enumerate(self.columns) if name not in FIXED]),
            self.free_name(),
        )
        name, kind = self.columns[at]
        self.client.alter_table(self.table, rename={name.upper(): new})
        self.columns[at], self.numbers[new] = (new, kind), self.numbers.pop(name)
        self.v = new if name == self.v else self.v

    def drop(self) -> None:
        names = [name for name, _ in self.columns if name not in (*FIXED, self.v)]
        if names:
            gone = self.pick.choice(names)
            self.client.alter_table(self.table, drop=[gone])
            self.columns = [each for each in self.columns if each[0] != gone]
            number = self.numbers.pop(gone)
            for row in self.rows.values():
                row.pop(number, None)

    def put(self, column: tuple[str, str], before: str | None) -> None:
        places = [each for each, _ in self.columns]
        self.columns.insert(0 if before is None else places.index(before) + 1, column)

    def free_name(self) -> str:
        """A name that no column has now."""
        return self.pick.choice([name for name in NAMES if name not in self.numbers])

    # ---- what changes the rows

    def data(self, ids: list[int]) -> pa.Table:
        """Rows of these ids, with some of the columns that were added, in any order."""
        chosen = [each for each in self.columns if each[0] in (*FIXED, self.v) or self.pick.random() < 0.6]
        self.pick.shuffle(chosen)
        made = [{name: self.value(name, kind, each) for name, kind in chosen} for each in ids]
        return pa.table({name: pa.array([row[name] for row in made], KINDS[kind]) for name, kind in chosen})

    def value(self, name: str, kind: str, id_: int) -> Any:
        if name == "id":
            return id_
        if name == "p":
            return "ab"[id_ % 2]
        number = self.pick.randrange(100)
        return {
            "smallint": number,
            "int": number * 1_000,
            "bigint": number * 1_000_000_000,
            "string": f"s{number}",
            "float": number / 4,
            "double": number / 4 + 1e-9,
            "decimal(5,2)": Decimal(number) / 4,
            "decimal(20,2)": Decimal(number) * 1_000_000 + Decimal("0.25"),
        }[kind]

    def whole(self, data: pa.Table) -> dict[int, dict[int, Any]]:
        numbers = self.numbers.items()
        return {
            row["id"]: {number: row.get(name, self.defaults.get(number)) for name, number in numbers}
            for row in data.to_pylist()
        }

    def write(self) -> None:
        ids = list(range(self.next_id, self.next_id + self.pick.randint(1, 3)))
        self.next_id = ids[-1] + 1
        data = self.data(ids)
        self.client.write(data, self.table)
        self.rows |= self.whole(data)

    def some(self) -> list[int]:
        return self.pick.sample(sorted(self.rows), min(len(self.rows), 3))

    def upsert(self) -> None:
        data = self.data([*self.some(), self.next_id])
        self.next_id += 1
        self.client.write(data, self.table, mode="upsert")
        self.rows |= self.whole(data)

    def update_rows(self) -> None:
        name, kind = self.pick.choice([each for each in self.columns if each[0] not in FIXED])
        ids = self.some()
        values = [self.value(name, kind, each) for each in ids]
        if ids:
            self.client.update(self.table, pa.table({name: pa.array(values, KINDS[kind]), "id": pa.array(ids)}))
            for each, value in zip(ids, values, strict=True):
                self.rows[each][self.numbers[name]] = value

    def update(self) -> None:
        name, kind = self.pick.choice([each for each in self.columns if each[0] not in FIXED])
        other = self.pick.choice([each for each, _ in self.columns])
        value, rest, least = self.value(name, kind, 0), self.pick.randrange(3), quoted(self.v)
        spelt = f"'{value}'" if kind == "string" else str(value)
        where = f"id % 3 = {rest} AND ({quoted(other)} IS NULL OR {least} > 20)"
        self.client.update_where(self.table, {name: spelt}, where)
        for row in self.rows.values():
            v = row[self.numbers[self.v]]
            if row[0] % 3 == rest and (self.shown(row, self.numbers[other]) is None or (v is not None and v > 20)):
                row[self.numbers[name]] = value

    def delete(self) -> None:
        name = self.pick.choice([each for each, _ in self.columns])
        rest = self.pick.randrange(7)
        self.client.delete_where(self.table, f"id % 7 = {rest} AND {quoted(name)} IS NULL OR id % 11 = {rest}")
        number = self.numbers[name]
        rows = self.rows.items()
        gone = [i for i, row in rows if (i % 7 == rest and self.shown(row, number) is None) or i % 11 == rest]
        for each in gone:
            del self.rows[each]

    def merge(self) -> None:
        source = self.data([*self.some(), self.next_id])
        self.next_id += 1
        given = source.column_names
        set_to = {name: f"source.{quoted(name)}" for name in given if name not in FIXED}
        inserted = {name: f"source.{quoted(name)}" for name in given}
        merging = self.client.merge(self.table, source, on="target.id = source.id")
        merging.when_matched_update(set_to).when_not_matched_insert(inserted).execute()
        for each, row in self.whole(source).items():
            if each in self.rows:
                self.rows[each] |= {self.numbers[name]: row[self.numbers[name]] for name in set_to}
            else:
                self.rows[each] = row

    def compact(self) -> None:
        kinds: list[Kind] = ["minor", "major"]
        kind = self.pick.choice(kinds)
        for _ in self.client.compact(self.table, kind=kind, wait=False):
            assert Worker(self.client.session, "here", threading.Event(), self.table).run_once()

    # ---- what is seen

    def expected(self) -> tuple[list[str], list[Row]]:
        names = [name for name, _ in self.columns]
        return names, self.named(self.rows)

    def named(self, rows: dict[int, dict[int, Any]]) -> list[Row]:
        """The rows in the columns of now."""
        columns = [(name, self.numbers[name]) for name, _ in self.columns]
        return [{name: self.shown(row, number) for name, number in columns} for _, row in sorted(rows.items())]

    def shown(self, row: dict[int, Any], number: int) -> Any:
        return row[number] if number in row else self.initial.get(number)

    def check(self) -> None:
        """Every reader shows the model, now and at each time of the past."""
        names, rows = self.expected()
        now = self.client.snapshot()
        check_readers(now, self.table, names, rows, self.v)
        self.past.append((now, names, rows, {id_: dict(row) for id_, row in self.rows.items()}))

    def check_past(self) -> None:
        for snapshot, names, rows, _ in self.past:
            again = self.client.snapshot(at=snapshot.timestamp)
            for each in (snapshot, again):
                found = each.to_arrow(self.table)
                assert found.column_names == names
                assert found.sort_by("id").to_pylist() == rows
        (first, _, _, there), (_, names, new, _) = self.past[0], self.past[-1]
        old = self.named(there)
        found = self.client.diff(self.table, since=first.timestamp)
        assert found.column_names == [*names, "_change_kind"]
        kinds = {"delete": -1, "update_before": -1, "update_after": 1, "insert": 1}
        # What came, less what went, is the difference; and each row of before is shown in the columns of now.
        net = [(tuple(row[name] for name in names), kinds[row["_change_kind"]]) for row in found.to_pylist()]
        before = [(tuple(row[name] for name in names), 1) for row in old]
        left = {each: sum(sign for row, sign in [*net, *before] if row == each) for each, _ in [*net, *before]}
        assert sorted(map(str, (each for each, count in left.items() if count))) == sorted(
            str(tuple(row[name] for name in names)) for row in new
        )


def quoted(name: str) -> str:
    return f"`{name}`"


def check_readers(snapshot: Snapshot, table: str, names: list[str], rows: list[Row], v: str) -> None:
    found = snapshot.to_arrow(table)
    assert found.column_names == names
    assert found.sort_by("id").to_pylist() == rows
    last = names[-1]
    chosen = list(dict.fromkeys([last, "id"]))
    assert snapshot.to_batches(table, chosen).read_all().sort_by("id").to_pylist() == [
        {last: row[last], "id": row["id"]} for row in rows
    ]
    for name in (names[0], last):
        empty = snapshot.to_arrow(table, ["id"], where=pc.field(name).is_null())
        assert sorted(empty["id"].to_pylist()) == [row["id"] for row in rows if row[name] is None]
    high = [row["id"] for row in rows if row[v] is not None and row[v] > 20]
    assert sorted(snapshot.to_arrow(table, ["id"], where=pc.field(v) > 20)["id"].to_pylist()) == high
    batches = snapshot.to_batches(table, ["id"], where=pc.field(v) > 20).read_all()
    assert sorted(batches["id"].to_pylist()) == high
    relation = snapshot.to_duckdb(table)
    assert relation.columns == names
    assert sorted(relation.project("id").fetchall()) == [(row["id"],) for row in rows]
    assert snapshot.to_polars(table).sort("id").to_dicts() == rows
    assert snapshot.to_polars(table, lazy=True).collect().sort("id").to_dicts() == rows
    dataset = snapshot.to_dataset(table)
    assert dataset.schema.names == names
    assert dataset.to_table(filter=pc.field("id") >= 0).sort_by("id").to_pylist() == rows


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(SEED + n, marks=pytest.mark.campaign) for n in range(20))])
def test_readers_show_the_model_whatever_becomes_of_columns(
    client: Client, new_table: NewTable, seed: int, keyed: bool
) -> None:
    options = {"primary_key": ["id"]} if keyed else {"partition_by": ["p"]}
    table = new_table("id bigint, p string, v smallint", **options)
    model = Model(client, table, seed, keyed=keyed)
    model.write()
    for _ in range(STEPS):
        model.steps()
        model.check()
    model.alter()
    model.check()
    model.check_past()


def test_open_transactions_go_on_with_the_columns_that_they_see(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v bigint", primary_key=["id"])
    client.write(pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}), table)

    def old_way(txn: Transaction) -> None:
        txn.update_where(table, {"v": "v + 10"}, "id = 1")
        txn.upsert(table, pa.table({"id": [4], "v": [4]}))
        txn.update(table, pa.table({"id": [3], "v": [33]}))
        txn.write(pa.table({"id": [5], "v": [5]}), table)

    with client.transaction() as txn:
        assert txn.to_arrow(table).column_names == ["id", "v"]
        info = client.alter_table(table, add="n bigint COMMENT 'new'", move={"n": None})
        assert [column.name for column in info.schema.columns] == ["n", "id", "v"]
        assert (info.schema.columns[0].comment, info.schema.columns[0].nullable) == ("new", True)
        client.update_where(table, {"n": "7"}, "id = 2")
        old_way(txn)
        assert txn.to_arrow(table).column_names == ["id", "v"]
    found = client.snapshot().to_arrow(table).sort_by("id").to_pylist()
    assert [(row["id"], row["n"], row["v"]) for row in found] == [
        (1, None, 11),
        (2, 7, 2),
        (3, None, 33),
        (4, None, 4),
        (5, None, 5),
    ]


def test_a_begin_with_a_first_write_loses_no_value_of_a_column_that_came_after_it(
    client: Client, new_table: NewTable
) -> None:
    """The columns of the first write are of the begin; what the statement reads is later."""
    table = new_table("id bigint, v bigint")
    client.write(pa.table({"id": [1], "v": [1]}), table)
    with client.transaction(tables=[table]) as txn:
        client.alter_table(table, add="n bigint")
        client.update_where(table, {"n": "7"}, "true")
        txn.update_where(table, {"v": "v + 1"}, "true")
    assert client.snapshot().to_arrow(table).to_pylist() == [{"id": 1, "v": 2, "n": 7}]


def test_not_null_goes_and_does_not_come(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint NOT NULL, v bigint NOT NULL", primary_key=["id"])
    with pytest.raises(InvalidArgument, match="NOT NULL"):
        client.write(pa.table({"id": [1], "v": pa.array([None], pa.int64())}), table)
    before = client.snapshot()
    client.alter_table(table, drop_not_null=["v"], properties={"compact_delta_num": 7})
    client.write(pa.table({"id": [1], "v": pa.array([None], pa.int64())}), table)
    client.upsert(table, pa.table({"id": [2], "v": pa.array([None], pa.int64())}))
    assert client.snapshot().to_arrow(table).sort_by("id").to_pylist() == [{"id": 1, "v": None}, {"id": 2, "v": None}]
    assert not before.to_arrow(table).schema.field("v").nullable
    assert client.table(table).properties == {"compact_delta_num": "7"}


def test_what_cannot_become_of_columns_is_refused_by_name(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v bigint NOT NULL, p string", primary_key=["id"], partition_by=["p"])
    client.alter_table(table, add="n int")
    before = client.table(table)
    for changes, why in (
        ({"add": "N string"}, "'N' cannot be added .* it has a column 'n'"),
        ({"add": "m int NOT NULL"}, "column 'm' cannot be added with NOT NULL"),
        ({"add": "m varchar(3)"}, "column 'm'"),
        ({"add": {"m": "int"}, "move": {"m": "nowhere"}}, "'nowhere' is not a column"),
        ({"comments": {"x": "y"}}, "'x' is not a column of table .*: it has id, v, p, n"),
        ({"comments": {"v": "y" * 1_001}}, "'v': a comment of 1001 characters"),
        ({"move": {"v": "v"}}, "'v' .* cannot come after itself"),
        ({"drop_not_null": ["id"]}, "'id' .* primary key"),
        ({"add": "m int", "properties": {"nothing": 1}}, "no table property 'nothing'"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            client.alter_table(table, **changes)
    assert client.table(table) == before
    published = new_table("id bigint", properties={"publish": "delta"})
    with pytest.raises(InvalidArgument, match="is published: its columns cannot be changed"):
        client.alter_table(published, add="n int")
    with pytest.raises(InvalidArgument, match=r"'v' .* is missing in the data"):
        client.write(pa.table({"id": [1], "p": ["a"]}), table)
    with pytest.raises(InvalidArgument, match="'m' of the data is not a column"):
        client.write(pa.table({"id": [1], "p": ["a"], "v": [1], "m": [1]}), table)
