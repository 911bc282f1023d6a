"""Row writes against a model of a few lines: snapshot isolation over a dictionary, first committer wins on keys."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.harness.rows import Shard
from txnclient.read.diff import KINDS
from txnstatus.errors import Conflict
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import Timestamp, TxnId

Rows = dict[int, str]
EVERYTHING = frozenset(range(10_000))
KEYS = 6


@dataclass
class Txn:
    txn_id: TxnId
    snapshot: Timestamp
    own: dict[int, str | None] = field(default_factory=dict)
    """None: deleted."""


@dataclass
class Model:
    """Also drives the shard alongside."""

    shard: Shard
    rng: random.Random
    versions: list[tuple[Timestamp, Rows]] = field(default_factory=lambda: [(Timestamp(0), {})])
    changed: list[tuple[Timestamp, frozenset[int]]] = field(default_factory=list)
    open: dict[TxnId, Txn] = field(default_factory=dict)
    prepared: dict[TxnId, Txn] = field(default_factory=dict)
    decided: list[TxnId] = field(default_factory=list)
    """Transactions that are decided and not finalised."""
    next_txn: int = 1

    def at(self, ts: Timestamp) -> Rows:
        return [rows for commit_ts, rows in self.versions if commit_ts <= ts][-1]

    def new_txn(self) -> TxnId:
        self.next_txn += 1
        return TxnId(self.next_txn)

    def keys(self) -> list[int]:
        return self.rng.sample(range(KEYS), self.rng.randint(1, 3))

    # ---- what may happen

    def begin(self) -> None:
        if len(self.open) < 3:
            txn_id = self.new_txn()
            self.open[txn_id] = Txn(txn_id, self.shard.status.last)

    def write(self) -> None:
        if not self.open:
            self.begin()
        txn = self.rng.choice(list(self.open.values()))
        change = self.rng.choice(["insert", "insert_ignore", "upsert", "update", "delete"])
        rows = {key: f"{change} {txn.txn_id} {self.rng.random():.6f}" for key in self.keys()}
        before = {**self.at(txn.snapshot), **txn.own}
        there = [before.get(key) is not None for key in rows]
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

    def prepare(self) -> None:
        if not self.open:
            return
        txn = self.open.pop(self.rng.choice(list(self.open)))
        own = frozenset(txn.own)
        conflicts = any(ts > txn.snapshot and keys & own for ts, keys in self.changed)
        conflicts |= any(own & frozenset(other.own) for other in self.prepared.values())
        wrote_rows = txn.txn_id in self.shard.table.txns
        conflicts |= wrote_rows and any(ts > txn.snapshot and keys == EVERYTHING for ts, keys in self.changed)
        if not wrote_rows:
            return
        if conflicts:
            with pytest.raises(Conflict):
                self.shard.prepare(txn.txn_id)
            self.shard.abort(txn.txn_id)
        else:
            self.shard.prepare(txn.txn_id)
            self.prepared[txn.txn_id] = txn

    def decide(self) -> None:
        if not self.prepared:
            return
        txn = self.prepared.pop(self.rng.choice(list(self.prepared)))
        if self.rng.random() < 0.2:
            self.shard.abort(txn.txn_id)
            return
        commit_ts = self.shard.decide(txn.txn_id)
        rows = {**self.versions[-1][1], **txn.own}
        self.publish(commit_ts, {key: value for key, value in rows.items() if value is not None}, frozenset(txn.own))
        if self.rng.random() < 0.5:
            self.shard.finalize(txn.txn_id)
        else:
            self.decided.append(txn.txn_id)

    def publish(self, commit_ts: Timestamp, rows: Rows, keys: frozenset[int]) -> None:
        self.versions.append((commit_ts, rows))
        self.changed.append((commit_ts, keys))

    def finalize(self) -> None:
        if self.decided:
            self.shard.finalize(self.decided.pop(0))

    def abort(self) -> None:
        if self.open:
            txn_id = self.rng.choice(list(self.open))
            del self.open[txn_id]
            if txn_id in self.shard.table.txns:
                self.shard.abort(txn_id)

    def append_files(self) -> None:
        """Keys that are nowhere: whoever appends files vouches for that."""
        absent = [key for key in range(KEYS) if key not in self.versions[-1][1]]
        if self.prepared or not absent:
            return
        while self.open:
            self.abort()
        txn_id = self.new_txn()
        rows = dict.fromkeys(self.rng.sample(absent, 1), f"file {txn_id}")
        self.shard.write_files(txn_id, rows)
        self.publish(self.shard.commit(txn_id), {**self.versions[-1][1], **rows}, frozenset(rows))

    def overwrite(self) -> None:
        while self.decided:
            self.finalize()  # as the service does before an overwrite
        txn_id = self.new_txn()
        rows = dict.fromkeys(self.keys(), f"overwrite {txn_id}")
        self.shard.write_files(txn_id, rows, overwrite=WHOLE_TABLE)
        if any(txn.own for txn in self.prepared.values()):
            with pytest.raises(Conflict):
                self.shard.prepare(txn_id)
            self.shard.abort(txn_id)
        else:
            self.publish(self.shard.commit(txn_id), rows, EVERYTHING)

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

    def check(self, ts: Timestamp) -> None:
        assert self.shard.read(ts) == sorted(self.at(ts).items()), f"at {ts}"


STEPS = [
    *[Model.begin, Model.finalize, Model.abort, Model.restart],
    *[Model.append_files, Model.flush, Model.flush],
    *[Model.write] * 6,
    *[Model.prepare] * 3,
    *[Model.decide] * 3,
]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(10, 50), st.booleans())
def test_row_writes_are_snapshot_isolation_over_a_dictionary(seed: int, steps: int, overwrites: bool) -> None:
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
