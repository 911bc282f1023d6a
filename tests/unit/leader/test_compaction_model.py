"""Random programs over a table that is compacted all the time, against a model that knows of no compaction."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.unit.harness.leader.compactions import MAJOR, MINOR, Change, Compacted, Model
from tests.unit.harness.leader.rows import OWNER, TABLE_ID
from txnparticipant.leader import moving
from txnparticipant.leader.reads import Reads
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import compacting
from txnparticipant.versions import compactions
from txnstatus.errors import Conflict, IllegalState
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId

STEPS = 160


class Program:
    """One random program."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.table = Compacted(directory)
        self.model = Model()
        self.open: dict[int, Change] = {}
        self.decided: dict[int, Timestamp] = {}
        """Transactions whose outcome the shard has not heard."""
        self.next_txn = 1
        self.readable_from = NO_TIMESTAMP
        self.task: pb.CompactionTask | None = None
        self.done: pb.CompleteCompactionRequest | None = None
        self.inputs_gone = False
        self.saved: list[tuple[str, Change]] = []
        """Savepoints of open transactions, with what these had done."""
        self.switches = self.prepares = self.refused = self.overtaken = self.rollbacks = 0

    def run(self, steps: int = STEPS) -> None:
        weights: list[tuple[Callable[[], None], float]] = [
            (self.begin, 8),
            (self.write, 10),
            (self.prepare, 6),
            (self.decide, 6),
            (self.finalize, 5),
            (self.abort, 1),
            (self.save, 2),
            (self.roll_back, 2),
            (self.lease, 9),
            (self.complete, 4),
            (self.fail, 0.3),
            (self.read, 6),
            (self.read_own, 4),
            (self.compare, 4),
            (self.restart, 1),
            (self.retire, 1),
        ]
        doers, how_often = zip(*weights, strict=True)
        with self.table:
            for _ in range(steps):
                self.random.choices(doers, how_often)[0]()
            for at in sorted({*self.model.born.values(), *self.model.died.values()}):
                if at >= self.readable_from:
                    self.check(at)

    # ---- transactions

    @property
    def last(self) -> Timestamp:
        return self.table.status.last

    def begin(self) -> None:
        if len(self.open) < 6:
            self.open[self.next_txn] = Change(self.next_txn, self.last)
            self.next_txn += 1

    def any(self, prepared: bool) -> Change | None:
        found = [each for each in self.open.values() if each.prepared == prepared and each.txn_id not in self.decided]
        return self.random.choice(found) if found else None

    def write(self) -> None:
        change = self.any(prepared=False)
        if change is None:
            return
        kind = self.random.random()
        there = self.model.at(change.snapshot) - change.removes
        if kind < 0.5 and not change.overwrites and there:
            ids = self.random.sample(sorted(there), min(len(there), self.random.randint(1, 4)))
            self.table.delete(change.txn_id, ids, change.snapshot)
            change.removes.update(ids)
        elif kind > 0.9 and not (change.adds or change.removes or change.overwrites):
            change.overwrites = True
            change.base = self.random.choice([change.snapshot, self.last])
            change.removes = self.model.at(change.base)
            change.adds.update(self.table.overwrite(change.txn_id, change.base, self.random.randint(0, 3)))
        else:
            change.adds.update(self.table.append(change.txn_id, self.random.randint(1, 5)))

    def prepare(self) -> None:
        change = self.any(prepared=False)
        if change is None or change.txn_id not in self.table.table.txns:
            return
        met = change.meets(self.model, {id_: each for id_, each in self.open.items() if id_ not in self.decided})
        self.prepares += 1
        try:
            self.table.prepare(change.txn_id)
        except Conflict:
            if not met:
                raise
            self.refused += 1
            self.table.abort(TxnId(change.txn_id))
            del self.open[change.txn_id]
        else:
            assert not met, f"another one was first than {change.__dict__}"
            change.prepared = True

    def decide(self) -> None:
        if change := self.any(prepared=True):
            at = self.table.decide(TxnId(change.txn_id))
            self.decided[change.txn_id] = at
            change.commits(self.model, at)

    def finalize(self) -> None:
        if self.decided:
            txn_id = self.random.choice(sorted(self.decided))
            self.table.finalize(TxnId(txn_id))
            del self.decided[txn_id], self.open[txn_id]

    def abort(self) -> None:
        change = self.any(prepared=self.random.random() < 0.5)
        if change is not None and change.txn_id in self.table.table.txns:
            self.table.abort(TxnId(change.txn_id))
            del self.open[change.txn_id]

    def save(self) -> None:
        change = self.any(prepared=False)
        if change is not None and change.txn_id in self.table.table.txns:
            name = f"savepoint{len(self.saved)}"
            self.table.apply(cmd.SetSavepoint(TxnId(change.txn_id), TABLE_ID, OWNER, name))
            self.saved.append((name, deepcopy(change)))

    def roll_back(self) -> None:
        there = [(name, each) for name, each in self.saved if each.txn_id in self.open]
        there = [each for each in there if not self.open[each[1].txn_id].prepared]
        if there:
            name, was = self.random.choice(there)
            self.rollbacks += 1
            rollback_id = f"rollback{self.rollbacks}"
            self.table.apply(cmd.RollbackTo(TxnId(was.txn_id), TABLE_ID, OWNER, name, rollback_id, is_held=True))
            self.saved = [each for each in self.saved if each[1].txn_id != was.txn_id or each[0] <= name]
            self.open[was.txn_id] = deepcopy(was)

    # ---- compactions

    def lease(self) -> None:
        if self.task is None:
            self.table.request(self.random.choice([MAJOR, MINOR]))
            self.task = self.table.lease()
        elif self.done is None:
            self.done = self.table.work(self.task, self.random)

    def complete(self) -> None:
        if self.task is None or self.done is None:
            return
        wanted = self.table.table.compactions.open.get(self.task.compaction_id)
        lost = wanted is None or compacting.overwritten(self.table.table, wanted)
        try:
            self.table.complete(self.done)
        except IllegalState:
            assert lost, "what nobody has overwritten is refused"
            self.overtaken += 1
        else:
            assert not lost
            self.switches += 1
        self.task = self.done = None

    def fail(self) -> None:
        if self.task is not None:
            request = pb.FailCompactionRequest(
                table_id=TABLE_ID, compaction_id=self.task.compaction_id, lease_id="lease", reason="no room"
            )
            self.table.run(self.table.service.compactions.fail_compaction(request))
            self.task = self.done = None

    # ---- readers, and what goes on beside them

    def read(self) -> None:
        times = [
            at for at in {*self.model.born.values(), *self.model.died.values(), self.last} if at >= self.readable_from
        ]
        if times:
            self.check(self.random.choice(sorted(times)))

    def check(self, at: Timestamp) -> None:
        found = self.table.read_ids(at)
        assert found == self.model.counted(at), f"at {at}"

    def compare(self) -> None:
        """A diff tells what came and what went, whatever was compacted in between."""
        times = sorted(at for at in {*self.model.born.values(), *self.model.died.values()} if at >= self.readable_from)
        if len(times) > 1:
            since, until = sorted(self.random.sample(times, 2))
            before, after = self.model.at(since), self.model.at(until)
            went, came = self.table.difference(since, until)
            assert (went, came) == (sorted(before - after), sorted(after - before)), f"between {since} and {until}"

    def read_own(self) -> None:
        change = self.any(prepared=False)
        if change is None:
            return
        at = change.snapshot if self.random.random() < 0.5 else self.last
        if at >= self.readable_from:
            assert self.table.read_ids(at, change.txn_id) == change.sees(self.model, at), f"own, at {at}"

    def restart(self) -> None:
        before = self.table.shard.snapshot()
        self.table.restart()
        assert self.table.shard.snapshot() == before
        self.table.change_leader()

    def retire(self) -> None:
        up_to = min(
            [self.last, *(each.snapshot for each in self.open.values()), *(each.base for each in self.open.values())]
        )
        before = self.table.table.readable_from
        self.table.apply(cmd.Retire(TABLE_ID, Timestamp(up_to)))
        self.readable_from = max(before, self.table.table.readable_from)


@pytest.mark.parametrize("seed", range(12))
def test_a_compaction_changes_no_answer_and_refuses_nobody(tmp_path: Path, seed: int) -> None:
    Program(tmp_path, seed).run()


def test_the_programs_come_to_what_they_are_for(tmp_path: Path) -> None:
    programs = [Program(tmp_path / str(seed), seed) for seed in range(10)]
    for program in programs:
        program.run()
    assert sum(each.switches for each in programs) > 10
    assert sum(each.refused for each in programs) > 3
    assert sum(each.prepares for each in programs) > 40


def _unmoved(*_: Any) -> dict[str, Any]:
    return {}


_given = compacting._translate


async def _too_early(reads: Reads, _table_id: str, _now: Timestamp) -> Timestamp:
    return Timestamp(max(1, reads._settled - (2 << 12)))


PLANTS: list[tuple[Any, str, Any]] = [
    (moving, "forward", _unmoved),
    (compacting, "_translate", lambda write, moved: _given(write, replace(moved, deletes=None))),
    (compactions.Compactions, "replacing", lambda *_: iter(())),
    (Reads, "close_gate", _too_early),
]
"""Faults of the translation, each of which a program has to find."""


@pytest.mark.parametrize(("where", "name", "fault"), PLANTS, ids=[name for _, name, _ in PLANTS])
def test_a_broken_translation_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, fault: Any
) -> None:
    monkeypatch.setattr(where, name, fault)
    monkeypatch.setattr("txnparticipant.shard.shard.ParticipantShard.check_invariants", lambda _: None)
    for seed in range(12):
        try:
            Program(tmp_path / str(seed), seed).run()
        except (AssertionError, Conflict):
            return
    pytest.fail("nobody has noticed")
