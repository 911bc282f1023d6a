"""Writes by key against a model of a few lines: snapshot isolation over a dictionary, first committer wins on keys.

Rows and files, in the same transactions and in others: a key is unique in every snapshot, whoever wrote it.
"""

from __future__ import annotations

import random
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import rest_in_campaigns
from tests.unit.harness.leader.rows import Shard
from txnclient.read import row_reads
from txnclient.read.diff import KINDS
from txnclient.read.table_files import TableFiles
from txnclient.write import keys
from txnparticipant.leader import reads, rows
from txnparticipant.rows import key_places
from txnparticipant.rows.key_places import Changed, Places
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import key_conflicts, records, snapshot
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.table import TableState
from txnstatus.errors import AlreadyExists, Conflict, IllegalState, TxnError
from txnstatus.lake.rows import changes_table
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import Timestamp, TxnId

Rows = dict[int, str]
KEYS = 6


@dataclass
class Txn:
    txn_id: TxnId
    snapshot: Timestamp
    own: dict[int, str | None] = field(default_factory=dict)
    """None: deleted."""
    by_row: set[int] = field(default_factory=set)
    """Keys that it changed row by row."""
    looks: list[tuple[frozenset[int], Timestamp]] = field(default_factory=list)
    """Keys of its files, and when they were looked for."""
    overwrites: bool = False
    """Whether it has replaced all that its snapshot shows, before what is here of it."""
    is_ranged: bool = False
    """Whether it claims more keys than its files have."""
    commit_ts: Timestamp | None = None

    def over(self, seen: Rows) -> Rows:
        """What it sees where others show it this."""
        rows = {**({} if self.overwrites else seen), **self.own}
        return {key: value for key, value in rows.items() if value is not None}

    def loses_to(self, other: Txn) -> bool:
        """Whether the other one, which is prepared or has committed, changed the same unseen."""

        def unseen(at: Timestamp) -> bool:
            return other.commit_ts is None or other.commit_ts > at

        rows = unseen(self.snapshot) and bool(self.by_row & other.own.keys() or (self.by_row and other.overwrites))
        files = any(unseen(at) and keys & other.own.keys() for keys, at in self.looks)
        replaced = self.overwrites and unseen(self.snapshot) and (other.overwrites or bool(other.by_row))
        return rows or files or replaced


@dataclass
class Model:
    """Also drives the shard alongside."""

    shard: Shard
    rng: random.Random
    versions: list[tuple[Timestamp, Rows]] = field(default_factory=lambda: [(Timestamp(0), {})])
    committed: list[Txn] = field(default_factory=list)
    open: dict[TxnId, Txn] = field(default_factory=dict)
    prepared: dict[TxnId, Txn] = field(default_factory=dict)
    decided: list[TxnId] = field(default_factory=list)
    """Transactions that are decided and not finalised."""
    next_txn: int = 1

    def at(self, ts: Timestamp) -> Rows:
        return [rows for commit_ts, rows in self.versions if commit_ts <= ts][-1]

    def some_txn(self) -> Txn:
        if not self.open or (len(self.open) < 3 and self.rng.random() < 0.3):
            self.next_txn += 1
            txn_id = TxnId(self.next_txn)
            self.open[txn_id] = Txn(txn_id, self.shard.status.last)
        return self.rng.choice(list(self.open.values()))

    def some_rows(self, what: str) -> dict[int, str]:
        keys = self.rng.sample(range(KEYS), self.rng.randint(1, 3))
        return {key: f"{what} {self.rng.random():.6f}" for key in keys}

    # ---- what may happen

    def write(self) -> None:
        txn = self.some_txn()
        change = self.rng.choice(["insert", "insert_ignore", "upsert", "update", "delete"])
        rows = self.some_rows(f"{change} {txn.txn_id}")
        before = txn.over(self.at(txn.snapshot))
        there = [key in before for key in rows]
        passes = {
            "insert": [not each for each in there],
            "insert_ignore": [not each for each in there],
            "upsert": [True] * len(there),
        }.get(change, there)
        answer = self.shard.write(txn.txn_id, change, rows, txn.snapshot)
        others = [number for number, passed in enumerate(passes) if not passed]
        ignores = change == "insert_ignore"
        assert (answer.written, answer.ignored) == (sum(passes), len(others) if ignores else 0)
        assert list(answer.refused) == ([] if ignores else others)
        for (key, value), passed in zip(rows.items(), passes, strict=True):
            if passed:
                txn.own[key] = None if change == "delete" else value
                txn.by_row.add(key)
        self.check_inside(txn)

    def append_files(self) -> None:
        txn = self.some_txn()
        rows, at = self.some_rows(f"file {txn.txn_id}"), self.shard.status.last
        if self.has_lost_keys(txn):
            return
        if txn.overwrites and any(txn.loses_to(other) for other in self.committed):
            return  # what it is told does not matter
        others = self.since(txn) if txn.overwrites else txn.over(self.at(at))
        taken = rows.keys() & (others.keys() | txn.over(self.at(txn.snapshot)).keys() | txn.by_row)
        if taken:
            with pytest.raises(AlreadyExists) as error:
                self.shard.write_files(txn.txn_id, rows, read_at=txn.snapshot)
            assert sorted(error.value.keys) == sorted(map(str, taken))
            return
        vouches = self.rng.random() < 0.3
        between = any(min(rows) <= key <= max(rows) for key in txn.by_row)
        if vouches and between:
            with pytest.raises(IllegalState, match="written keys itself"):
                self.shard.write_files(txn.txn_id, rows, read_at=txn.snapshot, keys_are_new=True)
            return
        self.shard.write_files(txn.txn_id, rows, read_at=txn.snapshot, keys_are_new=vouches)
        txn.is_ranged |= vouches
        txn.own.update(rows)
        txn.looks.append((frozenset(rows), at))
        self.check_inside(txn)

    def has_lost_keys(self, txn: Txn) -> bool:
        """Whether others have added keys of its files since: a reader inside it is told so."""
        late = [(keys, each) for keys, at in txn.looks for each in self.committed if (each.commit_ts or 0) > at]
        must = any(keys & each.own.keys() for keys, each in late)
        try:
            self.shard.scan(self.shard.status.last, txn.txn_id)
        except Conflict:
            assert must or any(txn.is_ranged or each.is_ranged for _, each in late)
            return True
        assert not must
        return False

    def since(self, txn: Txn) -> Rows:
        """What came by files of others after the snapshot, and so stays when the transaction overwrites the table."""
        before, now = self.at(txn.snapshot), self.versions[-1][1]
        return {key: value for key, value in now.items() if value not in before.values() and value.startswith("file")}

    def overwrite(self) -> None:
        """Not where others changed rows or overwrote the table: its commit would fail, whatever it is told now."""
        txn = self.some_txn()
        rows, at = self.some_rows(f"overwrite {txn.txn_id}"), self.shard.status.last
        if self.has_lost_keys(txn):
            return
        if any(each.overwrites or each.by_row for each in self.committed if (each.commit_ts or 0) > txn.snapshot):
            return
        taken = rows.keys() & self.since(txn).keys()
        if taken:
            with pytest.raises(Conflict, match="others have added keys"):
                self.shard.write_files(txn.txn_id, rows, overwrite=WHOLE_TABLE, read_at=txn.snapshot)
            return
        self.shard.write_files(txn.txn_id, rows, overwrite=WHOLE_TABLE, read_at=txn.snapshot)
        txn.own, txn.looks, txn.overwrites = dict(rows), [(frozenset(rows), at)], True
        txn.by_row.clear()
        txn.is_ranged = False
        self.check_inside(txn)

    def prepare(self) -> None:
        begun = [txn_id for txn_id in self.open if txn_id in self.shard.table.txns]
        if not begun:
            return
        txn = self.open.pop(self.rng.choice(begun))
        others = [*self.committed, *self.prepared.values()]
        must_lose = any(txn.loses_to(other) for other in others)
        may_lose = must_lose or txn.is_ranged or any(other.is_ranged for other in others)
        try:
            self.shard.prepare(txn.txn_id)
        except Conflict:
            assert may_lose
            self.shard.abort(txn.txn_id)
        else:
            assert not must_lose
            self.prepared[txn.txn_id] = txn

    def decide(self) -> None:
        if not self.prepared:
            return
        txn = self.prepared.pop(self.rng.choice(list(self.prepared)))
        if self.rng.random() < 0.2:
            self.shard.abort(txn.txn_id)
            return
        stay = self.since(txn) if txn.overwrites else self.versions[-1][1]
        rows = {key: value for key, value in {**stay, **txn.own}.items() if value is not None}
        txn.commit_ts = self.shard.decide(txn.txn_id)
        self.versions.append((txn.commit_ts, rows))
        self.committed.append(txn)
        if self.rng.random() < 0.5:
            self.shard.finalize(txn.txn_id)
        else:
            self.decided.append(txn.txn_id)

    def finalize(self) -> None:
        if self.decided:
            self.shard.finalize(self.decided.pop(0))

    def abort(self) -> None:
        if self.open:
            txn_id = self.rng.choice(list(self.open))
            del self.open[txn_id]
            if txn_id in self.shard.table.txns:
                self.shard.abort(txn_id)

    def flush(self) -> None:
        self.shard.flush()

    def restart(self) -> None:
        self.shard.restart()

    def check_diff(self, since: Timestamp, until: Timestamp) -> None:
        """Where neither sees row changes, whole files are compared."""
        if not any(self.shard.scan(ts).HasField("changes") for ts in (since, until)):
            return
        before, after = self.at(since), self.at(until)
        found: dict[str, Rows] = {kind: {} for kind in KINDS}
        for row in self.shard.diff(since, until).to_pylist():
            assert row["id"] not in found[row["_change_kind"]], "a row comes once"
            found[row["_change_kind"]][row["id"]] = row["v"]
        assert found["insert"] == {key: after[key] for key in after.keys() - before.keys()}
        assert found["delete"] == {key: before[key] for key in before.keys() - after.keys()}
        updated = found["update_before"].keys()
        assert updated == found["update_after"].keys()
        assert updated >= {key for key in before.keys() & after.keys() if before[key] != after[key]}
        assert found["update_before"] == {key: before[key] for key in updated}
        assert found["update_after"] == {key: after[key] for key in updated}

    def check_inside(self, txn: Txn) -> None:
        assert self.shard.read(txn.snapshot, txn.txn_id) == sorted(txn.over(self.at(txn.snapshot)).items()), f"in {txn}"

    def check(self, ts: Timestamp) -> None:
        assert self.shard.read(ts) == sorted(self.at(ts).items()), f"at {ts}"


STEPS = [
    *[Model.finalize, Model.abort, Model.restart],
    *[Model.flush, Model.flush],
    *[Model.append_files] * 3,
    *[Model.write] * 6,
    *[Model.prepare] * 3,
    *[Model.decide] * 3,
]


def run(seed: int, steps: int, *, overwrites: bool) -> None:
    with tempfile.TemporaryDirectory() as directory, Shard(Path(directory)) as shard:
        model = Model(shard, random.Random(seed))
        possible = [*STEPS, Model.overwrite] if overwrites else STEPS
        for _ in range(steps):
            model.rng.choice(possible)(model)
            model.check(shard.status.last)
            model.check(model.rng.choice([ts for ts, _ in model.versions]))
        for number, (ts, _) in enumerate(model.versions):
            model.check(ts)
            model.check_diff(model.rng.choice(model.versions[: number + 1])[0], ts)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(10, 50), st.booleans())
def test_writes_by_key_are_snapshot_isolation_over_a_dictionary(seed: int, steps: int, overwrites: bool) -> None:
    run(seed, steps, overwrites=overwrites)


# ---- faults, put in on purpose: the model finds them


def no_claims(record: TableTxn) -> TableTxn:
    record.writes = {write_id: replace(each, claim=None) for write_id, each in record.writes.items()}
    return record


def looked_late(table: TableState, txn: TableTxn) -> Iterator[tuple[Changed, Timestamp]]:
    return ((changed, max(at, table.rows.keys.newest)) for changed, at in LOOKS(table, txn))


def no_keys(there: TableFiles, _at: Timestamp) -> pa.Table:
    return changes_table((), there.schema).select(list(there.schema.primary_key))


LOOKS, READ = key_conflicts._looks, snapshot._TXN.from_wire
FAULTS: Mapping[str, tuple[object, str, object]] = {
    "claims are lost in a snapshot": (snapshot._TXN, "from_wire", lambda wire: no_claims(READ(wire))),
    "ranges of what is prepared are lost": (Places, "of", lambda *_: Places()),
    "a range ends below its highest key": (
        key_places,
        "bisect_right",
        bisect_left,
    ),
    "when was looked does not count": (key_conflicts, "_looks", looked_late),
    "own files are not seen by row writes": (rows, "with_own", lambda seen, _own, _times: seen),
    "own row changes are not seen by files": (keys, "changed_by_itself", no_keys),
    "rows come before files in one commit": (row_reads, "bisect_left", bisect_right),
    "files do not count as changes": (records, "added_by", lambda *_: Changed()),
    "an overwrite keeps the rows before it": (RowBatch, "overwritten", lambda batch: batch),
    "keys that others have added meanwhile are seen beside": (reads, "own_key_twice", lambda *_: None),
    "own files come with what is seen": (reads, "own_time", lambda at: at),
}


def run_many(seeds: int) -> None:
    for seed in range(seeds):
        run(seed, 50, overwrites=bool(seed % 2))


LATE = (
    "a range ends below its highest key",
    "ranges of what is prepared are lost",
)
"""Faults that only many programs find."""


@pytest.mark.parametrize("fault", rest_in_campaigns(FAULTS, FAULTS.keys() - LATE))
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken = FAULTS[fault]
    monkeypatch.setattr(where, name, broken)
    with pytest.raises((AssertionError, TxnError, pytest.fail.Exception)):
        run_many(40)
