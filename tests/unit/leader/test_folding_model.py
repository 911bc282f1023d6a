"""Random programs over a keyed table that is compacted all the time, against a dictionary."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import rest_in_campaigns
from tests.unit.harness.leader.asked import Asked
from tests.unit.harness.leader.bulk_model import Model
from tests.unit.harness.leader.compactions import MAJOR, MINOR
from tests.unit.harness.leader.folding import completed, leased, worked
from tests.unit.harness.leader.rows import TABLE_ID
from txnclient.compact import folding
from txnclient.read import diff
from txnparticipant.leader import moving
from txnparticipant.rows.memrowset import Fold
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import compacting, compaction_choice
from txnparticipant.versions.mvcc import FileSet
from txnstatus.errors import TxnError
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.types import NO_TIMESTAMP


class Folding(Model):
    """As the model of bulk changes, with a worker."""

    task: pb.CompactionTask | None = None
    done: pb.CompleteCompactionRequest | None = None
    switches = 0

    def step(self) -> None:
        if self.rng.random() < 0.3:
            self.rng.choice([*[Folding.compact] * 4, Folding.flush, Folding.retire])(self)
        else:
            super().step()

    def compact(self) -> None:
        if self.task is None:
            self.task = leased(self.shard, self.rng.choice([MAJOR, MINOR]))
        elif self.done is None:
            self.done = worked(self.task, self.rng.choice([400, 1 << 20]))
        else:
            at = completed(self.shard, self.done)
            self.switches += 1
            self.task = self.done = None
            self.check(at)
            assert self.shard.diff(self.versions[-1][0], at).num_rows == 0, "nothing but the layout has changed"

    def retire(self) -> None:
        up_to = min([self.shard.status.last, *(each.snapshot for each in self.open)])
        self.shard.apply(cmd.Retire(TABLE_ID, up_to))
        first = self.shard.table.readable_from
        self.versions = [(first, self.at(first)), *(each for each in self.versions if each[0] > first)]


def run(seed: int, steps: int) -> int:
    with tempfile.TemporaryDirectory() as directory, Asked(Path(directory)) as shard:
        model = Folding(shard, random.Random(seed))
        rng = random.Random(seed)
        # Some files that are large beside those of the programs: a minor compaction leaves them.
        small = compaction_choice._is_small
        compaction_choice._is_small = lambda each, _bytes: each.manifest.row_count < 4
        try:
            for _ in range(steps):
                model.step()
                if rng.random() < 0.5:
                    model.check_all()
            for number, (ts, _) in enumerate(model.versions):
                model.check(ts)
                model.check_diff(rng.choice(model.versions[: number + 1])[0], ts)
        finally:
            compaction_choice._is_small = small
        return model.switches


def run_many(seeds: int) -> None:
    for seed in range(seeds):
        run(seed, 40)


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 2**32), st.integers(20, 50))
def test_a_keyed_table_is_a_dictionary_however_often_it_is_compacted(seed: int, steps: int) -> None:
    run(seed, steps)


def test_the_programs_compact() -> None:
    assert sum(run(seed, 40) for seed in (0, 2)) >= 3


def _nothing(*_: Any) -> dict[str, Any]:
    return {}


FAULTS: Mapping[str, tuple[object, str, Callable[..., Any] | property]] = {
    "rows that were changed stay": (folding, "_hidden", _nothing),
    "rows of files that stay are not hidden": (folding, "_less", _nothing),
    "what rows have become is lost": (folding, "_left", _nothing),
    "row changes are seen beside the files": (compacting, "Fold", lambda at, _as_of: Fold(at, NO_TIMESTAMP)),
    "files are as old as their switch": (FileSet, "changed_after", property(lambda self: self.commit_ts)),
    "later deletes are not moved": (moving, "forward", _nothing),
    "a diff shows what was folded": (diff.Span, "later_changes", property(lambda _: ())),
}
"""Faults of folding, each of which a program has to find."""


LATE = (
    "files are as old as their switch",
    "rows of files that stay are not hidden",
    "row changes are seen beside the files",
    "later deletes are not moved",
    "a diff shows what was folded",
)
"""Faults that only many programs find."""


@pytest.mark.parametrize("fault", rest_in_campaigns(FAULTS, FAULTS.keys() - LATE))
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken = FAULTS[fault]
    monkeypatch.setattr(where, name, broken)
    monkeypatch.setattr("txnparticipant.shard.shard.ParticipantShard.check_invariants", lambda _: None)
    with pytest.raises((AssertionError, TxnError, pytest.fail.Exception)):
        run_many(20)
