"""Bulk changes by key, and the dictionary that says what must come of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.unit.harness.leader.keyed import Writer
from tests.unit.harness.leader.rows import Shard, table_of
from txnclient.write import keyed
from txnstatus.errors import AlreadyExists, Conflict, RowsRefused
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import Timestamp, TxnId

Rows = dict[int, str]
KEYS = 8


@contextmanager
def by_position(most: int) -> Iterator[None]:
    """Within the block, what changes more rows than these goes by position."""
    before, keyed.MAX_ROWS_BY_KEY = keyed.MAX_ROWS_BY_KEY, most
    try:
        yield
    finally:
        keyed.MAX_ROWS_BY_KEY = before


@dataclass
class Txn:
    writer: Writer
    snapshot: Timestamp
    own: dict[int, str | None] = field(default_factory=dict)
    """None: deleted."""
    ranged: bool = False
    commit_ts: Timestamp | None = None

    @property
    def txn_id(self) -> TxnId:
        return self.writer.id

    def over(self, seen: Rows) -> Rows:
        return {key: value for key, value in {**seen, **self.own}.items() if value is not None}


@dataclass
class Model:
    shard: Shard
    rng: random.Random
    versions: list[tuple[Timestamp, Rows]] = field(default_factory=lambda: [(Timestamp(0), {})])
    committed: list[Txn] = field(default_factory=list)
    open: list[Txn] = field(default_factory=list)
    next_txn: int = 1

    def at(self, ts: Timestamp) -> Rows:
        return [rows for commit_ts, rows in self.versions if commit_ts <= ts][-1]

    def some_txn(self) -> Txn:
        if not self.open or (len(self.open) < 3 and self.rng.random() < 0.3):
            self.next_txn += 1
            at = self.shard.status.last
            self.open.append(Txn(Writer(self.shard, TxnId(self.next_txn), at), at))
        return self.rng.choice(self.open)

    def some_rows(self, what: str) -> dict[int, str]:
        keys = self.rng.sample(range(KEYS), self.rng.randint(1, 5))
        return {key: f"{what} {self.rng.random():.6f}" for key in keys}

    def step(self) -> None:
        with by_position(self.rng.choice([0, 0, 2, 10_000])):
            self.rng.choice(STEPS)(self)

    # ---- what may happen

    def upsert(self) -> None:
        txn = self.some_txn()
        rows = self.some_rows(f"upsert {txn.txn_id}")
        txn.writer.upsert(table_of(rows))
        txn.own.update(rows)

    def write(self) -> None:
        txn = self.some_txn()
        change = self.rng.choice([pb.ROW_INSERT, pb.ROW_UPSERT, pb.ROW_UPDATE, pb.ROW_DELETE])
        rows, before = self.some_rows(f"row {txn.txn_id}"), txn.over(self.at(txn.snapshot))
        there = {key for key in rows if key in before}
        passed = {pb.ROW_INSERT: rows.keys() - there, pb.ROW_UPSERT: rows.keys()}.get(change, there)
        data = table_of(rows)
        data = data.select(["id"]) if change == pb.ROW_DELETE else data
        if passed == rows.keys():
            txn.writer.write(change, data)
        else:
            with pytest.raises(RowsRefused) as refused:
                txn.writer.write(change, data)
            assert sorted(refused.value.keys) == sorted(map(str, rows.keys() - passed))
        txn.own.update({key: None if change == pb.ROW_DELETE else rows[key] for key in passed})

    def append(self) -> None:
        txn = self.some_txn()
        rows = self.some_rows(f"file {txn.txn_id}")
        taken = rows.keys() & (txn.over(self.versions[-1][1]).keys() | txn.over(self.at(txn.snapshot)).keys())
        try:
            txn.writer.append(table_of(rows))
        except AlreadyExists:
            assert taken or rows.keys() & txn.own.keys()
        except Conflict:
            assert any((each.commit_ts or 0) > txn.snapshot for each in self.committed)
        else:
            assert not taken
            txn.own.update(rows)

    def delete(self) -> None:
        txn = self.some_txn()
        low, high = sorted(self.rng.sample(range(KEYS), 2))
        gone = [key for key in txn.over(self.at(txn.snapshot)) if low <= key <= high]
        assert txn.writer.delete_where(f"id between {low} and {high}").deleted == len(gone)
        txn.own.update(dict.fromkeys(gone))

    def update(self) -> None:
        txn = self.some_txn()
        low, high = sorted(self.rng.sample(range(KEYS), 2))
        what = f"{self.rng.random():.6f}"
        before = txn.over(self.at(txn.snapshot))
        changed = {key: f"{value}+{what}" for key, value in before.items() if low <= key <= high}
        affected = txn.writer.update_where({"v": f"concat(v, '+{what}')"}, f"id between {low} and {high}")
        assert affected.updated == len(changed)
        txn.own.update(changed)

    def move(self) -> None:
        """Keys that change."""
        txn = self.some_txn()
        by, low = self.rng.choice([1, -1, 3]), self.rng.randrange(KEYS)
        before = txn.over(self.at(txn.snapshot))
        moved = {key + by: value for key, value in before.items() if key >= low}
        stay = {key for key in before if key < low}
        snapshot_twice = moved.keys() & stay
        try:
            txn.writer.update_where({"id": f"id + {by}"}, f"id >= {low}")
        except AlreadyExists:
            assert snapshot_twice
            self.end(txn)
        else:
            assert not snapshot_twice
            txn.own.update(dict.fromkeys(key for key in before if key >= low))
            txn.own.update(moved)

    def merge(self) -> None:
        txn = self.some_txn()
        rows, before = self.some_rows(f"merge {txn.txn_id}"), txn.over(self.at(txn.snapshot))
        affected = txn.writer.merge(
            table_of(rows),
            "target.id = source.id",
            lambda merge: (
                merge.when_matched_delete(condition="target.id % 3 = 0")
                .when_matched_update_all()
                .when_not_matched_insert_all()
            ),
        )
        deleted = {key for key in rows if key in before and key % 3 == 0}
        assert (affected.deleted, affected.inserted) == (len(deleted), len(rows.keys() - before.keys()))
        txn.own.update({key: None if key in deleted else value for key, value in rows.items()})

    def end(self, txn: Txn) -> None:
        self.open.remove(txn)
        self.shard.abort(txn.txn_id)

    def abort(self) -> None:
        if self.open:
            self.end(self.rng.choice(self.open))

    def commit(self) -> None:
        if not self.open:
            return
        txn = self.rng.choice(self.open)
        others = [each for each in self.committed if (each.commit_ts or 0) > txn.snapshot]
        must_lose = any(txn.own.keys() & each.own.keys() for each in others)
        try:
            self.shard.prepare(txn.txn_id)
        except Conflict:
            assert must_lose
            self.end(txn)
            return
        assert not must_lose
        self.open.remove(txn)
        rows = txn.over(self.versions[-1][1])
        txn.commit_ts = self.shard.decide(txn.txn_id)
        self.versions.append((txn.commit_ts, rows))
        self.committed.append(txn)
        if self.rng.random() < 0.5:
            self.check(txn.commit_ts)
        self.shard.finalize(txn.txn_id)

    def flush(self) -> None:
        self.shard.flush()

    def restart(self) -> None:
        self.shard.restart()

    # ---- what must hold

    def check(self, ts: Timestamp) -> None:
        assert self.shard.read(ts) == sorted(self.at(ts).items()), f"at {ts}"

    def check_all(self) -> None:
        self.check(self.shard.status.last)
        self.check(self.rng.choice(self.versions)[0])
        for txn in self.open:
            found = txn.writer.seen()
            rows = sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
            assert rows == sorted(txn.over(self.at(txn.snapshot)).items()), f"in {txn.txn_id}"

    def check_diff(self, since: Timestamp, until: Timestamp) -> None:
        before, after, found = self.at(since), self.at(until), self.shard.diff(since, until)
        told: dict[str, Rows] = {}
        for row in found.to_pylist():
            assert row["id"] not in told.setdefault(row["_change_kind"], {}), "a row comes once"
            told[row["_change_kind"]][row["id"]] = row["v"]
        came, went = told.get("insert", {}), told.get("delete", {})
        new, old = {**told.get("update_after", {}), **came}, {**told.get("update_before", {}), **went}
        assert new.items() <= after.items()
        assert old.items() <= before.items()
        assert {key: value for key, value in before.items() if key not in old} | new == after


STEPS: list[Callable[[Model], None]] = [
    *[Model.upsert] * 3,
    *[Model.write] * 3,
    *[Model.delete] * 2,
    *[Model.update] * 2,
    *[Model.merge] * 2,
    *[Model.commit] * 4,
    Model.move,
    Model.append,
    Model.flush,
    Model.restart,
    Model.abort,
]
